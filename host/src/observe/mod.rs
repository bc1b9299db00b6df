//! Tracing and metrics. No global but the tracing subscriber, which its library wants to be one.

pub mod failpoint;
mod metrics;
mod switches;
mod tracing_init;

pub use metrics::{HookNumbers, InFlight, METRICS_TYPE, Metrics};
pub use switches::broken;
pub use tracing_init::{LogFormat, init_tracing};
