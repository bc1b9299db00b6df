//! What is pinned, what is not, and what becomes of pins.

use super::*;

fn kinds(text: &str) -> Vec<(Kind, &str)> {
    detect(text, Role::User).into_iter().map(|found| (found.kind, &text[found.start..found.end])).collect()
}

#[test]
fn quotes_the_sentence_whole() {
    let text = "The build is red again. Please always run the linter before a push, since CI is slow. Can you look?";
    assert_eq!(kinds(text), [(Kind::Instruction, "Please always run the linter before a push, since CI is slow.")]);
    assert!(detect(text, Role::Assistant).is_empty());
    assert!(detect(text, Role::Tool).is_empty());
}
