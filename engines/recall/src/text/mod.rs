//! Words, passages and dates of a text, and times as they are shown.

pub(crate) mod dates;
pub(crate) mod passages;
pub(crate) mod stem;
pub(crate) mod time;
pub(crate) mod words;
