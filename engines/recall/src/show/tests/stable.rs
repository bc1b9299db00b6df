//! How much of a prompt is what the model call before was sent.

use super::*;

/// A prompt as bytes, system prompt and rendering aside.
fn bytes_of(sent: &[Sent], block: Option<&str>, turn: &[Line]) -> String {
    let mut all = String::new();
    for sent in sent {
        all.push_str(&format!("{}{}{:?}{:?}\n", sent.role, sent.text, sent.calls, sent.answers));
    }
    all.push_str(block.unwrap_or_default());
    for line in turn {
        all.push_str(&format!("{}{}{:?}{:?}\n", line.role, line.text, line.calls, line.answers));
    }
    all
}

/// Shares of the prompts of an agent session that the call before had sent, in percent, rising.
fn shares(window: u64) -> Vec<usize> {
    let engine = engine("{}");
    let talk = engine.talk("session", "test:session");
    let mut history: Vec<Line> = Vec::new();
    let (mut before, mut shares) = (String::new(), Vec::new());
    for turn in 0..14u64 {
        let calls = 1 + (turn * 7_919) % 40;
        let all = looped(turn * 1_000 + 1, calls, 200 + (turn * 389 % 2_000) as usize);
        for done in 0..=calls {
            let now = &all[..1 + done as usize * 2];
            let current: u64 = now.iter().map(|line| u64::from(line.tokens)).sum();
            let budget = window.saturating_sub(current).max(1);
            let answer = talk.assemble(&history, Some(&all[0]), Some(budget)).unwrap();
            check(&history, &answer, budget);
            if current < window {
                let block = answer.volatile_prompt_addition.as_ref().map_or(0, |block| count(block));
                assert!(block <= window / 10 + 20, "the passages take {block} of {window}");
            }
            let prompt = bytes_of(&sent(&history, &answer), answer.volatile_prompt_addition.as_deref(), now);
            let common = prompt.bytes().zip(before.bytes()).take_while(|(a, b)| a == b).count();
            shares.push(common * 100 / prompt.len());
            before = prompt;
        }
        talk.commit(&format!("turn {turn}"), &all).unwrap();
        history.extend(all);
    }
    shares.sort_unstable();
    shares
}

#[test]
fn a_loop_of_tool_calls_sends_the_same_prefix_again() {
    let shares = shares(32_000);
    let median = shares[shares.len() / 2];
    let low = shares[shares.len() / 10];
    assert!(median >= 93, "{median} %");
    assert!(low >= 40, "{low} %");
}

/// A turn of `calls` calls behind plain dialogue: of each prompt's bytes the share that the call before had sent, in percent, and
/// the tokens of the passages.
fn first_loop(window: u64, calls: u64, bytes: usize) -> Vec<(usize, u64)> {
    let engine = engine("{}");
    let talk = engine.talk("session", "test:session");
    let history = dialogue(window / 50, 60);
    for turn in history.chunks(2) {
        talk.commit(&format!("turn {}", turn[0].id), turn).unwrap();
    }
    let all = looped(1_000_001, calls, bytes);
    let (mut before, mut seen) = (String::new(), Vec::new());
    for done in 0..=calls {
        let now = &all[..1 + done as usize * 2];
        let current: u32 = now.iter().map(|line| line.tokens).sum();
        let budget = window - u64::from(current);
        let prompt = Line::user(all[0].id, "What did Anna say of the 40th crane? Look into its file.");
        let answer = talk.assemble(&history, Some(&prompt.with_tokens(current)), Some(budget)).unwrap();
        check(&history, &answer, budget);
        let block = answer.volatile_prompt_addition.as_deref();
        let prompt = bytes_of(&sent(&history, &answer), block, now);
        let common = prompt.bytes().zip(before.bytes()).take_while(|(a, b)| a == b).count();
        seen.push((common * 100 / prompt.len(), block.map_or(0, count)));
        before = prompt;
    }
    seen
}

#[test]
fn the_first_loop_behind_plain_dialogue_sends_the_same_prefix_again() {
    for (window, calls, bytes) in [(4_096, 20, 300), (8_192, 30, 500), (32_000, 40, 1_200), (32_000, 24, 600)] {
        let seen = first_loop(window, calls, bytes);
        assert!(seen[0].1 > window.min(10_000) / 2, "{window}: dialogue has its passages: {seen:?}");
        let mut shares: Vec<usize> = seen[2..].iter().map(|(share, _)| *share).collect();
        shares.sort_unstable();
        let (median, low) = (shares[shares.len() / 2], shares[shares.len() / 4]);
        assert!(median >= 90 && low >= 85, "{window}: {median} % in the median: {seen:?}");
        let (_, last) = seen[seen.len() - 1];
        assert!(last > 0, "{window}: a loop has passages, too");
    }
}
