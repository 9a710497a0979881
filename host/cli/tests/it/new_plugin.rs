//! `plugin new`: what it writes builds, is found in order, and answers, by the very commands of its README.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Said, User};

/// A new plugin in the home of a user, with the SDK of this clone.
struct Made {
    user: User,
    dir: PathBuf,
}

/// This repository, which is also what a clone of it would be.
fn clone() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

impl Made {
    fn new(language: &str) -> Self {
        let user = User::new();
        let dir = user.home().join("my plugins/demo-one");
        let clone = clone().to_str().unwrap();
        let said = user.run(&["plugin", "new", "demo-one", "--lang", language, "--sdk", clone, "--dir", dir.to_str().unwrap()]);
        let said = said.ends_with_code(0);
        assert_eq!(said.out, format!("{}\n", dir.display()));
        // What to do next is what the README says.
        let readme = std::fs::read_to_string(dir.join("README.md")).unwrap();
        for line in blocks(&readme)[0].lines() {
            assert!(said.err.contains(line), "{line} is not in:\n{}", said.err);
        }
        Self { user, dir }
    }

    fn blocks(&self) -> Vec<String> {
        blocks(&std::fs::read_to_string(self.dir.join("README.md")).unwrap())
    }

    /// A shell in the plugin's folder, that finds the program under test and the tools of whoever runs the tests.
    fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        self.user.dress(&mut command);
        let program = Path::new(env!("CARGO_BIN_EXE_onebit-host")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        command.args(["-e", "-c", script]).current_dir(&self.dir).env("PATH", path);
        let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        for (variable, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            command.env(variable, std::env::var_os(variable).map_or_else(|| home.join(folder), PathBuf::from));
        }
        // What the workspace needs is there; a new download would be a dependency that the SDK should not have.
        command.env("CARGO_NET_OFFLINE", "true");
        command
    }

    fn run(&self, script: &str) -> Said {
        Said::of(self.shell(script).output().unwrap())
    }
}

/// The shell commands of a README, block by block.
fn blocks(readme: &str) -> Vec<String> {
    readme.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

fn follow_the_readme(made: &Made) {
    let blocks = made.blocks();
    let [build_and_run, serve, ask] = blocks.as_slice() else { panic!("{blocks:?}") };
    let said = made.run(build_and_run).ends_with_code(0);
    assert!(said.out.ends_with("\n you.\n"), "{}", said.out);

    // The same over HTTP. The port is the only thing that a test must choose for itself.
    let mut server = made.shell(&format!("exec {serve}")).env("ONEBIT_LISTEN", "127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut said_by_server = BufReader::new(server.stdout.take().unwrap());
    said_by_server.read_line(&mut first).unwrap();
    let address = first.trim().rsplit_once("http://").unwrap_or_else(|| panic!("the server named no address: {first}")).1;
    let said = made.run(&ask.replace("127.0.0.1:8090", address)).ends_with_code(0);
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(said.out.contains(" you."), "{}", said.out);
}

#[test]
fn a_new_rust_plugin_answers_by_the_commands_of_its_readme() {
    let made = Made::new("rust");
    // One place for what is compiled, so that a second run of this test compiles nothing but the plugin.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-plugin");
    std::fs::create_dir_all(&target).unwrap();
    symlink(target, made.dir.join("target")).unwrap();
    follow_the_readme(&made);
}

#[test]
fn a_new_c_plugin_answers_by_the_commands_of_its_readme() {
    follow_the_readme(&Made::new("c"));
}

#[test]
fn a_new_c_plugin_is_c11_and_cpp17_without_a_warning_and_exports_its_entry_only() {
    let made = Made::new("c");
    for compiler in ["gcc", "clang", "g++ -std=c++17 -x c++", "clang++ -std=c++17 -x c++"] {
        let said = made
            .run(&format!("make clean && make CC='{compiler}' CFLAGS='-O2 -Werror' && nm -D --defined-only dist/demo-one/libdemo_one.so"));
        let said = said.ends_with_code(0);
        let symbols: Vec<&str> = said.out.lines().filter(|line| line.contains(" T ") || line.contains(" D ")).collect();
        assert!(symbols.len() == 1 && symbols[0].ends_with(" onebit_plugin_v1"), "{compiler}: {symbols:?}");
    }
}

#[test]
fn a_header_that_is_nowhere_is_told_with_what_to_do() {
    let user = User::new();
    user.run(&["plugin", "new", "demo", "--lang", "c", "--sdk", "git", "--dir", user.home().join("demo").to_str().unwrap()])
        .ends_with_code(0);
    let mut make = Command::new("make");
    user.dress(&mut make);
    let said = Said::of(make.current_dir(user.home().join("demo")).env("PKG_CONFIG_LIBDIR", "/nonexistent").output().unwrap());
    assert!(said.code != Some(0) && said.err.contains("make ONEBIT_INCLUDE=FOLDER"), "{}", said.err);
}

#[test]
fn nothing_of_anybody_is_overwritten_and_a_wrong_name_writes_nothing() {
    let user = User::new();
    let kept = user.file("plugins/mine/notes.txt", "mine");
    let new = |name: &str, dir: &str| {
        user.run(&["plugin", "new", name, "--lang", "c", "--sdk", "git", "--dir", user.home().join(dir).to_str().unwrap()])
    };
    let said = new("mine", "plugins/mine").ends_with_code(2);
    assert!(said.err.contains("is not empty"), "{}", said.err);
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "mine");
    let said = new("Mine", "plugins/other").ends_with_code(2);
    assert!(said.err.contains("lower-case letters") && !user.home().join("plugins/other").exists(), "{}", said.err);
    std::fs::create_dir(user.home().join("empty")).unwrap();
    new("mine", "empty").ends_with_code(0);
    let said = user.run(&["plugin", "new", "mine", "--lang", "c", "--sdk", "/etc", "--dir", "never"]).ends_with_code(3);
    assert!(said.err.contains("Give a clone"), "{}", said.err);
    user.run(&["plugin", "new", "mine", "--lang", "cobol"]).ends_with_code(2);
}
