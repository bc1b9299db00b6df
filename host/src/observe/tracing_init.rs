//! The log: to standard error, as text for people or as JSON lines for programs.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Environment variable with the filter, in the syntax of `tracing` (`info`, `engineroom::slot=debug,warn`).
const FILTER: &str = "ENGINEROOM_LOG";
/// Environment variable with the format.
const FORMAT: &str = "ENGINEROOM_LOG_FORMAT";

/// Form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// What `ENGINEROOM_LOG_FORMAT` says: "json", else text.
    pub fn from_env() -> LogFormat {
        match std::env::var(FORMAT) {
            Ok(format) if format.eq_ignore_ascii_case("json") => LogFormat::Json,
            _ => LogFormat::Text,
        }
    }
}

/// Starts the log. `ENGINEROOM_LOG` overrides `default_filter`; a filter that cannot be read is reported in the log itself and
/// the default is used. False when the process has a subscriber already.
pub fn init_tracing(format: LogFormat, default_filter: &str) -> bool {
    let asked = std::env::var(FILTER).ok().filter(|filter| !filter.trim().is_empty());
    let (filter, complaint) = match asked.as_deref().map(str::parse::<EnvFilter>) {
        Some(Ok(filter)) => (filter, None),
        Some(Err(cause)) => (EnvFilter::new(default_filter), Some(cause)),
        None => (EnvFilter::new(default_filter), None),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init().is_ok(),
        LogFormat::Json => builder.json().flatten_event(true).with_ansi(false).try_init().is_ok(),
    };
    if let Some(cause) = complaint {
        tracing::warn!(%cause, "{FILTER} cannot be read; using \"{default_filter}\"");
    }
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_subscriber_is_not_started() {
        init_tracing(LogFormat::Text, "off");
        assert!(!init_tracing(LogFormat::Json, "off"));
    }
}
