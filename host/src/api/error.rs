//! Errors as the OpenAI dialect spells them.
//!
//! `{"error": {"message", "type", "param", "code"}}`, and beside these fields, which every client reads, `diagnostic` (the
//! stable code), `causes` and `hint`, for people. What the model's provider said of a failed call is kept as it said it.

use crate::config::ConfigError;
use crate::diagnostic::Diagnostic;
use crate::model::ModelError;
use crate::slot::SlotError;
use crate::turn::TurnError;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// The request cannot be read, or lacks something.
    #[error("{message}")]
    Invalid {
        /// What is wrong.
        message: String,
        /// Field of the body, or name of the header.
        param: Option<String>,
    },
    /// The Host or the Origin is not this gateway's.
    #[error("{message}")]
    Forbidden {
        /// Which, and what it said.
        message: String,
    },
    /// No token, or another one.
    #[error("the bearer token is {}", if *given { "wrong" } else { "missing" })]
    Unauthorized {
        /// The request carried one.
        given: bool,
    },
    /// No such path.
    #[error("there is nothing at {path}")]
    NoRoute {
        /// The path.
        path: String,
    },
    /// No such thing at a path that exists.
    #[error("there is no {what} \"{name}\"{}", suggestion(.near.as_deref()))]
    NotFound {
        /// "engine", "session", "model".
        what: &'static str,
        /// Its name.
        name: String,
        /// The nearest name that exists.
        near: Option<String>,
    },
    /// The path exists, with other methods.
    #[error("{method} is not allowed at {path}")]
    Method {
        /// Method of the request.
        method: String,
        /// Its path.
        path: String,
        /// Methods that are, for the `allow` header; empty when the router sets it.
        allow: &'static str,
    },
    /// The body is larger than allowed.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The bound.
        limit: usize,
    },
    /// The body did not arrive in time.
    #[error("the body did not arrive within {ms} ms")]
    Slow {
        /// The bound.
        ms: u64,
    },
    /// The body came too slowly.
    #[error("the body came slower than {rate} bytes a second after its first {begin_ms} ms")]
    Trickle {
        /// The bound.
        rate: u64,
        /// How long it had to begin.
        begin_ms: u64,
    },
    /// The head of the request did not arrive in time.
    #[error("the head of the request did not arrive within {ms} ms")]
    SlowHead {
        /// The bound.
        ms: u64,
    },
    /// The head of the request is too large.
    #[error("the head of the request is larger than {bytes} bytes, or has more than {headers} headers")]
    LargeHead {
        /// The bound of its size.
        bytes: usize,
        /// The bound of its headers.
        headers: usize,
    },
    /// The path of the request is too long.
    #[error("the path of the request is too long")]
    LongUri,
    /// What came is no request.
    #[error("the request is not HTTP/1.1")]
    BadHead,
    /// As much is in work as may be.
    #[error("the gateway is busy: {most} {what} are in work, and no more are taken")]
    Busy {
        /// "requests", "connections", "bytes of bodies".
        what: &'static str,
        /// The bound.
        most: usize,
        /// The setting that holds it.
        key: &'static str,
    },
    /// The token is not for this agent.
    #[error("this client may not use the agent \"{agent}\"")]
    Agent {
        /// The agent.
        agent: String,
    },
    /// The token is for some agents only, and this shows the gateway as a whole.
    #[error("{path} is for the operator")]
    Operator {
        /// The path.
        path: String,
    },
    /// An agent that the configuration does not name, and one too many of them.
    #[error("there is no agent \"{agent}\"; {most} agents that the configuration does not name are the most")]
    UnknownAgent {
        /// The agent.
        agent: String,
        /// The bound.
        most: usize,
    },
    /// The turn, or the operation, failed.
    #[error(transparent)]
    Turn(#[from] TurnError),
    /// The model failed outside a turn.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The store failed outside a turn.
    #[error("the transcript cannot be read")]
    Store(#[from] crate::transcript::StoreError),
    /// Something inside the gateway broke.
    #[error("the gateway failed: {0}")]
    Internal(String),
    /// The token's variable is not set.
    #[error("the gateway does not start without its token")]
    Token(#[source] ConfigError),
    /// An open address without a token.
    #[error("{address} is not a loopback address, and no token is configured")]
    Open {
        /// The address.
        address: std::net::SocketAddr,
    },
}

fn suggestion(name: Option<&str>) -> String {
    name.map(|name| format!("; did you mean \"{name}\"?")).unwrap_or_default()
}

impl ApiError {
    pub(super) fn invalid(message: impl Into<String>, param: &str) -> ApiError {
        ApiError::Invalid { message: message.into(), param: Some(param.to_owned()) }
    }

    /// The status that says the same.
    pub fn status(&self) -> u16 {
        match self {
            ApiError::Invalid { .. } | ApiError::BadHead => 400,
            ApiError::Unauthorized { .. } => 401,
            ApiError::Forbidden { .. }
            | ApiError::Agent { .. }
            | ApiError::Operator { .. }
            | ApiError::UnknownAgent { .. } => 403,
            ApiError::NoRoute { .. } | ApiError::NotFound { .. } => 404,
            ApiError::Method { .. } => 405,
            ApiError::Slow { .. } | ApiError::Trickle { .. } | ApiError::SlowHead { .. } => 408,
            ApiError::TooLarge { .. } => 413,
            ApiError::LongUri => 414,
            ApiError::LargeHead { .. } => 431,
            ApiError::Busy { .. } => 503,
            ApiError::Turn(error) => error.http_status(),
            ApiError::Model(error) => error.http_status(),
            ApiError::Store(error) => error.http_status(),
            ApiError::Internal(_) | ApiError::Token(_) | ApiError::Open { .. } => 500,
        }
    }

    fn model(&self) -> Option<&ModelError> {
        match self {
            ApiError::Model(error)
            | ApiError::Turn(TurnError::Model(error) | TurnError::Overflow { last: error, .. }) => Some(error),
            _ => None,
        }
    }

    /// The `type` of the dialect.
    fn kind(&self) -> &'static str {
        match self.status() {
            401 => "authentication_error",
            403 => "permission_error",
            409 => "conflict_error",
            429 => "rate_limit_error",
            400..=498 => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// The whole body.
    pub(super) fn document(&self) -> Value {
        let report = self.report();
        let mut error = Map::new();
        // The provider's own words first; ours fill what it left open.
        if let Some(said) =
            self.model().and_then(ModelError::body).and_then(|body| body.get("error")).and_then(Value::as_object)
        {
            error.clone_from(said);
        }
        let model = self.model();
        let message = match model.and_then(ModelError::said) {
            Some(said) => said.message.clone(),
            // A turn's error says "the model did not answer"; what the model's error adds is what helps.
            None => std::iter::once(&report.message).chain(&report.causes).cloned().collect::<Vec<_>>().join(": "),
        };
        let code = match self {
            // What a client of this dialect looks for.
            ApiError::Turn(TurnError::DoesNotFit { .. }) => "context_length_exceeded",
            _ => model.map_or(report.code, ModelError::kind),
        };
        let param = match self {
            ApiError::Invalid { param, .. } | ApiError::Turn(TurnError::Invalid { param, .. }) => param.clone(),
            ApiError::Turn(TurnError::Overflow { .. } | TurnError::DoesNotFit { .. }) => Some("messages".to_owned()),
            _ => None,
        };
        set_unless(&mut error, "message", message.into());
        set_unless(&mut error, "type", self.kind().into());
        set_unless(&mut error, "param", param.map_or(Value::Null, Value::String));
        if !error.get("code").is_some_and(Value::is_string) {
            error.insert("code".into(), code.into());
        }
        error.insert("diagnostic".into(), report.code.into());
        error.insert("causes".into(), report.causes.into());
        if let Some(hint) = report.hint {
            error.insert("hint".into(), hint.into());
        }
        if let ApiError::Turn(TurnError::Slot(SlotError::HostRequirement(unmet))) = self {
            // For programs: what the sentence above says to people.
            error.insert("requirement".into(), serde_json::to_value(unmet).unwrap_or_default());
        }
        let mut document = Map::new();
        document.insert("error".into(), error.into());
        Value::Object(document)
    }
}

fn set_unless(error: &mut Map<String, Value>, name: &str, value: Value) {
    if error.get(name).is_none_or(Value::is_null) {
        error.insert(name.into(), value);
    }
}

impl Diagnostic for ApiError {
    fn code(&self) -> &'static str {
        match self {
            ApiError::Invalid { .. } => "CE701",
            ApiError::Forbidden { .. } => "CE702",
            ApiError::Unauthorized { .. } => "CE703",
            ApiError::NoRoute { .. } => "CE704",
            ApiError::NotFound { .. } => "CE705",
            ApiError::Method { .. } => "CE706",
            ApiError::TooLarge { .. } => "CE707",
            ApiError::Slow { .. } | ApiError::Trickle { .. } => "CE708",
            ApiError::Internal(_) => "CE709",
            ApiError::Open { .. } => "CE710",
            ApiError::Agent { .. } => "CE711",
            ApiError::Operator { .. } => "CE712",
            ApiError::UnknownAgent { .. } => "CE713",
            ApiError::Busy { .. } => "CE714",
            ApiError::LargeHead { .. } | ApiError::LongUri => "CE715",
            ApiError::BadHead => "CE716",
            ApiError::SlowHead { .. } => "CE717",
            // The room below knows best.
            ApiError::Turn(error) => error.code(),
            ApiError::Model(error) => error.code(),
            ApiError::Store(error) => error.code(),
            ApiError::Token(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            ApiError::Invalid { .. } => Some(
                "`param` names the place in the body or the header; nothing was stored, so mend it and send it again"
                    .into(),
            ),
            ApiError::Forbidden { .. } => {
                Some("use the address that the gateway prints at its start; pages of other sites are not let in".into())
            }
            ApiError::Unauthorized { .. } => {
                Some("send `authorization: Bearer TOKEN` with a token of [gateway] in plugins.toml".into())
            }
            ApiError::Agent { agent } => Some(format!(
                "the operator lists \"{agent}\" in `agents` of the client's [gateway.tokens], or in [gateway] open_agents \
                 where no token is configured"
            )),
            ApiError::Operator { .. } => Some("use a token that may use every agent (agents = [\"*\"])".into()),
            ApiError::UnknownAgent { agent, .. } => Some(format!(
                "write [agents.{agent}] in plugins.toml, or raise [gateway] unknown_agents; a session's key names an agent in \
                 `agent:NAME:`"
            )),
            ApiError::Busy { key, .. } => Some(format!("retry in a moment, or raise {key}")),
            ApiError::Slow { .. } => Some("send it faster, or raise [api] body_timeout_ms".into()),
            ApiError::Trickle { .. } => Some("send it faster, or lower [api] min_bytes_per_second".into()),
            ApiError::SlowHead { .. } => Some("send it faster, or raise [api] header_timeout_ms".into()),
            ApiError::LargeHead { .. } => Some(
                "send fewer and shorter headers, or raise [api] max_header_bytes and max_headers; what a session is told \
                 belongs in the body"
                    .into(),
            ),
            ApiError::LongUri => Some("a session's key has at most 512 bytes".into()),
            ApiError::BadHead => Some("speak HTTP/1.1 without TLS, or put a proxy that does before the gateway".into()),
            ApiError::NoRoute { .. } => Some("the base URL of OpenAI clients ends with /v1".into()),
            ApiError::NotFound { .. } => {
                Some("`engineroom sessions list` and `engineroom plugins list` show what there is".into())
            }
            ApiError::TooLarge { .. } => Some("raise [api] max_body_bytes, or send only what is new".into()),
            ApiError::Open { .. } => {
                Some("name a token's variable in [gateway] auth_token_env or its file in auth_token_file, or listen on 127.0.0.1".into())
            }
            ApiError::Turn(error) => error.hint(),
            ApiError::Model(error) => error.hint(),
            ApiError::Store(error) => error.hint(),
            ApiError::Token(error) => error.hint(),
            _ => None,
        }
    }
}

impl ApiError {
    /// When to try again, in whole seconds.
    fn retry_after(&self) -> Option<u64> {
        match self {
            ApiError::Busy { .. } => Some(1),
            ApiError::Turn(error) if self.model().is_none() => error.retry_after(),
            // Rounded up: earlier would be refused again.
            _ => self.model()?.retry_after().map(|wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0)),
        }
    }

    /// What the answer's head says beside its status.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self {
            ApiError::Method { allow, .. } if !allow.is_empty() => {
                headers.insert(header::ALLOW, HeaderValue::from_static(allow));
            }
            ApiError::Unauthorized { given } => {
                let challenge = match given {
                    true => "Bearer realm=\"engineroom\", error=\"invalid_token\"",
                    false => "Bearer realm=\"engineroom\"",
                };
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            }
            _ => {}
        }
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        headers
    }

    fn log(&self) {
        let status = self.status();
        if status >= 500 && !matches!(self, ApiError::Busy { .. }) {
            tracing::warn!(status, error = %self.report(), "a request failed");
        } else {
            tracing::debug!(status, error = %self.report(), "a request was refused");
        }
    }

    /// The whole answer as it goes over the wire, for a connection that has no request yet, and ends with it.
    pub(super) fn raw(&self) -> Vec<u8> {
        self.log();
        let status = StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = self.document().to_string();
        let mut raw = format!("HTTP/1.1 {status}\r\n").into_bytes();
        for (name, value) in &self.headers() {
            raw.extend_from_slice(name.as_str().as_bytes());
            raw.extend_from_slice(b": ");
            raw.extend_from_slice(value.as_bytes());
            raw.extend_from_slice(b"\r\n");
        }
        raw.extend_from_slice(format!("content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).as_bytes());
        raw
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.log();
        let mut response = Response::new(Body::from(self.document().to_string()));
        *response.status_mut() = StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = self.headers();
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::classify;
    use serde_json::json;

    fn shown(error: impl Into<ApiError>) -> (u16, Value) {
        let error = error.into();
        (error.status(), error.document()["error"].clone())
    }

    #[test]
    fn every_error_has_the_four_fields_of_the_dialect() {
        let (status, error) = shown(ApiError::invalid("messages is missing", "messages"));
        assert_eq!(status, 400);
        assert_eq!(
            error,
            json!({"message": "messages is missing", "type": "invalid_request_error", "param": "messages",
                "code": "CE701", "diagnostic": "CE701", "causes": [], "hint": error["hint"]})
        );
        let (status, error) = shown(ApiError::Unauthorized { given: false });
        assert_eq!((status, &error["type"]), (401, &json!("authentication_error")));
        assert!(error["hint"].is_string());
    }

    #[test]
    fn what_the_provider_said_is_kept_and_what_it_left_open_is_filled() {
        let body = json!({"error": {"message": "The model `x` does not exist", "type": "invalid_request_error",
            "param": null, "code": "model_not_found", "own": 1}});
        let (status, error) = shown(TurnError::Model(classify(404, body.to_string().as_bytes(), None)));
        assert_eq!((status, &error["code"], &error["own"]), (404, &json!("model_not_found"), &json!(1)));
        assert_eq!(error["diagnostic"], "CE506");
        let (status, error) = shown(TurnError::Model(classify(503, b"<html>busy</html>", None)));
        assert_eq!(
            (status, &error["code"], &error["type"]),
            (503, &json!("model_unavailable"), &json!("server_error"))
        );
        assert_eq!(error["message"], "<html>busy</html>");
    }

    #[test]
    fn an_overflow_reads_as_openai_says_it_whoever_said_it() {
        let body = br#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#;
        let (status, error) = shown(TurnError::Overflow { attempts: 3, last: classify(400, body, None) });
        assert_eq!(
            (status, &error["code"], &error["param"]),
            (400, &json!("context_length_exceeded"), &json!("messages"))
        );
    }

    #[test]
    fn the_provider_s_pause_is_handed_on_in_whole_seconds() {
        let error = ApiError::from(TurnError::Model(classify(429, b"{}", Some("1.2"))));
        let response = error.into_response();
        assert_eq!(response.status().as_u16(), 429);
        assert_eq!(response.headers()["retry-after"], "2");
    }

    #[test]
    fn a_refused_key_of_the_gateway_is_not_the_client_s() {
        assert_eq!(shown(TurnError::Model(classify(401, b"{}", None))).0, 502);
    }
}
