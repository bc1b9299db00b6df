//! The static table that turns a text into a vector.
