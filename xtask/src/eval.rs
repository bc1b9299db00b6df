//! `eval`: measures context engines. The program is `xtask/eval`; `docs/evaluation.md` describes it.

use crate::{Outcome, cargo, done, root};

/// The engine that is built into the gateway.
const BUILT_IN: &str = "legacy";

/// `eval ARGS`: builds the program and the engines that ARGS name, in release and into one folder, and runs it.
pub(crate) fn eval(args: &[String]) -> Outcome {
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "--package", "engineroom-eval"]);
    // Libraries that are named come from elsewhere.
    if values(args, "--library").is_empty() {
        for engine in values(args, "--engine").iter().filter(|engine| **engine != BUILT_IN) {
            if !root().join("engines").join(engine).join("Cargo.toml").is_file() {
                return Err(format!(
                    "there is no engine \"{engine}\" in engines/; name its library with --library FILE"
                ));
            }
            build.args(["--package", &format!("engine-{engine}")]);
        }
    }
    done(&mut build)?;
    // Files are named from where the user is, and the workspace from where it is.
    let manifest = root().join("Cargo.toml");
    let mut run = cargo();
    run.args(["run", "--quiet", "--release", "--package", "engineroom-eval", "--bin", "engineroom-eval"]);
    run.arg("--manifest-path").arg(manifest).arg("--").args(args);
    run.current_dir(std::env::current_dir().map_err(|error| error.to_string())?);
    done(&mut run)
}

/// The values of a flag, written `--flag VALUE` or `--flag=VALUE`.
fn values<'a>(args: &'a [String], flag: &str) -> Vec<&'a str> {
    let mut values = Vec::new();
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg.strip_prefix(flag) {
            Some("") => values.extend(args.next()),
            Some(rest) => values.extend(rest.strip_prefix('=')),
            None => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_a_flag_are_found_however_they_are_written() {
        let args = ["--engine", "a", "--engines", "b", "--json", "--engine=c", "--engine"].map(str::to_owned);
        assert_eq!(values(&args, "--engine"), ["a", "c"]);
        assert!(values(&args, "--library").is_empty());
    }
}
