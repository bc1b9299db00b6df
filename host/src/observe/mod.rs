//! Tracing, metrics, health.
