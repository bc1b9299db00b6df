//! The engine behind its table, with the host's own rules held against what it answers.

mod compacting;
mod layout;
mod log;
mod random;
mod stable;

use crate::Recall;
use engine_abi::testing::{Assembled, Engine, Line, Piece};
use engine_abi::wire::role;

/// One message of a prompt as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    /// The entry that it is, when it is one.
    id: Option<u64>,
    role: u32,
    text: String,
    calls: Vec<[String; 3]>,
    answers: Option<String>,
}

/// Tokens of a text as the test host counts.
fn count(text: &str) -> u64 {
    text.len() as u64 / 4 + 1
}

fn engine(config: &str) -> Engine {
    Engine::new::<Recall>(config).unwrap()
}

/// The prompt that the host would make of an answer.
fn sent(history: &[Line], answer: &Assembled) -> Vec<Sent> {
    let mut calls = answer.calls.iter();
    let mut all = Vec::new();
    for piece in &answer.pieces {
        match piece {
            Piece::Span(first, last) => {
                let start = history.partition_point(|line| line.id < *first);
                let end = history.partition_point(|line| line.id <= *last);
                all.extend(history[start..end].iter().map(|line| Sent {
                    id: Some(line.id),
                    role: line.role,
                    text: line.text.clone(),
                    calls: line.calls.clone(),
                    answers: line.answers.clone(),
                }));
            }
            Piece::Message(role, text) => {
                let (calls, answers) = calls.next().unwrap().clone();
                all.push(Sent { id: None, role: *role, text: text.clone(), calls, answers });
            }
        }
    }
    all
}

/// What an answer costs, as the host counts it: what stands before the current turn, and the block at its head.
fn cost(history: &[Line], answer: &Assembled) -> (u64, u64) {
    let text = |text: &str| if text.is_empty() { 0 } else { count(text) };
    let messages: u64 = sent(history, answer)
        .iter()
        .map(|sent| match sent.id {
            Some(id) => u64::from(history[history.binary_search_by_key(&id, |line| line.id).unwrap()].tokens),
            None => {
                let calls: u64 = sent.calls.iter().map(|[_, name, arguments]| 8 + text(name) + text(arguments)).sum();
                4 + text(&sent.text) + calls + sent.answers.as_ref().map_or(0, |id| 1 + text(id))
            }
        })
        .sum();
    let block = answer.volatile_prompt_addition.as_ref().map_or(0, |block| {
        let block = block.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        8 + count(&format!("<engine-context>\n{block}\n</engine-context>"))
    });
    (messages, block)
}

/// Holds an answer against the host's rules.
fn check(history: &[Line], answer: &Assembled, budget: u64) {
    let mut before = None;
    for piece in &answer.pieces {
        if let Piece::Span(first, last) = piece {
            assert!(first <= last, "the span {first}..={last} runs backwards");
            assert!(before.is_none_or(|before| before < *first), "the span {first}..={last} goes back");
            for id in [first, last] {
                assert!(history.binary_search_by_key(id, |line| line.id).is_ok(), "{id} is not in the history");
            }
            before = Some(*last);
        }
    }
    let mut open: Vec<String> = Vec::new();
    for sent in sent(history, answer) {
        if sent.role == role::TOOL {
            let id = sent.answers.unwrap_or_default();
            let at =
                open.iter().position(|open| *open == id).unwrap_or_else(|| panic!("a result without its call: {id}"));
            open.swap_remove(at);
        } else {
            assert!(open.is_empty(), "calls without their results: {open:?}");
            open.extend(sent.calls.into_iter().map(|[id, ..]| id));
        }
    }
    assert!(open.is_empty(), "calls without their results: {open:?}");
    let (before, block) = cost(history, answer);
    assert!(before + block <= budget, "{before} and {block} tokens of {budget}");
    assert_eq!(answer.estimated_tokens, before, "what it says that it costs before the current turn");
}

/// What the engine answers with a current turn behind the history; checked.
fn shown(engine: &Engine, history: &[Line], budget: u64) -> Vec<Sent> {
    let id = history.last().map_or(0, |last| last.id) + 1;
    let prompt = Line::user(id, "What did we say of the harbour?");
    let answer = engine.talk("session", "test:session").assemble(history, Some(&prompt), Some(budget)).unwrap();
    check(history, &answer, budget);
    sent(history, &answer)
}

/// Entries of plain dialogue: `turns` turns of two, each of about `tokens` tokens.
fn dialogue(turns: u64, tokens: usize) -> Vec<Line> {
    let text = |of: &str, id: u64| {
        let said = format!("{of} says thing number {id} about the harbour and its {id}th crane. ");
        said.repeat(tokens * 4 / said.len() + 1)
    };
    (0..turns)
        .flat_map(|turn| {
            let id = turn * 2 + 1;
            [Line::user(id, &text("Anna", id)), Line::assistant(id + 1, &text("The model", id + 1))]
        })
        .map(|line| {
            let id = i64::try_from(line.id).unwrap();
            line.at(1_700_000_000_000 + id * 60_000)
        })
        .collect()
}

/// A turn of a loop: the person, `calls` calls with results of `bytes`, the answer. Ids from `id`.
fn looped(id: u64, calls: u64, bytes: usize) -> Vec<Line> {
    let mut lines = vec![Line::user(id, &format!("Please look into file {id} and tell me what the port is."))];
    for call in 0..calls {
        let at = id + 1 + call * 2;
        let name = format!("call_{at}");
        let asking = Line::assistant(at, "").calling(&name, "read_file", &format!("{{\"path\":\"src/{at}.rs\"}}"));
        lines.push(asking.with_tokens(30));
        let result = Line::tool(at + 1, &format!("line {at}\n").repeat(bytes / 8 + 1)).answering(&name);
        let tokens = result.tokens + 8;
        lines.push(result.with_tokens(tokens));
    }
    lines.push(Line::assistant(id + 1 + calls * 2, "The port is 8080, as the file says."));
    lines
}
