//! The disposable child that probes a library.
