//! What is said: made-up turns, the same for the same seed.

use crate::transcript::{Message, Role, ToolCall, ToolFunction};
use fastrand::Rng;

/// The messages of a turn: the person's, calls and results of tools, and the answer last.
pub(super) type Turn = Vec<Message>;

const NOUNS: [&str; 12] = [
    "invoice",
    "harbour",
    "compiler",
    "garden",
    "telescope",
    "recipe",
    "contract",
    "glacier",
    "violin",
    "ledger",
    "engine",
    "passport",
];
const VERBS: [&str; 8] = ["mend", "compare", "move", "describe", "order", "paint", "count", "translate"];
const PLACES: [&str; 6] = ["in Lisbon", "at the office", "on Tuesday", "before the audit", "for Ada", "near the lake"];

pub(super) fn user(text: &str) -> Message {
    Message::text_of(Role::User, text)
}

pub(super) fn answer(text: &str) -> Message {
    Message::text_of(Role::Assistant, text)
}

pub(super) fn calls(ids: &[String], arguments: &str) -> Message {
    let call = |id: &String| ToolCall {
        id: id.clone(),
        kind: "function".into(),
        function: ToolFunction { name: "lookup".into(), arguments: arguments.to_owned() },
        extra: serde_json::Map::new(),
    };
    Message { tool_calls: ids.iter().map(call).collect(), ..answer("") }
}

pub(super) fn result(id: &str, text: &str) -> Message {
    Message { tool_call_id: Some(id.to_owned()), ..Message::text_of(Role::Tool, text) }
}

fn pick<'a>(random: &mut Rng, words: &[&'a str]) -> &'a str {
    words.get(random.usize(..words.len())).copied().unwrap_or_default()
}

/// A sentence.
pub(super) fn sentence(random: &mut Rng) -> String {
    format!(
        "Please {} the {} {} and tell me about the {} number {}.",
        pick(random, &VERBS),
        pick(random, &NOUNS),
        pick(random, &PLACES),
        pick(random, &NOUNS),
        random.u32(1..1000)
    )
}

/// An ordinary turn; every third one uses tools, some of them several at once.
pub(super) fn turn(random: &mut Rng, number: usize) -> Turn {
    let mut turn = vec![user(&format!("Turn {number}. {}", sentence(random)))];
    if number % 3 == 2 {
        let ids: Vec<String> = (0..random.usize(1..4)).map(|at| format!("call_{number}_{at}")).collect();
        turn.push(calls(&ids, "{\"of\": \"it\"}"));
        turn.extend(ids.iter().map(|id| result(id, &format!("Found for {id}: {}", sentence(random)))));
    }
    let sentences: Vec<String> = (0..random.usize(1..5)).map(|_| sentence(random)).collect();
    turn.push(answer(&format!("Answer {number}. {}", sentences.join(" "))));
    turn
}

/// Turns in a row.
pub(super) fn turns(random: &mut Rng, count: usize) -> Vec<Turn> {
    (1..=count).map(|number| turn(random, number)).collect()
}

/// Texts that clients have said and no author thinks of.
pub(super) fn odd_text(random: &mut Rng) -> String {
    let text: String = match random.u32(..14) {
        0 => String::new(),
        1 => " \t\n ".into(),
        2 => "你好,请把这份合同翻译成葡萄牙语。".repeat(random.usize(1..40)),
        3 => "👩‍👩‍👧‍👦🏳️‍🌈🧑🏽‍🚀".repeat(random.usize(1..60)),
        4 => "\u{202e}drawkcab\u{202c} \u{feff}\u{200b}e\u{301}\u{301}\u{301}".into(),
        5 => "a".repeat(random.usize(1..20_000)),
        6 => "{\"role\": \"system\", \"content\": \"</s><|im_end|>\"}".into(),
        7 => "\\u0000 %s %n ' OR 1=1 -- \u{1b}[31m".into(),
        8 => "line\r\n".repeat(random.usize(1..300)),
        9 => "0".into(),
        10 => "ﷺ".repeat(random.usize(1..200)),
        11 => "ا لسلام عليكم شالوم שלום".into(),
        _ => sentence(random),
    };
    text
}

/// An odd turn: any text, several messages of the person in a row, storms of tools, results that are missing or come twice.
pub(super) fn odd_turn(random: &mut Rng, number: usize) -> Turn {
    let mut turn: Turn = (0..random.usize(1..3)).map(|_| user(&odd_text(random))).collect();
    for step in 0..random.usize(..3) {
        let count = if random.u32(..6) == 0 { random.usize(10..40) } else { random.usize(1..4) };
        let ids: Vec<String> = (0..count).map(|at| format!("odd_{number}_{step}_{at}")).collect();
        turn.push(calls(&ids, if random.bool() { "{}" } else { "not json" }));
        for id in &ids {
            match random.u32(..12) {
                0 => {}
                1 => turn.extend([result(id, "once"), result(id, "twice")]),
                _ => turn.push(result(id, &odd_text(random))),
            }
        }
    }
    turn.push(answer(&odd_text(random)));
    turn
}
