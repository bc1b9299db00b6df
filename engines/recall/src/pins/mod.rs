//! Standing instructions, preferences, constraints and open tasks, found by rules in what the person says.

use serde::{Deserialize, Serialize};

/// The pins of one session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pins {}
