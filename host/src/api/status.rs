//! What the gateway is: alive, ready, its numbers, its engines.

use super::caller::Caller;
use super::{Api, ApiError, paths, store};
use crate::diagnostic::Diagnostic;
use crate::observe::{HookNumbers, METRICS_TYPE, Metrics};
use crate::slot::{EngineState, MAIN_AGENT, Slot, SlotStatus};
use crate::transcript::{OutboxCount, OutboxSummary};
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most sessions of an engine's backlog that are told one by one.
const BACKLOG: usize = 100;

/// Alive: it answers, and says whether it wants to be restarted when that suits. The status stays 200 as long as it goes on
/// serving; when nobody serves and only a restart changes that, it does not.
pub(super) async fn healthz(State(api): State<Arc<Api>>, Extension(caller): Extension<Caller>) -> Response {
    if let Some(reason) = nobody_serves(&api.gateway.slot) {
        let body = because(json!({"status": "out", "restart": true}), reason, &caller);
        return (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response();
    }
    let body = match api.gateway.slot.abandoned_threads().restart {
        None => json!({"status": "ok"}),
        Some(reason) => because(json!({"status": "degraded", "restart": true}), reason, &caller),
    };
    Json(body).into_response()
}

/// Why no engine serves the gateway's slot, when none does: the policy is strict and its whole chain is out.
pub(crate) fn nobody_serves(slot: &Slot) -> Option<String> {
    if slot.effective(MAIN_AGENT) != "none" {
        return None;
    }
    let why = slot.status().degraded.map_or_else(String::new, |why| format!(": {} ({})", why.reason, why.engine));
    Some(format!("every engine of the chain is out, and the policy is strict{why}; a restart lets them in again"))
}

/// The reason is told to those who may see the gateway as a whole; the rest to everybody who watches.
fn because(mut body: Value, reason: String, caller: &Caller) -> Value {
    if let Some(fields) = body.as_object_mut().filter(|_| caller.unlimited()) {
        fields.insert("reason".into(), reason.into());
    }
    body
}

/// Ready: the store answers and can be written to, and each slot's engine is ready or out, which is settled before the first
/// request is served.
pub(super) async fn readyz(State(api): State<Arc<Api>>, Extension(caller): Extension<Caller>) -> Response {
    let stored = Arc::clone(&api.gateway.store);
    let problem = if api.stopping() {
        Some(("the gateway is stopping".to_owned(), None))
    } else {
        match tokio::task::spawn_blocking(move || stored.sessions(1, 0).map(|_| ())).await {
            Ok(Ok(())) => None,
            Ok(Err(cause)) => Some((cause.to_string(), Some((cause.code(), cause.hint())))),
            Err(cause) => Some((cause.to_string(), None)),
        }
    };
    if problem.is_none()
        && let Some(trouble) = store::health(&api.gateway.store).await
    {
        let mut body = because(json!({"status": "degraded"}), trouble.message, &caller);
        if let Some(fields) = body.as_object_mut().filter(|_| caller.unlimited()) {
            fields.insert("code".into(), json!(trouble.code));
            fields.insert("hint".into(), json!(trouble.hint));
        }
        return (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response();
    }
    if problem.is_none()
        && let Some(reason) = nobody_serves(&api.gateway.slot)
    {
        let body = because(json!({"status": "not ready", "restart": true}), reason, &caller);
        return (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response();
    }
    match problem {
        None => match api.gateway.slot.abandoned_threads().restart {
            None => Json(json!({"status": "ready"})).into_response(),
            // What is passed over is settled, and somebody serves.
            Some(reason) => Json(because(json!({"status": "ready", "restart": true}), reason, &caller)).into_response(),
        },
        Some((reason, known)) => {
            let mut body = because(json!({"status": "not ready"}), reason, &caller);
            if let (Some(fields), Some((code, hint))) = (body.as_object_mut().filter(|_| caller.unlimited()), known) {
                fields.insert("code".into(), json!(code));
                fields.insert("hint".into(), json!(hint));
            }
            (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
    }
}

pub(super) async fn metrics(State(api): State<Arc<Api>>) -> Result<Response, ApiError> {
    let text = blocking(move || {
        show(&api.gateway.slot.status(), &api.metrics);
        api.metrics.set_store(&api.gateway.store.stats());
        let (queued, running) = api.gateway.turns.maintenance_numbers();
        api.metrics.set_maintenance(queued, running);
        api.metrics.set_disk_bytes(api.gateway.store.disk_bytes());
        api.metrics.render()
    })
    .await?;
    Ok(([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response())
}

/// What the slot counts by itself.
fn show(status: &SlotStatus, metrics: &Metrics) {
    let engines = status.engines.iter().map(|engine| {
        let ready = engine.state == EngineState::Ready;
        metrics.set_engine(&engine.id, ready, engine.effective, engine.abandoned, engine.over_budget);
        (engine.id.clone(), &engine.hooks)
    });
    let providers = status.memory.providers.iter().map(|provider| {
        let id = format!("memory:{}", provider.id);
        let effective = status.memory.main.effective == provider.id;
        metrics.set_engine(&id, provider.state == EngineState::Ready, effective, provider.abandoned, 0);
        (id, &provider.hooks)
    });
    for (id, hooks) in engines.chain(providers) {
        for (hook, calls) in hooks {
            let numbers = HookNumbers {
                calls: calls.count,
                failures: calls.failures,
                seconds: calls.mean_us * calls.count as f64 / 1e6,
                p50: calls.p50_us / 1e6,
                p99: calls.p99_us / 1e6,
            };
            metrics.set_hook(&id, hook, numbers);
        }
    }
    let mut refused: BTreeMap<(String, &str), u64> = BTreeMap::new();
    for failure in status.plugins.iter().filter_map(|report| report.failure.as_ref()) {
        *refused.entry((format!("{:?}", failure.stage), failure.code)).or_default() += 1;
    }
    for ((stage, code), number) in refused {
        metrics.set_plugin_failures(&stage, code, number);
    }
    metrics.set_abandoned(status.abandoned);
    metrics.set_abandoned_live(status.abandoned_threads.live, status.abandoned_threads.restart.is_some());
}

/// The slot as a whole, and which files in the plugins folder differ from what runs.
pub(super) async fn engines(State(api): State<Arc<Api>>) -> Result<Json<Value>, ApiError> {
    document(api).await.map(Json)
}

/// Of a test build only.
pub(super) async fn reset_latches(State(api): State<Arc<Api>>) -> Result<Json<Value>, ApiError> {
    let reset = blocking(move || api.gateway.slot.reset_latches()).await?;
    Ok(Json(json!({"reset": reset})))
}

/// One engine, with what was found of its library.
pub(super) async fn engine(State(api): State<Arc<Api>>, uri: Uri) -> Result<Json<Value>, ApiError> {
    let id = uri.path().strip_prefix("/api/engines/").and_then(paths::decoded).unwrap_or_default();
    let maintenance = api.gateway.turns.engine_maintenance(&id);
    let mut all = document(Arc::clone(&api)).await?;
    let engines = match all.get_mut("engines").map(Value::take) {
        Some(Value::Array(engines)) => engines,
        _ => Vec::new(),
    };
    let ids: Vec<String> = engines.iter().filter_map(|engine| Some(engine.get("id")?.as_str()?.to_owned())).collect();
    let Some(at) = ids.iter().position(|known| *known == id) else {
        return Err(ApiError::NotFound { what: "engine", near: nearest(&id, &ids), name: id });
    };
    let mut engine = engines.into_iter().nth(at).unwrap_or_default();
    let plugin = all.get("plugins").and_then(Value::as_array).into_iter().flatten().find(|plugin| {
        let named = plugin.pointer("/manifest/engines").and_then(Value::as_array);
        named.into_iter().flatten().any(|named| named.as_str() == Some(&id))
    });
    let plugin = plugin.cloned();
    let chains: Vec<Value> = chains(&all, &id);
    let (store, wanted) = (Arc::clone(&api.gateway.store), id.clone());
    let backlog = blocking(move || store.backlog(&wanted, BACKLOG)).await??;
    let shadow = api.gateway.turns.shadow(&id);
    if let Some(fields) = engine.as_object_mut() {
        fields.insert("chains".into(), chains.into());
        fields.insert("backlog".into(), json!(backlog));
        if let Some(shadow) = shadow {
            fields.insert("shadow".into(), json!(shadow));
        }
        if let Some(plugin) = plugin {
            fields.insert("plugin".into(), plugin);
        }
    }
    if let Some(fields) = engine.as_object_mut() {
        fields.insert("maintenance".into(), json!(maintenance));
    }
    Ok(Json(engine))
}

/// Where the operator lists an engine: the gateway's chain, those of agents, as a shadow; with its place from 1.
fn chains(status: &Value, id: &str) -> Vec<Value> {
    let place = |chain: &Value| {
        let ids = chain.as_array().into_iter().flatten();
        ids.map(Value::as_str).position(|listed| listed == Some(id)).map(|at| at + 1)
    };
    let main = status.get("chain").and_then(place).map(|place| json!({"agent": null, "place": place}));
    let agents = status.get("agents").and_then(Value::as_object).into_iter().flatten();
    let agents = agents.filter_map(|(agent, of)| Some(json!({"agent": agent, "place": place(of.get("chain")?)?})));
    main.into_iter().chain(agents).collect()
}

async fn document(api: Arc<Api>) -> Result<Value, ApiError> {
    blocking(move || {
        let mut status = serde_json::to_value(api.gateway.slot.status())
            .map_err(|cause| ApiError::Internal(format!("the state of the slot cannot be shown: {cause}")))?;
        if let Some(fields) = status.as_object_mut() {
            fields.insert("restartDue".into(), api.gateway.slot.restart_due().into());
        }
        show_outbox(&mut status, &api.gateway.store.outbox_counts()?);
        Ok(status)
    })
    .await?
}

/// Turns on their way to each engine, also to those that are not known any more.
fn show_outbox(status: &mut Value, counts: &[OutboxCount]) {
    let Some(fields) = status.as_object_mut() else { return };
    let mut summaries = OutboxSummary::by_engine(counts);
    for engine in fields.get_mut("engines").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(engine) = engine.as_object_mut() else { continue };
        let summary = engine.get("id").and_then(Value::as_str).and_then(|id| summaries.remove(id));
        engine.insert("outbox".into(), json!(summary.unwrap_or_default()));
    }
    if !summaries.is_empty() {
        fields.insert("outboxOfOthers".into(), json!(summaries));
    }
}

/// Runs what may wait for the disk, or for a lock of a thread that does, beside the async threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    let result = tokio::task::spawn_blocking(work).await;
    result.map_err(|cause| ApiError::Internal(format!("the work was not done: {cause}")))
}

fn nearest(id: &str, ids: &[String]) -> Option<String> {
    let scored = ids.iter().map(|known| (strsim::damerau_levenshtein(id, known), known));
    scored.min().filter(|(distance, known)| *distance <= known.len().div_ceil(2)).map(|(_, known)| known.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_miss_is_suggested_and_a_far_one_is_not() {
        let ids = ["legacy".to_owned(), "window".to_owned()];
        assert_eq!(nearest("windw", &ids).as_deref(), Some("window"));
        assert_eq!(nearest("zzzzzzzzzz", &ids), None);
        assert_eq!(nearest("x", &[]), None);
    }
}
