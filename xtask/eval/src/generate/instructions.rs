//! Standing instructions: their wording, and where in the first turns they are given.

use super::dice::Dice;
use super::grammar::{capital, expand, sentence};
use super::wording::{Split, TONGUES, Tongue};
use serde::Serialize;
use std::collections::BTreeSet;

/// Which phrases an instruction is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wording {
    /// All of them.
    #[default]
    All,
    /// Those that may be looked at while rules are tuned.
    Open,
    /// Those that are kept aside.
    HeldOut,
}

/// Where in its message an instruction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The message says nothing else.
    Own,
    /// First sentence of a longer request.
    First,
    /// In the middle of one.
    Middle,
    /// Last sentence of one.
    Last,
    /// Item of a list.
    Item,
}

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Its whole text, which must stand in the prompt.
    pub text: String,
    /// Language.
    pub language: &'static str,
    /// Where it stands.
    pub place: Place,
    /// Its phrase, or that of its list's header, is one of those kept aside.
    pub held_out: bool,
    /// Turn in which it is given, from 0.
    pub turn: usize,
}

/// What a turn says once and for all.
#[derive(Clone)]
pub(super) struct Given {
    /// First of its instructions.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// The line above a list of them.
    pub header: Option<String>,
    /// What stands before the instruction as a sentence of its own.
    pub lead: Option<&'static str>,
    pub tongue: &'static Tongue,
}

/// The instructions of a session, and what each of the first `turns` turns gives of them.
pub(super) fn plan(
    count: usize,
    turns: usize,
    wording: Wording,
    dice: &mut Dice,
) -> (Vec<Instruction>, Vec<Option<Given>>) {
    let mut maker = Maker { wording, used: BTreeSet::new(), texts: Vec::new() };
    let mut instructions: Vec<Instruction> = Vec::with_capacity(count);
    let mut groups = Vec::new();
    while instructions.len() < count {
        let tongue = TONGUES[dice.below(TONGUES.len())];
        let first = instructions.len();
        let left = count - first;
        if dice.chance(20) && left >= 3 {
            let (header, held_out) = maker.choose(&tongue.headers, dice);
            let header = sentence(&expand(header, &[], tongue, dice), ":");
            for _ in 0..dice.between(3, left.min(6)) {
                let text = maker.item(tongue, dice);
                instructions.push(Instruction { text, language: tongue.code, place: Place::Item, held_out, turn: 0 });
            }
            groups.push(Given { first, count: instructions.len() - first, header: Some(header), lead: None, tongue });
        } else {
            let place = [Place::Own, Place::First, Place::Middle, Place::Last][dice.below(4)];
            let (text, lead, held_out) = maker.instruction(tongue, dice);
            instructions.push(Instruction { text, language: tongue.code, place, held_out, turn: 0 });
            groups.push(Given { first, count: 1, header: None, lead, tongue });
        }
    }
    // Most turns at the head give something; some do not.
    let mut free: Vec<usize> = (0..turns.max(groups.len())).collect();
    dice.shuffle(&mut free);
    let mut chosen = free[..groups.len()].to_vec();
    chosen.sort_unstable();
    let mut schedule: Vec<Option<Given>> = vec![None; turns.max(groups.len())];
    for (turn, group) in chosen.into_iter().zip(groups) {
        instructions[group.first..group.first + group.count].iter_mut().for_each(|one| one.turn = turn);
        schedule[turn] = Some(group);
    }
    (instructions, schedule)
}

/// Matters of which one session has one instruction at most, in whatever language: two would contradict each other.
const MATTERS: &[&[&str]] = &[
    &["Call me", "call me", "Nenn mich", "nenn mich", "Sprechen Sie mich", "sprechen Sie mich", "Llámame", "llámame"],
    &["time zone", "Zeitzone", "zona horaria"],
    &[
        "Answers to me",
        "Replies to me",
        "Antworten an mich",
        "respuestas para mí",
        "answers to me",
        "replies to me",
        "antworten an mich",
    ],
];

struct Maker {
    wording: Wording,
    /// Acts and wholes that are spent: each is about another matter, so no two instructions of a session contradict.
    used: BTreeSet<(&'static str, char, usize)>,
    texts: Vec<String>,
}

impl Maker {
    /// A phrase, and whether it is one of those kept aside.
    fn choose(&self, split: &Split, dice: &mut Dice) -> (&'static str, bool) {
        let held_out = match self.wording {
            Wording::All => dice.below(split.open.len() + split.held_out.len()) >= split.open.len(),
            Wording::Open => false,
            Wording::HeldOut => true,
        };
        (dice.pick(if held_out { split.held_out } else { split.open }), held_out)
    }

    /// An instruction as a sentence, what stands before it, and whether its phrase is kept aside.
    fn instruction(&mut self, tongue: &'static Tongue, dice: &mut Dice) -> (String, Option<&'static str>, bool) {
        loop {
            let (core, held_out) = match dice.below(10) {
                0..=3 => self.framed(&tongue.do_frames, tongue.do_acts, 'd', tongue, dice),
                4..=6 => self.framed(&tongue.not_frames, tongue.not_acts, 'n', tongue, dice),
                _ => match self.whole(tongue, dice) {
                    Some(whole) => whole,
                    None => continue,
                },
            };
            let plain = !core.ends_with(['?', '.', '!']) && !core.contains(". ");
            let mut text = core;
            if plain && dice.chance(25) {
                text = format!("{text}, {}", expand(dice.pick(tongue.reasons), &[], tongue, dice));
            }
            let lead = dice.chance(20).then(|| dice.pick(tongue.leads));
            let apart = lead.filter(|lead| lead.trim_end().ends_with(['.', '!']));
            if let Some(lead) = lead.filter(|_| apart.is_none()) {
                text = format!("{lead}{text}");
            }
            let text = sentence(&text, if dice.chance(10) { "!" } else { "." });
            if self.is_new(&text) {
                return (text, apart, held_out);
            }
        }
    }

    /// An instruction as an item of a list.
    fn item(&mut self, tongue: &'static Tongue, dice: &mut Dice) -> String {
        loop {
            let (text, _) = match dice.below(3) {
                0 => self.framed(&Split { open: &["{0}"], held_out: &["{0}"] }, tongue.do_acts, 'd', tongue, dice),
                1 => {
                    let frames = Split { open: tongue.item_not, held_out: tongue.item_not };
                    self.framed(&frames, tongue.not_acts, 'n', tongue, dice)
                }
                _ => match self.whole(tongue, dice) {
                    Some(whole) => whole,
                    None => continue,
                },
            };
            let text = if dice.chance(50) { capital(&text) } else { text };
            if self.is_new(&text) {
                return text;
            }
        }
    }

    fn framed(
        &mut self,
        frames: &Split,
        acts: &'static [&'static [&'static str]],
        kind: char,
        tongue: &'static Tongue,
        dice: &mut Dice,
    ) -> (String, bool) {
        let (frame, held_out) = self.choose(frames, dice);
        let mut act = dice.below(acts.len());
        // Sessions with more instructions than there are acts use some twice, with other names in them.
        for _ in 0..acts.len() {
            if self.used.insert((tongue.code, kind, act)) {
                break;
            }
            act = (act + 1) % acts.len();
        }
        (expand(frame, acts[act], tongue, dice), held_out)
    }

    /// A whole that is not spent.
    fn whole(&mut self, tongue: &'static Tongue, dice: &mut Dice) -> Option<(String, bool)> {
        let (phrase, held_out) = self.choose(&tongue.wholes, dice);
        let list = if held_out { tongue.wholes.held_out } else { tongue.wholes.open };
        let at = list.iter().position(|known| *known == phrase)?;
        let kind = if held_out { 'h' } else { 'w' };
        self.used.insert((tongue.code, kind, at)).then(|| (expand(phrase, &[], tongue, dice), held_out))
    }

    /// Neither part of another text nor the reverse, and about another matter.
    fn is_new(&mut self, text: &str) -> bool {
        let about = |text: &str, names: &[&str]| names.iter().any(|name| text.contains(name));
        let clash = self.texts.iter().any(|known| {
            let same = MATTERS.iter().any(|names| about(text, names) && about(known, names));
            same || known.contains(text) || text.contains(known.as_str())
        });
        if !clash {
            self.texts.push(text.to_owned());
        }
        !clash
    }
}
