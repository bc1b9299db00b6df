//! Looks at the bytes of a library as data: is it a whole shared library for this machine, and what does it say it is?
//!
//! The system's loader is no judge of files: it opens cut libraries and dies of the missing pages later. So every range
//! that the file's headers name must lie inside the file. What these checks let through can still be damaged; only the
//! probe tells that.

use super::cause::Cause;
use super::elf::{check_end, check_inner, check_whole, cut_off, damaged};
use super::manifest::{self, Manifest};
use super::report::StageFailure;
use object::read::elf::FileHeader;
use object::{Architecture, Endianness, File, FileKind, Object, ObjectKind, ObjectSection, ObjectSegment, elf};

/// Name of the manifest's section.
const SECTION: &str = if cfg!(target_vendor = "apple") { "__engineroom" } else { ".engineroom" };

/// Inspects the bytes of one file. Whether this host can run it is for [`Manifest::check`] to say.
///
/// # Errors
/// A cause of the stage `inspect`, the first that applies.
pub(super) fn inspect(bytes: &[u8]) -> Result<Manifest, StageFailure> {
    let kind = FileKind::parse(bytes).map_err(|_| not_a_library(bytes))?;
    check_format(kind)?;
    match kind {
        FileKind::Elf64 => check_whole(elf64(bytes)?, bytes)?,
        FileKind::Elf32 => check_whole(elf32(bytes)?, bytes)?,
        _ => {}
    }
    let file = File::parse(bytes).map_err(damaged)?;
    check_platform(&file)?;
    check_ranges(&file, bytes.len() as u64)?;
    let section = file.section_by_name(SECTION).ok_or_else(|| {
        StageFailure::new(Cause::NoManifest, format!("not an Engineroom engine: the library has no {SECTION} section"))
    })?;
    manifest::parse(section.data().map_err(damaged)?)
}

/// Checks that what the system's loader follows stays inside the library.
///
/// # Errors
/// [`Cause::Damaged`].
pub(super) fn check_inside(bytes: &[u8]) -> Result<(), StageFailure> {
    match FileKind::parse(bytes) {
        Ok(FileKind::Elf64) => check_inner(elf64(bytes)?, bytes),
        Ok(FileKind::Elf32) => check_inner(elf32(bytes)?, bytes),
        _ => Ok(()),
    }
}

fn elf64(bytes: &[u8]) -> Result<&elf::FileHeader64<Endianness>, StageFailure> {
    elf::FileHeader64::parse(bytes).map_err(|_| cut_off(64, bytes.len() as u64))
}

fn elf32(bytes: &[u8]) -> Result<&elf::FileHeader32<Endianness>, StageFailure> {
    elf::FileHeader32::parse(bytes).map_err(|_| cut_off(52, bytes.len() as u64))
}

fn not_a_library(bytes: &[u8]) -> StageFailure {
    let what = if bytes.starts_with(b"\x7fELF") || bytes.len() < 20 && !looks_like_text(bytes) {
        return cut_off(64, bytes.len() as u64);
    } else if looks_like_text(bytes) {
        "a text file"
    } else {
        "of an unknown format"
    };
    StageFailure::new(Cause::NotALibrary, format!("the file is not a shared library: it is {what}"))
}

fn looks_like_text(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(4096)];
    // A character may be cut at the end of the head.
    let text = match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    text && !head.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
}

fn check_format(kind: FileKind) -> Result<(), StageFailure> {
    let expected = match (cfg!(target_vendor = "apple"), cfg!(target_pointer_width = "64")) {
        (true, _) => FileKind::MachO64,
        (false, true) => FileKind::Elf64,
        (false, false) => FileKind::Elf32,
    };
    if kind == expected {
        return Ok(());
    }
    let what = match kind {
        FileKind::Elf32 => "a 32-bit library for Linux or another Unix",
        FileKind::Elf64 => "a library for Linux or another Unix",
        FileKind::MachO32 | FileKind::MachO64 => "a library for macOS",
        FileKind::MachOFat32 | FileKind::MachOFat64 => "a universal library for macOS",
        FileKind::Pe32 | FileKind::Pe64 => "a library for Windows",
        FileKind::Archive => {
            return Err(StageFailure::new(Cause::NotShared, "the file is an archive of objects (a static library)"));
        }
        other => {
            return Err(StageFailure::new(Cause::NotALibrary, format!("the file is not a shared library: {other:?}")));
        }
    };
    Err(StageFailure::new(Cause::OtherPlatform, format!("the file is {what}; this gateway runs on {}", machine())))
}

fn machine() -> String {
    format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)
}

fn check_platform(file: &File<'_>) -> Result<(), StageFailure> {
    let expected = match std::env::consts::ARCH {
        "x86_64" => Some(Architecture::X86_64),
        "aarch64" => Some(Architecture::Aarch64),
        "arm" => Some(Architecture::Arm),
        "x86" => Some(Architecture::I386),
        "riscv64" => Some(Architecture::Riscv64),
        "powerpc64" => Some(Architecture::PowerPc64),
        "s390x" => Some(Architecture::S390x),
        "loongarch64" => Some(Architecture::LoongArch64),
        _ => None,
    };
    let found = file.architecture();
    if expected.is_some_and(|expected| expected != found) || file.is_little_endian() != cfg!(target_endian = "little") {
        let message = format!("the library is built for {found:?}; this gateway runs on {}", machine());
        return Err(StageFailure::new(Cause::OtherPlatform, message));
    }
    match file.kind() {
        ObjectKind::Dynamic => Ok(()),
        kind => {
            let what = match kind {
                ObjectKind::Relocatable => "an object file that was never linked",
                ObjectKind::Executable => "a program",
                ObjectKind::Core => "a core dump",
                _ => "something else",
            };
            Err(StageFailure::new(Cause::NotShared, format!("the file is not a shared library: it is {what}")))
        }
    }
}

fn check_ranges(file: &File<'_>, len: u64) -> Result<(), StageFailure> {
    let segments = file.segments().map(|segment| segment.file_range());
    let sections = file.sections().filter_map(|section| section.file_range());
    for (offset, size) in segments.chain(sections) {
        check_end(offset.saturating_add(size), len)?;
    }
    Ok(())
}
