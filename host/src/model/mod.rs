//! Providers, streaming, token counting, error classification.
