//! Who may come in.
//!
//! A page of any site can make a browser send requests to loopback; what gives it away is its Origin, or, after DNS rebinding,
//! its Host. So both are checked on every request, before anything else is looked at.

use super::{Api, ApiError, paths};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The rules for one address.
pub(super) struct Guard {
    listen: IpAddr,
    /// Digest of the token: two of them have the same length, so comparing them tells nothing by its time.
    token: Option<[u8; 32]>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("listen", &self.listen).field("token", &self.token.is_some()).finish()
    }
}

impl Guard {
    pub(super) fn new(listen: SocketAddr, token: Option<&str>) -> Guard {
        Guard { listen: listen.ip(), token: token.map(|token| Sha256::digest(token.as_bytes()).into()) }
    }

    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    fn admit(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), ApiError> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().ok(),
            (None, _) => uri.authority().map(|authority| authority.as_str()),
            (Some(_), Some(_)) => None,
        };
        match host {
            Some(host) if self.own(host) => {}
            Some(host) => {
                return Err(ApiError::Forbidden { message: format!("the host \"{host}\" is not this gateway") });
            }
            None => return Err(ApiError::Forbidden { message: "the request names no host".into() }),
        }
        for origin in headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or("");
            let local = origin
                .split_once("://")
                .is_some_and(|(scheme, host)| matches!(scheme, "http" | "https") && self.own(host));
            if !local {
                return Err(ApiError::Forbidden { message: format!("pages of \"{origin}\" may not use this gateway") });
            }
        }
        // Whoever watches over the process has no token, and these say nothing else.
        if matches!(uri.path(), "/healthz" | "/readyz") {
            return Ok(());
        }
        match &self.token {
            Some(token) if !bearer(headers).is_some_and(|given| same(token, given)) => Err(ApiError::Unauthorized),
            _ => Ok(()),
        }
    }

    /// True for a loopback name, and for the address that is listened on. A gateway that listens everywhere cannot know its
    /// names; there the token, without which it does not start, keeps strangers out.
    fn own(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else { return false };
        if name.eq_ignore_ascii_case("localhost") {
            return true;
        }
        match name.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) if address.is_loopback() || address == self.listen => true,
            _ => self.listen.is_unspecified() && self.has_token(),
        }
    }
}

/// The name in `NAME`, `NAME:PORT`, `[V6]`, `[V6]:PORT`; `None` when it is none of these.
fn without_port(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[').and_then(|inner| inner.find(']')) {
        Some(end) => host.split_at(end + 2),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port = rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    (port && !name.is_empty()).then_some(name)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn same(token: &[u8; 32], given: &str) -> bool {
    let given: [u8; 32] = Sha256::digest(given.as_bytes()).into();
    token.iter().zip(given).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// Every request passes here, and is counted.
pub(super) async fn check(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let route = paths::label(request.uri().path());
    let response = match api.guard.admit(request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    api.metrics.request(route, response.status().as_u16());
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn status(listen: &str, token: Option<&str>, headers: &[(&'static str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let guard = Guard::new(listen.parse().unwrap(), token);
        guard.admit(&map, &Uri::from_static("/v1/models")).map_or_else(|error| error.status(), |()| 200)
    }

    const LOOPBACK: &str = "127.0.0.1:7421";

    #[test]
    fn loopback_names_come_in_with_any_port() {
        for host in ["127.0.0.1:7421", "127.0.0.1", "localhost:80", "LocalHost", "[::1]:7421", "[::1]", "127.9.9.9"] {
            assert_eq!(status(LOOPBACK, None, &[("host", host)]), 200, "{host}");
        }
    }

    #[test]
    fn every_other_host_is_refused() {
        let hosts = [
            "example.com",
            "example.com:7421",
            "127.0.0.1.example.com",
            "localhost.example.com",
            "192.0.2.1",
            "10.0.0.1:7421",
            "",
            ":7421",
            "localhost:x",
            "[::1",
            "[::1]x",
            "0.0.0.0:7421",
            "a@127.0.0.1",
        ];
        for host in hosts {
            assert_eq!(status(LOOPBACK, None, &[("host", host)]), 403, "{host}");
        }
        assert_eq!(status(LOOPBACK, None, &[]), 403);
        assert_eq!(status(LOOPBACK, None, &[("host", "localhost"), ("host", "example.com")]), 403, "two hosts");
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        for (origin, expected) in [
            ("http://localhost:3000", 200),
            ("https://127.0.0.1", 200),
            ("http://[::1]:5173", 200),
            ("https://example.com", 403),
            ("https://localhost.example.com", 403),
            ("null", 403),
            ("file://", 403),
            ("chrome-extension://abc", 403),
            ("", 403),
        ] {
            assert_eq!(status(LOOPBACK, None, &[("host", "localhost"), ("origin", origin)]), expected, "{origin}");
        }
    }

    #[test]
    fn with_a_token_only_its_bearer_comes_in() {
        let with = |value: &str| status(LOOPBACK, Some("secret"), &[("host", "localhost"), ("authorization", value)]);
        assert_eq!(with("Bearer secret"), 200);
        assert_eq!(with("bearer  secret "), 200);
        for wrong in ["Bearer secre", "Bearer secret2", "Bearer ", "Basic secret", "secret", ""] {
            assert_eq!(with(wrong), 401, "{wrong}");
        }
        assert_eq!(status(LOOPBACK, Some("secret"), &[("host", "localhost")]), 401);
        assert_eq!(
            status(LOOPBACK, Some("secret"), &[("host", "example.com"), ("authorization", "Bearer secret")]),
            403
        );
    }

    #[test]
    fn an_open_gateway_is_known_by_its_address_or_by_any_name_when_it_listens_everywhere() {
        let bearer = ("authorization", "Bearer t");
        assert_eq!(status("192.0.2.1:1", Some("t"), &[("host", "192.0.2.1:1"), bearer]), 200);
        assert_eq!(status("192.0.2.1:1", Some("t"), &[("host", "192.0.2.2:1"), bearer]), 403);
        assert_eq!(status("0.0.0.0:1", Some("t"), &[("host", "desk.lan:1"), bearer]), 200);
        assert_eq!(status("0.0.0.0:1", Some("t"), &[("host", "desk.lan:1")]), 401);
        assert_eq!(status("0.0.0.0:1", None, &[("host", "desk.lan:1")]), 403);
    }
}
