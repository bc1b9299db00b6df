//! What is wrong, or worth a look, in the documents that the rooms give about themselves.

use crate::diagnostic::Report;
use crate::plugins::Lack;
use serde::Serialize;
use serde_json::Value;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cli) enum Level {
    /// Stops nothing.
    Warning,
    /// Something serves in place of what was selected.
    Degraded,
    /// Something does not work.
    Failed,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::cli) struct Finding {
    /// How bad.
    pub(in crate::cli) level: Level,
    /// Part of the house: config, gateway, model, store, slot, plugins, outbox, sandbox.
    pub(in crate::cli) area: &'static str,
    /// What it is about: an engine, a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) subject: Option<String>,
    /// Load stage or hook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) at: Option<String>,
    /// Stable code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) code: Option<String>,
    /// What is wrong.
    pub(in crate::cli) message: String,
    /// Why, outermost cause first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::cli) causes: Vec<String>,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) hint: Option<String>,
}

impl Finding {
    pub(super) fn new(level: Level, area: &'static str, message: impl Into<String>) -> Finding {
        Finding {
            level,
            area,
            subject: None,
            at: None,
            code: None,
            message: message.into(),
            causes: Vec::new(),
            hint: None,
        }
    }

    pub(super) fn of(level: Level, area: &'static str, report: Report) -> Finding {
        Finding {
            code: Some(report.code.to_owned()),
            causes: report.causes,
            hint: report.hint,
            ..Finding::new(level, area, report.message)
        }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Finding {
        Finding { hint: Some(hint.into()), ..self }
    }

    pub(super) fn about(self, subject: impl Into<String>) -> Finding {
        Finding { subject: Some(subject.into()), ..self }
    }
}

fn text(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn list(value: &Value, pointer: &str) -> Vec<String> {
    let items = value.pointer(pointer).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn each<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// A layer of the sandbox that this system lacks. It stops nothing, unless an entry asks for all of them.
pub(super) fn of_lack(lack: Lack) -> Finding {
    let message = format!("this system lacks {}: of an engine in a worker that means: {}", lack.what(), lack.means());
    Finding::new(Level::Warning, "sandbox", message).hint(lack.remedy())
}

/// What the slot's status says: engines that are out, files that were refused, warnings.
pub(super) fn of_slot(status: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    for engine in each(status, "engines") {
        of_engine(engine, &mut findings);
    }
    if let Some(memory) = status.get("memory") {
        each(memory, "providers").for_each(|provider| of_provider(provider, &mut findings));
    }
    findings.extend(of_previous_end(status));
    findings.extend(of_damaged_ledger(status));
    for plugin in each(status, "plugins") {
        of_plugin(plugin, status, &mut findings);
    }
    findings.extend(of_outboxes(status.get("outboxOfOthers").unwrap_or(&Value::Null)));
    let refused = each(status, "refused").map(of_refused).collect::<Vec<_>>();
    let no_run = each(status, "refused").any(|refused| text(refused, "/operation").as_deref() == Some("agent-run"));
    findings.extend(refused);
    let effective = text(status, "/effective").unwrap_or_default();
    if effective == "none" && !no_run {
        findings.push(
            Finding::new(
                Level::Failed,
                "slot",
                "no engine of the chain can serve, and the policy is strict: requests are refused",
            )
            .hint("mend the engines above, or set on_failure = \"fallback\""),
        );
    }
    if let Some(reason) = text(status, "/abandonedThreads/restart") {
        findings.push(
            Finding::new(Level::Failed, "slot", format!("no engine is called in-process any more: {reason}"))
                .hint("restart the gateway; give engines that hang `isolation = \"process\"`, or mend them"),
        );
    }
    // Those that came back since, or whose worker was ended, hold nothing any more.
    let abandoned = status.pointer("/abandonedThreads/live").and_then(Value::as_u64).unwrap_or(0);
    if abandoned > 0 {
        let message = format!("{abandoned} call(s) did not come back, and their threads are inside of them");
        findings.push(
            Finding::new(Level::Degraded, "slot", message)
                .hint("restart the gateway when it suits; until then the threads stay"),
        );
    }
    findings
}

/// What the last process left of its engines cannot be understood.
fn of_damaged_ledger(status: &Value) -> Option<Finding> {
    let damage = text(status, "/previousEnd/damaged")?;
    let message = format!("{damage}; whether an engine ended the last gateway process cannot be told");
    let hint = "engines are served from workers this once, and the file is made new at a start of the gateway; if it comes \
                again, see whether the file can be read and written, and the disk";
    Some(Finding::new(Level::Warning, "slot", message).hint(hint))
}

/// A gateway that ended by a defect of its own. Of what its engines did, they tell themselves.
fn of_previous_end(status: &Value) -> Option<Finding> {
    let host = text(status, "/previousEnd/verdict").is_some_and(|verdict| verdict == "host");
    host.then(|| {
        let cause = text(status, "/previousEnd/cause").unwrap_or_default();
        let message = format!("the last gateway process ended with {cause} in its own code; no engine is accused");
        Finding::new(Level::Warning, "gateway", message).hint("report it, with the log of that process")
    })
}

/// An operation that the host cannot give an engine what it requires for.
fn of_refused(refused: &Value) -> Finding {
    let operation = text(refused, "/operation").unwrap_or_default();
    let level = if operation == "agent-run" { Level::Failed } else { Level::Degraded };
    let names = |pointer: &str| match list(refused, pointer) {
        names if names.is_empty() => "(none)".to_owned(),
        names => names.join(", "),
    };
    let message = format!(
        "requests of the agent {} are refused: {operation} requires {}, and {} has {}; missing {}{}",
        text(refused, "/agent").unwrap_or_default(),
        names("/required"),
        text(refused, "/host").unwrap_or_default(),
        names("/provided"),
        names("/missing"),
        text(refused, "/message").map(|own| format!(" ({own})")).unwrap_or_default(),
    );
    Finding { code: Some("CE302".into()), ..Finding::new(level, "slot", message) }
        .about(text(refused, "/engine").unwrap_or_default())
        .hint("use a host (model provider) that has these capabilities, or select another engine")
}

fn of_engine(engine: &Value, findings: &mut Vec<Finding>) {
    let id = text(engine, "/id").unwrap_or_default();
    let listed = engine.get("listed").and_then(Value::as_bool).unwrap_or(true);
    let state = text(engine, "/state").unwrap_or_default();
    if engine.get("quarantine").is_some_and(Value::is_object) {
        findings.push(Finding {
            subject: Some(id.clone()),
            at: text(engine, "/quarantine/at"),
            code: text(engine, "/quarantine/diagnostic"),
            causes: list(engine, "/quarantine/causes"),
            hint: text(engine, "/quarantine/hint"),
            ..Finding::new(Level::Failed, "slot", text(engine, "/quarantine/reason").unwrap_or_default())
        });
    } else if listed && state != "ready" {
        let reason = text(engine, "/reason").unwrap_or_else(|| format!("the engine is {state}"));
        let code = text(engine, "/code");
        let hint = match code.as_deref() {
            Some("engine-disabled") => {
                "enable the plugin (`enabled = true`, and not in `deny`), or select another engine"
            }
            _ => "`engineroom plugins list` shows the files; a restart tries again",
        };
        findings.push(Finding { code, ..Finding::new(Level::Degraded, "slot", reason).about(id.clone()).hint(hint) });
    } else if listed && engine.get("durable").and_then(Value::as_bool) == Some(false) {
        findings.push(
            Finding {
                code: Some("durable-semantics-missing".into()),
                ..Finding::new(
                    Level::Degraded,
                    "slot",
                    "the engine is passed over in every stored session: it lacks the \
                    transcript semantics or commitTurn",
                )
            }
            .about(id.clone())
            .hint("its author declares both semantics and implements ingest or commitTurn; or select another engine"),
        );
    }
    of_outbox(&id, engine.get("outbox").unwrap_or(&Value::Null), findings);
    for warning in list(engine, "/warnings") {
        findings.push(Finding::new(Level::Warning, "slot", warning).about(id.clone()));
    }
}

/// What the outboxes of engines say, by engine.
pub(super) fn of_outboxes(outboxes: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (id, outbox) in outboxes.as_object().into_iter().flatten() {
        of_outbox(id, outbox, &mut findings);
    }
    findings
}

/// Longest time that a turn is on its way to its engine without being worth a word.
const ON_ITS_WAY_MS: i64 = 60_000;

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Turns that an engine was not given.
fn of_outbox(id: &str, outbox: &Value, findings: &mut Vec<Finding>) {
    let number = |name: &str| outbox.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (blocked, waiting) = (number("blocked"), number("waiting"));
    if blocked > 0 {
        let session = text(outbox, "/blockedSession").unwrap_or_default();
        findings.push(Finding {
            code: Some("turn-blocked".into()),
            ..Finding::new(
                Level::Degraded,
                "outbox",
                format!(
                    "{blocked} accepted turn(s) cannot be handed over to the engine, one of them in session {session:?}"
                ),
            )
            .about(id)
            .hint(format!("`engineroom sessions repair {session}` shows why; --retry or --drop settles it"))
        });
    }
    // A turn of a moment ago is on its way.
    let since = outbox.get("waitingSinceMs").and_then(Value::as_i64).unwrap_or(i64::MAX);
    if waiting > 0 && now_ms().saturating_sub(since) > ON_ITS_WAY_MS {
        findings.push(
            Finding::new(
                Level::Warning,
                "outbox",
                format!("{waiting} accepted turn(s) wait to be handed over to the engine"),
            )
            .about(id)
            .hint("they are offered again at the next start, and before each session's next turn"),
        );
    }
}

fn of_provider(provider: &Value, findings: &mut Vec<Finding>) {
    let id = text(provider, "/id").unwrap_or_default();
    let state = text(provider, "/state").unwrap_or_default();
    let code = text(provider, "/code");
    if provider.get("quarantine").is_some_and(Value::is_object) {
        let reason = text(provider, "/quarantine/reason").unwrap_or_default();
        findings.push(Finding {
            subject: Some(id.clone()),
            at: text(provider, "/quarantine/at"),
            code: text(provider, "/quarantine/diagnostic"),
            causes: list(provider, "/quarantine/causes"),
            hint: text(provider, "/quarantine/hint"),
            ..Finding::new(
                Level::Failed,
                "memory",
                format!("turns go on without memory ({}): {reason}", code.unwrap_or_default()),
            )
        });
    } else if state != "ready" {
        let reason = text(provider, "/reason").unwrap_or_else(|| format!("the provider is {state}"));
        findings.push(
            Finding {
                code,
                ..Finding::new(Level::Degraded, "memory", format!("turns go on without memory: {reason}"))
            }
            .about(id.clone())
            .hint("enable its plugin (`enabled = true`, and not in `deny`), or select another provider"),
        );
    }
    for warning in list(provider, "/warnings") {
        findings.push(Finding::new(Level::Warning, "memory", warning).about(id.clone()));
    }
}

fn of_plugin(plugin: &Value, status: &Value, findings: &mut Vec<Finding>) {
    let file = text(plugin, "/file").unwrap_or_default();
    // An engine that is out for this very reason has said it already. A file without a manifest names no engine, so it is told
    // on its own.
    let providers = status.pointer("/memory/providers").and_then(Value::as_array).into_iter().flatten();
    let told = each(status, "engines").chain(providers).any(|engine| {
        text(engine, "/quarantine/diagnostic") == text(plugin, "/failure/code")
            && text(engine, "/library/file").as_deref() == Some(&file)
    });
    if !told && plugin.get("failure").is_some_and(Value::is_object) {
        let wanted = plugin.get("wanted").and_then(Value::as_bool).unwrap_or(false);
        let selected_is_out =
            each(status, "engines").any(|engine| engine.get("quarantine").is_some_and(Value::is_object));
        let level = if wanted || selected_is_out { Level::Degraded } else { Level::Warning };
        findings.push(Finding {
            subject: Some(file.clone()),
            at: text(plugin, "/failure/stage"),
            code: text(plugin, "/failure/code"),
            causes: list(plugin, "/failure/causes"),
            hint: text(plugin, "/failure/hint"),
            ..Finding::new(level, "plugins", text(plugin, "/failure/message").unwrap_or_default())
        });
    }
    for note in list(plugin, "/notes") {
        findings.push(Finding::new(Level::Warning, "plugins", note).about(file.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn worst(status: &Value) -> Option<Level> {
        of_slot(status).into_iter().map(|finding| finding.level).max()
    }

    #[test]
    fn an_engine_that_is_ready_and_durable_is_no_finding() {
        let status =
            json!({"effective": "w", "engines": [{"id": "w", "state": "ready", "listed": true, "durable": true}]});
        assert_eq!(of_slot(&status), []);
    }

    #[test]
    fn a_damaged_ledger_is_a_finding() {
        let end = json!({"verdict": "unknown", "cause": null, "damaged": "the crash ledger x cannot be understood: y"});
        let found = of_slot(&json!({"effective": "w", "previousEnd": end}));
        assert_eq!((found.len(), found[0].level), (1, Level::Warning));
        assert!(found[0].message.contains("the crash ledger x cannot be understood: y"));
    }

    #[test]
    fn only_threads_that_are_still_inside_of_a_call_are_a_finding() {
        let of = |live: u64| {
            of_slot(&json!({"effective": "w", "abandoned": 1, "abandonedThreads": {"live": live, "restart": null}}))
        };
        assert_eq!(of(0), [], "its worker was ended, and the thread is back");
        let found = of(1);
        assert_eq!((found.len(), found[0].level), (1, Level::Degraded));
    }

    #[test]
    fn an_end_that_no_engine_caused_is_told_when_the_gateway_itself_did() {
        let of = |verdict: &str| {
            of_slot(
                &json!({"effective": "w", "previousEnd": {"verdict": verdict, "cause": "SIGSEGV (memory access at 0x8)"}}),
            )
        };
        let found = of("host");
        assert_eq!((found.len(), found[0].level), (1, Level::Warning));
        assert!(found[0].message.contains("SIGSEGV") && found[0].message.contains("no engine is accused"));
        for other in ["well", "outside", "reboot", "crashed", "unexplained", "unknown"] {
            assert_eq!(of(other), [], "{other}");
        }
    }

    #[test]
    fn a_system_that_cannot_confine_is_a_warning_with_one_remedy() {
        let found = of_lack(Lack::Files);
        assert_eq!((found.level, found.area), (Level::Warning, "sandbox"));
        assert!(found.message.contains("landlock") && found.message.contains("read and change"), "{}", found.message);
        assert_eq!(found.hint.as_deref(), Some(Lack::Files.remedy()));
    }

    #[test]
    fn a_quarantine_names_engine_hook_cause_and_remedy() {
        let status = json!({"effective": "legacy", "engines": [{"id": "w", "state": "quarantined", "listed": true,
            "quarantine": {"at": "assemble", "diagnostic": "CE311", "reason": "it panicked", "causes": ["boom"], "hint": "mend it"}}]});
        let found = of_slot(&status);
        assert_eq!(found.len(), 1);
        let one = &found[0];
        assert_eq!(
            (one.level, one.subject.as_deref(), one.at.as_deref()),
            (Level::Failed, Some("w"), Some("assemble"))
        );
        assert_eq!((one.code.as_deref(), one.hint.as_deref()), (Some("CE311"), Some("mend it")));
        assert_eq!(one.causes, ["boom"]);
    }

    #[test]
    fn a_selected_engine_that_is_switched_off_or_not_durable_is_degraded() {
        let off =
            json!({"id": "w", "state": "declared", "listed": true, "code": "engine-disabled", "reason": "denied"});
        assert_eq!(worst(&json!({"engines": [off]})), Some(Level::Degraded));
        let loose = json!({"id": "w", "state": "ready", "listed": true, "durable": false});
        assert_eq!(worst(&json!({"engines": [loose]})), Some(Level::Degraded));
    }

    #[test]
    fn a_turn_that_is_blocked_is_degraded_and_names_its_session() {
        let outbox = json!({"open": 1, "waiting": 0, "blocked": 2, "blockedSession": "k"});
        let engine = json!({"id": "w", "state": "ready", "listed": true, "durable": true, "outbox": outbox});
        let found = of_slot(&json!({"engines": [engine]}));
        assert_eq!((found.len(), found[0].level, found[0].subject.as_deref()), (1, Level::Degraded, Some("w")));
        assert!(found[0].hint.as_deref().unwrap().contains("engineroom sessions repair k"), "{found:?}");
        let waits = json!({"outboxOfOthers": {"gone": {"waiting": 3, "waitingSinceMs": 1}}});
        assert_eq!(worst(&waits), Some(Level::Warning));
    }

    #[test]
    fn a_memory_provider_that_is_out_is_told_with_its_code_and_remedy() {
        let provider = json!({"id": "notes", "state": "quarantined", "code": "memory-quarantined",
            "quarantine": {"at": "memorySearch", "diagnostic": "CE312", "reason": "it hung", "hint": "mend it"}});
        let found = of_slot(&json!({"effective": "legacy", "memory": {"providers": [provider]}}));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].area, found[0].subject.as_deref()), ("memory", Some("notes")));
        assert!(found[0].message.contains("memory-quarantined") && found[0].message.contains("it hung"));
        let off = json!({"id": "notes", "state": "declared", "code": "memory-disabled", "reason": "denied"});
        assert_eq!(worst(&json!({"memory": {"providers": [off]}})), Some(Level::Degraded));
        let ready = json!({"id": "notes", "state": "ready"});
        assert_eq!(worst(&json!({"memory": {"providers": [ready]}})), None);
    }

    #[test]
    fn a_stray_file_that_nobody_selected_is_a_warning() {
        let file = json!({"file": "/p/x.so", "state": "refused", "wanted": false,
                          "failure": {"stage": "inspect", "code": "CE210", "message": "is empty", "causes": [], "hint": "h"}});
        let well = json!({"id": "w", "state": "ready", "listed": true, "durable": true});
        assert_eq!(worst(&json!({"engines": [well], "plugins": [file]})), Some(Level::Warning));
        let out = json!({"id": "w", "state": "quarantined", "listed": true, "quarantine": {"reason": "missing"}});
        assert_eq!(of_slot(&json!({"engines": [out], "plugins": [file]})).len(), 2);
    }

    #[test]
    fn a_refused_library_is_told_once() {
        let file = json!({"file": "/p/w.so", "state": "refused", "wanted": true,
                          "failure": {"stage": "trust", "code": "CE232", "message": "m", "causes": [], "hint": "h"}});
        let engine = json!({"id": "w", "state": "quarantined", "listed": true, "library": {"file": "/p/w.so"},
                            "quarantine": {"at": "trust", "diagnostic": "CE232", "reason": "m", "hint": "h"}});
        assert_eq!(of_slot(&json!({"engines": [engine], "plugins": [file]})).len(), 1);
    }

    #[test]
    fn an_operation_that_the_host_cannot_serve_names_what_is_missing() {
        let refused = |operation: &str| {
            json!({"effective": "none", "refused": [{"agent": "main", "engine": "w", "operation": operation,
                "host": "Command-line backend", "missing": ["b"], "required": ["a", "b"], "provided": [], "message": "m"}]})
        };
        let found = of_slot(&refused("agent-run"));
        assert_eq!((found.len(), found[0].level), (1, Level::Failed), "not told twice: {found:?}");
        for part in ["agent-run", "requires a, b", "has (none)", "missing b (m)"] {
            assert!(found[0].message.contains(part), "{}", found[0].message);
        }
        assert!(of_slot(&refused("manual-compact")).iter().any(|finding| finding.level == Level::Degraded));
    }

    #[test]
    fn strict_without_an_engine_is_a_failure() {
        assert_eq!(worst(&json!({"effective": "none"})), Some(Level::Failed));
    }
}
