//! What the loader reads from a shared library without loading it: its machine, its notes, what it needs and where it looks for it.
//!
//! Only program headers are used: they are what the dynamic linker itself goes by, and they survive every kind of stripping. Nothing in
//! the file is believed: counts and sizes have limits, and each read is checked against the file's length.

use std::fs::File;
use std::path::Path;

use object::LittleEndian;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadCacheOps, StringTable};

use onebit_plugin_api as abi;

/// Program headers a library may have. Real ones have about ten.
const MAX_SEGMENTS: u16 = 128;
/// Section headers that are looked through for debug information. Real libraries have some thirty.
const MAX_SECTIONS: u16 = 1024;
/// Bytes of a note or dynamic segment. Real ones have a few thousand.
const MAX_SEGMENT: u64 = 1 << 20;
/// Libraries one library may need.
const MAX_NEEDED: usize = 256;

/// `PF_W`, `PF_X`.
const WRITE: u32 = 2;
pub(crate) const RUN: u32 = 1;

/// The facts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ElfFacts {
    /// `e_machine`.
    pub machine: u16,
    /// Text of the first onebit note.
    pub note: Option<Vec<u8>>,
    /// How many onebit notes there are.
    pub notes: usize,
    /// Flags of `PT_GNU_STACK`; a linker takes its absence for an executable stack.
    pub stack: Option<u32>,
    /// A segment that may be written and run.
    pub writable_code: bool,
    /// `PT_GNU_RELRO`: the linker's tables become read-only.
    pub relro: bool,
    /// All symbols are bound at the load, so that with `relro` nothing of those tables stays writable.
    pub bind_now: bool,
    /// Relocations in code, for which it must become writable.
    pub text_relocations: bool,
    /// Debug information, if section headers tell of it.
    pub debug_info: bool,
    /// Where linkers are told to look, as written: `RUNPATH` or `RPATH`, and the text.
    pub search: Vec<(&'static str, String)>,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// `DT_NEEDED`, in order.
    pub needed: Vec<String>,
    /// `DT_RUNPATH`, split.
    pub runpath: Option<Vec<String>>,
    /// `DT_RPATH`, split.
    pub rpath: Vec<String>,
}

/// Name of an `e_machine`, for people.
pub(crate) fn machine_name(machine: u16) -> String {
    match elf::Machine(machine) {
        elf::EM_X86_64 => "x86_64".into(),
        elf::EM_AARCH64 => "aarch64".into(),
        elf::EM_RISCV => "riscv64".into(),
        elf::EM_386 => "i686".into(),
        elf::EM_ARM => "arm".into(),
        elf::EM_PPC64 => "powerpc64".into(),
        elf::EM_S390 => "s390x".into(),
        elf::EM_LOONGARCH => "loongarch64".into(),
        _ => format!("machine {machine}"),
    }
}

/// `e_machine` of this host's own architecture.
pub(crate) fn own_machine() -> u16 {
    let machine = match std::env::consts::ARCH {
        "x86_64" => elf::EM_X86_64,
        "aarch64" => elf::EM_AARCH64,
        "riscv64" => elf::EM_RISCV,
        "loongarch64" => elf::EM_LOONGARCH,
        "powerpc64" => elf::EM_PPC64,
        "s390x" => elf::EM_S390,
        _ => elf::EM_NONE,
    };
    machine.0
}

/// Reads the facts; the error is one sentence about the file's damage.
pub(crate) fn read(path: &Path) -> Result<ElfFacts, String> {
    read_open(File::open(path).map_err(|error| format!("cannot be opened: {error}"))?)
}

/// Reads them from an open file; its position does not matter.
pub(crate) fn read_open(file: File) -> Result<ElfFacts, String> {
    let cache = ReadCache::new(file);
    parse(&cache).map_err(|error| format!("is no usable shared library: {error}"))
}

pub(crate) type Header = FileHeader64<LittleEndian>;

/// As [`read`], from anything that can be read at any place.
pub(crate) fn parse<R: ReadCacheOps>(data: &ReadCache<R>) -> Result<ElfFacts, String> {
    let text = |error: object::read::Error| error.to_string();
    let header = Header::parse(data).map_err(text)?;
    let endian = header.endian().map_err(text)?;
    if header.e_type(endian) != elf::ET_DYN {
        return Err("it is an ELF file, but not a shared object".into());
    }
    if header.e_phnum(endian) > MAX_SEGMENTS {
        return Err(format!("{} program headers, at most {MAX_SEGMENTS} are read", header.e_phnum(endian)));
    }
    let segments = header.program_headers(endian, data).map_err(text)?;
    let mut facts = ElfFacts { machine: header.e_machine(endian).0, ..ElfFacts::default() };
    for segment in segments {
        let kind = segment.p_type(endian);
        let flags = segment.p_flags(endian).0;
        match kind {
            elf::PT_GNU_STACK => facts.stack = Some(flags),
            elf::PT_GNU_RELRO => facts.relro = true,
            elf::PT_LOAD => facts.writable_code |= flags & WRITE != 0 && flags & RUN != 0,
            _ => {}
        }
        if kind != elf::PT_NOTE && kind != elf::PT_DYNAMIC {
            continue;
        }
        if segment.p_filesz(endian) > MAX_SEGMENT {
            return Err(format!("a segment of {} bytes where at most {MAX_SEGMENT} are read", segment.p_filesz(endian)));
        }
        if kind == elf::PT_NOTE {
            read_notes(segment, data, &mut facts)?;
        } else {
            read_dynamic(segment, segments, data, &mut facts)?;
        }
    }
    facts.debug_info = has_debug_info(header, data);
    Ok(facts)
}

/// Section headers say nothing about a load: without them, or with damaged ones, the answer is no.
fn has_debug_info<R: ReadCacheOps>(header: &Header, data: &ReadCache<R>) -> bool {
    let endian = LittleEndian;
    if header.e_shnum(endian) > MAX_SECTIONS {
        return false;
    }
    header.sections(endian, data).is_ok_and(|sections| {
        sections.iter().any(|section| sections.section_name(endian, section).is_ok_and(|name| name.starts_with(b".debug_info")))
    })
}

fn read_notes<R: ReadCacheOps>(segment: &ProgramHeader64<LittleEndian>, data: &ReadCache<R>, facts: &mut ElfFacts) -> Result<(), String> {
    let text = |error: object::read::Error| error.to_string();
    let Some(mut notes) = segment.notes(LittleEndian, data).map_err(text)? else {
        return Ok(());
    };
    while let Some(note) = notes.next().map_err(text)? {
        if note.name() != b"onebit" || note.n_type(LittleEndian).0 != abi::ONEBIT_NOTE_TYPE {
            continue;
        }
        if note.desc().len() > abi::ONEBIT_NOTE_MAX {
            return Err(format!("the onebit note has {} bytes, at most {} are read", note.desc().len(), abi::ONEBIT_NOTE_MAX));
        }
        facts.notes += 1;
        facts.note.get_or_insert_with(|| note.desc().to_vec());
    }
    Ok(())
}

fn read_dynamic<R: ReadCacheOps>(
    segment: &ProgramHeader64<LittleEndian>,
    segments: &[ProgramHeader64<LittleEndian>],
    data: &ReadCache<R>,
    facts: &mut ElfFacts,
) -> Result<(), String> {
    let endian = LittleEndian;
    let Some(entries) = segment.dynamic(endian, data).map_err(|error| error.to_string())? else {
        return Ok(());
    };
    let entries = || entries.iter().take_while(|entry| entry.d_tag(endian) != elf::DT_NULL);
    let value = |tag| entries().find(|entry| entry.d_tag(endian) == tag).map(|entry| entry.d_val(endian));
    let (Some(address), Some(size)) = (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) else {
        return Ok(());
    };
    let start = file_offset(segments, address).ok_or("its string table lies in no segment")?;
    let end = start.checked_add(size).ok_or("its string table has no end")?;
    let strings = StringTable::new(data, start, end);
    let string = |offset: u64| -> Result<String, String> {
        let bytes = u32::try_from(offset).ok().and_then(|offset| strings.get(offset).ok()).ok_or("a name lies outside its string table")?;
        String::from_utf8(bytes.to_vec()).map_err(|_| "a name is not UTF-8".to_owned())
    };
    let split = |paths: String| paths.split(':').filter(|path| !path.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    for entry in entries() {
        match entry.d_tag(endian) {
            elf::DT_NEEDED if facts.needed.len() == MAX_NEEDED => return Err(format!("it needs more than {MAX_NEEDED} libraries")),
            elf::DT_NEEDED => facts.needed.push(string(entry.d_val(endian))?),
            elf::DT_SONAME => facts.soname = Some(string(entry.d_val(endian))?),
            elf::DT_RUNPATH => {
                facts.search.push(("RUNPATH", string(entry.d_val(endian))?));
                facts.runpath = Some(split(string(entry.d_val(endian))?));
            }
            elf::DT_RPATH => {
                facts.search.push(("RPATH", string(entry.d_val(endian))?));
                facts.rpath = split(string(entry.d_val(endian))?);
            }
            elf::DT_TEXTREL => facts.text_relocations = true,
            elf::DT_BIND_NOW => facts.bind_now = true,
            elf::DT_FLAGS => {
                facts.text_relocations |= entry.d_val(endian) & elf::DF_TEXTREL.0 != 0;
                facts.bind_now |= entry.d_val(endian) & elf::DF_BIND_NOW.0 != 0;
            }
            elf::DT_FLAGS_1 => facts.bind_now |= entry.d_val(endian) & elf::DF_1_NOW.0 != 0,
            _ => {}
        }
    }
    Ok(())
}

/// Where in the file the byte at an address lies.
pub(crate) fn file_offset(segments: &[ProgramHeader64<LittleEndian>], address: u64) -> Option<u64> {
    let endian = LittleEndian;
    segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD).find_map(|segment| {
        let within = address.checked_sub(segment.p_vaddr(endian))?;
        (within < segment.p_filesz(endian)).then(|| segment.p_offset(endian).checked_add(within))?
    })
}
