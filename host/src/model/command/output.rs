//! What a command writes, taken apart: text for the reply, and the last of its complaints.

use super::super::ModelError;

/// Most bytes of a reply.
pub(super) const MOST: usize = 8 * 1024 * 1024;
/// How much of what the command complains about is kept, in bytes.
const TAIL: usize = 4096;

/// Makes text of the bytes as they come. White space at the end of the reply is not part of it: it is held back until more
/// follows.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// Bytes of a letter that is not complete.
    begun: Vec<u8>,
    /// White space that may be the end.
    held: String,
    taken: usize,
    /// Something was given.
    pub(super) any: bool,
}

impl Text {
    /// Takes what arrived, and gives what is certain to belong to the reply; it may be empty.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<String, &'static str> {
        self.taken += bytes.len();
        if self.taken > MOST {
            return Err("wrote more than 8 MiB");
        }
        self.begun.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.begun) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return Err("wrote what is not UTF-8"),
        };
        let rest = self.begun.split_off(whole);
        let whole = std::mem::replace(&mut self.begun, rest);
        // Checked above.
        let text = std::mem::take(&mut self.held) + &String::from_utf8_lossy(&whole);
        let end = text.trim_end().len();
        self.held = text[end..].to_owned();
        self.any |= end > 0;
        let mut text = text;
        text.truncate(end);
        Ok(text)
    }

    /// The output has ended.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub(super) fn finish(&self) -> Result<(), &'static str> {
        if self.begun.is_empty() { Ok(()) } else { Err("wrote what is not UTF-8") }
    }
}

/// The last bytes of the complaints.
#[derive(Debug, Default)]
pub(super) struct Tail(Vec<u8>);

impl Tail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        if self.0.len() > 2 * TAIL {
            self.0.drain(..self.0.len() - TAIL);
        }
    }

    /// In one line, without anything that could move a terminal's cursor.
    pub(super) fn line(&self) -> String {
        let text = String::from_utf8_lossy(&self.0[self.0.len().saturating_sub(TAIL)..]);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let line = lines.collect::<Vec<_>>().join(" | ");
        line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
    }
}

impl ModelError {
    /// A failed command.
    pub(super) fn command(program: &str, what: impl Into<String>) -> ModelError {
        ModelError::Command { program: program.to_owned(), what: what.into(), late: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&[u8]], expected: &[&str]) {
        let mut text = Text::default();
        let seen: Vec<String> = pieces.iter().map(|piece| text.push(piece).unwrap()).collect();
        assert_eq!(seen, expected);
        assert_eq!(text.finish(), Ok(()));
    }

    #[test]
    fn white_space_waits_for_what_follows_and_letters_for_their_last_byte() {
        check(&[b"one\n", b"two", b" \n\n"], &["one", "\ntwo", ""]);
        check(&["é".as_bytes().get(..1).unwrap(), "é".as_bytes().get(1..).unwrap()], &["", "é"]);
        check(&[b"  \n"], &[""]);
    }

    #[test]
    fn what_is_no_text_is_refused() {
        assert!(Text::default().push(b"a\xffb").is_err());
        let mut cut = Text::default();
        assert_eq!(cut.push(b"a\xc3"), Ok("a".into()));
        assert!(cut.finish().is_err());
        let mut long = Text::default();
        assert!((0..9).any(|_| long.push(&vec![b'x'; 1024 * 1024]).is_err()));
    }

    #[test]
    fn the_last_complaints_are_one_quiet_line() {
        let mut tail = Tail::default();
        tail.push(&vec![b'x'; 20_000]);
        tail.push(b"\nbad \x1b[31mthing\n\n  and so on\n");
        let line = tail.line();
        assert!(line.len() <= TAIL + 8 && line.ends_with("bad  [31mthing | and so on"), "{line}");
    }
}
