//! What a program sees of a pull, and what a name that somebody else gave may lead to.

use serde_json::{Value, json};

use crate::server::{File, Server};
use crate::support::{Said, User, model_bytes, sha256, small_gguf};

fn lines(said: &Said) -> Vec<Value> {
    said.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// A hub with one repository, `ada/tiny-GGUF`, all of whose files are these bytes.
fn hub(bytes: &[u8]) -> Server {
    let listing = json!({"id": "ada/tiny-GGUF", "siblings": [{"rfilename": "README.md"}, {"rfilename": "tiny-Q4_0.gguf"}, {"rfilename": "tiny-Q8_0.gguf"}]});
    Server::start(File { bytes: bytes.to_vec(), etag: Some("\"v1\""), ranges: true, listing: Some(listing.to_string()), ..File::default() })
}

fn pull(user: &User, hub: &Server, words: &[&str]) -> Said {
    let mut command = user.command();
    command.args(["pull", "--models-dir"]).arg(user.models()).args(words).env("HF_ENDPOINT", hub.url("").trim_end_matches('/'));
    Said::of(command.output().unwrap())
}

#[test]
fn a_program_is_told_every_step_and_the_end_in_lines_of_json() {
    let (user, bytes) = (User::new(), model_bytes(3 << 20));
    let server = Server::start(File { bytes: bytes.clone(), etag: Some("\"v1\""), ranges: true, cuts: vec![1 << 20], ..File::default() });
    let (url, hash) = (server.url("m.gguf"), sha256(&bytes));
    let said = user.pull(&["--json", &url, "--sha256", &hash]).ends_with_code(0);
    let told = lines(&said);
    let (last, steps) = told[1..].split_last().unwrap();
    assert_eq!(told[0], json!({"status": "found"}));
    assert!(steps.len() >= 3, "{told:?}");
    let mut before = 0;
    for step in steps {
        assert_eq!((&step["status"], &step["file"], &step["sha256"]), (&json!("pulling"), &json!("m.gguf"), &json!(hash)));
        assert_eq!(step["total"], bytes.len());
        let completed = step["completed"].as_u64().unwrap();
        assert!(completed >= before, "{told:?}");
        before = completed;
    }
    assert_eq!(before, bytes.len() as u64);
    let path = user.models().join("m.gguf");
    assert_eq!(*last, json!({"status": "done", "path": path, "sha256": hash, "bytes": bytes.len(), "was_there": false}));
    let again = lines(&user.pull(&["--json", &url, "--sha256", &hash]).ends_with_code(0));
    assert_eq!((again.len(), &again[1]["was_there"]), (2, &json!(true)));
}

#[test]
fn a_program_that_is_gone_ends_its_pull_and_what_has_arrived_stays() {
    let (user, bytes) = (User::new(), model_bytes(1 << 20));
    // A little with each try, and a wait between two.
    let server = Server::start(File { bytes, etag: Some("\"v1\""), ranges: true, cuts: vec![1000; 1000], ..File::default() });
    let mut command = user.command();
    command.args(["pull", "--json", "--models-dir"]).arg(user.models()).arg(server.url("m.gguf"));
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut told = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut told, &mut line).unwrap();
    assert_eq!(line.trim_end(), r#"{"status":"found"}"#);
    drop(told);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(user.models().join("m.gguf.part").exists());
}

#[test]
fn a_program_is_told_why_nothing_came_and_the_exit_says_it_too() {
    let user = User::new();
    for (what, code, word) in
        [("no-such-model", 3, "no-such-model"), ("ftp://x/y", 2, "ftp"), ("http://127.0.0.1:1/m.gguf", 6, "cannot connect")]
    {
        let said = user.pull(&["--json", "--attempts", "1", what]).ends_with_code(code);
        let told = lines(&said);
        let last = told.last().unwrap();
        assert_eq!((&last["status"], &last["exit"]), (&json!("failed"), &json!(code)), "{told:?}");
        assert!(last["message"].as_str().unwrap().contains(word), "{told:?}");
    }
}

#[test]
fn a_repository_is_pulled_by_its_name_and_asked_for_by_it() {
    let (user, bytes) = (User::new(), small_gguf());
    let hub = hub(&bytes);
    let said = pull(&user, &hub, &["hf.co/ada/tiny-GGUF:q8_0"]).ends_with_code(0);
    assert!(said.err.contains("onebit-host run hf.co/ada/tiny-GGUF:q8_0"), "{}", said.err);
    assert_eq!(std::fs::read(user.models().join("ada/tiny-GGUF/tiny-Q8_0.gguf")).unwrap(), bytes);
    assert!(hub.requests().iter().any(|request| request[0].contains("/api/models/ada/tiny-GGUF")), "{:?}", hub.requests());
    let models = user.models();
    let listed = user.run(&["list", "--json", "--models-dir", models.to_str().unwrap()]).ends_with_code(0);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    let model = listed["models"].as_array().unwrap().iter().find(|model| model["name"] == "hf.co/ada/tiny-GGUF:q8_0").unwrap();
    assert_eq!((&model["sha256"], &model["source"]), (&json!(sha256(&bytes)), &json!(["hf:ada/tiny-GGUF/tiny-Q8_0.gguf"])));
    // From now on it is a model like others, with a source: what is lost comes again.
    std::fs::remove_file(user.models().join("ada/tiny-GGUF/tiny-Q8_0.gguf")).unwrap();
    pull(&user, &hub, &["hf.co/ada/tiny-GGUF:q8_0", "--json", "--by-name"]).ends_with_code(0);
    assert_eq!(std::fs::read(user.models().join("ada/tiny-GGUF/tiny-Q8_0.gguf")).unwrap(), bytes);
    let said = pull(&user, &hub, &["hf.co/ada/tiny-GGUF:Q2_K"]).ends_with_code(3);
    assert!(said.err.contains("tiny-Q4_0.gguf"), "{}", said.err);
}

#[test]
fn a_name_that_somebody_else_gave_opens_no_path_and_no_address() {
    let (user, bytes) = (User::new(), model_bytes(1000));
    let server = Server::start(File { bytes: bytes.clone(), ..File::default() });
    let secret = user.file("secret.gguf", &bytes);
    for name in [
        secret.to_str().unwrap(),
        "./secret.gguf",
        "../secret.gguf",
        &server.url("m.gguf"),
        "pypi:tiny",
        "hf:a/b/c.gguf",
        "file:///etc/passwd",
    ] {
        let said = user.pull(&["--json", "--by-name", "--", name]).ends_with_code(3);
        assert!(lines(&said).last().unwrap()["message"].as_str().unwrap().contains("there is no model"), "{}", said.out);
    }
    user.pull(&["--by-name", "--", "--models-dir"]).ends_with_code(3);
    assert!(server.requests().is_empty() && !user.models().join("secret.gguf").exists());
}
