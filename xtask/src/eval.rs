//! `eval`: measures context engines. The program is `xtask/eval`; `docs/evaluation.md` describes it.

use crate::{Outcome, cargo, done, root};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The engine that is built into the gateway.
const BUILT_IN: &str = "legacy";
/// The package of the program, and its binary.
const PROGRAM: &str = "engineroom-eval";

/// `eval ARGS`: builds the program and the engines that ARGS name, in release and into one folder, and runs it.
pub(crate) fn eval(args: &[String]) -> Outcome {
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "--package", PROGRAM]);
    // Libraries that are named come from elsewhere.
    if values(args, "--library").is_empty() {
        for engine in values(args, "--engine").iter().filter(|engine| **engine != BUILT_IN) {
            if !root().join("engines").join(engine).join("Cargo.toml").is_file() {
                return Err(format!(
                    "there is no engine \"{engine}\" in engines/, which has {}; name its library with --library FILE",
                    engines().join(", ")
                ));
            }
            build.args(["--package", &format!("engine-{engine}")]);
        }
    }
    // Files that ARGS name are looked for from where the user is.
    done(Command::new(built(&mut build)?).args(args))
}

/// Names of the packages in `engines/`.
fn engines() -> Vec<String> {
    let folders = std::fs::read_dir(root().join("engines")).into_iter().flatten().flatten();
    let packages = folders.filter(|folder| folder.path().join("Cargo.toml").is_file());
    let mut names: Vec<String> = packages.map(|folder| folder.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Builds; gives the path of the program. Running it through cargo would build it again, for its own set of features.
fn built(build: &mut Command) -> Result<PathBuf, String> {
    build.args(["--message-format", "json-render-diagnostics"]).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let shown = format!("{build:?}");
    let output = build.output().map_err(|error| format!("{shown}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{shown}: {}", output.status));
    }
    program_of(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| format!("{shown}: it built no program"))
}

/// The program among what cargo says that it built, a JSON object a line.
fn program_of(said: &str) -> Option<PathBuf> {
    said.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_ours = message["target"]["name"] == PROGRAM;
        message["executable"].as_str().filter(|_| is_ours).map(PathBuf::from)
    })
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
    fn the_program_is_found_in_what_cargo_says() {
        let said = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"window\"},\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"engineroom-eval\"},\"executable\":\"/t/engineroom-eval\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(program_of(said), Some(PathBuf::from("/t/engineroom-eval")));
        assert_eq!(program_of(""), None);
    }

    #[test]
    fn the_values_of_a_flag_are_found_however_they_are_written() {
        let args = ["--engine", "a", "--engines", "b", "--json", "--engine=c", "--engine"].map(str::to_owned);
        assert_eq!(values(&args, "--engine"), ["a", "c"]);
        assert!(values(&args, "--library").is_empty());
    }
}
