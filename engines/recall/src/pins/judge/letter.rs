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

/// The message is a letter to others: its first line addresses them, and a later one is the formula at its end.
pub(super) fn is_letter(text: &str) -> bool {
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
