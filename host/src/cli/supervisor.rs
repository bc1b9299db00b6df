//! What systemd hears of the gateway (`Type=notify`): that it listens, that it stops, and, where the unit has `WatchdogSec`,
//! that a restart would not help it. Elsewhere nobody listens, and nothing is said.

use crate::gateway::Gateway;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long engines, workers and the store may take beside the drain.
const LETTING_GO: Duration = Duration::from_secs(30);

/// It listens, and the store is open.
pub(super) fn listens(gateway: &Arc<Gateway>, address: SocketAddr) {
    let status = gateway.slot.status();
    let line = match &status.degraded {
        None => format!("{} serves at http://{address}", status.effective),
        Some(why) => {
            format!("{} serves at http://{address}, since {} is out ({})", status.effective, why.engine, why.code)
        }
    };
    notify::ready(&line);
    if let Some(patience) = notify::watchdog() {
        tokio::spawn(reassure(Arc::clone(gateway), patience / 3));
    }
}

/// It drains. The drain comes twice at most, for the connections and for the turns, and must not be cut short by the unit.
pub(super) fn stops(gateway: &Gateway) {
    notify::stopping(Duration::from_millis(gateway.config.gateway.drain_ms) * 2 + LETTING_GO);
}

/// Tells the watchdog that all is well, on the runtime that serves, so that it is silent when that hangs; and when only a
/// restart helps. It goes on during the drain.
async fn reassure(gateway: Arc<Gateway>, pause: Duration) {
    let mut pause = tokio::time::interval(pause.max(Duration::from_millis(1)));
    let mut silent = false;
    loop {
        pause.tick().await;
        let out = crate::api::nobody_serves(&gateway.slot);
        match &out {
            None => notify::alive(),
            Some(reason) if !silent => tracing::error!(reason, "the watchdog is not told any more that all is well"),
            Some(_) => {}
        }
        silent = out.is_some();
    }
}

#[cfg(target_os = "linux")]
mod notify {
    use sd_notify::NotifyState;
    use std::time::Duration;

    pub(super) fn ready(status: &str) {
        send(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    pub(super) fn stopping(within: Duration) {
        let within = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
        send(&[
            NotifyState::Stopping,
            NotifyState::Status("stopping: running turns are finished first"),
            NotifyState::ExtendTimeoutUsec(within),
        ]);
    }

    pub(super) fn alive() {
        send(&[NotifyState::Watchdog]);
    }

    pub(super) fn watchdog() -> Option<Duration> {
        sd_notify::watchdog_enabled()
    }

    fn send(states: &[NotifyState<'_>]) {
        if let Err(cause) = sd_notify::notify(states) {
            tracing::warn!(%cause, "systemd could not be told");
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod notify {
    use std::time::Duration;

    pub(super) fn ready(_: &str) {}
    pub(super) fn stopping(_: Duration) {}
    pub(super) fn alive() {}
    pub(super) fn watchdog() -> Option<Duration> {
        None
    }
}
