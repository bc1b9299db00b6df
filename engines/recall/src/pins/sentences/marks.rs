//! Quotation marks and what stands between them.

/// Longest quotation in bytes that is blanked out; an opening mark without an end within is no quotation.
const QUOTE_MAX: usize = 400;

/// Blanks what stands in quotation marks or backticks, byte for byte.
pub(super) fn mask(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let (mut at, mut before) = (0, ' ');
    while let Some(c) = text[at..].chars().next() {
        masked.push(c);
        at += c.len_utf8();
        if let Some(length) = quoted(c, before, &text[at..]) {
            masked.extend(std::iter::repeat_n(' ', length));
            at += length;
            if let Some(close) = text[at..].chars().next() {
                masked.push(close);
                at += close.len_utf8();
            }
        }
        before = c;
    }
    masked
}

/// Marks that close a quotation which `mark` opens; none for other characters.
pub(in crate::pins) fn closing(mark: char) -> &'static [char] {
    match mark {
        '"' => &['"'],
        '`' => &['`'],
        '“' => &['”'],
        '„' => &['“', '”'],
        '«' => &['»'],
        '《' => &['》'],
        '〈' => &['〉'],
        '「' => &['」'],
        '『' => &['』'],
        '\'' | '‘' => &['\'', '’'],
        _ => &[],
    }
}

/// Bytes up to the mark that closes the quotation that `mark` opens; absent when it opens none.
fn quoted(mark: char, before: char, rest: &str) -> Option<usize> {
    let closes = closing(mark);
    if closes.is_empty() || matches!(mark, '\'' | '‘') && before.is_alphanumeric() {
        return None;
    }
    let mut chars = rest.char_indices().take_while(|(at, _)| *at < QUOTE_MAX);
    let (end, close) = chars.find(|(_, c)| closes.contains(c))?;
    // `'tis the manager's` is no quotation.
    let apostrophe =
        matches!(close, '\'' | '’') && rest[end + close.len_utf8()..].starts_with(|c: char| c.is_alphanumeric());
    (!apostrophe).then_some(end)
}
