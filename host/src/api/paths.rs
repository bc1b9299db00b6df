//! Paths: what they name, and under which label they are counted.
//!
//! A session's key may hold `:` and `/`. In a path it is best percent-encoded as one piece; where it is not, everything up to
//! the last piece that is an operation belongs to it. A key that itself ends with `/context` must be encoded.

/// What is asked of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SessionOp {
    /// The session itself.
    Whole,
    Context,
    Compact,
    Reset,
    Turns,
    /// What waits to be handed over, and the operator's hand on it.
    Repair,
    Subagents,
    /// One child, by the key of its session.
    Subagent(String),
}

/// Reads what comes behind `/api/sessions/`, as it came. `None` when there is no key, or the encoding is broken.
pub(super) fn session(rest: &str) -> Option<(String, SessionOp)> {
    // A child's key is one piece, encoded where it holds a slash.
    if let Some((key, child)) = rest.rsplit_once("/subagents/").filter(|(_, child)| !child.contains('/')) {
        let (key, child) = (decoded(key)?, decoded(child)?);
        return (!key.is_empty() && !child.is_empty()).then_some((key, SessionOp::Subagent(child)));
    }
    let (key, op) = match rest.rsplit_once('/') {
        Some((key, "context")) => (key, SessionOp::Context),
        Some((key, "compact")) => (key, SessionOp::Compact),
        Some((key, "reset")) => (key, SessionOp::Reset),
        Some((key, "turns")) => (key, SessionOp::Turns),
        Some((key, "repair")) => (key, SessionOp::Repair),
        Some((key, "subagents")) => (key, SessionOp::Subagents),
        _ => (rest, SessionOp::Whole),
    };
    let key = decoded(key)?;
    (!key.is_empty()).then_some((key, op))
}

/// Percent-decodes; `None` for a broken sequence, or for what is not UTF-8.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

/// The route's name for the metrics: a closed set, so that no path of a stranger becomes a label.
pub(super) fn label(path: &str) -> &'static str {
    const EXACT: [&str; 8] = [
        "/v1/chat/completions",
        "/v1/models",
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/engines",
        "/api/store",
        "/api/sessions",
    ];
    if let Some(exact) = EXACT.into_iter().find(|known| *known == path) {
        return exact;
    }
    match path.strip_prefix("/api/sessions/").and_then(session) {
        Some((_, SessionOp::Whole)) => "/api/sessions/{key}",
        Some((_, SessionOp::Context)) => "/api/sessions/{key}/context",
        Some((_, SessionOp::Compact)) => "/api/sessions/{key}/compact",
        Some((_, SessionOp::Reset)) => "/api/sessions/{key}/reset",
        Some((_, SessionOp::Turns)) => "/api/sessions/{key}/turns",
        Some((_, SessionOp::Repair)) => "/api/sessions/{key}/repair",
        Some((_, SessionOp::Subagents)) => "/api/sessions/{key}/subagents",
        Some((_, SessionOp::Subagent(_))) => "/api/sessions/{key}/subagents/{child}",
        None if path.starts_with("/api/engines/") => "/api/engines/{id}",
        None if path.starts_with("/v1/models/") => "/v1/models/{id}",
        None => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_everything_before_the_operation_encoded_or_not() {
        let rows = [
            ("s", Some(("s", SessionOp::Whole))),
            ("s/context", Some(("s", SessionOp::Context))),
            ("agent:main:a%2Fb/compact", Some(("agent:main:a/b", SessionOp::Compact))),
            ("agent:main:a/b/compact", Some(("agent:main:a/b", SessionOp::Compact))),
            ("agent:main:a/b", Some(("agent:main:a/b", SessionOp::Whole))),
            ("a%2Fcontext", Some(("a/context", SessionOp::Whole))),
            ("a%2Fcontext/turns", Some(("a/context", SessionOp::Turns))),
            ("%C3%B6%20x", Some(("ö x", SessionOp::Whole))),
            ("context", Some(("context", SessionOp::Whole))),
            ("a:b/subagents", Some(("a:b", SessionOp::Subagents))),
            ("a/b/subagents/agent%3Ax", Some(("a/b", SessionOp::Subagent("agent:x".into())))),
            ("/subagents/x", None),
            ("", None),
            ("/context", None),
            ("%", None),
            ("%4", None),
            ("%zz", None),
            ("%ff", None),
        ];
        for (rest, expected) in rows {
            let found = session(rest);
            assert_eq!(found.as_ref().map(|(key, op)| (key.as_str(), op.clone())), expected, "{rest}");
        }
    }

    #[test]
    fn labels_are_a_closed_set() {
        assert_eq!(label("/v1/models"), "/v1/models");
        assert_eq!(label("/v1/models/a/b"), "/v1/models/{id}");
        assert_eq!(label("/api/sessions/x/compact"), "/api/sessions/{key}/compact");
        assert_eq!(label("/wp-admin"), "other");
    }
}
