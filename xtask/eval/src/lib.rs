//! Measures context engines without a model: recorded conversations go through the gateway's own path, and what the model would
//! have been sent is looked at. `docs/evaluation.md` says what each number means.

pub mod generate;
