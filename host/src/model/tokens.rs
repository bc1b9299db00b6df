//! Token counts.
//!
//! Two encodings are bundled. `o200k_base` is loaded only for the OpenAI models that use it; everything else is counted with
//! `cl100k_base`, which most open models (Llama 3, Qwen) descend from. Measured, resident memory after the load: o200k 67 MB
//! (33 on the heap, 34 of the binary's pages, 69 ms), cl100k 32 MB (16 and 16, 33 ms). A count costs about 35 MB of text a
//! second in both. So a gateway in front of any other model stays well under 80 MB.

use crate::transcript::{Content, Message};
use bpe_openai::Tokenizer;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a message costs beside its texts.
const MESSAGE_FRAME: u64 = 4;
/// What a tool call costs beside its name and arguments.
const CALL_FRAME: u64 = 8;
/// An image, a sound or a file: what it really costs depends on its size and the model; this is a large image in most of them.
const MEDIA: u64 = 1_100;
/// Bounds of the learned factor, in thousandths.
const FACTOR: std::ops::RangeInclusive<u64> = 750..=3_000;
/// Factor of a model without a known tokenizer, before anything was learned.
const FIRST_FACTOR: u64 = 1_100;
/// Prompts below this tell more about the provider's framing than about its tokenizer.
const LEAST_TO_LEARN: u64 = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    O200k,
    Cl100k,
}

/// Counts tokens. Cheap to clone; clones share what they learn.
///
/// [`text`](Self::text), [`message`](Self::message) and [`value`](Self::value) give the encoding's own count, which never
/// changes for the same text and so may be kept. Where the model's tokenizer is not known, that count is an estimate, and
/// [`calibrated`](Self::calibrated) turns a sum of such counts into a bound by what the provider's usage has taught.
#[derive(Debug, Clone)]
pub struct TokenCounter {
    encoding: Encoding,
    estimated: bool,
    /// Thousandths.
    factor: Arc<AtomicU64>,
}

impl TokenCounter {
    /// The counter for a model, by its name. Loads nothing yet.
    pub fn for_model(name: &str) -> TokenCounter {
        let name = bare_name(name);
        const O200K: [&str; 6] = ["gpt-4o", "chatgpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "gpt-oss"];
        const CL100K: [&str; 4] = ["gpt-4", "gpt-3.5", "gpt-35", super::OFFLINE_MODEL];
        let (encoding, estimated) = if is_o_series(&name) || O200K.iter().any(|known| name.starts_with(known)) {
            (Encoding::O200k, false)
        } else {
            (Encoding::Cl100k, !CL100K.iter().any(|known| name.starts_with(known)))
        };
        let factor = if estimated { FIRST_FACTOR } else { 1_000 };
        TokenCounter { encoding, estimated, factor: Arc::new(AtomicU64::new(factor)) }
    }

    fn tokenizer(&self) -> &'static Tokenizer {
        match self.encoding {
            Encoding::O200k => bpe_openai::o200k_base(),
            Encoding::Cl100k => bpe_openai::cl100k_base(),
        }
    }

    /// Tokens of a text.
    pub fn text(&self, text: &str) -> u64 {
        if text.is_empty() {
            return 0;
        }
        if crate::observe::broken("9.26") {
            return (text.chars().count() as u64).div_ceil(4);
        }
        self.tokenizer().count(text) as u64
    }

    /// Tokens of a message as it is sent: framing, calls and other fields included.
    pub fn message(&self, message: &Message) -> u32 {
        let mut sum = MESSAGE_FRAME;
        sum += match &message.content {
            Content::Null => 0,
            Content::Text(text) => self.text(text),
            Content::Parts(parts) => parts.iter().map(|part| self.part(part)).sum(),
        };
        for call in &message.tool_calls {
            sum += CALL_FRAME + self.text(&call.function.name) + self.text(&call.function.arguments);
        }
        for text in [&message.tool_call_id, &message.name].into_iter().flatten() {
            sum += 1 + self.text(text);
        }
        for value in message.extra.values() {
            sum += self.value(value);
        }
        u32::try_from(sum).unwrap_or(u32::MAX)
    }

    /// Tokens of a message in JSON, of any role.
    pub fn json_message(&self, message: &Value) -> u64 {
        let Value::Object(fields) = message else { return self.value(message) };
        let mut sum = MESSAGE_FRAME;
        for (name, value) in fields {
            sum += match (name.as_str(), value) {
                ("role", _) => 0,
                ("content", Value::Array(parts)) => parts.iter().map(|part| self.part(part)).sum(),
                ("tool_calls", Value::Array(calls)) => calls.iter().map(|call| self.call(call)).sum(),
                ("tool_call_id" | "name", Value::String(text)) => 1 + self.text(text),
                _ => self.value(value),
            };
        }
        sum
    }

    /// Tokens of a JSON value as it is written out: tool schemas, response formats. Null and empty values cost nothing.
    pub fn value(&self, value: &Value) -> u64 {
        match value {
            Value::Null => 0,
            Value::String(text) => self.text(text),
            Value::Array(list) if list.is_empty() => 0,
            Value::Object(fields) if fields.is_empty() => 0,
            other => self.text(&other.to_string()),
        }
    }

    fn part(&self, part: &Value) -> u64 {
        match part.get("type").and_then(Value::as_str) {
            Some("text" | "input_text" | "output_text" | "refusal") => {
                part.get("text").or_else(|| part.get("refusal")).map_or(0, |text| self.value(text))
            }
            Some("image_url" | "input_image" | "image" | "input_audio" | "audio" | "file" | "input_file") => MEDIA,
            _ => self.value(part),
        }
    }

    fn call(&self, call: &Value) -> u64 {
        let text = |path: &str| call.pointer(path).map_or(0, |value| self.value(value));
        CALL_FRAME + text("/function/name") + text("/function/arguments")
    }

    /// True when the model's tokenizer is not known, so that every count is an estimate.
    pub fn estimated(&self) -> bool {
        self.estimated
    }

    /// Learns from a call: what was counted here for the whole prompt, and what the provider counted. Follows a dearer
    /// tokenizer at once and a cheaper one slowly, within fixed limits. Without effect where the tokenizer is known.
    pub fn calibrate(&self, counted: u64, provider_prompt_tokens: u64) {
        if !self.estimated || counted < LEAST_TO_LEARN {
            return;
        }
        let seen = (provider_prompt_tokens.saturating_mul(1_000) / counted).clamp(*FACTOR.start(), *FACTOR.end());
        // A lost update between two turns costs one lesson.
        let now = self.factor.load(Ordering::Relaxed);
        let next = if seen >= now { seen } else { now - (now - seen).div_ceil(8) };
        self.factor.store(next, Ordering::Relaxed);
    }

    /// The bound for a sum of counts: what the provider will probably count, at most.
    pub fn calibrated(&self, counted: u64) -> u64 {
        counted.saturating_mul(self.factor.load(Ordering::Relaxed)).div_ceil(1_000)
    }

    /// The reverse of [`calibrated`](Self::calibrated): how much may be counted here so that the provider counts at most
    /// `tokens`.
    pub fn budget(&self, tokens: u64) -> u64 {
        tokens.saturating_mul(1_000) / self.factor.load(Ordering::Relaxed).max(1)
    }
}

/// The name without its vendor's prefix (`openai/gpt-4o`, `ft:gpt-4o:org`), in lower case.
pub(super) fn bare_name(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name);
    name.strip_prefix("ft:").unwrap_or(name).to_ascii_lowercase()
}

/// `o1`, `o3-mini`, `o4-mini`, …
pub(super) fn is_o_series(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next() == Some('o')
        && letters.next().is_some_and(|letter| letter.is_ascii_digit())
        && letters.next().is_none_or(|letter| letter == '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Role;
    use serde_json::json;

    #[test]
    fn known_families_are_exact_and_others_estimated() {
        for name in
            ["gpt-4o", "openai/gpt-5-mini", "o3-mini", "ft:gpt-4.1:org", "gpt-4-turbo", "gpt-3.5-turbo", "offline"]
        {
            assert!(!TokenCounter::for_model(name).estimated(), "{name}");
        }
        for name in ["llama3.2", "qwen3:8b", "mock", "", "omni", "o1x"] {
            assert!(TokenCounter::for_model(name).estimated(), "{name}");
        }
        assert_eq!(TokenCounter::for_model("gpt-4o").encoding, Encoding::O200k);
        assert_eq!(TokenCounter::for_model("gpt-4").encoding, Encoding::Cl100k);
    }

    #[test]
    fn counts_are_those_of_the_encoding() {
        // Reference values of tiktoken.
        let counter = TokenCounter::for_model("gpt-4");
        assert_eq!(counter.text("tiktoken is great!"), 6);
        assert_eq!(counter.text("antidisestablishmentarianism"), 6);
        assert_eq!(counter.text(""), 0);
    }

    #[test]
    fn a_message_costs_the_same_as_a_struct_and_as_json() {
        let counter = TokenCounter::for_model("offline");
        let json = json!({"role": "assistant", "content": null, "reasoning_content": "think", "refusal": null,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Bern\"}"}}]});
        let message: Message = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(u64::from(counter.message(&message)), counter.json_message(&json));
        assert!(counter.message(&message) > u32::try_from(MESSAGE_FRAME + CALL_FRAME).unwrap());
    }

    #[test]
    fn media_cost_a_constant_however_large_their_data() {
        let counter = TokenCounter::for_model("offline");
        let data = format!("data:image/png;base64,{}", "A".repeat(100_000));
        let message: Message = serde_json::from_value(
            json!({"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": data}}]}),
        )
        .unwrap();
        let text = counter.message(&Message::text_of(Role::User, "see"));
        assert_eq!(u64::from(counter.message(&message)), u64::from(text) + MEDIA);
    }

    #[test]
    fn calibration_rises_at_once_falls_slowly_and_is_bounded() {
        let counter = TokenCounter::for_model("unknown-model");
        counter.calibrate(1_000, 1_500);
        assert_eq!(counter.calibrated(1_000), 1_500);
        assert_eq!(counter.budget(1_500), 1_000);
        // A clone shares what is learned.
        let clone = counter.clone();
        std::thread::spawn(move || clone.calibrate(1_000, 1_000)).join().unwrap();
        let after = counter.calibrated(1_000);
        assert!((1_400..1_500).contains(&after), "{after}");
        counter.calibrate(1_000, 1_000_000);
        assert_eq!(counter.calibrated(1_000), 3_000);
        for _ in 0..200 {
            counter.calibrate(1_000, 1);
        }
        assert_eq!(counter.calibrated(1_000), 750);
    }

    #[test]
    fn nothing_is_learned_of_a_known_tokenizer_or_from_a_short_prompt() {
        let known = TokenCounter::for_model("gpt-4o");
        known.calibrate(1_000, 2_000);
        assert_eq!(known.calibrated(1_000), 1_000);
        let unknown = TokenCounter::for_model("x");
        let before = unknown.calibrated(1_000);
        unknown.calibrate(20, 60);
        assert_eq!(unknown.calibrated(1_000), before);
    }
}
