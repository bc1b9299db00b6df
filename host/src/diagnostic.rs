//! What every error of the gateway can say: a stable code, a cause chain (through [`std::error::Error::source`]) and a hint.

use serde::Serialize;

/// An error that an operator can act on.
pub trait Diagnostic: std::error::Error {
    /// Stable code, `CE` and three digits: 1xx config, 2xx plugins, 3xx slot, 4xx transcript, 5xx model, 6xx turn, 7xx api, 8xx cli.
    fn code(&self) -> &'static str;

    /// What the operator can do.
    fn hint(&self) -> Option<String> {
        None
    }

    /// The error with its causes, ready to be shown or sent.
    fn report(&self) -> Report
    where
        Self: Sized,
    {
        let mut causes = Vec::new();
        let mut next = self.source();
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        Report { code: self.code(), message: self.to_string(), causes, hint: self.hint() }
    }
}

/// A rendered error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Stable code.
    pub code: &'static str,
    /// What went wrong.
    pub message: String,
    /// Why, outermost cause first.
    pub causes: Vec<String>,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "error[{}]: {}", self.code, self.message)?;
        for cause in &self.causes {
            write!(f, "\n  cause: {cause}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}
