//! A child that ends well, fails, dies, hangs, and prints.

use super::*;
use crate::config::LimitsConfig;
use crate::plugins::fixture::{Bench, Fixture};
use crate::plugins::{Cause, Door, LoadRequest, Stage, StageFailure, Wanted};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Not a test of its own: the child of the other tests, which start this program again. What the self-test does is told
/// by the engine's configuration.
#[test]
fn probe_child() {
    if std::env::var_os("ENGINEROOM_TEST_PROBE").is_none() {
        return;
    }
    let request = std::env::args_os().next_back().unwrap();
    let code = run_child(&[request], &|test: &SelfTest<'_>| {
        (test.progress)(Stage::Contract, "assemble");
        let Subject::Engine(engine) = test.subject else { panic!("no engine") };
        assert!(test.state_dir.is_dir());
        let config: serde_json::Value = serde_json::from_str(engine.config_json.as_ref()).unwrap();
        match config["selftest"].as_str() {
            Some("abort") => std::process::abort(),
            Some("hang") => loop {
                std::thread::park();
            },
            Some("fail") => Err(StageFailure::new(Cause::SelfTest, "assemble failed: no luck").because("the reason")),
            _ => Ok(()),
        }
    });
    assert_eq!(code, 0);
}

struct Case {
    bench: Bench,
    config: &'static str,
    deadline: Duration,
}

impl Case {
    fn new(fixture: Fixture) -> Case {
        let bench = Bench::new().with("w", &fixture);
        Case { bench, config: "{}", deadline: Duration::from_secs(60) }
    }

    fn selftest(what: &'static str) -> Case {
        Case { config: what, ..Case::new(Fixture::new("w")) }
    }

    fn run(&self) -> Result<ProbeOutcome, StageFailure> {
        let request = ProbeRequest {
            version: env!("CARGO_PKG_VERSION").into(),
            parent: std::process::id(),
            state_dir: PathBuf::new(),
            load: LoadRequest {
                staged: self.bench.at("libw.so"),
                plugin_id: "w".into(),
                door: Door::C,
                engines: vec!["w".into()],
                memory: Vec::new(),
                wanted: vec![Wanted::engine("w")],
                config_json: self.config.into(),
                limits: LimitsConfig::default(),
                deadline_ms: 60_000,
            },
            deadlines: BTreeMap::new(),
        };
        probe(request, &self.bench.config.gateway.state_dir, self.deadline)
    }

    fn failure(&self) -> StageFailure {
        self.run().unwrap_err()
    }
}

fn only_failure(outcome: &ProbeOutcome) -> &StageFailure {
    assert_eq!(outcome.failed.len(), 1);
    &outcome.failed[0].1
}

#[test]
fn a_good_library_passes_and_leaves_nothing_behind() {
    let case = Case::new(Fixture::new("w"));
    let outcome = case.run().unwrap();
    assert!(outcome.failed.is_empty(), "{outcome:?}");
    assert_eq!(std::fs::read_dir(&case.bench.config.gateway.state_dir).unwrap().count(), 0);
}

#[test]
fn what_a_library_prints_is_no_part_of_the_talk() {
    let case = Case::new(Fixture::new("w").start("printf(\"{\\\"line\\\":\\\"done\\\"} hello\"); fflush(stdout);"));
    assert!(case.run().unwrap().failed.is_empty());
}

#[test]
fn a_constructor_that_aborts_kills_only_its_probe() {
    let case = Case::new(Fixture::new("w").start("fprintf(stderr, \"bad\\033[31m luck\\n\"); abort();"));
    let failure = case.failure();
    assert_eq!((failure.code, failure.stage), (Cause::ProbeSignal.code(), Stage::Probe));
    assert!(failure.message.contains("SIGABRT") && failure.message.contains("constructors"), "{}", failure.message);
    assert!(failure.causes.iter().any(|cause| cause == "the probe wrote: bad [31m luck"), "{:?}", failure.causes);
}

#[test]
fn a_library_that_ends_the_process_is_named_with_its_exit_code() {
    let failure = Case::new(Fixture::new("w").enroll("_exit(7);")).failure();
    assert_eq!(failure.code, Cause::ProbeExit.code());
    assert!(failure.message.contains("exit code 7 in register"), "{}", failure.message);
}

#[test]
fn a_death_in_a_hook_names_the_hook() {
    let failure = Case::selftest(r#"{"selftest":"abort"}"#).failure();
    assert_eq!(failure.code, Cause::ProbeSignal.code());
    assert!(failure.message.ends_with("in assemble of engine w"), "{}", failure.message);
}

#[test]
fn a_hang_ends_at_the_deadline_and_names_the_place() {
    let case = Case { deadline: Duration::from_millis(1500), ..Case::selftest(r#"{"selftest":"hang"}"#) };
    let failure = case.failure();
    assert_eq!(failure.code, Cause::ProbeDeadline.code());
    assert!(failure.message.ends_with("in assemble of engine w"), "{}", failure.message);
}

#[test]
fn a_failure_in_good_order_keeps_its_own_stage() {
    let outcome = Case::selftest(r#"{"selftest":"fail"}"#).run().unwrap();
    let failure = only_failure(&outcome);
    assert_eq!((failure.code, failure.stage), (Cause::SelfTest.code(), Stage::Contract));
    assert_eq!(failure.causes, ["the reason"]);
}

#[test]
fn the_environment_is_empty_and_the_folder_is_scratch() {
    let check = "char d[4096]; if (getenv(\"PATH\") || !getcwd(d, sizeof d) || !strstr(d, \"/probe-\") \
                 || strcmp(getenv(\"HOME\"), d)) abort();";
    Case::new(Fixture::new("w").start(check)).run().unwrap();
}

#[test]
fn the_probe_is_confined_before_the_first_line_of_a_library() {
    if !sandbox_support().lacks.is_empty() {
        return eprintln!("skipped: this system lacks {:?}", sandbox_support().lacks);
    }
    let case = Case::new(Fixture::new("w").start("if (fork() >= 0 || fopen(\"/etc/passwd\", \"r\")) abort();"));
    let outcome = case.run().unwrap();
    let report = outcome.sandbox.unwrap();
    assert_eq!(report, sandbox_support(), "all that this system has is in force, and nothing else is missing");
}

#[test]
fn a_library_in_cpp_has_its_runtime_inside() {
    if std::process::Command::new("c++").arg("--version").output().is_err() {
        return eprintln!("skipped: no C++ compiler");
    }
    // Not in a constructor, which may run before those of the streams.
    let enroll = "std::thread([] { std::cerr << std::string(\"in a thread\") << std::endl; }).join();
        try { throw std::runtime_error(\"thrown\"); } catch (const std::exception &) { }
        std::random_device random; std::map<int, std::vector<unsigned>> all; all[1].push_back(random());
        std::ofstream(std::string(getenv(\"TMPDIR\")) + \"/own\") << all.size() << std::endl;
        std::string back; std::ifstream(std::string(getenv(\"TMPDIR\")) + \"/own\") >> back;
        if (back != \"1\") abort();
        return r->engine(r->context, text(\"w\"), &factory);";
    let headers = ["iostream", "fstream", "string", "map", "vector", "thread", "stdexcept", "random"];
    let case = Case::new(Fixture::new("w").cpp(&headers).enroll(enroll));
    assert!(case.run().unwrap().failed.is_empty());
}

#[test]
fn a_program_that_is_no_probe_is_told_so() {
    assert_eq!(run_child(&[], &|_| Ok(())), 2);
    assert_eq!(run_child(&["/no/such/request".into()], &|_| Ok(())), 2);
}
