//! The error of a hook, and the error of a host service inside it.

use crate::wire::status;
use std::fmt;

/// What a hook returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a hook failed.
///
/// Any `std::error::Error` becomes one with `?`; the causes go into its text. When a [`ServiceError`] is among the
/// causes, the error is the host's own: the call fails, but the engine is not quarantined for the first two in a row.
pub struct Error {
    message: String,
    status: u32,
    service_token: u64,
}

impl Error {
    /// An error with a text for the operator. It quarantines the engine.
    #[must_use]
    pub fn new(message: impl fmt::Display) -> Error {
        Error { message: message.to_string(), status: status::ERROR, service_token: 0 }
    }

    /// The call saw its cancel signal and stopped. Never the engine's fault.
    #[must_use]
    pub fn cancelled() -> Error {
        Error { message: "the call was cancelled".to_owned(), status: status::CANCELLED, service_token: 0 }
    }

    /// The hook is not there, although its pointer is set.
    #[must_use]
    pub fn unsupported() -> Error {
        Error {
            message: "the engine does not have this hook".to_owned(),
            status: status::UNSUPPORTED,
            service_token: 0,
        }
    }

    /// A panic that was caught before the guard's end.
    pub(crate) fn panic(message: String) -> Error {
        Error { message, status: status::PANIC, service_token: 0 }
    }

    /// The sink did not take a result.
    pub(crate) fn sink(status: u32) -> Error {
        let message = format!("the host did not take the result (status {status})");
        let status = if status == status::EXPIRED { status::EXPIRED } else { status::ERROR };
        Error { message, status, service_token: 0 }
    }

    /// The text.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The token of the host service whose error this is, or 0.
    #[must_use]
    pub fn service_token(&self) -> u64 {
        self.service_token
    }

    /// What the hook returns to the host.
    #[must_use]
    pub fn status(&self) -> u32 {
        self.status
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(error: E) -> Error {
        let mut converted = Error::new(&error);
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(error) = cause {
            if let Some(service) = error.downcast_ref::<ServiceError>() {
                converted.service_token = service.token;
                if matches!(service.status, status::CANCELLED | status::EXPIRED) {
                    converted.status = service.status;
                }
            }
            cause = error.source();
            if let Some(cause) = cause {
                let text = cause.to_string();
                // Many errors repeat their cause in their own text.
                if !converted.message.contains(&text) {
                    converted.message.push_str(": ");
                    converted.message.push_str(&text);
                }
            }
        }
        converted
    }
}

/// Why a host service did not serve.
#[derive(Clone, Debug)]
pub struct ServiceError {
    pub(crate) service: &'static str,
    pub(crate) status: u32,
    pub(crate) message: String,
    pub(crate) token: u64,
}

impl ServiceError {
    /// Id of the service, for example `engineroom.llm/1`.
    #[must_use]
    pub fn service(&self) -> &'static str {
        self.service
    }

    /// A code from [`crate::wire::status`].
    #[must_use]
    pub fn status(&self) -> u32 {
        self.status
    }

    /// The service is not offered, not granted, or cannot serve now.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self.status, status::UNAVAILABLE | status::UNSUPPORTED)
    }

    /// The host refuses: not granted, a limit, or a condition of a batch that does not hold.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.status == status::REFUSED
    }

    pub(crate) fn absent(service: &'static str) -> ServiceError {
        let message = "the host does not offer it".to_owned();
        ServiceError { service, status: status::UNAVAILABLE, message, token: 0 }
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.service, self.message)
    }
}

impl std::error::Error for ServiceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(ServiceError);
    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("no summary")
        }
    }
    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    fn service(status: u32) -> ServiceError {
        ServiceError { service: "engineroom.llm/1", status, message: "rate limited".into(), token: 42 }
    }

    #[test]
    fn the_token_of_a_service_survives_a_wrapping_error() {
        let error = Error::from(Outer(service(status::UNAVAILABLE)));
        assert_eq!(error.service_token(), 42);
        assert_eq!(error.message(), "no summary: engineroom.llm/1: rate limited");
        assert_eq!(error.status(), status::ERROR);
    }

    #[test]
    fn a_cancelled_service_cancels_the_hook() {
        assert_eq!(Error::from(service(status::CANCELLED)).status(), status::CANCELLED);
        assert_eq!(Error::from(service(status::EXPIRED)).status(), status::EXPIRED);
    }

    #[test]
    fn an_error_of_the_engine_has_no_token() {
        assert_eq!(Error::from(std::fmt::Error).service_token(), 0);
        assert_eq!(Error::new("x").service_token(), 0);
    }
}
