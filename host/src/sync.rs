//! The primitives of the code whose interleavings are tested: plainly the standard library's, and in the tests of this crate
//! ones that a test can take apart.
//!
//! A test runs the real code under `explore`, again and again with its threads interleaved differently; outside of that the
//! tests' primitives do what the standard library's do.

#[cfg(test)]
mod explored;
#[cfg(not(test))]
mod plain;

#[cfg(test)]
pub(crate) use explored::*;
#[cfg(not(test))]
pub(crate) use plain::*;
