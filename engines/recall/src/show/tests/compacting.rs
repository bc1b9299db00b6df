use super::*;

#[test]
fn nothing_to_compact_is_said() {
    let engine = engine("{}");
    let answer = engine.compact(&[], Some(1_000)).unwrap();
    assert!(answer.ok && !answer.compacted);
    assert_eq!(answer.reason.as_deref(), Some("no_candidate"));
}
