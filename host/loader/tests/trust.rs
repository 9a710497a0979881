//! Hashes, signatures and permissions, as they lie there: what each policy refuses, what it reports, and in which words.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use common::plugins;
use minisign::KeyPair;
use onebit_faults::build_c;
use onebit_loader::trust::{Mode, Problem, Reading, SIGNATURE, Severity, Trust, examine};
use onebit_loader::{HostSink, LoadError, Plugin, inspect, inspect_under};
use sha2::{Digest, Sha256};

/// A copy of `ngram-c` that a test may change, and a folder of trusted keys.
struct Bench {
    dir: tempfile::TempDir,
    keys: tempfile::TempDir,
}

impl Bench {
    /// As it comes from an author who neither hashes nor signs.
    fn bare() -> Self {
        Self::below(tempfile::tempdir().expect("a folder"))
    }

    fn below(dir: tempfile::TempDir) -> Self {
        let bench = Self { dir, keys: tempfile::tempdir().expect("a folder") };
        fs::create_dir(bench.plugin()).expect("the plugin's folder");
        for file in fs::read_dir(plugins().join("ngram-c")).expect("installed").flatten() {
            fs::copy(file.path(), bench.plugin().join(file.file_name())).expect("a copy");
        }
        bench
    }

    /// With hashes and a signature that is trusted.
    fn proven() -> Self {
        let bench = Self::bare();
        bench.list(&["libngram_c.so"]);
        bench.sign(&bench.trusted_key("author", ""));
        bench
    }

    fn plugin(&self) -> PathBuf {
        self.dir.path().join("ngram-c")
    }

    fn keys(&self) -> PathBuf {
        self.keys.path().to_owned()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.plugin().join(name)
    }

    /// Appends `[sha256]`.
    fn list(&self, names: &[&str]) {
        let lines: String = names.iter().map(|name| format!("{name:?} = \"{}\"\n", sha256(&self.at(name)))).collect();
        edit(&self.at("plugin.toml"), |text| format!("{text}\n[sha256]\n{lines}"));
    }

    /// A new key, trusted under `name`; `more` goes to its comment.
    fn trusted_key(&self, name: &str, more: &str) -> KeyPair {
        let pair = KeyPair::generate_unencrypted_keypair().expect("a key");
        let text = format!("untrusted comment: minisign public key{more}\n{}\n", pair.pk.to_base64());
        fs::write(self.keys().join(format!("{name}.pub")), text).expect("a key file");
        pair
    }

    fn sign(&self, pair: &KeyPair) {
        let toml = fs::read(self.at("plugin.toml")).expect("plugin.toml");
        let signature = minisign::sign(None, &pair.sk, &toml[..], Some("built by the author"), None).expect("a signature");
        fs::write(self.at(SIGNATURE), signature.into_string()).expect("the signature");
    }

    fn trust(&self, mode: Mode) -> Trust {
        Trust { mode, keys: vec![self.keys()] }
    }

    /// Codes of the problems of one severity under one policy. That tests run below `/tmp` is not their subject.
    fn codes(&self, severity: Severity, mode: Mode) -> Vec<&'static str> {
        let examination = examine(&self.plugin(), &self.trust(mode), Reading::Everything);
        examination.of(severity, mode).map(Problem::code).filter(|code| *code != "shared_parent").collect()
    }

    /// The only problem, as a person reads it.
    #[track_caller]
    fn sentence(&self) -> String {
        let examination = examine(&self.plugin(), &self.trust(Mode::Warn), Reading::Everything);
        let problems: Vec<_> = examination.problems.iter().filter(|problem| problem.code() != "shared_parent").collect();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(!problems[0].remedy().is_empty());
        problems[0].to_string()
    }

    #[track_caller]
    fn loads(&self, mode: Mode) {
        let file = inspect_under(&self.plugin(), &self.trust(mode)).unwrap_or_else(|refusal| panic!("{refusal}")).file;
        Plugin::load(&file, HostSink::tracing()).unwrap_or_else(|error| panic!("{error}"));
    }

    /// The words with which it is refused, by the inspection or at the latest when it is loaded.
    #[track_caller]
    fn refusal(&self, mode: Mode) -> String {
        match inspect_under(&self.plugin(), &self.trust(mode)) {
            Err(refusal) => refusal.to_string(),
            Ok(inspection) => match Plugin::load(&inspection.file, HostSink::tracing()) {
                Err(LoadError::Refused(refusal)) => refusal.to_string(),
                Err(other) => panic!("{other}"),
                Ok(_) => panic!("it was loaded"),
            },
        }
    }
}

fn sha256(path: &Path) -> String {
    Sha256::digest(fs::read(path).expect("a file")).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn edit(path: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(path).expect("a text");
    fs::write(path, change(text)).expect("a text");
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
}

/// What is done to a plugin that has every proof, and how each policy takes it: `-` nothing, `r` reported, `R` refused.
type Case = (&'static str, fn(&Bench), &'static str, char, char);

/// The table of docs/trust.md.
const MATRIX: &[Case] = &[
    ("nothing", |_| {}, "", '-', '-'),
    ("the library altered", |bench| append(&bench.at("libngram_c.so")), "altered", 'R', 'R'),
    ("a file that is not listed", |bench| fs::write(bench.at("libmore.so"), "x").expect("a file"), "unlisted", 'r', 'R'),
    (
        "a listed file removed",
        |bench| {
            fs::write(bench.at("data.bin"), "x").expect("a file");
            reseal(bench, &["libngram_c.so", "data.bin"]);
            fs::remove_file(bench.at("data.bin")).expect("removed");
        },
        "listed_missing",
        'R',
        'R',
    ),
    (
        "no hashes, but signed",
        |bench| {
            edit(&bench.at("plugin.toml"), |text| text.split("\n[sha256]").next().unwrap_or_default().to_owned());
            bench.sign(&bench.trusted_key("author", ""));
        },
        "no_hashes",
        'r',
        'R',
    ),
    ("no signature", |bench| fs::remove_file(bench.at(SIGNATURE)).expect("removed"), "unsigned", 'r', 'R'),
    ("the key not trusted any more", |bench| fs::remove_file(bench.keys().join("author.pub")).expect("removed"), "key_unknown", 'r', 'R'),
    ("signed by a stranger", |bench| bench.sign(&KeyPair::generate_unencrypted_keypair().expect("a key")), "key_unknown", 'r', 'R'),
    ("an expired key", |bench| bench.sign(&bench.trusted_key("author", ", expires 2020-02-29")), "key_expired", 'r', 'R'),
    ("a key with days to come", |bench| bench.sign(&bench.trusted_key("author", ", expires 9999-12-31")), "", '-', '-'),
    ("plugin.toml altered", |bench| edit(&bench.at("plugin.toml"), |text| format!("{text}\n")), "signature_wrong", 'R', 'R'),
    ("a signature of another file", signature_of_another_file, "signature_wrong", 'R', 'R'),
    ("a signature cut off", |bench| edit(&bench.at(SIGNATURE), |text| text[..100].to_owned()), "signature_damaged", 'R', 'R'),
    ("a world-writable file", |bench| chmod(&bench.at("libngram_c.so"), 0o646), "world_writable", 'R', 'R'),
    ("a world-writable folder", |bench| chmod(&bench.plugin(), 0o757), "world_writable", 'R', 'R'),
    ("a sticky world-writable folder", |bench| chmod(&bench.plugin(), 0o1777), "world_writable", 'R', 'R'),
    ("a world-writable parent", |bench| chmod(bench.dir.path(), 0o757), "world_writable", 'R', 'R'),
    ("a link out of the folder", |bench| symlink("/etc/hostname", bench.at("libx.so")).expect("a link"), "leads_out", 'R', 'R'),
    ("a link out, of no library", |bench| symlink("/etc/hostname", bench.at("notes")).expect("a link"), "leads_out", 'r', 'R'),
    ("a link inside", |bench| symlink("libngram_c.so", bench.at("libx.so")).expect("a link"), "", '-', '-'),
];

/// Another file takes its place: one that is mapped must not be written to.
fn append(path: &Path) {
    let mut bytes = fs::read(path).expect("a file");
    bytes.push(0);
    let beside = path.with_extension("new");
    fs::write(&beside, bytes).expect("a file");
    fs::rename(beside, path).expect("renamed");
}

fn reseal(bench: &Bench, names: &[&str]) {
    edit(&bench.at("plugin.toml"), |text| text.split("\n[sha256]").next().unwrap_or_default().to_owned());
    bench.list(names);
    bench.sign(&bench.trusted_key("author", ""));
}

fn signature_of_another_file(bench: &Bench) {
    let pair = bench.trusted_key("author", "");
    let signature = minisign::sign(None, &pair.sk, &b"another file"[..], None, None).expect("a signature");
    fs::write(bench.at(SIGNATURE), signature.into_string()).expect("the signature");
}

#[test]
fn each_policy_refuses_and_reports_what_the_table_says() {
    for (what, damage, code, warn, strict) in MATRIX {
        let bench = Bench::proven();
        damage(&bench);
        for (mode, expected) in [(Mode::Warn, warn), (Mode::Strict, strict)] {
            let (refused, reported) = (bench.codes(Severity::Refused, mode), bench.codes(Severity::Reported, mode));
            let found = match (refused.as_slice(), reported.as_slice()) {
                ([], []) => '-',
                ([], [..]) => 'r',
                _ => 'R',
            };
            assert_eq!(found, *expected, "{what}, {mode:?}: {refused:?} {reported:?}");
            assert!(refused.iter().chain(&reported).all(|found| found == code), "{what}, {mode:?}: {refused:?} {reported:?}");
        }
    }
}

#[test]
fn a_group_that_may_write_is_reported_and_strictly_refused() {
    // A group of our own number would be our private one; root's is nobody else's either.
    let bench = Bench::proven();
    let other = rustix::process::getgid().as_raw() + 4242;
    if std::os::unix::fs::chown(bench.at("libngram_c.so"), None, Some(other)).is_err() {
        // Only root gives files to groups that it is not in; the rule itself is the same table.
        let problem = Problem::GroupWritable { path: "/x".into(), mode: 0o664, gid: other };
        assert_eq!((problem.severity(Mode::Warn), problem.severity(Mode::Strict)), (Severity::Reported, Severity::Refused));
        return;
    }
    chmod(&bench.at("libngram_c.so"), 0o664);
    assert_eq!(bench.codes(Severity::Reported, Mode::Warn), ["group_writable"]);
    assert_eq!(bench.codes(Severity::Refused, Mode::Strict), ["group_writable"]);
}

#[test]
fn a_plugin_with_every_proof_names_its_signer() {
    let bench = Bench::proven();
    let inspection = inspect_under(&bench.plugin(), &bench.trust(Mode::Warn)).unwrap_or_else(|refusal| panic!("{refusal}"));
    let signer = inspection.trust.signer.expect("signed");
    assert_eq!((signer.key.as_str(), signer.comment.as_str(), inspection.trust.hashes), ("author", "built by the author", true));
    bench.loads(Mode::Warn);
}

#[test]
fn strict_refuses_what_has_no_proof_and_says_everything_that_is_missing_at_once() {
    let bench = Bench::bare();
    bench.loads(Mode::Warn);
    let refusal = bench.refusal(Mode::Strict);
    assert!(refusal.contains("lists no hashes") && refusal.contains("not signed") && refusal.contains("trust.mode"), "{refusal}");
}

#[test]
fn strict_loads_a_plugin_with_every_proof_from_a_folder_of_its_own() {
    // Not below /tmp, which everybody shares.
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let shared = examine(home.path(), &Trust::default(), Reading::Names).problems.iter().any(|problem| problem.code() == "shared_parent");
    let bench = Bench::below(home);
    reseal(&bench, &["libngram_c.so"]);
    // A target folder below /tmp is refused for that alone; everything else must be in order there too.
    if shared {
        let rows = inspect_under(&bench.plugin(), &bench.trust(Mode::Strict)).expect_err("below /tmp").rows;
        assert!(rows.iter().all(|row| row.plugin.contains("where everybody may make files")), "{rows:?}");
    } else {
        bench.loads(Mode::Strict);
    }
}

#[test]
fn each_problem_has_its_own_sentence() {
    let after = |damage: fn(&Bench)| {
        let bench = Bench::proven();
        damage(&bench);
        bench.sentence()
    };
    let altered = after(|bench| append(&bench.at("libngram_c.so")));
    assert!(altered.starts_with("libngram_c.so has sha256 ") && altered.contains("plugin.toml lists"), "{altered}");
    assert_eq!(after(|bench| fs::write(bench.at("libmore.so"), "x").expect("a file")), "libmore.so is not listed in plugin.toml");
    assert_eq!(after(|bench| fs::remove_file(bench.at(SIGNATURE)).expect("removed")), "not signed");
    let unknown = after(|bench| fs::remove_file(bench.keys().join("author.pub")).expect("removed"));
    assert!(unknown.starts_with("signed by key ") && unknown.ends_with(", which is not trusted here"), "{unknown}");
    let expired = after(|bench| bench.sign(&bench.trusted_key("author", " expires 2020-02-29")));
    assert_eq!(expired, "signed by key author, which was trusted until 2020-02-29");
    let wrong = after(|bench| edit(&bench.at("plugin.toml"), |text| format!("{text}\n")));
    assert_eq!(wrong, "the signature of key author does not fit this plugin.toml: one of the two was changed");
    let damaged = after(|bench| fs::write(bench.at(SIGNATURE), "no signature").expect("a file"));
    assert_eq!(damaged, "plugin.toml.minisig is no minisign signature: its lines are not those of a signature");
}

#[test]
fn a_key_that_others_could_replace_or_that_is_none_is_not_used() {
    for (damage, words) in [
        ((|bench| chmod(&bench.keys(), 0o777)) as fn(&Bench), "everybody may change it"),
        (|bench| chmod(&bench.keys().join("author.pub"), 0o666), "everybody may change it"),
        (|bench| fs::write(bench.keys().join("author.pub"), "no key").expect("a file"), "no minisign public key"),
        (|bench| edit(&bench.keys().join("author.pub"), |text| text.replace("public key", "public key expires soon")), "expires soon"),
        (
            |bench| {
                fs::remove_file(bench.keys().join("author.pub")).expect("removed");
                symlink("/etc/hostname", bench.keys().join("author.pub")).expect("a link");
            },
            "leads to /etc/hostname",
        ),
    ] {
        let bench = Bench::proven();
        damage(&bench);
        assert_eq!(bench.codes(Severity::Reported, Mode::Warn), ["key_unusable", "key_unknown"], "{words}");
        assert!(bench.refusal(Mode::Strict).contains("which is not trusted here"));
        let examination = examine(&bench.plugin(), &bench.trust(Mode::Warn), Reading::Names);
        assert!(examination.problems.iter().any(|problem| problem.to_string().contains(words)), "{words}: {:?}", examination.problems);
    }
}

#[test]
fn an_altered_file_that_only_the_plugin_itself_would_open_is_refused_too() {
    let bench = Bench::bare();
    fs::write(bench.at("module.so"), "first").expect("a file");
    bench.list(&["libngram_c.so", "module.so"]);
    bench.loads(Mode::Warn);
    fs::write(bench.at("module.so"), "other").expect("a file");
    let refusal = bench.refusal(Mode::Warn);
    assert!(refusal.contains("module.so has sha256"), "{refusal}");
}

/// Compiles a library that others need.
fn helper(bench: &Bench, name: &str, needs: &[&str], soname: Option<&str>) {
    let source = bench.dir.path().join(format!("{name}.c"));
    fs::write(&source, format!("int {name}_function(void) {{ return 0; }}\n")).expect("a source");
    let mut cc = std::process::Command::new("cc");
    cc.args(["-shared", "-fPIC", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", "-L"]).arg(bench.plugin());
    cc.arg(&source).arg("-o").arg(bench.at(&format!("lib{name}.so"))).args(needs.iter().map(|need| format!("-l{need}")));
    cc.args(soname.map(|soname| format!("-Wl,-soname,{soname}")));
    assert!(cc.status().expect("cc").success());
}

fn build_plugin(bench: &Bench, needs: &[&str]) {
    let search = format!("-L{}", bench.plugin().display());
    let mut flags = vec!["-Wl,--no-as-needed".to_owned(), search, "-Wl,-rpath,$ORIGIN".to_owned()];
    flags.extend(needs.iter().map(|need| format!("-l{need}")));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    build_c("ngram.c", &bench.at("libngram_c.so"), &flags).expect("compiled");
}

#[test]
fn libraries_beside_the_plugin_are_loaded_in_the_order_they_need_each_other() {
    let bench = Bench::bare();
    helper(&bench, "deep", &[], Some("libdeep.so"));
    helper(&bench, "middle", &["deep"], Some("libmiddle.so"));
    build_plugin(&bench, &["middle", "deep"]);
    bench.list(&["libngram_c.so", "libmiddle.so", "libdeep.so"]);
    let file = inspect(&bench.plugin()).unwrap_or_else(|refusal| panic!("{refusal}")).file;
    assert_eq!(file.beside, ["libdeep.so", "libmiddle.so"]);
    bench.loads(Mode::Warn);
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    for name in ["libdeep.so", "libmiddle.so", "libngram_c.so"] {
        assert!(maps.contains(bench.at(name).to_str().expect("UTF-8")), "{name} is mapped under its own name: {maps}");
    }
    append(&bench.at("libdeep.so"));
    assert!(bench.refusal(Mode::Warn).contains("libdeep.so has sha256"));
}

#[test]
fn a_library_beside_the_plugin_without_a_name_or_in_a_circle_is_refused() {
    let bench = Bench::bare();
    helper(&bench, "deep", &[], None);
    build_plugin(&bench, &["deep"]);
    let refusal = bench.refusal(Mode::Warn);
    assert!(refusal.contains("libdeep.so calls itself nothing") && refusal.contains("-Wl,-soname,libdeep.so"), "{refusal}");

    let bench = Bench::bare();
    helper(&bench, "left", &[], Some("libleft.so"));
    helper(&bench, "right", &["left"], Some("libright.so"));
    helper(&bench, "left", &["right"], Some("libleft.so"));
    build_plugin(&bench, &["left"]);
    let refusal = bench.refusal(Mode::Warn);
    assert!(refusal.contains("libleft.so → libright.so"), "{refusal}");
}

#[test]
fn a_needed_library_that_others_could_change_is_refused_wherever_it_lies() {
    let bench = Bench::bare();
    let elsewhere = bench.dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a folder");
    helper(&bench, "deep", &[], Some("libdeep.so"));
    build_c(
        "ngram.c",
        &bench.at("libngram_c.so"),
        &["-Wl,--no-as-needed", &format!("-L{}", bench.plugin().display()), "-ldeep", &format!("-Wl,-rpath,{}", elsewhere.display())],
    )
    .expect("compiled");
    fs::rename(bench.at("libdeep.so"), elsewhere.join("libdeep.so")).expect("moved");
    bench.loads(Mode::Warn);
    chmod(&elsewhere, 0o777);
    let refusal = bench.refusal(Mode::Warn);
    assert!(refusal.contains("elsewhere has mode 0777"), "{refusal}");
}
