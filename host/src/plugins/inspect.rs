//! Looks at the bytes of a library as data: is it a whole shared library for this machine, and what does it say it is?
//!
//! The system's loader is no judge of files: it opens cut libraries and dies of the missing pages later. So every range
//! that the file's headers name must lie inside the file. What these checks let through can still be damaged; only the
//! probe tells that.

use super::cause::Cause;
use super::manifest::{self, Manifest};
use super::report::StageFailure;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
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
    if kind == FileKind::Elf64 {
        check_elf(elf::FileHeader64::<Endianness>::parse(bytes).map_err(|_| cut_off(64, bytes.len() as u64))?, bytes)?;
    } else if kind == FileKind::Elf32 {
        check_elf(elf::FileHeader32::<Endianness>::parse(bytes).map_err(|_| cut_off(52, bytes.len() as u64))?, bytes)?;
    }
    let file = File::parse(bytes).map_err(damaged)?;
    check_platform(&file)?;
    check_ranges(&file, bytes.len() as u64)?;
    let section = file.section_by_name(SECTION).ok_or_else(|| {
        StageFailure::new(Cause::NoManifest, format!("not an Engineroom engine: the library has no {SECTION} section"))
    })?;
    manifest::parse(section.data().map_err(damaged)?)
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

/// Header tables and ranges of an ELF file, read without trusting any of them.
fn check_elf<H: FileHeader<Endian = Endianness>>(header: &H, bytes: &[u8]) -> Result<(), StageFailure> {
    let len = bytes.len() as u64;
    let endian = header.endian().map_err(damaged)?;
    let table = |offset: u64, size: u16, number: u16| offset.saturating_add(u64::from(size) * u64::from(number));
    let programs = table(header.e_phoff(endian).into(), header.e_phentsize(endian), header.e_phnum(endian));
    let section_offset: u64 = header.e_shoff(endian).into();
    let sections = table(section_offset, header.e_shentsize(endian), header.e_shnum(endian));
    check_end(programs.max(sections), len)?;
    for program in header.program_headers(endian, bytes).map_err(damaged)? {
        let offset: u64 = program.p_offset(endian).into();
        check_end(offset.saturating_add(program.p_filesz(endian).into()), len)?;
    }
    let headers = if section_offset == 0 { &[] } else { header.section_headers(endian, bytes).map_err(damaged)? };
    let mut real = 0;
    for section in headers {
        match section.sh_type(endian) {
            elf::SHT_NULL => continue,
            elf::SHT_NOBITS => {}
            _ => {
                let offset: u64 = section.sh_offset(endian).into();
                check_end(offset.saturating_add(section.sh_size(endian).into()), len)?;
            }
        }
        real += 1;
    }
    if real == 0 {
        let message = "the library's section headers were removed, so that its manifest cannot be found";
        return Err(StageFailure::new(Cause::NoSections, message));
    }
    Ok(())
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

fn check_end(end: u64, len: u64) -> Result<(), StageFailure> {
    if end > len { Err(cut_off(end, len)) } else { Ok(()) }
}

fn cut_off(needed: u64, len: u64) -> StageFailure {
    let message = format!("the file is cut off: its headers speak of {needed} bytes at least, it has {len}");
    StageFailure::new(Cause::CutOff, message)
}

fn damaged(error: object::Error) -> StageFailure {
    StageFailure::new(Cause::Damaged, "the library's headers contradict each other").because(error)
}
