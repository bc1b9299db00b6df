//! The built-in compaction, and the projection of history.
