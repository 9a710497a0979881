//! The names that a library exports, read from the tables by which the dynamic linker itself finds them: section headers may be stripped or lie.
//!
//! Every count and offset is the file's word, so each has a limit, and each read is checked against the file's length.

use std::fs::File;
use std::path::Path;

use object::elf::{self, Sym64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, Sym};
use object::read::{ReadCache, ReadCacheOps, ReadRef, StringTable};
use object::{LittleEndian, U32};

use crate::elf::{Header, file_offset};

/// Symbols of one library. Chromium, all of it, has fewer.
const MAX_SYMBOLS: u32 = 1 << 20;
/// Buckets and filter words of a hash table.
const MAX_HASH: u32 = 1 << 20;

/// Bytes of all names together: each of many symbols may point to the same long name.
const MAX_NAMES: usize = 64 << 20;

/// Reads them, in the order of the table. The error is a part of a sentence.
pub(super) fn read(path: &Path) -> Result<Vec<String>, String> {
    let cache = ReadCache::new(File::open(path).map_err(|error| error.to_string())?);
    parse(&cache)
}

/// As [`read`], from anything that can be read at any place.
pub(crate) fn parse<R: ReadCacheOps>(data: &ReadCache<R>) -> Result<Vec<String>, String> {
    let text = |error: object::read::Error| error.to_string();
    let endian = LittleEndian;
    let header = Header::parse(data).map_err(text)?;
    let segments = header.program_headers(endian, data).map_err(text)?;
    let Some(dynamic) = segments.iter().find_map(|segment| segment.dynamic(endian, data).transpose()) else {
        return Ok(Vec::new());
    };
    let dynamic = dynamic.map_err(text)?;
    let value = |tag| dynamic.iter().take_while(|entry| entry.d_tag(endian) != elf::DT_NULL).find(|entry| entry.d_tag(endian) == tag);
    let place = |tag| value(tag).and_then(|entry| file_offset(segments, entry.d_val(endian)));
    let (Some(symbols), Some(strings), Some(size)) = (place(elf::DT_SYMTAB), place(elf::DT_STRTAB), value(elf::DT_STRSZ)) else {
        return Ok(Vec::new());
    };
    let count = match (place(elf::DT_GNU_HASH), place(elf::DT_HASH)) {
        (Some(hash), _) => count_by_gnu_hash(data, hash)?,
        // nbucket, nchain: there is one link of a chain for each symbol.
        (None, Some(hash)) => words(data, hash, 2)?[1].get(endian),
        // Without a hash table nothing can be found by name.
        (None, None) => 0,
    };
    if count > MAX_SYMBOLS {
        return Err(format!("it tells of {count} symbols, at most {MAX_SYMBOLS} are read"));
    }
    let table = data.read_slice_at::<Sym64<LittleEndian>>(symbols, count as usize).map_err(|()| "it ends before its symbols do")?;
    let strings = StringTable::new(data, strings, strings.checked_add(size.d_val(endian)).ok_or("its names have no end")?);
    let exported = |symbol: &&Sym64<LittleEndian>| {
        let bound = [elf::STB_GLOBAL, elf::STB_WEAK, elf::STB_GNU_UNIQUE].contains(&symbol.st_bind());
        let seen = [elf::STV_DEFAULT, elf::STV_PROTECTED].contains(&symbol.st_visibility());
        symbol.st_shndx(endian) != elf::SHN_UNDEF && bound && seen
    };
    let mut left = MAX_NAMES;
    let name = |symbol: &Sym64<LittleEndian>| {
        let name = strings.get(symbol.st_name(endian)).map_err(|()| "a name lies outside its string table".to_owned())?;
        left = left.checked_sub(name.len()).ok_or_else(|| format!("its names have more than {MAX_NAMES} bytes"))?;
        Ok(String::from_utf8_lossy(name).into_owned())
    };
    table.iter().filter(exported).map(name).collect()
}

/// The table knows no count: the last symbol is the end of the chain that begins last.
fn count_by_gnu_hash<R: ReadCacheOps>(data: &ReadCache<R>, hash: u64) -> Result<u32, String> {
    let number = |word: &U32<LittleEndian>| word.get(LittleEndian);
    let head = words(data, hash, 4)?;
    let [buckets, first, filter] = [number(&head[0]), number(&head[1]), number(&head[2])];
    if buckets > MAX_HASH || filter > MAX_HASH {
        return Err(format!("its hash table has {buckets} buckets and {filter} words, at most {MAX_HASH} are read"));
    }
    // A word of the filter is as long as a pointer.
    let start = hash + 16 + u64::from(filter) * 8;
    let last = words(data, start, buckets as usize)?.iter().map(number).max().unwrap_or(0);
    if last < first {
        return Ok(first);
    }
    let chains = start + u64::from(buckets) * 4;
    for symbol in last..last.saturating_add(MAX_SYMBOLS) {
        let link = words(data, chains + u64::from(symbol - first) * 4, 1)?;
        if number(&link[0]) & 1 != 0 {
            return Ok(symbol.saturating_add(1));
        }
    }
    Err("a chain of its hash table has no end".into())
}

fn words<R: ReadCacheOps>(data: &ReadCache<R>, offset: u64, count: usize) -> Result<&[U32<LittleEndian>], String> {
    data.read_slice_at(offset, count).map_err(|()| "it ends before its hash table does".into())
}
