//! Commands over real plugins in real workers: an honest one that answers from a small text, and one that fails as told.

use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use onebit_faults::Which;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Said, User};

/// Both plugins, installed once for all tests of this process.
fn plugins() -> PathBuf {
    static PLUGINS: OnceLock<PathBuf> = OnceLock::new();
    let install = || {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cli-plugins");
        for which in [Which::Ngram, Which::Faulty] {
            onebit_faults::install(which, &dir).expect("the plugin is built");
        }
        dir
    };
    PLUGINS.get_or_init(install).clone()
}

/// A user with a model that answers and one that fails in the given way.
struct Lab {
    user: User,
}

impl Lab {
    fn new(fault: &str) -> Self {
        let user = User::new();
        std::fs::create_dir_all(user.models()).unwrap();
        onebit_faults::ngram_model(&user.models()).unwrap();
        onebit_faults::faulty_model(&user.models(), fault).unwrap();
        let manifest = |name: &str, file: &str, format: &str, plugin: &str| {
            format!(
                "schema = 1\nname = \"{name}\"\n[model]\nfile = \"{file}\"\nformat = \"{format}\"\narchitecture = \"test\"\n[chat]\n\
                 template = \"{{% for message in messages %}}{{{{ message.content }}}}{{% endfor %}}\"\n\
                 [defaults]\ntemperature = 0\nmax_tokens = 40\n[[serve]]\nplugin = \"{plugin}\"\ndevice = \"cpu\"\n"
            )
        };
        user.file("manifests/story.toml", manifest("story", "story.ngram", "ngram", "ngram"));
        user.file("manifests/fault.toml", manifest("fault", &format!("{fault}.fault"), "fault", "faulty"));
        Self { user }
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = self.user.command();
        command.args(args).arg("--no-default-dirs").arg("--models-dir").arg(self.user.models());
        command.arg("--manifest-dir").arg(self.user.home().join("manifests")).arg("--plugin-dir").arg(plugins());
        command
    }

    fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).output().unwrap())
    }
}

#[test]
fn only_the_answer_is_on_standard_output() {
    let lab = Lab::new("none");
    let said = lab.run(&["run", "story", "Hello"]).ends_with_code(0);
    assert_eq!(said.out, " you.\n");
    assert_eq!(said.err, "", "nothing was lost, so there is nothing to say");
    let said = lab.run(&["run", "story", "Hello", "--raw", "-v"]).ends_with_code(0);
    assert_eq!(said.out, " you.\n");
    assert!(said.err.contains("ngram") && said.err.contains("on cpu") && said.err.contains("prompt 5 tokens"), "{}", said.err);
    // An answer that is cut says so.
    let said = lab.run(&["run", "story", "Hello", "--max-tokens", "2"]).ends_with_code(0);
    assert_eq!(said.out, " y\n");
    assert!(said.err.contains("cut off"), "{}", said.err);
}

#[test]
fn text_from_a_pipe_is_asked_once() {
    let lab = Lab::new("none");
    let mut child = lab.command(&["run", "story"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"Hello\n").unwrap();
    let said = Said::of(child.wait_with_output().unwrap()).ends_with_code(0);
    assert_eq!(said.out, " you.\n");
    let mut child = lab.command(&["run", "story"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"caf\xe9").unwrap();
    let said = Said::of(child.wait_with_output().unwrap()).ends_with_code(2);
    assert!(said.err.contains("not UTF-8"), "{}", said.err);
}

#[test]
fn a_worker_that_dies_has_its_code_and_the_signal_is_named() {
    for fault in ["segfault-forward", "abort-forward", "exit-forward"] {
        let said = Lab::new(fault).run(&["run", "fault", "x"]).ends_with_code(5);
        assert!(said.err.contains("faulty") && said.err.matches("error: ").count() == 1, "{fault}: {}", said.err);
        if fault == "segfault-forward" {
            assert!(said.err.contains("SIGSEGV"), "{}", said.err);
        }
    }
    // A load that fails in words is no crash: the model cannot be served.
    let said = Lab::new("panic-open").run(&["run", "fault", "x"]).ends_with_code(4);
    assert!(said.err.contains("faulty"), "{}", said.err);
}

#[test]
fn ctrl_c_ends_an_answer_at_once_and_leaves_nothing_behind() {
    let lab = Lab::new("slow-forward");
    let mut child =
        lab.command(&["run", "fault", "x", "--max-tokens", "30"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let worker = wait_for("a worker", || children_of(pid).into_iter().next());
    std::thread::sleep(Duration::from_millis(1500));
    let started = Instant::now();
    kill_process(pid, Signal::INT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    wait_for("the worker's end", || (!std::path::Path::new(&format!("/proc/{worker}")).exists()).then_some(()));
}

fn children_of(parent: Pid) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero())).unwrap();
    let lists = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "waited for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn list_explain_and_plugin_list_agree_on_who_serves() {
    let lab = Lab::new("segfault-probe");
    let said = lab.run(&["list"]).ends_with_code(0);
    let line =
        |name: &str| said.out.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {}", said.out)).to_owned();
    assert!(line("story").contains("ngram") && line("story").contains("on cpu"), "{}", said.out);
    let said = lab.run(&["list", "--json"]).ends_with_code(0);
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let story = json["models"].as_array().unwrap().iter().find(|model| model["name"] == "story").unwrap();
    assert!(story["served_by"].as_str().unwrap().starts_with("ngram ") && story["problem"].is_null());
    let said = lab.run(&["explain", "story", "--json"]).ends_with_code(0);
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(json["choice"]["plugin"], "ngram");
    assert_eq!(json["choice"]["device"]["id"], "cpu");
    let said = lab.run(&["plugin", "list", "--why"]).ends_with_code(0);
    assert!(said.out.contains("computes with counting") && said.out.contains("yes, score 10"), "{}", said.out);
    let check = plugins().join("ngram");
    let said = lab.run(&["plugin", "check", check.to_str().unwrap()]).ends_with_code(0);
    assert!(said.out.contains("can be loaded by this host"), "{}", said.out);
    let said = lab.run(&["doctor"]);
    assert!(said.out.contains("ngram") && said.out.contains("computes on cpu"), "{}", said.out);
}

#[test]
fn nothing_that_could_serve_has_its_code() {
    let lab = Lab::new("none");
    for args in [&["explain", "story", "--device", "vulkan"][..], &["run", "story", "x", "--device", "vulkan"]] {
        let said = lab.run(args).ends_with_code(4);
        assert!(format!("{}{}", said.out, said.err).contains("cpu"), "{}{}", said.out, said.err);
    }
    // A model without a template is not asked in a guessed form.
    let manifest = "schema = 1\nname = \"fault\"\n[model]\nfile = \"none.fault\"\nformat = \"fault\"\narchitecture = \"test\"\n[[serve]]\nplugin = \"faulty\"\n";
    lab.user.file("manifests/fault.toml", manifest);
    let said = lab.run(&["run", "fault", "Hello"]).ends_with_code(4);
    assert!(said.err.contains("chat template") && said.err.contains("--raw"), "{}", said.err);
}
