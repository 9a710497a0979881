//! A shared library of a stranger, before anything of it is loaded.

use onebit_loader::fuzzing;

use crate::{law, note};

/// What stands after the end of the file changes nothing, and nothing that is read is larger than its limit.
pub fn run(bytes: &[u8]) {
    // Nothing but its bounds is promised of the names: they are shown with what a terminal would obey taken out.
    if let Err(damage) = fuzzing::exports(bytes) {
        law::is_a_sentence(&damage);
    }
    match fuzzing::elf(bytes) {
        Ok(facts) => {
            let longer = [bytes, &[0; 64]].concat();
            assert_eq!(fuzzing::elf(&longer).as_ref(), Ok(&facts), "the end of the file was part of the answer");
            if let Some(text) = &facts.note {
                assert!(text.len() <= onebit_plugin_api::ONEBIT_NOTE_MAX);
                note::run(text);
            }
        }
        Err(damage) => law::is_a_sentence(&damage),
    }
}
