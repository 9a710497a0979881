//! Sealing as an author meets it: what is listed, what stays, what a changed file is afterwards, and what cannot be sealed.

#![allow(clippy::unwrap_used, reason = "in a test, what is not there is the failure")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use onebit_install::{Sealed, seal};
use onebit_loader::PluginToml;
use onebit_loader::trust::{Mode, Problem, Reading, Trust, examine};

struct Plugin {
    _place: tempfile::TempDir,
    dir: PathBuf,
}

impl Plugin {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let dir = onebit_faults::install(onebit_faults::Which::NgramC, place.path()).unwrap();
        fs::create_dir(dir.join("modules")).unwrap();
        fs::write(dir.join("modules/kernel one.spv"), "words").unwrap();
        Self { _place: place, dir }
    }

    fn toml(&self) -> String {
        fs::read_to_string(self.dir.join("plugin.toml")).unwrap()
    }

    fn listed(&self) -> Vec<String> {
        PluginToml::parse(&self.toml()).unwrap().sha256.into_keys().collect()
    }

    /// What is wrong with its hashes where proof is asked for.
    fn wrong(&self) -> Vec<Problem> {
        let trust = Trust { mode: Mode::Strict, keys: Vec::new() };
        let of_hashes = |problem: &Problem| {
            matches!(problem, Problem::NoHashes | Problem::Unlisted { .. } | Problem::ListedMissing { .. } | Problem::Altered { .. })
        };
        examine(&self.dir, &trust, Reading::Everything).problems.into_iter().filter(of_hashes).collect()
    }
}

#[test]
fn every_file_is_listed_and_a_changed_one_is_noticed() {
    let plugin = Plugin::new();
    assert_eq!(plugin.wrong(), [Problem::NoHashes]);
    assert_eq!(seal(&plugin.dir).unwrap(), Sealed { files: 2, changed: true, signed: false });
    assert_eq!(plugin.listed(), ["libngram_c.so", "modules/kernel one.spv"]);
    assert_eq!(plugin.wrong(), []);

    fs::write(plugin.dir.join("modules/kernel one.spv"), "other words").unwrap();
    assert!(matches!(plugin.wrong().as_slice(), [Problem::Altered { name, .. }] if name == "modules/kernel one.spv"));
    fs::write(plugin.dir.join("NEW"), "").unwrap();
    assert_eq!(seal(&plugin.dir).unwrap().files, 3);
    assert_eq!(plugin.wrong(), []);

    fs::remove_file(plugin.dir.join("NEW")).unwrap();
    assert_eq!(seal(&plugin.dir).unwrap(), Sealed { files: 2, changed: true, signed: false });
    assert_eq!(seal(&plugin.dir).unwrap(), Sealed { files: 2, changed: false, signed: false }, "nothing is left to say");
}

#[test]
fn what_the_author_wrote_stays_and_the_file_keeps_its_mode() {
    let plugin = Plugin::new();
    let path = plugin.dir.join("plugin.toml");
    let own =
        format!("# Mine.\n{}\n# Of all.\n[sha256]\n\"gone\" = \"{}\"\n\n[needs] # little\ncache_mib = 1\n", plugin.toml(), "0".repeat(64));
    fs::write(&path, &own).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    seal(&plugin.dir).unwrap();
    let sealed = plugin.toml();
    let without = |text: &str| text.lines().filter(|line| !line.starts_with(['"', 'l'])).map(String::from).collect::<Vec<_>>();
    assert_eq!(without(&sealed), without(&own));
    assert_eq!(plugin.listed(), ["libngram_c.so", "modules/kernel one.spv"]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_signature_is_not_listed_and_is_told_of() {
    let plugin = Plugin::new();
    fs::write(plugin.dir.join("plugin.toml.minisig"), "of before").unwrap();
    assert_eq!(seal(&plugin.dir).unwrap(), Sealed { files: 2, changed: true, signed: true });
    assert_eq!(fs::read_to_string(plugin.dir.join("plugin.toml.minisig")).unwrap(), "of before");
}

#[test]
fn what_no_plugin_may_hold_is_not_sealed_and_nothing_changes() {
    let plugin = Plugin::new();
    let before = plugin.toml();
    let refused = |words: &str| {
        let error = seal(&plugin.dir).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(plugin.toml(), before);
    };
    let link = plugin.dir.join("link");
    symlink("modules/kernel one.spv", &link).unwrap();
    assert_eq!(onebit_loader::trust::hashes(&plugin.dir).unwrap().len(), 2, "a link inside the folder needs no hash");
    fs::remove_file(&link).unwrap();
    symlink("/etc/hostname", &link).unwrap();
    refused("link leads to /etc/hostname");
    fs::remove_file(&link).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &link, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    refused("link is none");
}

#[test]
fn a_plugin_toml_that_no_host_reads_is_not_sealed() {
    let plugin = Plugin::new();
    let path = plugin.dir.join("plugin.toml");
    let good = plugin.toml();
    for (wrong, words) in
        [("schema = ", "line 1"), ("schema = 2\n", "missing field"), (good.replace("schema = 1", "schema = 7").as_str(), "schema 1")]
    {
        fs::write(&path, wrong).unwrap();
        let error = seal(&plugin.dir).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(plugin.toml(), wrong);
    }
    fs::remove_file(&path).unwrap();
    assert!(seal(&plugin.dir).unwrap_err().to_string().contains("cannot read"));
}

#[test]
fn a_list_that_hosts_would_not_read_is_refused_before_it_is_written() {
    let plugin = Plugin::new();
    let before = plugin.toml();
    for number in 0..900 {
        fs::write(plugin.dir.join(format!("modules/{number:04}")), "").unwrap();
    }
    let error = seal(&plugin.dir).unwrap_err().to_string();
    assert!(error.contains("902 files, more than its 65536 bytes can name"), "{error}");
    assert_eq!(plugin.toml(), before);
}
