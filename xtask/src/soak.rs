//! `soak`: see `tests/src/soak`.

use crate::{Outcome, cargo, done};

/// `soak [--minutes N] [--seed N] [--isolation I]`: two minutes, in both isolations, without arguments.
pub(crate) fn soak(args: &[String]) -> Outcome {
    let program = ["run", "--quiet", "--package", "engineroom-tests", "--bin", "soak", "--"];
    done(cargo().args(program).args(args))
}
