//! `test` and `lint`.

use crate::{Outcome, cargo, done};

/// Every test of the workspace. The whole-system tests build what they load and drive by themselves.
pub(crate) fn test(args: &[String]) -> Outcome {
    if !on_path("python3") {
        println!(
            "skipped: openai_python::* (no python3 on this machine; the official OpenAI client cannot be tried without it)"
        );
    }
    done(cargo().args(["test", "--workspace", "--no-fail-fast"]).args(args))
}

/// Formatting, clippy and documentation; warnings are errors.
pub(crate) fn lint() -> Outcome {
    done(cargo().args(["fmt", "--all", "--check"]))?;
    done(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    // Private items as well: a room's documentation speaks to whoever works in it.
    done(
        cargo()
            .args(["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

/// True when a program of this name can be started.
pub(crate) fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|paths| std::env::split_paths(&paths).any(|folder| folder.join(program).is_file()))
}
