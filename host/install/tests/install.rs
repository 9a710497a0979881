//! Installs as a stranger's folder or archive meets them: what is taken, what is refused, and that a refusal changes nothing.

#![allow(clippy::unwrap_used, reason = "in a test, what is not there is the failure")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use onebit_install::{Done, InstallError, Installed, Store, previous_version};
use onebit_loader::trust::Trust;

/// The plugin of all these tests, built once.
fn original() -> &'static Path {
    static DIR: OnceLock<tempfile::TempDir> = OnceLock::new();
    let dir = DIR.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        onebit_faults::install(onebit_faults::Which::NgramC, dir.path()).unwrap();
        dir
    });
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(|| dir.path().join("ngram-c"))
}

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn store(&self) -> Store {
        Store::new(self.plugins(), Trust { keys: Vec::new(), ..Trust::default() })
    }

    fn plugins(&self) -> PathBuf {
        self.dir.path().join("plugins")
    }

    fn plugin(&self) -> PathBuf {
        self.plugins().join("ngram-c")
    }

    /// A folder with the plugin, told apart from others by a file with this text.
    fn source(&self, text: &str) -> PathBuf {
        let dir = self.dir.path().join(format!("source-{text}"));
        fs::create_dir(&dir).unwrap();
        for file in fs::read_dir(original()).unwrap().flatten() {
            fs::copy(file.path(), dir.join(file.file_name())).unwrap();
        }
        fs::write(dir.join("CHANGES"), text).unwrap();
        dir
    }

    fn install(&self, from: &Path) -> Result<Done, InstallError> {
        self.store().install(from, &from.display().to_string())
    }

    #[track_caller]
    fn installs(&self, from: &Path) -> Installed {
        match self.install(from).unwrap_or_else(|error| panic!("{error}")) {
            Done::Installed(installed) => *installed,
            Done::AlreadyThere(_) => panic!("it was there already"),
        }
    }

    /// The text of the version in use, and of the one that is kept.
    fn versions(&self) -> (Option<String>, Option<String>) {
        let text = |dir: PathBuf| fs::read_to_string(dir.join("CHANGES")).ok();
        (text(self.plugin()), text(self.plugins().join(".previous/ngram-c")))
    }

    /// Everything in the folder of plugins that is in nobody's way. The lock stays.
    fn remains(&self) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(self.plugins()).into_iter().flatten().flatten().map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.retain(|name| name != ".lock");
        names.sort();
        names
    }
}

/// A tar archive, entry by entry.
struct Tar(tar::Builder<Vec<u8>>);

impl Tar {
    /// With the whole plugin below `prefix`.
    fn of_plugin(prefix: &str) -> Self {
        let mut tar = Self(tar::Builder::new(Vec::new()));
        for file in fs::read_dir(original()).unwrap().flatten() {
            let mode = file.metadata().unwrap().permissions().mode();
            tar.raw(
                &format!("{prefix}{}", file.file_name().to_str().unwrap()),
                tar::EntryType::Regular,
                mode,
                &fs::read(file.path()).unwrap(),
                "",
            );
        }
        tar
    }

    /// Past the builder's own checks of names.
    fn raw(&mut self, name: &str, kind: tar::EntryType, mode: u32, content: &[u8], link: &str) {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.append(&header, content).unwrap();
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }

    fn gz(self, path: &Path) {
        let mut encoder = flate2::write::GzEncoder::new(fs::File::create(path).unwrap(), flate2::Compression::fast());
        encoder.write_all(&self.bytes()).unwrap();
        encoder.finish().unwrap();
    }
}

fn zip_of_plugin(path: &Path, prefix: &str, more: &[(&str, &[u8], u32)]) {
    let mut writer = zip::ZipWriter::new(fs::File::create(path).unwrap());
    let options = |mode: u32| zip::write::SimpleFileOptions::default().unix_permissions(mode);
    for file in fs::read_dir(original()).unwrap().flatten() {
        writer.start_file(format!("{prefix}{}", file.file_name().to_str().unwrap()), options(0o644)).unwrap();
        writer.write_all(&fs::read(file.path()).unwrap()).unwrap();
    }
    for (name, content, mode) in more {
        if *mode == 0o120_777 {
            writer.add_symlink(*name, std::str::from_utf8(content).unwrap(), options(0o777)).unwrap();
        } else {
            writer.start_file(*name, options(*mode)).unwrap();
            writer.write_all(content).unwrap();
        }
    }
    writer.finish().unwrap();
}

#[test]
fn a_folder_and_every_form_of_archive_become_the_same_plugin() {
    let bench = Bench::new();
    let at = |name: &str| bench.dir.path().join(name);
    Tar::of_plugin("").gz(&at("flat.tar.gz"));
    Tar::of_plugin("ngram-c-0.1.0/").gz(&at("one-folder.bin"));
    fs::write(
        at("x.tar.zst"),
        ruzstd::encoding::compress_to_vec(&Tar::of_plugin("./").bytes()[..], ruzstd::encoding::CompressionLevel::Fastest),
    )
    .unwrap();
    zip_of_plugin(&at("x.zip"), "any-name/", &[]);
    for source in [original().to_owned(), at("flat.tar.gz"), at("one-folder.bin"), at("x.tar.zst"), at("x.zip")] {
        let fresh = Bench::new();
        let installed = fresh.installs(&source);
        assert_eq!(installed.inspection.file.dir, fresh.plugin(), "{}", source.display());
        assert_eq!(installed.record.archive_sha256.is_some(), source.is_file());
        for file in fs::read_dir(original()).unwrap().flatten() {
            assert_eq!(fs::read(fresh.plugin().join(file.file_name())).unwrap(), fs::read(file.path()).unwrap());
        }
        assert_eq!(fresh.remains(), [".installed", "ngram-c"]);
        let plugin = onebit_loader::inspect(&fresh.plugin()).unwrap_or_else(|refusal| panic!("{refusal}"));
        onebit_loader::Plugin::load(&plugin.file, onebit_loader::HostSink::tracing()).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Adds something that has no place in a plugin.
type Attack = (&'static str, fn(&mut Tar));

const ATTACKS: &[Attack] = &[
    ("../escaped", |tar| tar.raw("../escaped", tar::EntryType::Regular, 0o644, b"x", "")),
    ("/tmp/onebit-escaped", |tar| tar.raw("/tmp/onebit-escaped", tar::EntryType::Regular, 0o644, b"x", "")),
    ("lib/../../escaped", |tar| tar.raw("lib/../../escaped", tar::EntryType::Regular, 0o644, b"x", "")),
    ("a link", |tar| tar.raw("passwd", tar::EntryType::Symlink, 0o777, b"", "/etc/passwd")),
    ("a link", |tar| tar.raw("inside", tar::EntryType::Symlink, 0o777, b"", "plugin.toml")),
    ("a link", |tar| tar.raw("hard", tar::EntryType::Link, 0o644, b"", "plugin.toml")),
    ("a device", |tar| tar.raw("null", tar::EntryType::Char, 0o666, b"", "")),
    ("a device", |tar| tar.raw("disk", tar::EntryType::Block, 0o666, b"", "")),
    ("a pipe", |tar| tar.raw("pipe", tar::EntryType::Fifo, 0o666, b"", "")),
    ("rights of its owner", |tar| tar.raw("sudo", tar::EntryType::Regular, 0o4755, b"x", "")),
    ("there twice", |tar| tar.raw("plugin.toml", tar::EntryType::Regular, 0o644, b"x", "")),
    ("there twice", |tar| tar.raw("PLUGIN.toml", tar::EntryType::Regular, 0o644, b"x", "")),
    ("no file name needs", |tar| tar.raw("a\nb", tar::EntryType::Regular, 0o644, b"x", "")),
    ("more than a plugin may", |tar| (0..5000).for_each(|at| tar.raw(&format!("{at}"), tar::EntryType::Regular, 0o644, b"", ""))),
];

#[test]
fn an_archive_with_anything_but_plain_files_is_refused_whole_and_changes_nothing() {
    for (words, attack) in ATTACKS {
        let bench = Bench::new();
        bench.installs(&bench.source("good"));
        let before = bench.remains();
        let archive = bench.dir.path().join("evil.tar.gz");
        let mut tar = Tar::of_plugin("");
        attack(&mut tar);
        tar.gz(&archive);
        let error = bench.install(&archive).expect_err(words).to_string();
        assert!(error.contains(words), "{words}: {error}");
        assert_eq!((bench.versions(), bench.remains()), ((Some("good".into()), None), before), "{words}");
        assert!(!bench.dir.path().join("escaped").exists() && !bench.plugins().join("escaped").exists(), "{words}");
        assert!(!Path::new("/tmp/onebit-escaped").exists());
    }
}

#[test]
fn zip_files_are_held_to_the_same_rules() {
    for (name, content, mode, words) in [
        ("../escaped", &b"x"[..], 0o644, "does not lead into"),
        ("/escaped", b"x", 0o644, "does not lead into"),
        ("a\\b", b"x", 0o644, "no file name needs"),
        ("link", b"/etc/passwd", 0o120_777, "a link"),
    ] {
        let bench = Bench::new();
        let archive = bench.dir.path().join("evil.zip");
        zip_of_plugin(&archive, "", &[(name, content, mode)]);
        let error = bench.install(&archive).expect_err(words).to_string();
        assert!(error.contains(words), "{name}: {error}");
        assert_eq!(bench.remains(), [""; 0], "{name}");
    }
}

#[test]
fn an_archive_that_grows_without_end_stops_at_the_bound() {
    // What it says is refused before a byte is written; what it does not say is never read.
    let bench = Bench::new();
    let archive = bench.dir.path().join("bomb.tar.gz");
    let mut encoder = flate2::write::GzEncoder::new(fs::File::create(&archive).unwrap(), flate2::Compression::fast());
    let mut header = tar::Header::new_gnu();
    header.set_path("zeros").unwrap();
    header.set_mode(0o644);
    header.set_size(9 << 30);
    header.set_cksum();
    encoder.write_all(header.as_bytes()).unwrap();
    encoder.write_all(&[0; 1 << 20]).unwrap();
    encoder.finish().unwrap();
    let error = bench.install(&archive).unwrap_err().to_string();
    assert!(error.contains("too large"), "{error}");
    zip_that_lies(&archive);
    let error = bench.install(&archive).unwrap_err().to_string();
    assert!(error.contains("another size") || error.contains("damaged"), "{error}");
    assert_eq!(bench.remains(), [""; 0]);
}

/// A member of a megabyte that says it has one byte.
fn zip_that_lies(path: &Path) {
    zip_of_plugin(path, "", &[("zeros", &[0; 1 << 20], 0o644)]);
    let mut bytes = fs::read(path).unwrap();
    let size = (1_u32 << 20).to_le_bytes();
    let places: Vec<usize> = (0..bytes.len() - 4).filter(|at| bytes[*at..*at + 4] == size).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + 4].copy_from_slice(&1_u32.to_le_bytes());
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_archive_and_what_is_none_are_told_apart() {
    let bench = Bench::new();
    let archive = bench.dir.path().join("x.tar.gz");
    Tar::of_plugin("").gz(&archive);
    let bytes = fs::read(&archive).unwrap();
    for cut in [10, bytes.len() / 2] {
        fs::write(&archive, &bytes[..cut]).unwrap();
        assert!(matches!(bench.install(&archive), Err(InstallError::Damaged(_) | InstallError::NoPlugin)), "cut at {cut}");
    }
    fs::write(&archive, "<html>").unwrap();
    assert!(matches!(bench.install(&archive), Err(InstallError::NoArchive { .. })));
    let empty = bench.dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(matches!(bench.install(&empty), Err(InstallError::NoPlugin)));
    assert!(matches!(bench.install(Path::new("/dev/null")), Err(InstallError::NoArchive { .. })));
    assert_eq!(bench.remains(), [""; 0]);
}

#[test]
fn a_refused_plugin_changes_nothing_and_the_table_says_why() {
    let bench = Bench::new();
    bench.installs(&bench.source("good"));
    let bad = bench.source("bad");
    let toml = fs::read_to_string(bad.join("plugin.toml")).unwrap();
    fs::write(bad.join("plugin.toml"), toml.replace("abi = \"1.1\"", "abi = \"1.7\"")).unwrap();
    let error = bench.install(&bad).unwrap_err();
    assert!(matches!(error, InstallError::Refused(_)) && error.to_string().contains("what to do"), "{error}");
    // A hash of a file that only the plugin itself would open.
    fs::write(bad.join("plugin.toml"), format!("{toml}\n[sha256]\n\"CHANGES\" = \"{}\"\n", "0".repeat(64))).unwrap();
    assert!(bench.install(&bad).unwrap_err().to_string().contains("CHANGES has sha256"));
    symlink("plugin.toml", bad.join("link")).unwrap();
    assert!(matches!(bench.install(&bad), Err(InstallError::Kind { .. })));
    assert_eq!(bench.versions(), (Some("good".into()), None));
}

#[test]
fn the_previous_version_is_kept_and_comes_back_and_goes_forward_again() {
    let bench = Bench::new();
    for text in ["one", "two", "three"] {
        let installed = bench.installs(&bench.source(text));
        assert_eq!(installed.replaced.is_some(), text != "one");
    }
    let pair = |a: &str, b: &str| (Some(a.to_owned()), Some(b.to_owned()));
    assert_eq!(bench.versions(), pair("three", "two"));
    assert_eq!(previous_version(&bench.plugin()).as_deref(), Some(env!("CARGO_PKG_VERSION")));
    bench.store().rollback("ngram-c").unwrap();
    assert_eq!(bench.versions(), pair("two", "three"));
    bench.store().rollback("ngram-c").unwrap();
    assert_eq!(bench.versions(), pair("three", "two"));
    assert!(matches!(bench.install(&bench.dir.path().join("source-three")), Ok(Done::AlreadyThere(_))));
    assert_eq!(bench.versions(), pair("three", "two"));
    assert_eq!(bench.remains(), [".installed", ".previous", "ngram-c"]);
    bench.store().remove("ngram-c").unwrap();
    assert_eq!(bench.versions(), (None, None));
    assert!(matches!(bench.store().rollback("ngram-c"), Err(InstallError::NotThere { .. })));
}

#[test]
fn a_previous_version_that_was_damaged_does_not_come_back() {
    let bench = Bench::new();
    bench.installs(&bench.source("one"));
    bench.installs(&bench.source("two"));
    fs::write(bench.plugins().join(".previous/ngram-c/libngram_c.so"), "damaged").unwrap();
    assert!(matches!(bench.store().rollback("ngram-c"), Err(InstallError::Refused(_))));
    assert_eq!(bench.versions().0.as_deref(), Some("two"));
}

#[test]
fn only_what_was_installed_is_removed() {
    let bench = Bench::new();
    fs::create_dir(bench.plugins()).unwrap();
    fs::rename(bench.source("theirs"), bench.plugin()).unwrap();
    assert!(matches!(bench.store().remove("ngram-c"), Err(InstallError::NotOurs { .. })));
    for name in ["nothing", "", ".", "..", ".installed", "../plugins", "ngram-c/x"] {
        assert!(matches!(bench.store().remove(name), Err(InstallError::NotThere { .. })), "{name:?}");
    }
    assert_eq!(bench.versions().0.as_deref(), Some("theirs"));
    symlink(bench.plugin(), bench.plugins().join("link")).unwrap();
    assert!(matches!(bench.store().remove("link"), Err(InstallError::InTheWay(_))));
}

#[test]
fn two_installs_at_once_do_not_mix_and_a_killed_one_leaves_nothing() {
    let bench = Bench::new();
    fs::create_dir_all(bench.plugins().join(".staging-killed/raw")).unwrap();
    let lock = fs::File::create(bench.plugins().join(".lock")).unwrap();
    lock.lock().unwrap();
    assert!(matches!(bench.install(original()), Err(InstallError::Busy(_))));
    assert!(matches!(bench.store().remove("ngram-c"), Err(InstallError::Busy(_))));
    assert_eq!(bench.remains(), [".staging-killed"]);
    drop(lock);
    bench.installs(original());
    assert_eq!(bench.remains(), [".installed", "ngram-c"]);
}

#[test]
fn a_folder_that_others_could_write_to_takes_no_plugin() {
    let bench = Bench::new();
    fs::create_dir(bench.plugins()).unwrap();
    fs::set_permissions(bench.plugins(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = bench.install(original()).unwrap_err();
    assert!(error.to_string().contains("everybody may change it"), "{error}");
    assert_eq!(bench.remains(), [""; 0]);
}
