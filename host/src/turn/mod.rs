//! One logical turn.
