//! Does an ELF library stay within itself? Header tables, segments, the dynamic table, relocations and symbols.
//!
//! The system's loader believes all of these. A damaged one makes it write wherever the numbers point: into nothing, which
//! kills the probe, or into whatever lies next to the library, which may be harmless in the probe and deadly in the
//! gateway. So everything that the loader follows must point into the library. Damage to the code itself stays unseen here.

use super::cause::Cause;
use super::report::StageFailure;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, Rela, SectionHeader};
use object::{Endianness, File, Object, ObjectSymbol, SymbolKind, elf, pod};
use std::collections::BTreeMap;
use std::ops::Range;

/// Largest span of addresses that a library may take.
const MAX_SPAN: u64 = 4 * 1024 * 1024 * 1024;

/// Largest page of the machines that we know.
const MAX_PAGE: u64 = 64 * 1024;

/// The dynamic table's addresses, each with the tag of its size in bytes, where it has one.
const TABLES: [(elf::DynamicTag, Option<elf::DynamicTag>, &str); 12] = [
    (elf::DT_INIT, None, "its initialiser"),
    (elf::DT_FINI, None, "its finaliser"),
    (elf::DT_INIT_ARRAY, Some(elf::DT_INIT_ARRAYSZ), "its list of constructors"),
    (elf::DT_FINI_ARRAY, Some(elf::DT_FINI_ARRAYSZ), "its list of destructors"),
    (elf::DT_STRTAB, Some(elf::DT_STRSZ), "its table of names"),
    (elf::DT_SYMTAB, None, "its table of symbols"),
    (elf::DT_HASH, None, "its hash table"),
    (elf::DT_GNU_HASH, None, "its hash table"),
    (elf::DT_RELA, Some(elf::DT_RELASZ), "its relocations"),
    (elf::DT_JMPREL, Some(elf::DT_PLTRELSZ), "its relocations"),
    (elf::DT_RELR, Some(elf::DT_RELRSZ), "its relocations"),
    (elf::DT_PLTGOT, None, "its table of addresses"),
];

/// Checks the header tables and every range of the file: is the whole file there?
pub(super) fn check_whole<H: FileHeader<Endian = Endianness>>(header: &H, bytes: &[u8]) -> Result<(), StageFailure> {
    let len = bytes.len() as u64;
    let endian = header.endian().map_err(damaged)?;
    let table = |offset: u64, size: u16, number: u16| offset.saturating_add(u64::from(size) * u64::from(number));
    let programs = table(header.e_phoff(endian).into(), header.e_phentsize(endian), header.e_phnum(endian));
    let section_offset: u64 = header.e_shoff(endian).into();
    let sections = table(section_offset, header.e_shentsize(endian), header.e_shnum(endian));
    check_end(programs.max(sections), len)?;
    for program in header.program_headers(endian, bytes).map_err(damaged)? {
        let (offset, size) = program.file_range(endian);
        check_end(offset.saturating_add(size), len)?;
    }
    let headers = if section_offset == 0 { &[] } else { header.section_headers(endian, bytes).map_err(damaged)? };
    let mut real = 0;
    for section in headers.iter().filter(|section| section.sh_type(endian) != elf::SHT_NULL) {
        if section.sh_type(endian) != elf::SHT_NOBITS {
            let (offset, size): (u64, u64) = (section.sh_offset(endian).into(), section.sh_size(endian).into());
            check_end(offset.saturating_add(size), len)?;
        }
        real += 1;
    }
    if real == 0 {
        let message = "the library's section headers were removed, so that its manifest cannot be found";
        return Err(StageFailure::new(Cause::NoSections, message));
    }
    Ok(())
}

/// Checks what the loader follows: does all of it point into the library?
pub(super) fn check_inner<H: FileHeader<Endian = Endianness>>(header: &H, bytes: &[u8]) -> Result<(), StageFailure> {
    let endian = header.endian().map_err(damaged)?;
    let programs = header.program_headers(endian, bytes).map_err(damaged)?;
    let image = Image::new(programs, endian)?;
    let mut tags = BTreeMap::new();
    for program in programs {
        if let Some(entries) = program.dynamic(endian, bytes).map_err(damaged)? {
            let live = entries.iter().take_while(|entry| entry.tag(endian) != elf::DT_NULL);
            tags.extend(live.map(|entry| (entry.tag(endian).0, entry.val(endian))));
        }
    }
    let tag = |tag: elf::DynamicTag| tags.get(&tag.0).copied();
    for (address, size, what) in TABLES {
        if let Some(address) = tag(address) {
            image.holds(address, size.and_then(tag).unwrap_or(1), what)?;
        }
    }
    let mut targets = Vec::new();
    for (address, size) in [(elf::DT_RELA, elf::DT_RELASZ), (elf::DT_JMPREL, elf::DT_PLTRELSZ)] {
        if let (Some(address), Some(size)) = (tag(address), tag(size)) {
            let table = image.bytes(bytes, address, size)?;
            let entries = pod::slice_from_all_bytes::<H::Rela>(table).map_err(|()| bad("its relocations"))?;
            check_relocations(header, endian, entries, &image, &mut targets)?;
        }
    }
    // Linkers write each place once; two values for one place are the mark of a damaged table.
    targets.sort_unstable();
    if targets.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(bad("its relocations"));
    }
    check_symbols(bytes, &image)
}

fn check_relocations<H: FileHeader<Endian = Endianness>>(
    header: &H,
    endian: Endianness,
    entries: &[H::Rela],
    image: &Image,
    targets: &mut Vec<u64>,
) -> Result<(), StageFailure> {
    const WHAT: &str = "one of its relocations";
    let (relative, indirect) = match header.e_machine(endian) {
        elf::EM_X86_64 => (elf::R_X86_64_RELATIVE, elf::R_X86_64_IRELATIVE),
        elf::EM_AARCH64 => (elf::R_AARCH64_RELATIVE, elf::R_AARCH64_IRELATIVE),
        _ => return Ok(()),
    };
    for entry in entries {
        let kind = entry.r_type(endian, false);
        // Kind 0 on both machines: nothing is written.
        if kind.0 == 0 {
            continue;
        }
        let target: u64 = entry.r_offset(endian).into();
        image.holds(target, 8, WHAT)?;
        targets.push(target);
        if kind == relative || kind == indirect {
            let addend: i64 = entry.r_addend(endian).into();
            // The end of a table may be pointed to, where nothing is any more.
            image.holds(addend.cast_unsigned(), 0, WHAT)?;
        }
    }
    Ok(())
}

fn check_symbols(bytes: &[u8], image: &Image) -> Result<(), StageFailure> {
    for symbol in File::parse(bytes).map_err(damaged)?.dynamic_symbols() {
        symbol.name_bytes().map_err(damaged)?;
        // The address of a thread-local symbol counts from its block, and an absolute one from nowhere.
        let placed = symbol.is_definition() && symbol.kind() != SymbolKind::Tls && symbol.section_index().is_some();
        if placed {
            image.holds(symbol.address(), 0, "one of its symbols")?;
        }
    }
    Ok(())
}

/// The library as it lies in memory: its segments in the order of their addresses.
struct Image {
    loads: Vec<Load>,
}

struct Load {
    memory: Range<u64>,
    /// Offset in the file, and how many bytes come from there.
    file: (u64, u64),
}

impl Image {
    fn new<P: ProgramHeader<Endian = Endianness>>(programs: &[P], endian: Endianness) -> Result<Image, StageFailure> {
        let mut image = Image { loads: Vec::new() };
        for program in programs.iter().filter(|program| program.p_type(endian) == elf::PT_LOAD) {
            let start: u64 = program.p_vaddr(endian).into();
            let end = start.saturating_add(program.p_memsz(endian).into());
            let file = program.file_range(endian);
            // The loader takes the first and the last one for the whole, and maps each over what is there.
            let before = image.loads.last().map_or(0, |last| last.memory.end);
            if start < before || file.1 > end - start || end > MAX_SPAN {
                return Err(bad("one of its segments"));
            }
            image.loads.push(Load { memory: start..end, file });
        }
        for program in programs {
            let address = program.p_vaddr(endian).into();
            let size = match program.p_type(endian) {
                elf::PT_DYNAMIC | elf::PT_TLS | elf::PT_GNU_EH_FRAME | elf::PT_NOTE => program.p_filesz(endian),
                elf::PT_GNU_RELRO => {
                    image.holds_pages(address, program.p_memsz(endian).into())?;
                    continue;
                }
                _ => continue,
            };
            image.holds(address, size.into(), "one of its segments")?;
        }
        Ok(image)
    }

    /// Lies `size` bytes from `address` in one segment?
    fn holds(&self, address: u64, size: u64, what: &str) -> Result<(), StageFailure> {
        let end = address.saturating_add(size);
        let inside = |load: &Load| load.memory.start <= address && end <= load.memory.end;
        if self.loads.iter().any(inside) { Ok(()) } else { Err(bad(what)) }
    }

    /// Like `holds`, for a range that linkers round up to a whole page.
    fn holds_pages(&self, address: u64, size: u64) -> Result<(), StageFailure> {
        let end = address.saturating_add(size);
        let inside = |load: &Load| load.memory.contains(&address) && end <= load.memory.end.next_multiple_of(MAX_PAGE);
        if self.loads.iter().any(inside) { Ok(()) } else { Err(bad("one of its segments")) }
    }

    /// The bytes that the file has for a range of addresses.
    fn bytes<'a>(&self, bytes: &'a [u8], address: u64, size: u64) -> Result<&'a [u8], StageFailure> {
        let what = "its relocations";
        let load = self.loads.iter().find(|load| load.memory.contains(&address)).ok_or_else(|| bad(what))?;
        let start = address - load.memory.start;
        let end = start.saturating_add(size);
        let file = |at: u64| usize::try_from(load.file.0.saturating_add(at)).unwrap_or(usize::MAX);
        let found = if end <= load.file.1 { bytes.get(file(start)..file(end)) } else { None };
        found.ok_or_else(|| bad(what))
    }
}

/// Fails when a range ends behind the end of the file.
pub(super) fn check_end(end: u64, len: u64) -> Result<(), StageFailure> {
    if end > len { Err(cut_off(end, len)) } else { Ok(()) }
}

pub(super) fn cut_off(needed: u64, len: u64) -> StageFailure {
    let message = format!("the file is cut off: its headers speak of {needed} bytes at least, it has {len}");
    StageFailure::new(Cause::CutOff, message)
}

pub(super) fn damaged(error: object::Error) -> StageFailure {
    StageFailure::new(Cause::Damaged, "the library's headers contradict each other").because(error)
}

fn bad(what: &str) -> StageFailure {
    StageFailure::new(Cause::Damaged, format!("the library is damaged: {what} leads out of it"))
}
