//! Plugins from strangers, from outside: installed from a folder, a file and an address, rolled back, removed, while a server runs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::server::{File, Server};
use crate::support::{Said, User, sha256};

/// The plugin as its author has it, outside of any folder of plugins.
fn author(user: &User) -> PathBuf {
    let dir = user.home().join("author");
    std::fs::create_dir_all(&dir).unwrap();
    onebit_faults::install(onebit_faults::Which::NgramC, &dir).unwrap()
}

/// Another version of it: told apart by a file.
fn change(plugin: &Path, text: &str) {
    std::fs::write(plugin.join("CHANGES"), text).unwrap();
}

fn archive(user: &User, plugin: &Path) -> PathBuf {
    let path = user.home().join("ngram-c.tar.gz");
    let status =
        std::process::Command::new("tar").arg("-czf").arg(&path).arg("-C").arg(plugin.parent().unwrap()).arg("ngram-c").status().unwrap();
    assert!(status.success());
    path
}

fn plugin(user: &User, args: &[&str]) -> Said {
    let plugins = user.home().join("plugins");
    let mut command = user.command();
    command.arg("plugin").args(args).arg("--plugin-dir").arg(&plugins).arg("--no-default-dirs").arg("--log").arg("off");
    Said::of(command.output().unwrap())
}

fn in_use(user: &User) -> Option<String> {
    std::fs::read_to_string(user.home().join("plugins/ngram-c/CHANGES")).ok()
}

#[test]
fn a_plugin_is_installed_from_a_folder_and_says_what_it_is() {
    let user = User::new();
    let from = author(&user);
    let said = plugin(&user, &["install", from.to_str().unwrap()]).ends_with_code(0);
    let library = sha256(&std::fs::read(from.join("libngram_c.so")).unwrap());
    for words in ["ngram-c", "is installed", from.to_str().unwrap(), &library, "signed by       nobody"] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    assert!(said.err.contains("plugin list --why") && said.err.contains("lists no hashes"), "{}", said.err);
    let said = plugin(&user, &["list"]).ends_with_code(0);
    assert!(said.out.contains("ngram-c") && said.out.contains("cpu"), "{}", said.out);
    let said = plugin(&user, &["install", from.to_str().unwrap()]).ends_with_code(0);
    assert!(said.out.contains("was there already"), "{}", said.out);
}

#[test]
fn an_author_seals_a_plugin_and_what_is_altered_afterwards_is_not_installed() {
    let user = User::new();
    let from = author(&user);
    let library = from.join("libngram_c.so");
    let said = plugin(&user, &["seal", library.to_str().unwrap()]).ends_with_code(0);
    assert!(said.out.ends_with("plugin.toml lists 1 file\n") && said.err.contains("minisign -Sm"), "{}{}", said.out, said.err);
    let said = plugin(&user, &["check", from.to_str().unwrap()]).ends_with_code(0);
    assert!(!said.out.contains("no-hashes") && said.out.contains("unsigned"), "{}", said.out);
    let said = plugin(&user, &["seal", from.to_str().unwrap()]).ends_with_code(0);
    assert!(said.out.ends_with("lists 1 file, as before\n"), "{}", said.out);
    change(&from, "sealed without");
    std::fs::write(from.join("plugin.toml.minisig"), "of before").unwrap();
    let said = plugin(&user, &["seal", from.to_str().unwrap()]).ends_with_code(0);
    assert!(said.out.ends_with("lists 2 files\n") && said.err.contains("does not fit any more"), "{}{}", said.out, said.err);
    std::fs::remove_file(from.join("plugin.toml.minisig")).unwrap();
    plugin(&user, &["install", from.to_str().unwrap()]).ends_with_code(0);
    change(&from, "altered");
    let said = plugin(&user, &["install", from.to_str().unwrap()]);
    assert!(said.code != Some(0) && said.err.contains("CHANGES has sha256"), "{}", said.err);
    assert_eq!(in_use(&user).as_deref(), Some("sealed without"));
    let said = plugin(&user, &["seal", user.home().join("nothing").to_str().unwrap()]);
    assert!(said.code == Some(3) && said.err.contains("plugin's folder"), "{}", said.err);
}

#[test]
fn a_plugin_comes_over_http_and_a_wrong_one_changes_nothing() {
    let user = User::new();
    let from = author(&user);
    let bytes = std::fs::read(archive(&user, &from)).unwrap();
    let server = Server::start(File { bytes: bytes.clone(), ..File::default() });
    let url = server.url("ngram-c.tar.gz?token=hush");
    let said = plugin(&user, &["install", &url, "--sha256", &sha256(&bytes)]).ends_with_code(0);
    assert!(said.out.contains(&sha256(&bytes)) && !said.out.contains("hush"), "{}", said.out);
    change(&from, "other");
    let other = std::fs::read(archive(&user, &from)).unwrap();
    server.change(|file| file.bytes = other.clone());
    let said = plugin(&user, &["install", &url, "--sha256", &sha256(&bytes)]).ends_with_code(7);
    assert!(said.err.contains(&sha256(&other)), "{}", said.err);
    assert_eq!(in_use(&user), None);
    server.change(|file| file.content_type = Some("text/html"));
    plugin(&user, &["install", &url]).ends_with_code(7);
    server.change(|file| *file = File { bytes: b"no archive".to_vec(), ..File::default() });
    plugin(&user, &["install", &url]).ends_with_code(7);
    plugin(&user, &["install", "http://example.org/x.tar.gz"]).ends_with_code(2);
    assert_eq!(in_use(&user), None);
}

#[test]
fn versions_go_back_and_forward_and_away() {
    let user = User::new();
    let from = author(&user);
    let path = from.to_str().unwrap();
    plugin(&user, &["rollback", "ngram-c"]).ends_with_code(3);
    for text in ["one", "two"] {
        change(&from, text);
        plugin(&user, &["install", path]).ends_with_code(0);
    }
    let said = plugin(&user, &["list", "--why"]).ends_with_code(0);
    assert!(said.out.contains("is kept (onebit-host plugin rollback ngram-c)"), "{}", said.out);
    let said = plugin(&user, &["list", "--json"]).ends_with_code(0);
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(json["plugins"][0]["previous"], env!("CARGO_PKG_VERSION"), "{}", said.out);
    plugin(&user, &["rollback", "ngram-c"]).ends_with_code(0);
    assert_eq!(in_use(&user).as_deref(), Some("one"));
    plugin(&user, &["rollback", "ngram-c"]).ends_with_code(0);
    assert_eq!(in_use(&user).as_deref(), Some("two"));
    // Nobody is there to be asked.
    plugin(&user, &["remove", "ngram-c"]).ends_with_code(2);
    assert_eq!(in_use(&user).as_deref(), Some("two"));
    let said = plugin(&user, &["remove", "ngram-c", "--yes"]).ends_with_code(0);
    assert!(said.out.contains("is removed"), "{}", said.out);
    assert!(!user.home().join("plugins/ngram-c").exists() && !user.home().join("plugins/.previous/ngram-c").exists());
    plugin(&user, &["remove", "ngram-c", "--yes"]).ends_with_code(3);
}

#[test]
fn what_somebody_else_put_there_is_not_removed() {
    let user = User::new();
    std::fs::create_dir(user.home().join("plugins")).unwrap();
    onebit_faults::install(onebit_faults::Which::NgramC, &user.home().join("plugins")).unwrap();
    let said = plugin(&user, &["remove", "ngram-c", "--yes"]).ends_with_code(1);
    assert!(said.err.contains("was not put there") && said.err.contains("dpkg -S"), "{}", said.err);
    assert!(user.home().join("plugins/ngram-c/plugin.toml").exists());
}

#[test]
fn a_policy_that_wants_proof_refuses_a_plugin_without_it() {
    let user = User::new();
    let from = author(&user);
    let said = plugin(&user, &["install", from.to_str().unwrap(), "--trust", "strict"]).ends_with_code(1);
    assert!(said.err.contains("not signed") && said.err.contains("Nothing was installed"), "{}", said.err);
    plugin(&user, &["install", from.to_str().unwrap()]).ends_with_code(0);
    let said = plugin(&user, &["list", "--why", "--trust", "strict"]).ends_with_code(0);
    assert!(said.out.contains("refused") && said.out.contains("not signed"), "{}", said.out);
}

/// A server with the plugin and a model.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn start(user: &User) -> Self {
        onebit_faults::ngram_model(user.home()).unwrap();
        let manifest = "schema = 1\nname = \"story\"\n[model]\nfile = \"story.ngram\"\nformat = \"ngram\"\narchitecture = \"ngram\"\n\
            [[serve]]\nplugin = \"ngram-c\"\n[chat]\ntemplate = \"{{ messages[0].content }}\"\n";
        user.file("manifests/story.toml", manifest);
        let mut command = user.command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--no-default-dirs", "--plugin-dir"]).arg(user.home().join("plugins"));
        command.arg("--models-dir").arg(user.home()).arg("--manifest-dir").arg(user.home().join("manifests"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap().to_owned();
        Self { child, address }
    }

    /// Status line and body of one completion.
    fn complete(&self) -> String {
        let body = "{\"model\": \"story\", \"prompt\": \"Hello\", \"max_tokens\": 4, \"temperature\": 0}";
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(
            stream,
            "POST /v1/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// What the worker has mapped of the plugin: paths with inodes.
    fn mapped(&self) -> Vec<String> {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().flatten();
            let children =
                tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok()).collect::<Vec<_>>().join(" ")
                    + &std::fs::read_to_string(&children).unwrap_or_default();
            let maps = children.split_whitespace().filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/maps")).ok());
            let lines: Vec<String> = maps
                .flat_map(|maps| maps.lines().filter(|line| line.contains("libngram_c.so")).map(str::to_owned).collect::<Vec<_>>())
                .filter_map(|line| line.split_whitespace().nth(4).map(str::to_owned))
                .collect();
            if !lines.is_empty() || Instant::now() > deadline {
                return lines;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_running_worker_keeps_what_it_opened_while_versions_come_and_go() {
    let user = User::new();
    let from = author(&user);
    let path = from.to_str().unwrap();
    change(&from, "one");
    plugin(&user, &["install", path]).ends_with_code(0);
    let serving = Serving::start(&user);
    let good = |answer: &str| answer.starts_with("HTTP/1.1 200") && answer.contains("you");
    let first = serving.complete();
    assert!(good(&first), "{first}");
    let mapped = serving.mapped();
    assert!(!mapped.is_empty());
    // Twice: with the second install the files of the first version lose their last name.
    for text in ["two", "three"] {
        change(&from, text);
        plugin(&user, &["install", path]).ends_with_code(0);
        assert_eq!(serving.mapped(), mapped, "{text}");
        let answer = serving.complete();
        assert!(good(&answer), "{text}: {answer}");
    }
    plugin(&user, &["rollback", "ngram-c"]).ends_with_code(0);
    let answer = serving.complete();
    assert!(good(&answer), "{answer}");
}

#[test]
fn a_plugin_that_crashes_is_remembered_with_time_and_signal_until_the_host_changes_or_somebody_says_rescan() {
    let user = User::new();
    let plugins = user.home().join("plugins");
    std::fs::create_dir(&plugins).unwrap();
    let dir = onebit_faults::install(onebit_faults::Which::Faulty, &plugins).unwrap();
    let toml = std::fs::read_to_string(dir.join("plugin.toml")).unwrap();
    let (head, options) = toml.split_once("[[option]]").unwrap();
    std::fs::write(dir.join("plugin.toml"), format!("{head}[environment]\nONEBIT_FAULT = \"segfault-probe\"\n\n[[option]]{options}"))
        .unwrap();
    let list = |program: &Path, word: &str| {
        let mut command = std::process::Command::new(program);
        user.dress(&mut command);
        command.args(["plugin", word, "--no-default-dirs", "--log", "off", "--plugin-dir"]).arg(&plugins);
        if word == "list" {
            command.arg("--json");
        }
        Said::of(command.output().unwrap()).ends_with_code(0).out
    };
    let at = |program: &Path| {
        let json: serde_json::Value = serde_json::from_str(&list(program, "list")).unwrap();
        let failed = json["plugins"][0]["outcome"]["failed"].clone();
        assert_eq!((&failed["failure"]["signal"], &failed["failure"]["remembered"]), (&"SIGSEGV".into(), &true.into()), "{json}");
        failed["at"].clone()
    };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_onebit-host"));
    let first = at(&program);
    assert_eq!(at(&program), first);
    let said = plugin(&user, &["list", "--why"]).ends_with_code(0).out;
    for words in
        ["crashed ", " ago with SIGSEGV: ", "remembered until the plugin, a driver or the host changes, or `onebit-host plugin rescan`"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    // Another build of the host may load plugins by other rules.
    let other = user.home().join("onebit-host");
    std::fs::copy(&program, &other).unwrap();
    assert_ne!(at(&other), first);
    let second = at(&other);
    assert_eq!(at(&other), second);
    list(&other, "rescan");
    assert_ne!(at(&other), second);
}
