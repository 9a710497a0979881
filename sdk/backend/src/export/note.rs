//! The ELF note, built while compiling: a host reads it from the file, so nothing of it may need code to run.

use onebit_plugin_api as abi;

/// What `export_plugin!` knows of a plugin.
#[derive(Debug, Clone, Copy)]
pub struct Meta {
    /// Plugin id.
    pub id: &'static str,
    /// Semantic version.
    pub version: &'static str,
    /// Capability ids.
    pub capabilities: &'static [&'static str],
    /// SPDX expression.
    pub licence: &'static str,
    /// Whether panics unwind, so that the guard can catch them.
    pub panic_unwinds: bool,
}

/// The lowest minor of a host that this SDK can live with.
pub(crate) const MIN_MINOR: u32 = 0;

/// The section's content: header, owner, text (padded with zeros to a multiple of 4).
#[repr(C, align(4))]
#[derive(Debug, Clone, Copy)]
pub struct Note<const N: usize> {
    owner_size: u32,
    text_size: u32,
    kind: u32,
    owner: [u8; 8],
    text: [u8; N],
}

struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    const fn push(&mut self, text: &str) {
        let text = text.as_bytes();
        let mut i = 0;
        while i < text.len() {
            assert!(text[i] != b'\n' && text[i] != 0, "the note's values must not hold line ends or NUL");
            self.put(text[i]);
            i += 1;
        }
    }

    const fn put(&mut self, byte: u8) {
        assert!(self.len < N, "the note is longer than ONEBIT_NOTE_MAX");
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    const fn number(&mut self, value: u32) {
        if value >= 10 {
            self.number(value / 10);
        }
        self.put(b'0' + (value % 10) as u8);
    }

    const fn line(&mut self, key: &str, value: &str) {
        assert!(!value.is_empty(), "id, version, licence and target must not be empty");
        self.push(key);
        self.put(b'=');
        self.push(value);
        self.put(b'\n');
    }

    const fn line_number(&mut self, key: &str, value: u32) {
        self.push(key);
        self.put(b'=');
        self.number(value);
        self.put(b'\n');
    }

    const fn fill(meta: &Meta) -> Self {
        let mut text = Self { bytes: [0; N], len: 0 };
        text.line("note", "1");
        text.line_number("abi_major", abi::ONEBIT_ABI_MAJOR);
        text.line_number("abi_min_minor", MIN_MINOR);
        text.line_number("abi_built_minor", abi::ONEBIT_ABI_MINOR);
        text.line("id", meta.id);
        text.line("version", meta.version);
        text.push("capabilities=");
        let mut i = 0;
        while i < meta.capabilities.len() {
            if i > 0 {
                text.put(b',');
            }
            text.push(meta.capabilities[i]);
            i += 1;
        }
        text.put(b'\n');
        text.line("target", super::TARGET);
        text.line("panic", if meta.panic_unwinds { "unwind" } else { "none" });
        text.line("licence", meta.licence);
        text.line("doors", "c,rust");
        text
    }
}

/// Bytes of the note's text.
pub const fn note_size(meta: &Meta) -> usize {
    Text::<{ abi::ONEBIT_NOTE_MAX }>::fill(meta).len
}

/// The note; `N` = [`note_size`] rounded up to a multiple of 4.
pub const fn note<const N: usize>(meta: &Meta) -> Note<N> {
    let text = Text::<N>::fill(meta);
    Note { owner_size: 8, text_size: text.len as u32, kind: abi::ONEBIT_NOTE_TYPE, owner: *abi::ONEBIT_NOTE_OWNER, text: text.bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: Meta = Meta { id: "x", version: "1.2.3", capabilities: &["onebit.forward/1", "a/2"], licence: "MIT", panic_unwinds: true };

    #[test]
    fn the_note_is_made_while_compiling_and_has_no_gaps() {
        const SIZE: usize = note_size(&META);
        const NOTE: Note<{ SIZE.next_multiple_of(4) }> = note(&META);
        let text = core::str::from_utf8(&NOTE.text[..SIZE]).expect("UTF-8");
        assert!(text.starts_with("note=1\nabi_major=1\nabi_min_minor=0\n"), "{text}");
        assert!(text.contains("\ncapabilities=onebit.forward/1,a/2\n"), "{text}");
        assert!(text.ends_with("doors=c,rust\n"), "{text}");
        assert_eq!(NOTE.text_size as usize, SIZE);
        assert_eq!(size_of_val(&NOTE), 20 + SIZE.next_multiple_of(4));
    }
}
