//! `eval`: measures context engines. The program is `xtask/eval`; `docs/evaluation.md` describes it.

use crate::{Outcome, cargo, done};

/// `eval ARGS`: builds the program in release and runs it.
pub(crate) fn eval(args: &[String]) -> Outcome {
    let program = ["run", "--quiet", "--release", "--package", "engineroom-eval", "--bin", "engineroom-eval", "--"];
    done(cargo().args(program).args(args))
}
