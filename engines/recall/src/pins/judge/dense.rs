//! Chinese and Japanese: no spaces between words, so phrases are looked for in the sentence as it is.

use super::Verdict;
use crate::pins::Kind;
use crate::pins::lexicon::dense::{self, *};
use crate::pins::sentences::Sentence;
use crate::pins::tokens;

/// The sentence is written in one of these scripts: at least a third of its letters.
pub(super) fn is_dense(text: &str) -> bool {
    if text.is_ascii() {
        return false;
    }
    let (mut dense, mut all) = (0, 0);
    for c in text.chars().filter(|c| c.is_alphanumeric()) {
        all += 1;
        dense += usize::from(tokens::is_dense(c));
    }
    dense > 0 && dense * 3 >= all
}

/// Whether what stands before a colon hands over a text.
pub(super) fn opens(head: &str, colon: bool) -> bool {
    let has = |list: &str| dense::has(head, list);
    let shown = has(SHOWN);
    let short = head.chars().filter(|c| c.is_alphanumeric()).count() <= 14;
    // "In mails: …" says when.
    let bare = head.trim_end_matches(|c: char| !c.is_alphanumeric());
    let when =
        ["时", "時", "时候", "は", "では", "には", "中", "里", "场合", "場合"].iter().any(|end| bare.ends_with(end));
    if has(KEEPS) || has(STANDING) {
        return false;
    }
    // "In English, please: …"
    if short && !when && has(LANGUAGES) && (has(ORDERS) || shown || has(ABOUT)) {
        return true;
    }
    if has(RULES) && !shown || has(ALWAYS) && !has(TREATS) {
        return false;
    }
    let named = short && !when && (has(LABELS) || has(PASTES));
    // Whatever is to be done with "this paragraph".
    let text = ["这段话", "这篇", "这句话", "这封", "この段落", "この文", "この手紙", "このメール", "次の文"]
        .iter()
        .any(|text| head.contains(text));
    text || has(TREATS) || has(SAYS) || has(ABOUT) || (colon && (named || has(REPORTS)))
}

/// A short sentence that asks for something to be done with a text which is only pointed at.
pub(super) fn is_request(text: &str, above: bool, is_last: bool) -> bool {
    let pointed = if above { dense::has(text, ABOVE) } else { dense::has(text, SHOWN) };
    let short = text.chars().filter(|c| c.is_alphanumeric()).count() <= if above { 24 } else { 16 };
    let bare = above || !["这个", "这些", "この", "次の"].iter().any(|other| text.contains(other));
    let below = ["下面", "以下", "如下", "下の", "下記", "次の"].iter().any(|below| text.contains(below));
    let told = !above && !below && !is_last && text.ends_with(['。', '！', '.']);
    pointed
        && short
        && (bare || below)
        && !told
        && !dense::has(text, STANDING)
        && (dense::has(text, TREATS) || dense::has(text, ABOUT))
}

/// The verdict on a sentence.
pub(super) fn judge(sentence: &Sentence) -> Verdict {
    let text = sentence.masked.as_str();
    let has = |list: &str| dense::has(text, list);
    if sentence.announces {
        return match (has(PASTES), has(RULES) || has(STANDING) || has(ALWAYS)) {
            (true, _) => Verdict::Follows,
            (false, true) => Verdict::Rules,
            (false, false) => Verdict::Nothing,
        };
    }
    let (order, tagged) = without_assent(text);
    let assents = tagged && (has(NEVER) || has(ALWAYS) || has(STANDING) || has(DONT) || has(ORDERS) || has(ME));
    let asks = has(ASKS) && !has(POLITE_ASKS) && !assents;
    if sentence.ruled {
        return if asks { Verdict::Nothing } else { Verdict::Pin(Kind::Instruction, 2) };
    }
    if has(REVOKES) && !asks {
        return Verdict::TakenBack(false);
    }
    let head = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let narrates = phrases(SUBJECTS).any(|subject| head.starts_with(subject));
    if asks || has(REPORTS) || has(TITLES) || is_topic(text) {
        return Verdict::Nothing;
    }
    if has(KEEPS) && !has(RECALLS) && !has(ONCE) && !has(ALWAYS) && !has(NEVER) {
        return Verdict::Pin(Kind::Preference, 2);
    }
    if has(TASKS) && !has(ALWAYS) && !has(STANDING) {
        return Verdict::Pin(Kind::Task, 2);
    }
    let ordered = has(ORDERS) || has(POLITE_ASKS);
    let first = ["我", "你", "私", "僕", "俺"].iter().any(|person| head.starts_with(person));
    if has(NEVER) && !has(FAULTS) && (!(narrates || first) || ordered || head.starts_with("你")) {
        return Verdict::Pin(Kind::Instruction, 3);
    }
    if has(STANDING) && !has(FAULTS) && (ordered || has(DONT) || (!narrates && !head.starts_with('我'))) {
        return Verdict::Pin(Kind::Instruction, 3);
    }
    if has(ALWAYS) && !narrates && !has(FAULTS) {
        // "It is always like this" has a verb that states.
        let states = ["です", "ます", "でした", "ました", "だ", "だった", "这样", "那样", "如此"]
            .iter()
            .any(|end| order.ends_with(end));
        let opens = phrases(ALWAYS).any(|always| head.starts_with(always)) && !states;
        // "Before deleting a file you must ask me."
        let asks_me = ["问我", "告诉我", "通知我", "征求我", "经过我", "征得我"].iter().any(|me| text.contains(me));
        if ordered || opens || asks_me {
            return Verdict::Pin(Kind::Instruction, 3);
        }
    }
    if (has(TASTES) || has(ME)) && !narrates && !has(ONCE) {
        return Verdict::Pin(Kind::Preference, 2);
    }
    if narrates || has(ONCE) || has(FAULTS) {
        return if has(DONE) { Verdict::Done } else { Verdict::Nothing };
    }
    if has(QUITS) && ordered {
        return Verdict::TakenBack(true);
    }
    // How it is to be: the language, the length.
    let opens = ["用", "说", "请用", "以", "回答", "回复", "请以", "跟我", "和我", "对我"]
        .iter()
        .any(|opening| head.starts_with(opening));
    let language = names_language(text) && has(ANSWERS) && (ordered || opens || ends_order(order));
    let manner = has(MANNERS) && (ordered || opens || ends_order(order));
    if language || manner {
        return Verdict::Pin(Kind::Instruction, 2);
    }
    let forbids = phrases(DONT)
        .any(|dont| head.starts_with(dont) || order.ends_with(dont) || head.starts_with(&format!("请{dont}")));
    let within =
        ["请不要", "请勿", "请别", "不要用", "不要使用", "不要出现", "不要有"].iter().any(|dont| text.contains(dont));
    let asked =
        has(POLITE_ASKS) && ["不用", "不要", "别", "ないで", "やめて", "控えて"].iter().any(|no| text.contains(no));
    if forbids || asked || (within && !first) {
        return Verdict::Pin(Kind::Instruction, 1);
    }
    if has(DONE) { Verdict::Done } else { Verdict::Nothing }
}

/// What something is to be about: "a poem on never giving up".
fn is_topic(text: &str) -> bool {
    let topic = ["について", "に関する"].iter().find_map(|topic| text.find(topic));
    let before = topic.is_some_and(|at| dense::has(&text[..at], NEVER) || dense::has(&text[..at], ALWAYS));
    let behind = text
        .find("关于")
        .is_some_and(|at| text[at..].find('的').is_some_and(|end| dense::has(&text[at..at + end], NEVER)));
    before || behind
}

/// The sentence without its final marks and without what only asks for assent, and whether there was such a thing.
fn without_assent(text: &str) -> (&str, bool) {
    fn bare(text: &str) -> &str {
        text.trim_end_matches(|c: char| !c.is_alphanumeric())
    }
    let text = bare(text);
    let left = phrases(ASSENTS)
        .find_map(|tag| text.strip_suffix(tag))
        .filter(|left| left.ends_with(['，', '、', ',', ' ', '。']));
    (bare(left.unwrap_or(text)), left.is_some())
}

/// It names a language: "in Polish".
fn names_language(text: &str) -> bool {
    let used = text.find('用').map(|at| text[at..].chars().skip(2).take(4).any(|c| matches!(c, '语' | '文')));
    dense::has(text, LANGUAGES) || text.contains("語で") || used.unwrap_or(false)
}

/// Japanese orders end with their verb.
fn ends_order(order: &str) -> bool {
    ["て", "で", "にして", "こと", "よろしく"].iter().any(|end| order.ends_with(end))
}
