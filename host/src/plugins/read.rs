//! Reads a library once. What is inspected, hashed, staged and loaded are these bytes and no others.

use super::cause::Cause;
use super::report::StageFailure;
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use std::fs::{Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Largest library that is looked at.
pub(super) const MAX_BYTES: u64 = 512 * 1024 * 1024;

/// What the system says about the file that was opened, not about its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    pub uid: u32,
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
    pub links: u64,
}

impl Facts {
    pub(super) fn of(metadata: &Metadata) -> Facts {
        Facts { uid: metadata.uid(), gid: metadata.gid(), mode: metadata.mode() & 0o7777, links: metadata.nlink() }
    }
}

/// Enough to say, without reading it again, that a file is the one that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Seen {
    pub(super) fn of(metadata: &Metadata) -> Seen {
        Seen {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct Library {
    pub bytes: Vec<u8>,
    pub sha256: String,
    pub facts: Facts,
    pub seen: Seen,
}

/// Reads the file at `real`, which must not be a link (any more).
pub(super) fn read(real: &Path) -> Result<Library, StageFailure> {
    let unreadable = |error: std::io::Error| {
        StageFailure::new(Cause::Unreadable, format!("cannot read {}", real.display())).because(error)
    };
    // Without NONBLOCK the opening of a FIFO would wait for a writer for ever.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
    let mut file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(real).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(StageFailure::new(Cause::NotAFile, format!("{} is not a regular file", real.display())));
    }
    if metadata.len() > MAX_BYTES {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    // The file may grow while it is read.
    (&mut file).take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(too_large(bytes.len() as u64));
    }
    if bytes.is_empty() {
        return Err(StageFailure::new(Cause::Empty, format!("{} is empty", real.display())));
    }
    Ok(Library { sha256: sha256_hex(&bytes), bytes, facts: Facts::of(&metadata), seen: Seen::of(&metadata) })
}

fn too_large(len: u64) -> StageFailure {
    let mib = |bytes: u64| bytes.div_ceil(1024 * 1024);
    StageFailure::new(Cause::TooLarge, format!("the file has {} MiB; the limit is {} MiB", mib(len), mib(MAX_BYTES)))
}

/// SHA-256 as `sha256sum` prints it.
pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(path: &Path) -> &'static str {
        read(path).unwrap_err().code
    }

    #[test]
    fn hashes_like_sha256sum() {
        assert_eq!(sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn refuses_what_is_no_readable_regular_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("empty.so"), "").unwrap();
        std::fs::write(at("real.so"), "x").unwrap();
        std::os::unix::fs::symlink("real.so", at("link.so")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe.so"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(code(&at("empty.so")), Cause::Empty.code());
        assert_eq!(code(&at("gone.so")), Cause::Unreadable.code());
        assert_eq!(code(&at("link.so")), Cause::Unreadable.code());
        assert_eq!(code(dir.path()), Cause::NotAFile.code());
        assert_eq!(code(&at("pipe.so")), Cause::NotAFile.code());
    }

    #[test]
    fn refuses_a_file_over_the_limit_without_reading_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("huge.so");
        // Sparse: the length costs no space.
        std::fs::File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert_eq!(code(&path), Cause::TooLarge.code());
    }
}
