//! Lines that are no prose: fences, elements, markers of lists, markup within a line.

/// Whether the lines are inside something that is not prose.
pub(super) enum Shut<'a> {
    Open,
    /// Between fences of this character.
    Fence(char),
    /// Between tags of this name.
    Tag(&'a str),
}

impl<'a> Shut<'a> {
    /// Takes the next line; true when it is prose.
    pub(super) fn passes(&mut self, line: &'a str) -> bool {
        let fence = ['`', '~'].into_iter().find(|c| line.chars().take_while(|found| found == c).count() >= 3);
        match self {
            Shut::Fence(open) => {
                if fence == Some(*open) {
                    *self = Shut::Open;
                }
                false
            }
            Shut::Tag(name) => {
                if line.ends_with('>')
                    && line.rfind("</").is_some_and(|at| line[at + 2..line.len() - 1].trim() == *name)
                {
                    *self = Shut::Open;
                }
                false
            }
            Shut::Open => {
                if let Some(open) = fence {
                    *self = Shut::Fence(open);
                    return false;
                }
                if let Some(name) = opening_tag(line) {
                    if !line.ends_with(&format!("</{name}>")) {
                        *self = Shut::Tag(name);
                    }
                    return false;
                }
                true
            }
        }
    }
}

/// Some line is a fence or a quote.
pub(super) fn has_marks(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with(['>', '<']) || line.contains("```") || line.contains("~~~"))
}

/// Name of the element that a line opens, when the line begins with a tag.
pub(super) fn opening_tag(line: &str) -> Option<&str> {
    let inner = line.strip_prefix('<')?;
    let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')))?;
    let name = &inner[..end];
    let closes = inner[end..].starts_with(['>', ' ']) && inner.contains('>');
    let void = ["br", "hr", "img", "p", "b", "i"].iter().any(|plain| name.eq_ignore_ascii_case(plain));
    (closes && !name.is_empty() && name.as_bytes()[0].is_ascii_alphabetic() && !void).then_some(name)
}

/// Bytes of a list marker at the head of a line.
pub(super) fn marker(line: &str) -> Option<usize> {
    let mut chars = line.char_indices();
    let (_, first) = chars.next()?;
    let skip = if matches!(first, '-' | '*' | '+' | '•' | '–' | '—' | '·' | '▪' | '◦' | '・') {
        let after = first.len_utf8();
        (line[after..].starts_with(char::is_whitespace) || matches!(first, '•' | '・')).then_some(after)?
    } else {
        let open = usize::from(first == '(');
        let digits = line[open..].bytes().take_while(u8::is_ascii_digit).count();
        let letter = line[open..].bytes().take(1).filter(u8::is_ascii_lowercase).count();
        let label = if digits > 0 { digits } else { letter };
        let mark = line[open + label..].chars().next()?;
        let fits = label > 0 && label <= 3 && (mark == ')' || (matches!(mark, '.' | '、') && digits > 0));
        let after = open + label + mark.len_utf8();
        (fits && (mark == '、' || line[after..].starts_with(char::is_whitespace))).then_some(after)?
    };
    let rest = &line[skip..];
    let body = rest.trim_start();
    let boxed = ["[ ] ", "[x] ", "[X] "].iter().find(|boxed| body.starts_with(**boxed)).map_or(0, |boxed| boxed.len());
    Some(skip + rest.len() - body.len() + boxed)
}

/// Where markup begins in a block that holds an end tag: nobody speaks in elements, so that is from a page or a document. The
/// block's length where there is none; a generic type such as `Vec<String>` is none.
pub(super) fn markup(block: &str) -> usize {
    let tag = |(at, _): &(usize, &str)| block[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let ends = |(at, _): (usize, &str)| block[at + 2..].starts_with(|c: char| c.is_ascii_alphabetic());
    if !block.match_indices("</").any(ends) {
        return block.len();
    }
    block.match_indices('<').find(tag).map_or(block.len(), |(at, _)| at)
}

/// A line of code or of a log: a comment, a line of a difference that holds one, or what begins with a day and a time.
pub(super) fn is_machines(line: &str) -> bool {
    let code = line.trim_start_matches(['+', '-', ' ']);
    let comment = ["//", "/*", "*/", "<!--", "-->", "--[[", "#!"].iter().any(|mark| code.starts_with(mark));
    let stamp = line.trim_start_matches(['[', '(']).as_bytes();
    let digits = |from: usize, to: usize| stamp.get(from..to).is_some_and(|part| part.iter().all(u8::is_ascii_digit));
    let day =
        digits(0, 4) && stamp.get(4) == Some(&b'-') && digits(5, 7) && stamp.get(7) == Some(&b'-') && digits(8, 10);
    let time = matches!(stamp.get(10), Some(b'T' | b' ')) && digits(11, 13) && stamp.get(13) == Some(&b':');
    let clock = |at: usize| {
        digits(at, at + 2)
            && stamp.get(at + 2) == Some(&b':')
            && digits(at + 3, at + 5)
            && stamp.get(at + 5) == Some(&b':')
            && digits(at + 6, at + 8)
    };
    // "Nov 30 12:01:07 box sshd: …"
    let month = line.get(..4).is_some_and(|month| {
        "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec ".contains(month) && month.ends_with(' ')
    });
    comment || (day && time) || clock(0) || (month && clock(7)) || has_level(line)
}

/// A line of settings: "never: allow", a word in small letters with one or two behind it and no sentence.
pub(super) fn is_setting(line: &str) -> bool {
    let Some((key, value)) = line.split_once(": ") else { return false };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '.');
    !key.is_empty()
        && key.chars().all(plain)
        && value.split_whitespace().count() <= 2
        && value.chars().all(|c| plain(c) || c == ' ')
}

/// "\[WARN\] …", "ERROR …": how lines of logs begin. What people write in capitals themselves counts only in brackets.
fn has_level(line: &str) -> bool {
    let (open, inner) = line.strip_prefix('[').map_or((false, line), |inner| (true, inner));
    let end = inner.find(|c: char| !c.is_ascii_uppercase()).unwrap_or(inner.len());
    let (level, rest) = inner.split_at(end);
    match level {
        "TRACE" | "DEBUG" | "INFO" | "WARN" | "ERROR" | "FATAL" => rest.starts_with([' ', ':', ']', '\t']),
        "WARNING" | "NOTICE" | "CRITICAL" => open && rest.starts_with(']'),
        _ => false,
    }
}

/// A line above a mail that is passed on: "----- Original message -----", or two of its head.
pub(super) fn passes_on(line: &str, rest: &str) -> bool {
    const HEADS: &str = "from to cc subject date sent von an betreff datum gesendet de para asunto fecha enviado objet à 发件人 收件人 主题 日期 差出人 \
                         宛先 件名 日時";
    let head = |line: &str| {
        let name = line.split_once([':', '：']).map(|(name, _)| name.trim().to_lowercase());
        name.is_some_and(|name| HEADS.split_whitespace().any(|head| head == name))
    };
    let ruled = line.starts_with("-----") && line.ends_with("-----") && line.contains(char::is_alphabetic);
    ruled || (head(line) && rest.lines().next().is_some_and(head))
}
