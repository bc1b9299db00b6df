//! Server-sent events as the gateway writes them: one JSON value an event, comments, `[DONE]`.

use serde_json::Value;

/// One thing that a stream said.
#[derive(Debug, PartialEq)]
pub enum Event {
    /// A chunk of the answer.
    Chunk(Value),
    /// A comment.
    Comment(String),
    /// The end marker: the turn is acknowledged.
    Done,
    /// Something else.
    Strange(String),
}

/// Cuts bytes into events; a line may come in pieces.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
    data: String,
}

impl Decoder {
    /// Takes bytes, gives the events that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.pending.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            self.line(line.trim_end_matches(['\n', '\r']), &mut events);
        }
        events
    }

    fn line(&mut self, line: &str, events: &mut Vec<Event>) {
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            match data.as_str() {
                "" => {}
                "[DONE]" => events.push(Event::Done),
                text => events.push(match serde_json::from_str(text) {
                    Ok(value) => Event::Chunk(value),
                    Err(_) => Event::Strange(data),
                }),
            }
        } else if let Some(comment) = line.strip_prefix(':') {
            events.push(Event::Comment(comment.trim().to_owned()));
        } else if let Some(data) = line.strip_prefix("data:") {
            if !self.data.is_empty() {
                self.data.push('\n');
            }
            self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
        }
        // Other fields (event, id, retry) say nothing that a command needs.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_come_out_whole_however_the_bytes_are_cut() {
        let text = ": hello\r\ndata: {\"a\":\ndata: \"ö\"}\r\n\r\nevent: x\ndata: [DONE]\n\ndata: {oops\n\n";
        for size in [1, 2, 3, 7, 1000] {
            let mut decoder = Decoder::default();
            let events: Vec<Event> = text.as_bytes().chunks(size).flat_map(|chunk| decoder.push(chunk)).collect();
            assert_eq!(
                events,
                [
                    Event::Comment("hello".into()),
                    Event::Chunk(json!({"a": "ö"})),
                    Event::Done,
                    Event::Strange("{oops".into())
                ],
                "{size}"
            );
        }
    }
}
