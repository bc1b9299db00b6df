//! `fuzz`: the targets of `fuzz/` under libFuzzer, with coverage of the workspace's own code.
//!
//! It works with the stable compiler: the coverage pass is a part of its LLVM, and libFuzzer comes from the system's packages.

use crate::{Outcome, built, cargo, done, root};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Names libFuzzer's library where it lies elsewhere.
const LIBFUZZER: &str = "ENGINEROOM_LIBFUZZER";
/// Targets at once: as many as the machines of continuous runs have cores.
const AT_ONCE: usize = 2;
/// Longest that one input may take, in seconds.
const SLOW: u32 = 10;

/// `fuzz [--seconds N] [--keep] [TARGET…]`: every target, or these, for so many seconds each. What was learned stays in the
/// target folder; `--keep` takes what covers more than the corpus does into the corpus.
pub(crate) fn fuzz(args: &[String]) -> Outcome {
    let mut seconds = 10;
    let (mut keep, mut named) = (false, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seconds" => {
                let number = args.next().and_then(|number| number.parse().ok());
                seconds = number.ok_or("--seconds needs a number")?;
            }
            "--keep" => keep = true,
            flag if flag.starts_with('-') => return Err(format!("unknown argument {flag}")),
            target => named.push(target.to_owned()),
        }
    }
    let all = targets()?;
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        return Err(format!("there is no target {unknown}; there are {}", all.join(", ")));
    }
    let chosen = if named.is_empty() { all } else { named };
    let fuzzer = build()?;
    let (next, lines, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(target) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let told = run(&fuzzer, target, seconds)
                        .and_then(|line| if keep { take_up(&fuzzer, target).map(|()| line) } else { Ok(line) });
                    match told {
                        Ok(line) => lock(&lines).push(line),
                        Err(fault) => lock(&faults).push(fault),
                    }
                }
            });
        }
    });
    let mut lines = lines.into_inner().unwrap_or_default();
    lines.sort();
    println!("{:<10} {:>12} {:>9} {:>9}", "target", "inputs", "coverage", "corpus");
    lines.iter().for_each(|line| println!("{line}"));
    let faults = faults.into_inner().unwrap_or_default();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n\n")) }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Each target has a corpus of its name.
fn targets() -> Result<Vec<String>, String> {
    let folder = root().join("fuzz/corpus");
    let listed = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> =
        listed.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Builds the fuzzer. Only the workspace's own crates are compiled for it: dependencies stay as other builds left them.
fn build() -> Result<PathBuf, String> {
    let library = libfuzzer()?;
    let mut build = cargo();
    build.args(["rustc", "--package", "engineroom-fuzz", "--features", "libfuzzer", "--bin", "fuzz", "--"]);
    build.args([format!("-Clink-arg={}", library.display()), "-Clink-arg=-lstdc++".to_owned()]);
    build.env("RUSTC_WORKSPACE_WRAPPER", root().join("fuzz/rustc-covered.sh"));
    done(&mut build)?;
    Ok(built("debug").join("fuzz"))
}

/// libFuzzer's library: it comes with the runtime of any version of clang, whose interface is the same for many years.
fn libfuzzer() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(LIBFUZZER) {
        return Ok(named.into());
    }
    let name = format!("libclang_rt.fuzzer-{}.a", std::env::consts::ARCH);
    let folders = |parent: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let llvms = folders(Path::new("/usr/lib")).into_iter();
    let llvms = llvms.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("llvm-")));
    let versions = llvms.flat_map(|llvm| folders(&llvm.join("lib/clang")));
    let mut found: Vec<PathBuf> =
        versions.map(|version| version.join("lib/linux").join(&name)).filter(|path| path.is_file()).collect();
    found.sort();
    found.pop().ok_or_else(|| {
        format!("{name} is not there: `apt-get install libclang-rt-14-dev` brings it, or name its path in {LIBFUZZER}")
    })
}

fn command(fuzzer: &Path, target: &str) -> Command {
    let mut command = Command::new(fuzzer);
    command.current_dir(root()).env("ENGINEROOM_FUZZ", target).args([
        format!("-timeout={SLOW}"),
        "-rss_limit_mb=1024".to_owned(),
        // Not first short and then longer inputs: the corpora have the right lengths.
        "-len_control=0".to_owned(),
    ]);
    let words = root().join("fuzz/dictionaries").join(format!("{target}.dict"));
    if words.is_file() {
        command.arg(format!("-dict={}", words.display()));
    }
    command
}

/// What a target has learned on this machine.
fn learned(target: &str) -> PathBuf {
    built("fuzz").join(target)
}

fn corpus(target: &str) -> PathBuf {
    root().join("fuzz/corpus").join(target)
}

/// Runs one target; a line of the table, or what it found.
fn run(fuzzer: &Path, target: &str, seconds: u32) -> Result<String, String> {
    let (learned, crashes) = (learned(target), built("fuzz-crashes"));
    for folder in [&learned, &crashes] {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut command = command(fuzzer, target);
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-artifact_prefix={}/{target}-", crashes.display()));
    let output = command.arg(&learned).arg(corpus(target)).output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let told: Vec<&str> = said.lines().rev().take(40).collect();
        let told: Vec<&str> = told.into_iter().rev().collect();
        return Err(format!(
            "{target} ended with {}:\n{}\nThe input is in {}; mended, it belongs into fuzz/crashes/{target}/",
            output.status,
            told.join("\n"),
            crashes.display()
        ));
    }
    let word_after = |mark: &str| {
        said.rsplit_once(mark).and_then(|(_, rest)| rest.split_whitespace().next()).unwrap_or("?").to_owned()
    };
    let (inputs, coverage) = (word_after("\nDone "), word_after(" cov: "));
    let corpus = word_after(" corp: ");
    Ok(format!("{target:<10} {inputs:>12} {coverage:>9} {corpus:>9}"))
}

/// Takes what was learned into the corpus, as far as it covers what the corpus does not.
fn take_up(fuzzer: &Path, target: &str) -> Outcome {
    done(command(fuzzer, target).arg("-merge=1").arg(corpus(target)).arg(learned(target)))
}
