//! `doctor`: what is degraded or failed, why, and what to do.
//!
//! When a gateway runs, it is asked; it alone knows what its engines did. Else the same stages that a start would take are
//! taken here, without serving: the libraries are inspected, tried in children, and loaded.

mod findings;
mod render;

use super::context::Context;
use super::error::{CliError, Verdict};
use super::running::Running;
use crate::config::{Config, ConfigError, ModelConfig, Origin};
use crate::diagnostic::Diagnostic;
use crate::ledger::{self, Verdicts};
use crate::model::{self, ModelError};
use crate::observe::broken;
use crate::plugins::{self, SandboxReport};
use crate::slot::{ExecutionHost, HostServices, NoServices, Slot};
use crate::transcript::{self, OutboxSummary, StoreError};
use findings::{Finding, Level};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for the model endpoint's list of models.
const MODEL_PATIENCE: Duration = Duration::from_secs(5);
/// Most damages of the database that are told.
const PROBLEMS: usize = 20;
/// How long engines may take to dispose when no gateway runs.
const DISPOSE: Duration = Duration::from_secs(5);

/// Everything that was looked at.
#[derive(Debug, Serialize)]
struct Examination {
    /// The exit code in words: well, degraded, wrong.
    verdict: Verdict,
    /// Version of this program.
    version: &'static str,
    config: ConfigPart,
    gateway: Value,
    model: Value,
    /// By agent: models of agents that have one of their own.
    agent_models: BTreeMap<String, Value>,
    store: Value,
    /// What confines probes and workers on this system.
    sandbox: SandboxReport,
    /// Libraries that came with this program, which `isolation = "auto"` runs in-process.
    bundled: usize,
    /// By slot; the context engine's is what `GET /api/engines` gives.
    slots: Value,
    /// Files that differ from what runs.
    restart_due: Vec<String>,
    /// Worst first.
    findings: Vec<Finding>,
}

#[derive(Debug, Serialize)]
struct ConfigPart {
    path: String,
    from_file: bool,
    notes: Vec<String>,
    values: Vec<Origin>,
}

pub(super) async fn run(context: &Context) -> Result<Verdict, CliError> {
    let mut findings = Vec::new();
    let config = context.config();
    if let Err(error) = config.gateway.tokens() {
        findings.push(of_token(config, &error));
    }
    let running = context.running().filter(|_| !broken("9.8"));
    let (slot, restart_due) = match &running {
        Some(running) => ask(context, running, &mut findings).await,
        None => (alone(context).await?, Vec::new()),
    };
    findings.extend(findings::of_slot(&slot));
    findings.extend(other_chain(config, &slot));
    findings.extend(other_memory(config, &slot));
    findings.extend(restart_due.iter().map(|file| of_change(file, &slot)));
    findings.extend(of_entries(config).await);
    let model = examine_model(&config.model, None, &mut findings).await;
    let mut agent_models = BTreeMap::new();
    for (id, section) in config.agents.iter().filter_map(|(id, agent)| Some((id, agent.model.as_ref()?))) {
        agent_models.insert(id.clone(), examine_model(section, Some(id), &mut findings).await);
    }
    let store = examine_store(context, running.is_some(), &mut findings).await?;
    let sandbox = plugins::sandbox_support();
    findings.extend(sandbox.lacks.iter().map(|lack| findings::of_lack(*lack)));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    let examination = Examination {
        verdict: verdict(&findings),
        version: env!("CARGO_PKG_VERSION"),
        config: ConfigPart {
            path: config.path.display().to_string(),
            from_file: context.loaded().from_file,
            notes: context.loaded().notes.clone(),
            values: context.loaded().origins.clone(),
        },
        gateway: match &running {
            Some(running) => json!({"running": true, "address": running.address, "pid": running.pid}),
            None => json!({"running": false}),
        },
        model,
        agent_models,
        store,
        bundled: plugins::bundled_known(),
        sandbox,
        slots: json!({"memory": slot.get("memory"), "contextEngine": slot}),
        restart_due,
        findings,
    };
    if context.out.is_json() {
        context.out.document(&examination);
    } else {
        render::print(&context.out, &examination);
    }
    Ok(examination.verdict)
}

/// A file that is not as it was when the gateway started.
fn of_change(file: &str, slot: &Value) -> Finding {
    let known = slot.get("plugins").and_then(Value::as_array).into_iter().flatten();
    let known = known.filter_map(|plugin| plugin.get("file")?.as_str()).any(|known| known == file);
    let (message, hint) = if !known {
        ("the file is new: nothing of it runs yet", "select what it offers (`engineroom plugins select`), and restart")
    } else if !std::path::Path::new(file).exists() {
        (
            "the file is gone: a restart is due",
            "put it back, or select another engine, before the gateway restarts; until then the staged copy serves",
        )
    } else {
        (
            "the file differs from what runs: a restart is due",
            "restart the gateway when it suits; until then the staged copy serves",
        )
    };
    Finding::new(Level::Warning, "plugins", message).about(file).hint(hint)
}

/// What the entries say without effect, of the files that are there now.
async fn of_entries(config: &Config) -> Vec<Finding> {
    if config.plugins.entries.is_empty() || !config.plugins.enabled {
        return Vec::new();
    }
    let config = config.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let reports = plugins::discover(&config.plugins);
        plugins::entry_remarks(&config, &reports)
    });
    let remarks = looked.await.unwrap_or_default();
    let finding = |remark: plugins::EntryRemark| {
        Finding::new(Level::Warning, "config", remark.message).about(remark.entry).hint(remark.hint)
    };
    remarks.into_iter().map(finding).collect()
}

/// A token that cannot be used. The variables of clients may well be set where the gateway is started and not in this shell.
fn of_token(config: &Config, error: &ConfigError) -> Finding {
    let elsewhere = matches!(error, ConfigError::SecretMissing { .. }) && config.gateway.token().is_ok();
    let level = if elsewhere { Level::Warning } else { Level::Failed };
    let finding = Finding::of(level, "config", error.report());
    match &finding.hint {
        Some(hint) if elsewhere => {
            let hint = format!("where the gateway is started: {hint}");
            finding.hint(hint)
        }
        _ => finding,
    }
}

/// The exit code that findings stand for.
fn verdict(findings: &[Finding]) -> Verdict {
    let worst = findings.iter().map(|finding| finding.level).max();
    if findings.iter().any(|finding| finding.area == "config" && finding.level == Level::Failed) {
        Verdict::Wrong
    } else if worst >= Some(Level::Degraded) {
        Verdict::Degraded
    } else {
        Verdict::Well
    }
}

/// Asks the running gateway for the state of its engines, and for files that changed since it started.
async fn ask(context: &Context, running: &Running, findings: &mut Vec<Finding>) -> (Value, Vec<String>) {
    let answer = match context.remote() {
        Ok(Some(door)) => door.get("/api/engines").await,
        Ok(None) => return (Value::Null, Vec::new()),
        Err(error) => Err(error),
    };
    match answer {
        Ok(status) => {
            let due = ["restart_due", "restartDue"].iter().find_map(|name| status.get(*name)?.as_array());
            let due = due.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
            (status, due)
        }
        Err(error) => {
            let about = running.address.to_string();
            findings.push(Finding::of(Level::Failed, "gateway", error.report()).about(about));
            (Value::Null, Vec::new())
        }
    }
}

/// Takes the stages of a start, without serving.
async fn alone(context: &Context) -> Result<Value, CliError> {
    let config = context.config().clone();
    let runtime = tokio::runtime::Handle::current();
    let examined = tokio::task::spawn_blocking(move || {
        let verdicts = match config.plugins.crash_ledger {
            true => ledger::look(&config.gateway.state_dir),
            false => Verdicts::default(),
        };
        let slot = Slot::judged(&config, runtime, verdicts);
        let services: Arc<dyn HostServices> = Arc::new(NoServices);
        slot.start(&services);
        let status = serde_json::to_value(slot.status()).unwrap_or_default();
        (status, slot.dispose_all(DISPOSE))
    });
    let failed = |error| CliError::Start { what: "the examination", source: std::io::Error::other(error) };
    let (status, clean) = examined.await.map_err(failed)?;
    if !clean {
        context.leave_threads_behind();
    }
    Ok(status)
}

/// A configuration that says something else than what the gateway was started with.
fn other_chain(config: &Config, status: &Value) -> Option<Finding> {
    let running: Vec<&str> = status.get("chain")?.as_array()?.iter().filter_map(Value::as_str).collect();
    let written = match config.plugins.slots.context_engine.as_slice() {
        [] => vec!["legacy"],
        chain => chain.iter().map(String::as_str).collect(),
    };
    // Without an entry the slot's chain is empty or names legacy; both mean the same.
    let same = running == written || (running.is_empty() && written == ["legacy"]);
    (!same).then(|| {
        let message = format!(
            "the gateway runs with {}, and the configuration says {}: a restart is due",
            running.join(", "),
            written.join(", ")
        );
        Finding::new(Level::Warning, "slot", message).hint("restart the gateway when it suits")
    })
}

/// The same for the memory slot.
fn other_memory(config: &Config, status: &Value) -> Option<Finding> {
    let running = status.pointer("/memory/selected")?.as_str()?;
    let written = config.plugins.slots.memory.as_deref().unwrap_or("none");
    (running != written).then(|| {
        let message = format!(
            "the gateway runs with the memory provider {running}, and the configuration says {written}: a restart is due"
        );
        Finding::new(Level::Warning, "memory", message).hint("restart the gateway when it suits")
    })
}

/// A configured model, the gateway's or an agent's, and whether its endpoint answers.
async fn examine_model(section: &ModelConfig, agent: Option<&str>, findings: &mut Vec<Finding>) -> Value {
    let about = |finding: Finding| match agent {
        Some(agent) => finding.about(format!("agents.{agent}.model")),
        None => finding,
    };
    let model = match model::from_config(section) {
        Ok(model) => model,
        Err(error) => {
            findings.push(about(Finding::of(Level::Failed, "model", error.report())));
            return json!({"provider": section.provider, "usable": false});
        }
    };
    let info = model.info();
    let answered = tokio::time::timeout(MODEL_PATIENCE, model.models()).await;
    let models = match answered {
        Ok(Ok(models)) => Some(models.len()),
        // An endpoint that answers, but has no list of models, may well serve completions.
        Ok(Err(error @ (ModelError::BadRequest { .. } | ModelError::Protocol(_)))) => {
            findings.push(about(Finding::of(Level::Warning, "model", error.report())));
            None
        }
        Ok(Err(error)) => {
            findings.push(about(Finding::of(Level::Failed, "model", error.report())));
            None
        }
        Err(_) => {
            let message = format!("the model endpoint did not answer within {} s", MODEL_PATIENCE.as_secs());
            let hint = "check model.base_url, and that the endpoint runs";
            findings.push(about(Finding::new(Level::Failed, "model", message).hint(hint)));
            None
        }
    };
    let mut shown = serde_json::to_value(info).unwrap_or_default();
    shown["models"] = models.map_or(Value::Null, Value::from);
    shown["host"] = serde_json::to_value(ExecutionHost::of(section)).unwrap_or_default();
    shown
}

/// The store of the running gateway, which alone may look at it.
async fn ask_store(context: &Context, findings: &mut Vec<Finding>) -> Value {
    let folder = &context.config().gateway.state_dir;
    let answer = match context.remote() {
        Ok(Some(door)) => door.get("/api/store?check=true").await,
        _ => return json!({"state_dir": folder, "open_in": "gateway"}),
    };
    match answer {
        Ok(store) => {
            let problems = store.get("problems").and_then(Value::as_array).into_iter().flatten();
            let problems: Vec<String> = problems.filter_map(Value::as_str).map(str::to_owned).collect();
            let trouble = store.get("trouble").filter(|trouble| trouble.is_object());
            if problems.is_empty()
                && let Some(trouble) = trouble
            {
                findings.push(Finding {
                    code: trouble.get("code").and_then(Value::as_str).map(str::to_owned),
                    hint: trouble.get("hint").and_then(Value::as_str).map(str::to_owned),
                    ..Finding::new(
                        Level::Failed,
                        "store",
                        trouble.get("message").and_then(Value::as_str).unwrap_or("the store is in trouble"),
                    )
                });
            }
            of_problems(&problems, findings);
            json!({"state_dir": folder, "open_in": "gateway", "bytes": store.get("bytes"), "problems": problems})
        }
        Err(error) => {
            // The gateway's own code says more than that it refused.
            let (code, report) = error.shown();
            findings.push(Finding { code: Some(code), ..Finding::of(Level::Failed, "store", report) });
            json!({"state_dir": folder, "open_in": "gateway"})
        }
    }
}

/// Damage of the database, in one finding.
fn of_problems(problems: &[String], findings: &mut Vec<Finding>) {
    let Some(first) = problems.first() else { return };
    let damage = StoreError::Damaged { reason: first.clone() };
    let causes = problems.iter().skip(1).cloned().collect();
    findings.push(Finding { causes, ..Finding::of(Level::Failed, "store", damage.report()) });
}

/// The store of the state folder. While a gateway runs the store is its own.
async fn examine_store(context: &Context, running: bool, findings: &mut Vec<Finding>) -> Result<Value, CliError> {
    let config = context.config();
    let folder = config.gateway.state_dir.clone();
    if running {
        return Ok(ask_store(context, findings).await);
    }
    let path = folder.clone();
    let opened = tokio::task::spawn_blocking(move || {
        // First without changing anything: a damaged one is not opened.
        if let Some(report) = transcript::check(&path, PROBLEMS)?.filter(|report| !report.problems.is_empty()) {
            return Ok(Some(Err(report)));
        }
        let Some(store) = transcript::open_existing(&path)? else { return Ok(None) };
        let sessions = store.sessions(usize::MAX >> 1, 0).map(|sessions| sessions.len());
        let outbox = store.outbox_counts();
        let outcome = sessions.and_then(|sessions| Ok(Some(Ok((sessions, store.disk_bytes(), outbox?)))));
        store.close();
        outcome
    });
    let failed = |error| CliError::Start { what: "the examination", source: std::io::Error::other(error) };
    Ok(match opened.await.map_err(failed)? {
        Ok(Some(Err(report))) => {
            of_problems(&report.problems, findings);
            json!({"state_dir": folder, "bytes": report.bytes, "problems": report.problems})
        }
        Ok(Some(Ok((sessions, bytes, outbox)))) => {
            let outbox = OutboxSummary::by_engine(&outbox);
            findings.extend(findings::of_outboxes(&json!(outbox)));
            json!({"state_dir": folder, "sessions": sessions, "bytes": bytes, "outbox": outbox, "problems": []})
        }
        Ok(None) => json!({"state_dir": folder, "sessions": 0, "bytes": 0}),
        Err(error) => {
            findings.push(Finding::of(Level::Failed, "store", error.report()));
            json!({"state_dir": folder})
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_is_that_of_the_worst_finding() {
        let finding = |level, area| Finding::new(level, area, "x");
        assert_eq!(verdict(&[]), Verdict::Well);
        assert_eq!(verdict(&[finding(Level::Warning, "slot")]), Verdict::Well);
        assert_eq!(verdict(&[finding(Level::Degraded, "slot")]), Verdict::Degraded);
        assert_eq!(verdict(&[finding(Level::Failed, "store"), finding(Level::Warning, "slot")]), Verdict::Degraded);
        assert_eq!(verdict(&[finding(Level::Failed, "config")]), Verdict::Wrong);
    }

    #[test]
    fn a_file_that_was_not_there_at_the_start_is_new_and_one_that_is_away_is_gone() {
        let here = std::env::current_exe().unwrap().display().to_string();
        let slot = json!({"plugins": [{"file": here}, {"file": "/nowhere/old.so"}]});
        let told = |file: &str| of_change(file, &slot).message;
        assert!(told("/nowhere/new.so").contains("is new: nothing of it runs"));
        assert!(told("/nowhere/old.so").contains("is gone"));
        assert!(told(&here).contains("differs from what runs"));
    }

    #[test]
    fn a_client_s_token_that_this_shell_lacks_is_a_warning_and_the_gateway_s_own_is_not() {
        let mut config = Config::defaults("plugins.toml".into());
        let missing = || Some("ENGINEROOM_TEST_NEVER_SET".to_owned());
        let main = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(main.path(), "0123456789abcdef0123456789abcdef").unwrap();
        config.gateway.auth_token_file = Some(main.path().to_owned());
        let desk = crate::config::TokenConfig { env: missing(), file: None, agents: vec!["support".into()] };
        config.gateway.tokens.insert("desk".into(), desk);
        let found = |config: &Config| of_token(config, &config.gateway.tokens().unwrap_err());
        assert_eq!(found(&config).level, Level::Warning);
        assert!(found(&config).hint.unwrap().ends_with("or remove [gateway.tokens.desk]"));
        (config.gateway.auth_token_file, config.gateway.auth_token_env) = (None, missing());
        assert_eq!(found(&config).level, Level::Failed);
    }

    #[test]
    fn a_changed_slot_is_told_while_the_gateway_runs_with_the_old_one() {
        let mut config = Config::defaults("plugins.toml".into());
        assert_eq!(other_chain(&config, &json!({"chain": ["legacy"]})), None);
        assert_eq!(other_chain(&config, &json!({"chain": []})), None);
        assert_eq!(other_chain(&config, &Value::Null), None);
        config.plugins.slots.context_engine = vec!["window".into()];
        let found = other_chain(&config, &json!({"chain": ["legacy"]})).unwrap();
        assert!(found.message.contains("restart is due") && found.message.contains("window"), "{}", found.message);
    }
}
