//! `/etc/ld.so.cache`: which file the dynamic linker takes for a library's name.
//!
//! Read here instead of through `ldconfig -p`, which is outside `PATH` for most users. Only the current layout (glibc 2.32 and later write
//! nothing else) is known; without it the default folders remain, and that finds all but what `/etc/ld.so.conf.d` adds.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;
/// Real ones have some 100 KiB.
const MAX_CACHE: u64 = 16 << 20;

/// Name → files, in the linker's order. Empty where there is no cache that can be read.
pub(crate) fn read() -> HashMap<String, Vec<PathBuf>> {
    let mut bytes = Vec::new();
    let read = File::open("/etc/ld.so.cache").and_then(|file| file.take(MAX_CACHE).read_to_end(&mut bytes));
    if read.is_err() { HashMap::new() } else { parse(&bytes) }
}

fn parse(bytes: &[u8]) -> HashMap<String, Vec<PathBuf>> {
    let mut names: HashMap<String, Vec<PathBuf>> = HashMap::new();
    if !bytes.starts_with(MAGIC) {
        return names;
    }
    let number = |at: usize| -> Option<usize> {
        let four = bytes.get(at..at.checked_add(4)?)?;
        usize::try_from(u32::from_ne_bytes(four.try_into().ok()?)).ok()
    };
    let text = |at: usize| -> Option<&str> {
        let rest = bytes.get(at..)?;
        core::str::from_utf8(&rest[..rest.iter().position(|byte| *byte == 0)?]).ok()
    };
    let count = number(MAGIC.len()).unwrap_or(0).min(bytes.len() / ENTRY);
    for index in 0..count {
        let entry = HEADER + index * ENTRY;
        let pair = number(entry + 4).and_then(text).zip(number(entry + 8).and_then(text));
        if let Some((name, path)) = pair {
            names.entry(name.to_owned()).or_default().push(PathBuf::from(path));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_read_and_a_damaged_one_does_no_harm() {
        let strings = b"liba.so.1\0/opt/liba.so.1\0";
        let start = (HEADER + ENTRY) as u32;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(1u32.to_ne_bytes());
        bytes.resize(HEADER, 0);
        for value in [0x303u32, start, start + 10, 0, 0, 0] {
            bytes.extend(value.to_ne_bytes());
        }
        bytes.extend(strings);
        assert_eq!(parse(&bytes)["liba.so.1"], [PathBuf::from("/opt/liba.so.1")]);
        for cut in 0..bytes.len() {
            parse(&bytes[..cut]);
        }
        bytes[HEADER + 4..HEADER + 8].fill(0xff);
        assert!(parse(&bytes).is_empty());
    }
}
