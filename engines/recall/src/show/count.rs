//! What texts and messages cost, as the host counts them.
//!
//! The host counts a message as its texts and a frame; the frames here are those of its token counter, so that sums are exact.

use super::state::Said;
use engine_abi::{Context, Result};
use std::borrow::Cow;

/// What a message costs beside its texts.
const MESSAGE_FRAME: u64 = 4;
/// What a tool call costs beside its name and arguments.
const CALL_FRAME: u64 = 8;
/// What the id of the answered call costs beside its text.
const FIELD_FRAME: u64 = 1;
/// What a block at the head of the current user message costs beside its text.
const BLOCK_FRAME: u64 = 8;

/// Counts with the tokenizer of the model in use.
#[derive(Clone, Copy)]
pub(crate) struct Counter<'a>(pub &'a Context);

impl Counter<'_> {
    /// Tokens of a text.
    pub(crate) fn text(self, text: &str) -> Result<u64> {
        if text.is_empty() {
            return Ok(0);
        }
        Ok(self.0.count_tokens(text)?.count)
    }

    /// Tokens of a message with this text alone.
    pub(crate) fn plain(self, text: &str) -> Result<u64> {
        Ok(MESSAGE_FRAME + self.text(text)?)
    }

    /// Tokens of a message.
    pub(crate) fn said(self, said: &Said) -> Result<u64> {
        let mut tokens = self.plain(&said.text)?;
        for [_, name, arguments] in &said.calls {
            tokens += CALL_FRAME + self.text(name)? + self.text(arguments)?;
        }
        if let Some(id) = &said.call_id {
            tokens += FIELD_FRAME + self.text(id)?;
        }
        Ok(tokens)
    }

    /// Tokens of a volatile addition: the host escapes it and puts it between tags.
    pub(crate) fn block(self, text: &str) -> Result<u64> {
        Ok(BLOCK_FRAME + self.text(&format!("<engine-context>\n{}\n</engine-context>", escaped(text)))?)
    }
}

/// The text as the host sends it.
fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['<', '>', '&']) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}
