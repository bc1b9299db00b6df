//! Agent sessions from a seed: tool loops and standing instructions, as recordings, and what is measured with them.
