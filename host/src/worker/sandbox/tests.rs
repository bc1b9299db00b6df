//! What the library's documentation promises. What an engine can do inside is tried in the tests of the whole gateway, by an
//! engine that attacks (`tests/tests/intruder.rs`).

use super::*;

#[test]
fn every_lack_says_what_it_means_and_what_to_do() {
    let all = [Lack::Files, Lack::Calls, Lack::Capabilities, Lack::Memory, Lack::Descriptors, Lack::FileSize];
    for lack in all {
        assert!(!lack.what().is_empty() && !lack.means().is_empty() && !lack.remedy().is_empty());
    }
    assert!(report::told(&all).starts_with("landlock (rules for files), seccomp"));
}

#[test]
fn a_refusal_for_want_of_a_sandbox_names_what_is_missing_and_the_remedy() {
    let failure = SandboxError::Lacking(vec![Lack::Files]).into_failure();
    assert_eq!(failure.code, Cause::NoSandbox.code());
    assert!(failure.causes[0].contains("landlock"), "{failure:?}");
    assert!(failure.hint.contains(Lack::Files.remedy()) && failure.hint.contains("best-effort"), "{failure:?}");
}

#[test]
fn the_report_reads_well() {
    let whole = SandboxReport { landlock: 7, seccomp: true, lacks: Vec::new() };
    assert_eq!(whole.to_string(), "landlock 7, seccomp, limits");
    assert_eq!(SandboxReport::default().to_string(), "no landlock, no seccomp, limits");
}
