//! Everything that `plugin check` can find: one table. Codes are for programs and never change; sentences are for people and may.

use serde::{Serialize, Serializer};

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// The plugin is loaded, and may harm or fail.
    Warning,
    /// The plugin is refused, or can be used by somebody to harm.
    Error,
}

impl Severity {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One kind of finding.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// `P021`.
    pub number: &'static str,
    /// `exported-symbols`.
    pub id: &'static str,
    /// How serious.
    pub severity: Severity,
    /// What it means, and why it matters.
    pub meaning: &'static str,
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id)
    }
}

macro_rules! codes {
    ($($name:ident = $number:literal $id:literal $severity:ident $meaning:literal;)*) => {
        $(
            #[doc = $meaning]
            pub static $name: Code = Code { number: $number, id: $id, severity: Severity::$severity, meaning: $meaning };
        )*

        /// All of them, by number.
        pub static TABLE: &[&Code] = &[$(&$name),*];
    };
}

codes! {
    FOLDER = "P001" "folder" Error "The folder cannot be read, or is none.";
    PLUGIN_TOML = "P002" "plugin-toml" Error "plugin.toml is missing, is no TOML of schema 1, has an unknown key, or an option with a default of another kind.";
    LIBRARY = "P003" "library" Error "The library is missing, lies outside of the folder, or is no 64-bit ELF shared object.";
    MACHINE = "P004" "machine" Error "The library was built for another processor.";
    NOTE = "P005" "note" Error "The library has no onebit note, more than one, or one that is damaged.";
    ABI = "P006" "abi" Error "The ABI is one that this host does not speak, or note and plugin.toml name two.";
    TARGET = "P007" "target" Error "The library was built for another system or C library.";
    PANIC = "P008" "panic" Error "A Rust plugin was built with panic = \"abort\": a bug in it would end the process instead of one call.";
    ID = "P009" "id" Error "Note and plugin.toml name two ids.";
    VERSION = "P010" "version" Error "Note and plugin.toml name two versions.";
    CAPABILITIES = "P011" "capabilities" Error "Note and plugin.toml list different capabilities.";
    NEEDED_LIBRARY = "P012" "needed-library" Error "A shared library that is needed is nowhere the linker looks.";
    NEEDED_LIST = "P013" "needed-list" Error "The list of needed libraries has no end that anybody would wait for.";
    DAMAGED_BESIDE = "P014" "damaged-beside" Warning "A library beside the plugin's cannot be read, so nothing is known of it.";

    DOOR_MISSING = "P020" "door-missing" Error "The note promises an entry that the library does not export.";
    EXPORTED_SYMBOLS = "P021" "exported-symbols" Warning "The library exports more than its entry. Two libraries with one name in a process take each other's functions: crashes that nobody can explain.";
    TEXT_RELOCATIONS = "P022" "text-relocations" Error "Code is changed while it is loaded, so it must be writable for a moment; hardened systems refuse that.";
    EXECUTABLE_STACK = "P023" "executable-stack" Error "The library asks for a stack that can be run. New C libraries refuse to load it; old ones make every stack of the process so.";
    WRITABLE_CODE = "P024" "writable-code" Error "A segment can be written and run: whoever finds a way to write can run what they wrote.";
    RUNPATH_RELATIVE = "P025" "runpath-relative" Error "Libraries are looked for in a folder that depends on where the host was started.";
    RUNPATH_WRITABLE = "P026" "runpath-writable" Error "Libraries are looked for in a folder that others can write to, or make.";
    RUNPATH_ABSOLUTE = "P027" "runpath-absolute" Warning "Libraries are looked for in a folder of the machine that built the plugin.";
    RUNPATH_OUTSIDE = "P028" "runpath-outside" Warning "Libraries are looked for beside the plugin's folder, in what does not belong to it.";
    NO_RELRO = "P029" "no-relro" Note "The linker's tables stay writable after the load.";
    LAZY_BINDING = "P030" "lazy-binding" Note "Symbols are bound when they are first used, so a missing one is not met at the load, and part of the linker's tables stays writable.";
    DEBUG_INFO = "P031" "debug-info" Note "The library holds debug information: more to ship and to hash, and paths of the machine that built it.";
    LARGE = "P032" "large" Note "The library is larger than 256 MiB; hashing it costs time at the first start.";

    CAPABILITY_ID = "P040" "capability-id" Error "A capability is not of the form name.name/number.";
    CAPABILITY_UNKNOWN = "P041" "capability-unknown" Warning "A capability under onebit. that this host does not know; others name theirs by a domain turned round.";
    LICENCE_MISSING = "P042" "licence-missing" Warning "Nothing says under which licence the plugin may be used.";
    LICENCE_DIFFERS = "P043" "licence-differs" Warning "Note and plugin.toml name two licences.";
    OPTION_TWICE = "P044" "option-twice" Error "plugin.toml declares an option twice.";
    FOLDER_NAME = "P045" "folder-name" Warning "The folder is not named after the plugin's id.";

    FOREIGN_OWNER = "P050" "foreign-owner" Error "Somebody owns a file, or a folder on the way to it, who could not run code as this user otherwise.";
    WORLD_WRITABLE = "P051" "world-writable" Error "Every user of the machine may change a file, or a folder on the way to it.";
    GROUP_WRITABLE = "P052" "group-writable" Warning "A group may change a file, or a folder on the way to it.";
    SHARED_PARENT = "P053" "shared-parent" Note "It lies below a folder in which everybody may make entries, such as /tmp.";
    LEADS_OUT = "P054" "leads-out" Error "A link leads out of the folder. A warning, if nothing loads it.";
    NOT_REGULAR = "P055" "not-regular" Error "A pipe, a socket or a device lies in the folder. A warning, if nothing loads it.";
    UNREADABLE = "P056" "unreadable" Error "A file or a folder on the way to it cannot be looked at.";
    CROWDED = "P057" "crowded" Warning "The folder holds more files than are looked at.";
    NO_HASHES = "P058" "no-hashes" Note "plugin.toml lists no sha256, so nobody can tell whether a file was altered.";
    UNLISTED = "P059" "unlisted" Warning "A file is not in the list of sha256.";
    LISTED_MISSING = "P060" "listed-missing" Error "A file in the list of sha256 is not there.";
    ALTERED = "P061" "altered" Error "A file has another sha256 than the listed one.";
    UNSIGNED = "P062" "unsigned" Note "plugin.toml has no signature.";
    SIGNATURE_DAMAGED = "P063" "signature-damaged" Error "The file of the signature holds none.";
    SIGNATURE_WRONG = "P064" "signature-wrong" Error "The signature does not fit plugin.toml.";
    KEY_UNKNOWN = "P065" "key-unknown" Warning "The signature is by a key that nobody here trusts.";
    KEY_EXPIRED = "P066" "key-expired" Warning "The signature is by a key that was trusted up to a day in the past.";
    KEY_UNUSABLE = "P067" "key-unusable" Warning "A trusted key of this machine cannot be read, or others could replace it.";
}

/// `docs/plugin-check.md`.
pub fn page() -> String {
    let mut text = String::from(
        "# What `onebit-host plugin check` finds\n\n\
         <!-- Made by `onebit-host docs plugin-check`; change host/loader/src/check/codes.rs instead. -->\n\n\
         The check reads files; nothing of the plugin runs. Scripts can rely on codes and ids; `--json` gives both. An error ends the check with code \
         1; a warning does with `--strict`. With `trust.mode = \"strict\"`, what is not proven (from P050 on) is an error.\n\n\
         | code | id | severity | what it means |\n|---|---|---|---|\n",
    );
    for code in TABLE {
        let Code { number, id, severity, meaning } = code;
        text.push_str(&format!("| {number} | `{id}` | {} | {meaning} |\n", severity.word()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_and_ids_are_short_words_that_occur_once() {
        for pair in TABLE.windows(2) {
            assert!(pair[0].number < pair[1].number, "{}", pair[1].number);
        }
        for (at, code) in TABLE.iter().enumerate() {
            assert!(code.id.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", code.id);
            assert!(TABLE[..at].iter().all(|other| other.id != code.id), "{}", code.id);
        }
    }
}
