//! What an author's project needs beside his own code, as one archive: `engine-abi` and the sources of every package that it
//! is built from. The build script collects it; the gateway's binary carries it.
//!
//! | path in the archive | what |
//! |---|---|
//! | `sdk/engine-abi/` | the crate with its `wire/` and `macros/`, their manifests free of this workspace |
//! | `sdk/vendor/NAME-VERSION/` | packages of the registry, in the layout of `cargo vendor` |

/// The archive, a gzipped tar.
pub static ARCHIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sdk.tar.gz"));

/// The lock of a project that is called [`PROJECT`] and depends on `engine-abi` and `serde`.
pub const LOCK: &str = include_str!(concat!(env!("OUT_DIR"), "/project.lock"));

/// Name of the project in [`LOCK`].
pub const PROJECT: &str = "engineroom-project";

/// The header of the C door.
pub const C_HEADER: &str = include_str!("../../../engine-abi/include/engineroom.h");
