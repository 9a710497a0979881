//! `plugin.toml` of a stranger.

use onebit_loader::PluginToml;

use crate::law;

/// A file that was understood says the same when it is written again.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match PluginToml::parse(text) {
        Ok(parsed) => {
            let written = toml::to_string(&parsed).expect("what was read can be written");
            assert_eq!(PluginToml::parse(&written).as_ref(), Ok(&parsed), "{written}");
        }
        Err(error) => law::is_a_sentence(&error),
    }
}
