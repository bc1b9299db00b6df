//! Server-sent events, as far as model endpoints use them: the `data` of each event, as soon as its last line is here.

use bytes::BytesMut;
use memchr::memchr;

/// Largest event; a longer one is a broken or hostile endpoint.
const MOST: usize = 16 * 1024 * 1024;

/// An event longer than the bound.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Cuts a byte stream into events.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    buffer: BytesMut,
    /// Bytes of `buffer` in which no line ends.
    searched: usize,
    /// Data lines of the event that is not complete yet.
    data: Vec<u8>,
    has_data: bool,
}

impl Decoder {
    /// Takes what arrived.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() + self.data.len() > MOST { Err(TooLong) } else { Ok(()) }
    }

    /// The data of the next complete event. Comments, other fields and events without data are passed over.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        while let Some(at) = memchr(b'\n', &self.buffer[self.searched..]) {
            let line = self.buffer.split_to(self.searched + at + 1);
            self.searched = 0;
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                if let Some(data) = self.take() {
                    return Some(data);
                }
            } else if let Some(value) = line.strip_prefix(b"data:") {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
                self.has_data = true;
            }
        }
        self.searched = self.buffer.len();
        None
    }

    /// What is left when the stream ends: an event whose empty line never came.
    pub(super) fn finish(&mut self) -> Option<Vec<u8>> {
        self.buffer.extend_from_slice(b"\n\n");
        self.searched = 0;
        self.next()
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let data = std::mem::take(&mut self.data);
        (std::mem::take(&mut self.has_data) && !data.is_empty()).then_some(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], expected: &[&str]) {
        let mut decoder = Decoder::default();
        let mut seen = Vec::new();
        for piece in pieces {
            decoder.push(piece.as_bytes()).unwrap();
            while let Some(data) = decoder.next() {
                seen.push(String::from_utf8(data).unwrap());
            }
        }
        while let Some(data) = decoder.finish() {
            seen.push(String::from_utf8(data).unwrap());
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn events_are_cut_wherever_the_bytes_are() {
        let text =
            "data: {\"a\":1}\n\n: comment\r\ndata:two\r\n\r\nevent: x\nid: 3\ndata: a\ndata: b\n\n\n\ndata: [DONE]\n\n";
        let expected = ["{\"a\":1}", "two", "a\nb", "[DONE]"];
        check(&[text], &expected);
        for at in 0..text.len() {
            check(&[&text[..at], &text[at..]], &expected);
        }
        let single: Vec<String> = text.chars().map(String::from).collect();
        check(&single.iter().map(String::as_str).collect::<Vec<_>>(), &expected);
    }

    #[test]
    fn an_event_is_out_as_soon_as_its_empty_line_is_in() {
        let mut decoder = Decoder::default();
        decoder.push(b"data: 1\n").unwrap();
        assert_eq!(decoder.next(), None);
        decoder.push(b"\ndata: 2").unwrap();
        assert_eq!(decoder.next().as_deref(), Some(&b"1"[..]));
        assert_eq!(decoder.next(), None);
        assert_eq!(decoder.finish().as_deref(), Some(&b"2"[..]));
        assert_eq!(decoder.finish(), None);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut decoder = Decoder::default();
        let block = vec![b'x'; 1024 * 1024];
        assert!((0..32).any(|_| decoder.push(&block).is_err()));
    }
}
