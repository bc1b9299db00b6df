//! `gateway`: starts it, says where it is, and ends it in good order.

use super::context::Context;
use super::error::{CliError, Verdict};
use super::out::Tone;
use super::running::Announcement;
use super::supervisor;
use crate::api::{self, Api};
use crate::gateway::Gateway;
use crate::model::ModelInfo;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub(super) async fn run(context: &Context) -> Result<Verdict, CliError> {
    let config = context.config();
    for note in &context.loaded().notes {
        context.out.aside(&format!("note: {note}"));
    }
    // Asked for before anything is started: a gateway without the token that its operator believes in must not serve.
    config.gateway.tokens()?;
    let on_signal = |source| CliError::Start { what: "the signal handler", source };
    let mut signals = Signals {
        terminate: signal(SignalKind::terminate()).map_err(on_signal)?,
        interrupt: signal(SignalKind::interrupt()).map_err(on_signal)?,
        // Who started it with `nohup` wants it to outlive the terminal.
        hangup: match crate::ledger::is_ignored(SignalKind::hangup().as_raw_value()) {
            true => None,
            false => Some(signal(SignalKind::hangup()).map_err(on_signal)?),
        },
    };
    // The state folder comes first: that another gateway holds it explains more than that its address is taken.
    let gateway = Gateway::start(config.clone()).await.map_err(|error| CliError::of(&error))?;
    let gateway = Arc::new(gateway);
    let outcome = serve(context, &gateway, &mut signals).await;
    if gateway.shutdown().await.exit_now {
        context.leave_threads_behind();
    }
    outcome.map(|()| Verdict::Well)
}

/// Serves until a signal comes. When it returns, nothing new is accepted.
async fn serve(context: &Context, gateway: &Arc<Gateway>, signals: &mut Signals) -> Result<(), CliError> {
    let config = context.config();
    let listen = |source| CliError::Listen { address: config.gateway.listen, source };
    let listener = TcpListener::bind(config.gateway.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let folder = &config.gateway.state_dir;
    let announcement =
        Announcement::new(folder, address).map_err(|source| CliError::Start { what: "the announcement", source })?;
    let api = Api::new(Arc::clone(gateway)).map_err(|error| CliError::of(&error))?;
    let stop = CancellationToken::new();
    let server = api::serve(api, listener, stop.clone().cancelled_owned());
    let mut server = std::pin::pin!(server);
    gateway.turns.tend_subagents();
    greet(context, gateway, address);
    supervisor::listens(gateway, address);
    let ended = tokio::select! {
        () = signals.next() => None,
        ended = &mut server => Some(ended),
    };
    gateway.stopping();
    supervisor::stops(gateway);
    // From here on commands no longer find this gateway; its lock is released when the store is closed.
    drop(announcement);
    if let Some(ended) = ended {
        return ended.map(|_| ()).map_err(|error| CliError::of(&error));
    }
    context.out.aside("stopping: running turns are finished first; a second signal ends at once");
    // Before the first answer of the last turns: what nobody waits for must not begin any more.
    gateway.turns.end_maintenance();
    stop.cancel();
    tokio::select! {
        // What did not end in time is dropped, which cancels its turn; the rest of the house is closed all the same.
        drained = &mut server => if !matches!(drained, Ok(true)) {
            context.out.warn("not every connection ended in time");
        },
        // Nothing that was acknowledged is lost by an end like this.
        () = signals.next() => {
            crate::model::end_commands();
            crate::slot::exit_now(i32::from(Verdict::Degraded.code()))
        }
    }
    Ok(())
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => drop(hangup.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = hangup => {}
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Says where it is, who serves, and a line to try; in one piece, since a program may read only its beginning.
fn greet(context: &Context, gateway: &Gateway, address: SocketAddr) {
    let out = context.out;
    let status = gateway.slot.status();
    let config = context.config();
    let curl = curl(address, &context.model_name(None, None), crate::config::secret::for_a_shell(&config.gateway));
    if out.is_json() {
        out.document(&json!({
            "address": format!("http://{address}"),
            "pid": std::process::id(),
            "engine": status.effective,
            "degraded": status.degraded,
            "start_ms": gateway.start_took.as_secs_f64() * 1e3,
            "try": curl,
        }));
        return;
    }
    let engine = match &status.degraded {
        None => out.paint(Tone::Good, &status.effective),
        Some(why) => {
            let line = format!("{}, since {} is out ({}): {}", status.effective, why.engine, why.code, why.reason);
            format!("{}; `engineroom doctor` says what to do", out.paint(Tone::Bad, &line))
        }
    };
    let model = gateway.model.info();
    out.piece(&format!(
        "Engineroom {} listens at {}\n\
         engine  {engine}\n\
         model   {}\n\
         state   {}\n\
         try     {curl}\n",
        env!("CARGO_PKG_VERSION"),
        out.paint(Tone::Strong, &format!("http://{address}")),
        model_line(&model),
        config.gateway.state_dir.display(),
    ));
}

fn model_line(model: &ModelInfo) -> String {
    match model.resolved.as_str() {
        "" => format!("{} (each request names its own)", model.provider),
        name if name == model.provider => name.to_owned(),
        name => format!("{name} ({})", model.provider),
    }
}

/// One line for a shell.
fn curl(address: SocketAddr, model: &str, token: Option<String>) -> String {
    let token = token.map(|token| format!(" -H \"authorization: Bearer {token}\"")).unwrap_or_default();
    let body =
        json!({"model": model, "messages": [{"role": "user", "content": "My harbour pilot is called Marisol."}]});
    format!(
        "curl -s http://{address}/v1/chat/completions -H 'x-engineroom-session: hello' \
         -H 'content-type: application/json'{token} -d '{}'",
        body.to_string().replace('\'', "'\\''")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_to_try_is_one_line_for_a_shell() {
        let address = SocketAddr::from(([127, 0, 0, 1], 7421));
        let line = curl(address, "it's", Some("$TOKEN".into()));
        assert!(line.starts_with("curl -s http://127.0.0.1:7421/v1/chat/completions "), "{line}");
        assert!(line.contains("\"authorization: Bearer $TOKEN\"") && line.contains("it'\\''s"), "{line}");
        assert!(!line.contains('\n'));
    }
}
