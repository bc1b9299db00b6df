//! The turns of an agent session, one after the other.
//!
//! What is drawn for a turn never depends on how long the session will be, so a longer session begins with the shorter one of
//! the same seed. Sizes of tool results are steered turn by turn towards the share of tokens that they are to have.

use super::dice::Dice;
use super::grammar::{expand, sentence};
use super::instructions::{self, Given, Instruction, Place};
use super::results::{self, Tool};
use super::slots;
use super::wording::{TONGUES, Tongue};
use super::{Chore, Options, Revoked, Session};
use engineroom::model::{OFFLINE_MODEL, TokenCounter};
use engineroom::transcript::{Message, Role, ToolCall, ToolFunction};
use engineroom::turn::replay::{Recorded, Recording};
use serde_json::{Map, json};
use std::collections::BTreeMap;

/// Turns in which instructions are given.
const FIRST_TURNS: usize = 40;
/// Of the tokens of all messages, so many of a hundred are in tool results.
const TOOL_SHARE: f64 = 0.53;
/// Bytes of a token, roughly: steering makes up for the error.
const BYTES: f64 = 3.2;
/// When the first message is said: 2026-01-05 08:00 UTC.
const START_MS: i64 = 1_767_600_000_000;

pub(super) fn make(options: &Options) -> Session {
    let dice = Dice::new(options.seed);
    let (instructions, schedule) =
        instructions::plan(options.instructions, FIRST_TURNS, options.wording, &mut dice.apart("instructions"));
    let mut maker = Maker {
        counter: TokenCounter::for_model(OFFLINE_MODEL),
        main: TONGUES[dice.apart("tongue").below(TONGUES.len())],
        chores: chores(&mut dice.apart("chores")),
        revoked: revoked(&mut dice.apart("revoked")),
        dice: dice.apart("turns"),
        now: START_MS,
        files: BTreeMap::new(),
        calls: 0,
        tool_tokens: 0,
        session: Session { instructions, ..Session::default() },
    };
    while maker.session.recording.messages.len() < options.entries || maker.session.turns.len() < options.turns {
        let turn = maker.session.turns.len();
        maker.turn(turn, schedule.get(turn).and_then(Option::as_ref));
    }
    let mut session = maker.session;
    session.recording.name = format!("agent session {}", options.seed);
    (session.chores, session.revoked) = (maker.chores, maker.revoked);
    session
}

/// Chores that are given and, most of them, said to be done some time later.
fn chores(dice: &mut Dice) -> Vec<Chore> {
    let mut texts: Vec<String> = Vec::new();
    let mut list = Vec::new();
    while list.len() < 8 {
        let tongue = TONGUES[dice.below(TONGUES.len())];
        let text = expand(dice.pick(tongue.tasks), &[], tongue, dice);
        if texts.contains(&text) {
            continue;
        }
        texts.push(text.clone());
        let given = dice.between(5, 300);
        let done = (list.len() >= 2).then(|| given + dice.between(15, 90));
        let said = sentence(&expand(dice.pick(tongue.task_frames), &[&text], tongue, dice), ".");
        let closed = expand(dice.pick(tongue.task_done), &[&text], tongue, dice);
        list.push(Chore { text: said, given, done, closed });
    }
    list
}

/// Instructions that are taken back later.
fn revoked(dice: &mut Dice) -> Vec<Revoked> {
    let mut pairs: Vec<&[&str; 2]> = TONGUES.iter().flat_map(|tongue| tongue.revoked).collect();
    dice.shuffle(&mut pairs);
    let given = |pair: &[&str; 2], dice: &mut Dice| {
        let given = dice.between(3, 60);
        Revoked {
            text: sentence(pair[0], "."),
            given,
            taken_back: given + dice.between(20, 200),
            by: pair[1].to_owned(),
        }
    };
    pairs.into_iter().take(5).map(|pair| given(pair, dice)).collect()
}

struct Maker {
    counter: TokenCounter,
    main: &'static Tongue,
    chores: Vec<Chore>,
    revoked: Vec<Revoked>,
    dice: Dice,
    now: i64,
    /// Files that were read, by path: the size that they have.
    files: BTreeMap<String, usize>,
    calls: u64,
    tool_tokens: u64,
    session: Session,
}

impl Maker {
    fn turn(&mut self, turn: usize, given: Option<&Given>) {
        let tongue = match given {
            Some(given) => given.tongue,
            None if self.dice.chance(75) => self.main,
            None => TONGUES[self.dice.below(TONGUES.len())],
        };
        self.now += 1000 * self.dice.between(40, 2400) as i64;
        if turn % 60 == 59 {
            self.now += 1000 * 3600 * 14;
        }
        self.session.turns.push(self.session.recording.messages.len());
        let text = self.request(turn, tongue, given);
        self.say(Message::text_of(Role::User, text));
        let calls = self.loop_length();
        self.session.loops.push(calls);
        self.tools(calls, tongue);
        let answer = self.answer(tongue);
        self.say(Message::text_of(Role::Assistant, answer));
    }

    /// What the person says.
    fn request(&mut self, turn: usize, tongue: &'static Tongue, given: Option<&Given>) -> String {
        let mut said: Vec<String> = Vec::new();
        let mut extra: Vec<String> = Vec::new();
        extra.extend(self.chores.iter().filter(|chore| chore.given == turn).map(|chore| chore.text.clone()));
        extra.extend(self.chores.iter().filter(|chore| chore.done == Some(turn)).map(|chore| chore.closed.clone()));
        extra.extend(self.revoked.iter().filter(|one| one.given == turn).map(|one| one.text.clone()));
        extra.extend(self.revoked.iter().filter(|one| one.taken_back == turn).map(|one| one.by.clone()));
        let own: Vec<Instruction> = given
            .map_or(Vec::new(), |given| self.session.instructions[given.first..given.first + given.count].to_vec());
        let alone = own.first().is_some_and(|one| one.place == Place::Own) && extra.is_empty();
        let dice = &mut self.dice;
        let length = if alone { 0 } else { [1, 1, 1, 2, 2, 3, 4, 6][dice.below(8)] };
        for at in 0..length {
            let list = match dice.below(10) {
                0..=4 => tongue.requests,
                5 if turn > 30 => tongue.follow_ups,
                _ => tongue.talk,
            };
            let list = if at == 0 && dice.chance(60) { tongue.requests } else { list };
            said.push(sentence(&expand(dice.pick(list), &[], tongue, dice), "."));
        }
        said.extend(extra);
        if let (Some(given), Some(first)) = (given, own.first()) {
            let at = match first.place {
                Place::First => 0,
                Place::Middle => said.len() / 2,
                _ => said.len(),
            };
            match &given.header {
                None => {
                    let lead = given.lead.map_or(String::new(), |lead| format!("{} ", lead.trim()));
                    said.insert(at, format!("{lead}{}", first.text));
                }
                Some(header) => {
                    let numbered = dice.chance(40);
                    let mut list = header.clone();
                    for (number, one) in own.iter().enumerate() {
                        list.push_str(&if numbered {
                            format!("\n{}. {}", number + 1, one.text)
                        } else {
                            format!("\n- {}", one.text)
                        });
                    }
                    let before = said.join(" ");
                    return if before.is_empty() { list } else { format!("{before}\n\n{list}") };
                }
            }
        }
        let mut text = said.join(if dice.chance(15) { "\n" } else { " " });
        if given.is_none() && dice.chance(14) {
            text.push_str(&paste(tongue, dice));
        }
        text
    }

    /// How many calls the loop of a turn makes: none in a third of the turns, mostly few, now and then up to 40.
    fn loop_length(&mut self) -> usize {
        let dice = &mut self.dice;
        match dice.below(100) {
            0..=34 => 0,
            35..=59 => 1,
            60..=75 => dice.between(2, 3),
            76..=88 => dice.between(4, 8),
            89..=95 => dice.between(9, 20),
            _ => dice.between(21, 40),
        }
    }

    fn tools(&mut self, calls: usize, tongue: &'static Tongue) {
        let mut left = calls;
        while left > 0 {
            let parallel = if self.dice.chance(18) { self.dice.between(2, 4).min(left) } else { 1 };
            left -= parallel;
            let asked: Vec<(Tool, String, ToolCall)> = (0..parallel).map(|_| self.call()).collect();
            let words = if self.dice.chance(35) {
                sentence(&expand(self.dice.pick(tongue.replies), &[], tongue, &mut self.dice), ".")
            } else {
                String::new()
            };
            let mut message = Message::text_of(Role::Assistant, words);
            message.tool_calls = asked.iter().map(|(_, _, call)| call.clone()).collect();
            self.say(message);
            for (tool, topic, call) in asked {
                let text = self.result(tool, &topic);
                let mut message = Message::text_of(Role::Tool, text);
                message.tool_call_id = Some(call.id);
                self.say(message);
            }
        }
    }

    /// A call: the tool, what it is about, and the call itself.
    fn call(&mut self) -> (Tool, String, ToolCall) {
        self.calls += 1;
        let id = format!("call_{:06}", self.calls);
        let dice = &mut self.dice;
        let tool = match dice.below(20) {
            0..=6 => Tool::Read,
            7..=8 => Tool::Edit,
            _ => Tool::ALL[dice.below(Tool::ALL.len())],
        };
        // Half of the reads are of a file that was read before.
        let known = (matches!(tool, Tool::Read | Tool::Edit) && dice.chance(50)).then(|| {
            let at = dice.below(self.files.len());
            self.files.keys().nth(at).cloned()
        });
        let topic = known.flatten().unwrap_or_else(|| match tool {
            Tool::Http => format!("https://{}-{}.internal/v1/{}", slots::word(dice), dice.below(9), slots::word(dice)),
            _ => slots::file(dice),
        });
        let arguments = match tool {
            Tool::Read => json!({"path": topic}),
            Tool::List => json!({"path": topic.rsplit_once('/').map_or("", |parts| parts.0)}),
            Tool::Grep => json!({"pattern": format!("{}_{}", slots::word(dice), slots::word(dice)), "path": "."}),
            Tool::Build => json!({"command": "make check"}),
            Tool::Trace => json!({"command": format!("python {topic}")}),
            Tool::Http => json!({"url": topic}),
            Tool::Query => {
                json!({"query": format!("select * from {}_{} limit {}", slots::word(dice), slots::word(dice), dice.below(200))})
            }
            Tool::Edit => {
                let lines = [2, 4, 8, 20, 60][dice.below(5)];
                let code =
                    |dice: &mut Dice| (0..lines).map(|_| results::code_line(dice)).collect::<Vec<_>>().join("\n");
                json!({"path": topic, "old": code(dice), "new": code(dice)})
            }
        };
        let function = ToolFunction { name: tool.name().to_owned(), arguments: arguments.to_string() };
        let call = ToolCall { id, kind: "function".to_owned(), function, extra: Map::new() };
        (tool, topic, call)
    }

    /// What the tool answers, long enough to bring the share of tool results to where it is to be.
    fn result(&mut self, tool: Tool, topic: &str) -> String {
        let dice = &mut self.dice;
        let natural = match dice.below(10) {
            0..=3 => dice.between(15, 90),
            4..=7 => dice.between(100, 500),
            _ => dice.between(600, 2400),
        };
        let all = self.session.tokens.max(1) as f64;
        let wanted = TOOL_SHARE * (all - self.tool_tokens as f64) / (1.0 - TOOL_SHARE);
        let missing = wanted - self.tool_tokens as f64;
        let factor = (1.0 + missing / (0.004 * all + 400.0)).clamp(0.15, 4.0);
        // One result alone must not throw the share off.
        let most = (0.02 * all).max(250.0);
        let bytes = ((natural as f64 * factor).min(most) * BYTES) as usize;
        if tool != Tool::Read {
            return match tool {
                Tool::Edit => format!("ok, {} lines of {topic} changed", dice.between(1, 60)),
                _ => results::result(tool, topic, bytes.max(40), dice),
            };
        }
        let bytes = match self.files.get(topic) {
            // What was read before reads nearly the same: a file changes in a few lines.
            Some(known) if *known <= bytes * 3 => *known,
            _ => bytes.max(120),
        };
        self.files.insert(topic.to_owned(), bytes);
        let mut lines = results::result(Tool::Read, topic, bytes, &mut Dice::new(0).apart(topic));
        if dice.chance(40) {
            let changed = results::code_line(dice);
            lines = lines.replacen("  \n", &format!("  {changed}\n"), 1);
        }
        lines
    }

    /// What the assistant says at the end of a turn.
    fn answer(&mut self, tongue: &'static Tongue) -> String {
        let dice = &mut self.dice;
        let mut said = Vec::new();
        for _ in 0..[1, 2, 2, 3, 4, 6][dice.below(6)] {
            let list = if dice.chance(12) { tongue.suggestions } else { tongue.replies };
            said.push(sentence(&expand(dice.pick(list), &[], tongue, dice), "."));
        }
        let mut text = said.join(" ");
        if dice.chance(25) {
            text.push_str("\n\n```\n");
            for _ in 0..dice.between(4, 40) {
                text.push_str(&results::code_line(dice));
                text.push('\n');
            }
            text.push_str("```");
        }
        text
    }

    fn say(&mut self, message: Message) {
        let tokens = u64::from(self.counter.message(&message));
        self.session.tokens += tokens;
        if message.role == Role::Tool {
            self.tool_tokens += tokens;
            self.session.tool_tokens += tokens;
        }
        self.now += 1000 * self.dice.between(1, 25) as i64;
        let messages = &mut self.session.recording.messages;
        let id = Some(format!("e{}", messages.len() + 1));
        messages.push(Recorded { message, time_ms: Some(self.now), id });
    }
}

/// Somebody else's text below what the person says.
fn paste(tongue: &'static Tongue, dice: &mut Dice) -> String {
    let lead = expand(dice.pick(tongue.paste_leads), &[], tongue, dice);
    let lines: Vec<String> =
        (0..dice.between(1, 5)).map(|_| sentence(&expand(dice.pick(tongue.pasted), &[], tongue, dice), ".")).collect();
    let body = match dice.below(4) {
        0 => {
            format!("```\n{}\n{}```", lines.join("\n"), results::result(Tool::Build, "", dice.between(80, 1500), dice))
        }
        1 => lines.iter().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n"),
        2 => format!("\"{}\"", lines.join(" ")),
        _ => lines.join("\n"),
    };
    format!("\n\n{lead}\n\n{body}")
}

/// A recording of nothing, to begin with.
impl Default for Session {
    fn default() -> Session {
        Session {
            recording: Recording::default(),
            instructions: Vec::new(),
            chores: Vec::new(),
            revoked: Vec::new(),
            turns: Vec::new(),
            loops: Vec::new(),
            tokens: 0,
            tool_tokens: 0,
        }
    }
}
