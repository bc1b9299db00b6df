//! Who may come in.
//!
//! A page of any site can make a browser send requests to loopback; what gives it away is its Origin, or, after DNS rebinding,
//! its Host. So both are checked on every request, before anything else than the size of its head is looked at. Then the token says who it is, if the
//! gateway has tokens, and a place among the requests in work is taken.

use super::caller::Caller;
use super::limits::{self, Reading};
use super::{Api, ApiError, body, paths};
use crate::config::{ApiConfig, Token};
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The rules for one address.
pub(super) struct Guard {
    listen: IpAddr,
    /// `[gateway] hosts`: further names of this gateway.
    hosts: Vec<String>,
    /// Digest of each token, and who carries it. Digests have the same length, and tell nothing of what they are made from.
    tokens: Vec<([u8; 32], Caller)>,
    /// Everybody, where there is no token.
    open: Caller,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("listen", &self.listen).field("tokens", &self.tokens.len()).finish()
    }
}

impl Guard {
    /// `open`: the agents that everybody may use where there is no token.
    pub(super) fn new(listen: SocketAddr, hosts: &[String], tokens: &[Token], open: &[String]) -> Guard {
        let digest = |token: &Token| Sha256::digest(token.secret.reveal().as_bytes()).into();
        let tokens = tokens.iter().map(|token| (digest(token), Caller::of(token))).collect();
        Guard { listen: listen.ip().to_canonical(), hosts: hosts.to_vec(), tokens, open: Caller::new(open) }
    }

    pub(super) fn has_token(&self) -> bool {
        !self.tokens.is_empty()
    }

    fn admit(&self, headers: &HeaderMap, uri: &Uri) -> Result<Caller, ApiError> {
        self.of_here(headers, uri)?;
        if !self.has_token() {
            return Ok(self.open.clone());
        }
        let given = bearer(headers);
        match given.and_then(|given| self.known(given)) {
            Some(caller) => Ok(caller),
            // Whoever watches over the process has no token; without one they say no more than that.
            None if is_open_to_all(uri.path()) => Ok(Caller::nobody()),
            None => Err(ApiError::Unauthorized { given: given.is_some() }),
        }
    }

    /// That the request is for this gateway, and comes from no page of another site.
    fn of_here(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), ApiError> {
        let stranger = |host: &str| ApiError::Forbidden { message: format!("the host \"{host}\" is not this gateway") };
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => Some(host.to_str().map_err(|_| stranger("?"))?),
            (None, _) => None,
            (Some(_), Some(_)) => {
                return Err(ApiError::Forbidden { message: "the request names several hosts".into() });
            }
        };
        // A request for a whole address names its host there; a Host header beside it must not say something else.
        let names: Vec<&str> = uri.authority().map(|authority| authority.as_str()).into_iter().chain(host).collect();
        match names.iter().find(|name| !self.own(name) && !self.any_name()) {
            Some(name) => return Err(stranger(name)),
            None if names.is_empty() || names.iter().any(|name| without_port(name).is_none()) => {
                return Err(ApiError::Forbidden { message: "the request names no host".into() });
            }
            None => {}
        }
        for origin in headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or("");
            // A gateway that does not know its names takes a page for its own that comes from where the request goes to.
            let same = |host: &str| names.iter().any(|name| name.eq_ignore_ascii_case(host));
            let local = origin.split_once("://").is_some_and(|(scheme, host)| {
                matches!(scheme, "http" | "https") && (self.own(host) || (self.any_name() && same(host)))
            });
            if !local {
                return Err(ApiError::Forbidden { message: format!("pages of \"{origin}\" may not use this gateway") });
            }
        }
        Ok(())
    }

    /// True for a loopback name, for the address that is listened on, and for the names that the operator gave.
    fn own(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else { return false };
        // The one dot behind a whole name means the same name.
        let plain = name.strip_suffix('.').unwrap_or(name);
        if plain.eq_ignore_ascii_case("localhost") || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(plain)) {
            return true;
        }
        let address = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(six) => six.parse().map(IpAddr::V6).ok(),
            None => name.parse().map(IpAddr::V4).ok(),
        };
        address
            .map(|address| address.to_canonical())
            .is_some_and(|address| address.is_loopback() || address == self.listen)
    }

    /// A gateway that listens everywhere cannot know its names. Unless the operator gives them, the token, without which it
    /// does not start, is what keeps strangers out.
    fn any_name(&self) -> bool {
        self.listen.is_unspecified() && self.has_token() && self.hosts.is_empty()
    }

    /// Who carries this token. Every token is compared, each in constant time.
    fn known(&self, given: &str) -> Option<Caller> {
        let given: [u8; 32] = Sha256::digest(given.as_bytes()).into();
        let mut found = None;
        for (digest, caller) in &self.tokens {
            if bool::from(digest.ct_eq(&given)) {
                found = Some(caller.clone());
            }
        }
        found
    }
}

/// The name in `NAME`, `NAME:PORT`, `[V6]`, `[V6]:PORT`; `None` when it is none of these.
fn without_port(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[').and_then(|inner| inner.find(']')) {
        Some(end) => host.split_at(end + 2),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let port = rest.is_empty() || rest.strip_prefix(':').is_some_and(digits);
    (port && !name.is_empty()).then_some(name)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (scheme, token) = all.next()?.to_str().ok()?.split_once(' ')?;
    // Of two of them nobody could say which one counts.
    (all.next().is_none() && scheme.eq_ignore_ascii_case("bearer")).then_some(token.trim())
}

/// What answers without a token, and then without detail; it takes no place among the requests either.
fn is_open_to_all(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

/// Every request passes here: it is let in, its body is waited for, it takes its place, and it is counted.
pub(super) async fn check(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    let route = paths::label(request.uri().path());
    let let_in =
        within(&api.gateway.config.api, &request).and_then(|()| api.guard.admit(request.headers(), request.uri()));
    let response = match let_in {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            admitted(&api, request, next).await.unwrap_or_else(IntoResponse::into_response)
        }
        Err(error) => error.into_response(),
    };
    api.metrics.request(route, response.status().as_u16());
    response
}

/// That the head is not larger than it may be. What reads from the socket stops somewhere beyond that, as its buffer grows.
fn within(config: &ApiConfig, request: &Request) -> Result<(), ApiError> {
    // As it is written with no more spaces than it needs: the line, each header, and the empty line.
    let target = request.uri().path_and_query().map_or(1, |target| target.as_str().len());
    let line = request.method().as_str().len() + target + " HTTP/1.1\r\n".len() + 1;
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    let bytes = line + headers.sum::<usize>() + "\r\n".len();
    if bytes > config.max_header_bytes {
        return Err(ApiError::LargeHead { bytes: config.max_header_bytes, headers: config.max_headers });
    }
    Ok(())
}

async fn admitted(api: &Api, request: Request, next: Next) -> Result<Response, ApiError> {
    // Whoever watches is answered however busy the gateway is.
    if is_open_to_all(request.uri().path()) {
        return Ok(next.run(request).await);
    }
    let mut reading = Reading::new(api);
    let request = body::received(api, request, &mut reading).await?;
    let place = api.limits.request()?;
    Ok(limits::holding(next.run(request).await, place))
}

/// Lets only those pass who may see the gateway as a whole.
pub(super) async fn operator(Extension(caller): Extension<Caller>, request: Request, next: Next) -> Response {
    if caller.unlimited() {
        return next.run(request).await;
    }
    ApiError::Operator { path: request.uri().path().to_owned() }.into_response()
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
