//! What `plugin.toml` and the note say, beyond what a load compares.

use std::collections::HashSet;

use onebit_plugin_api as abi;

use super::{Findings, codes};
use crate::{Note, PluginToml};

/// Capabilities of this ABI.
const KNOWN: &[&str] = &[abi::ONEBIT_FORWARD_1, abi::ONEBIT_TOKENIZE_1, abi::ONEBIT_EMBED_1];

pub(super) fn judge(toml: &PluginToml, note: Option<&Note>, findings: &mut Findings) {
    for id in &toml.capabilities {
        if !well_formed(id) {
            findings.add(
                &codes::CAPABILITY_ID,
                format!("plugin.toml lists the capability {id:?}"),
                "write it as onebit.forward/1, or your own as org.example.thing/1",
            );
        } else if id.starts_with("onebit.") && !KNOWN.contains(&id.as_str()) {
            findings.add(
                &codes::CAPABILITY_UNKNOWN,
                format!("plugin.toml lists {id}; this host knows {}", KNOWN.join(", ")),
                "correct its name, or install a newer host",
            );
        }
    }
    let licence = toml.licence.trim();
    if licence.is_empty() {
        findings.add(&codes::LICENCE_MISSING, "licence in plugin.toml is empty", "write an SPDX expression, such as MIT OR Apache-2.0");
    }
    if let Some(note) = note
        && note.licence.trim() != licence
    {
        let sentence = format!("plugin.toml says {licence:?}, the note says {:?}", note.licence);
        findings.add(&codes::LICENCE_DIFFERS, sentence, "write the same into both");
    }
    let mut seen = HashSet::new();
    for option in toml.options.iter().filter(|option| !seen.insert(option.name.as_str())) {
        findings.add(&codes::OPTION_TWICE, format!("plugin.toml declares the option {} twice", option.name), "take one away");
    }
}

/// `name.name/1`: at least two names of lower-case letters, digits and `-`, and a number from 1.
fn well_formed(id: &str) -> bool {
    let word = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let Some((name, number)) = id.split_once('/') else { return false };
    name.contains('.') && name.split('.').all(word) && !number.starts_with('0') && number.parse::<u32>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::well_formed;

    #[test]
    fn a_capability_is_names_and_a_number() {
        for good in ["onebit.forward/1", "org.example.my-thing/12"] {
            assert!(well_formed(good), "{good}");
        }
        for bad in [
            "",
            "forward/1",
            "onebit.forward",
            "onebit.forward/",
            "onebit.forward/0",
            "onebit.forward/01",
            "onebit..x/1",
            "Onebit.x/1",
            "a.b/1/2",
        ] {
            assert!(!well_formed(bad), "{bad}");
        }
    }
}
