//! The examination for people.

use super::Examination;
use super::findings::{Finding, Level};
use crate::cli::error::Verdict;
use crate::cli::out::{Cell, Out, Tone, bytes, count, short};
use crate::cli::plugins::placement;
use serde_json::Value;

/// Longest text of a cell, in characters.
const CELL: usize = 120;

pub(super) fn print(out: &Out, examination: &Examination) {
    config(out, examination);
    house(out, examination);
    engines(out, examination);
    memory(out, examination);
    findings(out, &examination.findings);
    let (tone, word) = last_word(examination.verdict, examination.findings.len());
    out.line(&format!("\n{}", out.paint(tone, &word)));
}

/// What it all comes to.
fn last_word(verdict: Verdict, findings: usize) -> (Tone, String) {
    match verdict {
        Verdict::Well if findings == 0 => (Tone::Good, "all is well".to_owned()),
        Verdict::Well => (Tone::Warn, format!("it works, with {findings} warning(s)")),
        Verdict::Degraded => (Tone::Bad, "something is degraded or failed".to_owned()),
        Verdict::Wrong => (Tone::Bad, "the configuration is wrong".to_owned()),
    }
}

fn heading(out: &Out, text: &str) {
    out.line(&out.paint(Tone::Strong, text));
}

fn config(out: &Out, examination: &Examination) {
    let part = &examination.config;
    heading(out, "Configuration");
    out.line(&format!("{}{}", part.path, if part.from_file { "" } else { " (not there)" }));
    for note in &part.notes {
        out.line(&format!("note: {note}"));
    }
    let rows: Vec<Vec<Cell>> = part
        .values
        .iter()
        .map(|origin| {
            let source = origin.source.to_string();
            let tone = if source == "default" { Tone::Dim } else { Tone::Strong };
            vec![origin.key.as_str().into(), plain(&origin.value).into(), Cell::toned(source, tone)]
        })
        .collect();
    out.table(&["key", "value", "from"], &rows);
}

/// A value as a person would write it.
fn plain(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    short(&text, CELL)
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn house(out: &Out, examination: &Examination) {
    out.line("");
    heading(out, "House");
    let gateway = &examination.gateway;
    if gateway.get("running").and_then(Value::as_bool) == Some(true) {
        let pid = gateway.get("pid").and_then(Value::as_u64).unwrap_or(0);
        out.line(&format!(
            "gateway  runs at http://{} (pid {pid}); its own account follows",
            text(gateway, "/address")
        ));
    } else {
        out.line("gateway  does not run; the stages of a start were taken here, without serving");
    }
    out.line(&format!("model    {}", model_line(&examination.model)));
    for (agent, model) in &examination.agent_models {
        out.line(&format!("         for the agent {agent}: {}", model_line(model)));
    }
    out.line(&format!("host     {}", host_line(&examination.model)));
    let other = |model: &&Value| text(model, "/host/id") != text(&examination.model, "/host/id");
    for (agent, model) in examination.agent_models.iter().filter(|(_, model)| other(model)) {
        out.line(&format!("         for the agent {agent}: {}", host_line(model)));
    }
    let store = &examination.store;
    let kept = match (store.get("sessions").and_then(Value::as_u64), store.get("bytes").and_then(Value::as_u64)) {
        (Some(sessions), Some(size)) => format!(": {} session(s), {}", count(sessions), bytes(size)),
        _ if text(store, "/open_in") == "gateway" => ", open in the gateway".into(),
        _ if store.get("problems").is_some() => ", damaged".into(),
        _ => ", cannot be opened".into(),
    };
    let sound = match store.get("problems").and_then(Value::as_array) {
        Some(problems) if problems.is_empty() => "; every entry and session is what was written",
        _ => "",
    };
    out.line(&format!("store    {}{kept}{sound}", text(store, "/state_dir")));
    out.line(&format!("sandbox  {}, for probes and workers", examination.sandbox));
    let bundled = match examination.bundled {
        0 => "none known to this program (`cargo xtask run` builds one that knows its own)".to_owned(),
        known => format!("{known} librar{} known to this program", if known == 1 { "y" } else { "ies" }),
    };
    out.line(&format!("bundled  {bundled}"));
}

fn model_line(model: &Value) -> String {
    let resolved = match text(model, "/resolved") {
        "" => "each request names its own",
        name => name,
    };
    let window = model.get("context_window").and_then(Value::as_u64).unwrap_or(0);
    format!("{}: {resolved}, window {} tokens", text(model, "/provider"), count(window))
}

/// The host that executes turns on a model, and what it can do for an engine.
fn host_line(model: &Value) -> String {
    let capabilities = model.pointer("/host/capabilities").map(plain).unwrap_or_default();
    match text(model, "/host/id") {
        "" => "not known, since the model cannot be used".into(),
        id => format!("{} ({id}): {capabilities}", text(model, "/host/label")),
    }
}

fn engines(out: &Out, examination: &Examination) {
    let status = examination.slots.get("contextEngine").unwrap_or(&Value::Null);
    if status.is_null() {
        return;
    }
    out.line("");
    heading(out, "Slot contextEngine");
    let chain = match status.get("chain").map(plain) {
        Some(chain) if !chain.is_empty() => chain,
        _ => "legacy".into(),
    };
    out.line(&format!(
        "selected {chain}; serves {}; on_failure {}",
        text(status, "/effective"),
        text(status, "/onFailure")
    ));
    if let Some(shadow) = status.get("shadow").and_then(Value::as_str) {
        out.line(&format!("shadow   {shadow} watches; its state is below, what it found in GET /api/engines/{shadow}"));
    }
    let listed = status.get("engines").and_then(Value::as_array);
    let rows: Vec<Vec<Cell>> = listed.into_iter().flatten().map(engine_row).collect();
    out.table(&["engine", "owner", "state", "isolation", "stage or hook", "why", "calls", "library"], &rows);
    let agents = status.get("agents").and_then(Value::as_object);
    for (agent, own) in agents.into_iter().flatten() {
        let chain = own.get("chain").map(plain).unwrap_or_default();
        out.line(&format!("agent {agent}: selected {chain}; serves {}", text(own, "/effective")));
    }
}

fn memory(out: &Out, examination: &Examination) {
    let lines = memory_lines(examination.slots.get("memory").unwrap_or(&Value::Null));
    if lines.is_empty() {
        return;
    }
    out.line("");
    heading(out, "Slot memory");
    lines.iter().for_each(|line| out.line(line));
}

/// Which provider each agent has; nothing where nobody selects one.
fn memory_lines(status: &Value) -> Vec<String> {
    let agents = status.get("agents").and_then(Value::as_object);
    let own = agents.into_iter().flatten().map(|(agent, value)| (format!("agent {agent}: "), value));
    let all: Vec<(String, &Value)> = std::iter::once((String::new(), status)).chain(own).collect();
    if all.iter().all(|(_, value)| matches!(text(value, "/selected"), "" | "none")) {
        return Vec::new();
    }
    all.iter()
        .map(|(whose, value)| {
            format!("{whose}selected {}; serves {}", text(value, "/selected"), text(value, "/effective"))
        })
        .collect()
}

fn engine_row(engine: &Value) -> Vec<Cell> {
    let state = text(engine, "/state");
    let tone = match state {
        "ready" => Tone::Good,
        "quarantined" | "crashed" => Tone::Bad,
        "declared" => Tone::Dim,
        _ => Tone::Warn,
    };
    let why = match text(engine, "/quarantine/reason") {
        "" => text(engine, "/reason"),
        reason => reason,
    };
    let hooks = engine.get("hooks").and_then(Value::as_object);
    let calls: u64 = hooks.into_iter().flatten().filter_map(|(_, hook)| hook.get("count")?.as_u64()).sum();
    let library = match text(engine, "/library/sha256") {
        "" => text(engine, "/library/file").to_owned(),
        sha => format!("{} sha256:{}", file_name(text(engine, "/library/file")), sha.get(..12).unwrap_or(sha)),
    };
    vec![
        short(text(engine, "/id"), CELL).into(),
        short(text(engine, "/owner"), CELL).into(),
        Cell::toned(state, tone),
        short(&place(engine), CELL).into(),
        text(engine, "/quarantine/at").into(),
        short(why, CELL).into(),
        count(calls).into(),
        short(&library, CELL).into(),
    ]
}

/// Where an engine runs, with its worker's id where it has one.
fn place(engine: &Value) -> String {
    let place = placement(engine, "/library");
    let Some(worker) = engine.get("worker").filter(|worker| worker.is_object()) else { return place };
    let pid = worker.get("pid").and_then(Value::as_u64).unwrap_or(0);
    let ended = if worker.get("alive").and_then(Value::as_bool) == Some(false) { ", ended" } else { "" };
    place.replacen("worker", &format!("worker {pid}{ended}"), 1)
}

fn file_name(path: &str) -> String {
    std::path::Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn findings(out: &Out, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    out.line("");
    heading(out, "Findings");
    for finding in findings {
        let (tone, word) = match finding.level {
            Level::Failed => (Tone::Bad, "failed"),
            Level::Degraded => (Tone::Bad, "degraded"),
            Level::Warning => (Tone::Warn, "warning"),
        };
        let mut head = finding.area.to_owned();
        for part in [&finding.subject, &finding.at].into_iter().flatten() {
            head.push_str(&format!(" {}", short(part, 400)));
        }
        let code = finding.code.as_deref().map(|code| format!("[{code}]")).unwrap_or_default();
        out.line(&format!("{} {head}: {}", out.paint(tone, &format!("{word}{code}")), short(&finding.message, 2_000)));
        for cause in &finding.causes {
            out.line(&format!("  cause: {}", short(cause, 2_000)));
        }
        if let Some(hint) = &finding.hint {
            out.line(&format!("  hint: {}", short(hint, 2_000)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_is_well_only_without_a_warning() {
        assert_eq!(last_word(Verdict::Well, 0).1, "all is well");
        assert_eq!(last_word(Verdict::Well, 2).1, "it works, with 2 warning(s)");
    }

    #[test]
    fn a_worker_is_shown_with_its_id_and_whether_it_lives() {
        let library = json!({"placement": {"isolation": "process", "reason": "not bundled"}});
        let shown = |worker: Value| place(&json!({"library": library, "worker": worker}));
        assert_eq!(shown(json!({"pid": 7, "alive": true})), "worker 7 (not bundled)");
        assert_eq!(shown(json!({"pid": 7, "alive": false})), "worker 7, ended (not bundled)");
        assert_eq!(shown(Value::Null), "worker (not bundled)");
    }

    #[test]
    fn the_memory_slot_is_shown_where_somebody_selects_a_provider() {
        assert!(memory_lines(&Value::Null).is_empty());
        assert!(memory_lines(&json!({"selected": "none", "effective": "none", "agents": {}})).is_empty());
        let status = json!({"selected": "notes", "effective": "notes",
            "agents": {"quiet": {"selected": "none", "effective": "none"}}});
        assert_eq!(memory_lines(&status), ["selected notes; serves notes", "agent quiet: selected none; serves none"]);
    }
}
