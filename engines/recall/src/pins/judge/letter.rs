//! Letters: what begins by addressing others and ends with a formula is nobody's word to the assistant.

/// How letters begin, folded to small letters.
const BEGINS: &[&str] = &[
    "dear ",
    "to whom it may concern",
    "sehr geehrte",
    "liebe kolleg",
    "liebe alle",
    "liebes team",
    "estimado",
    "estimada",
    "estimados",
    "cher ",
    "chère ",
    "chers ",
    "chères ",
    "madame",
    "尊敬的",
    "各位",
    "拝啓",
];
/// How they end.
const ENDS: &[&str] = &[
    "best regards",
    "kind regards",
    "regards",
    "sincerely",
    "yours ",
    "best wishes",
    "warm regards",
    "mit freundlichen grüßen",
    "mit freundlichen grüssen",
    "freundliche grüße",
    "viele grüße",
    "beste grüße",
    "herzliche grüße",
    "atentamente",
    "saludos",
    "un saludo",
    "un cordial saludo",
    "cordialement",
    "bien à vous",
    "salutations",
    "此致",
    "敬上",
    "敬具",
    "よろしくお願いいたします",
    "以上",
];
/// Whom the person writes to.
const LISTENER: &[&str] = &[
    "assistant",
    "claude",
    "chatgpt",
    "gpt",
    "gemini",
    "model",
    "agent",
    "assistent",
    "asistente",
    "助手",
    "アシスタント",
];

/// How a text is asked for that is somebody's to send, where it stands below: "please fix the following mail".
const GIVES: &[&str] = &[
    "following mail",
    "following email",
    "following e-mail",
    "following letter",
    "following message",
    "following text",
    "following announcement",
];

/// The first line hands over what stands below it, without a colon.
fn hands_over(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().filter(|first| first.len() <= 80).unwrap_or_default().to_lowercase();
    lines.next().is_some() && GIVES.iter().any(|gives| first.trim_end_matches(['.', '!', '?', ':']).ends_with(gives))
}

/// Somebody else's text follows the first question: "can you make this shorter? From now on all employees …".
fn reworks(text: &str) -> bool {
    let Some((question, rest)) = text.trim_start().split_once('?') else { return false };
    let question = question.to_lowercase();
    let asks =
        ["can you ", "could you ", "would you ", "please ", "will you "].iter().any(|ask| question.starts_with(ask));
    let way = [
        "shorter",
        "longer",
        "better",
        "nicer",
        "friendlier",
        "clearer",
        "simpler",
        "more polite",
        "more formal",
        "less formal",
    ];
    asks && question.contains(" make this ") && way.iter().any(|way| question.ends_with(way)) && !rest.trim().is_empty()
}

/// The message is a letter to others: its first line addresses them, and a later one is the formula at its end.
/// So is one whose first line hands the rest over.
pub(super) fn is_letter(text: &str) -> bool {
    if hands_over(text) || reworks(text) {
        return true;
    }
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let Some(first) = lines.next().filter(|first| first.len() <= 80) else { return false };
    let first = first.to_lowercase();
    let addressed =
        BEGINS.iter().any(|begin| first.starts_with(begin)) || first.ends_with("各位") || first.ends_with("様へ");
    let others = !LISTENER.iter().any(|listener| first.contains(listener));
    let formula = |line: &str| {
        let line = line.to_lowercase();
        ENDS.iter().any(|end| line.starts_with(end))
    };
    addressed && others && lines.any(|line| line.len() <= 60 && formula(line))
}
