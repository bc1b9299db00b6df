//! The memory slot: prompt section and search.
