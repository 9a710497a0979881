//! The note of a plugin.

use onebit_loader::Note;

use crate::law;

/// A note that was understood says the same when it is written again.
pub fn run(bytes: &[u8]) {
    match Note::parse(bytes) {
        Ok(note) => assert_eq!(Note::parse(written(&note).as_bytes()).as_ref(), Ok(&note)),
        Err(error) => law::is_a_sentence(&error.to_string()),
    }
}

fn written(note: &Note) -> String {
    let Note { abi_major, abi_min_minor, abi_built_minor, id, version, capabilities, target, panic, licence, doors } = note;
    format!(
        "note=1\nabi_major={abi_major}\nabi_min_minor={abi_min_minor}\nabi_built_minor={abi_built_minor}\nid={id}\nversion={version}\n\
         capabilities={}\ntarget={target}\npanic={panic}\nlicence={licence}\ndoors={}\n",
        capabilities.join(","),
        doors.join(",")
    )
}
