//! Words, passages and dates of a text.

pub(crate) mod dates;
pub(crate) mod passages;
pub(crate) mod stem;
pub(crate) mod words;
