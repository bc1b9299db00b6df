//! Words, sentences and dates of a text.
