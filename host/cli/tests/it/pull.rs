//! Files over HTTP: whole, checked, gone on with, and never in the way of a file that works.

use crate::server::{File, Server};
use crate::support::{User, model_bytes, sha256};

fn file(bytes: &[u8]) -> File {
    File { bytes: bytes.to_vec(), etag: Some("\"v1\""), ranges: true, ..File::default() }
}

#[test]
fn a_file_arrives_whole_and_nothing_is_left_beside_it() {
    let (user, bytes) = (User::new(), model_bytes(300_000));
    let server = Server::start(file(&bytes));
    let said = user.pull(&[&server.url("dir/m%20x.gguf"), "--sha256", &sha256(&bytes)]).ends_with_code(0);
    assert!(said.out.contains("m x.gguf is here") && said.out.contains(&sha256(&bytes)), "{}", said.out);
    let names: Vec<_> = std::fs::read_dir(user.models()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["m x.gguf"]);
    assert_eq!(std::fs::read(user.models().join("m x.gguf")).unwrap(), bytes);
}

#[test]
fn a_connection_that_breaks_is_gone_on_with() {
    let (user, bytes) = (User::new(), model_bytes(500_000));
    let server = Server::start(File { cuts: vec![100_000, 50_000], ..file(&bytes) });
    user.pull(&[&server.url("m.gguf")]).ends_with_code(0);
    assert_eq!(std::fs::read(user.models().join("m.gguf")).unwrap(), bytes);
    assert_eq!(server.header(0, "range"), None);
    assert_eq!(server.header(1, "range").as_deref(), Some("bytes=100000-"));
    assert_eq!(server.header(1, "if-range").as_deref(), Some("\"v1\""));
    assert_eq!(server.header(2, "range").as_deref(), Some("bytes=150000-"));
}

#[test]
fn a_pull_that_gave_up_is_gone_on_with_by_the_next_one() {
    let (user, bytes) = (User::new(), model_bytes(500_000));
    let server = Server::start(File { cuts: vec![100_000, 0], ..file(&bytes) });
    let said = user.pull(&[&server.url("m.gguf"), "--attempts", "1"]).ends_with_code(6);
    assert!(said.err.contains("the same command goes on from there"), "{}", said.err);
    assert!(!user.models().join("m.gguf").exists());
    assert_eq!(std::fs::metadata(user.models().join("m.gguf.part")).unwrap().len(), 100_000);
    server.change(|file| file.cuts.clear());
    user.pull(&[&server.url("m.gguf"), "--sha256", &sha256(&bytes)]).ends_with_code(0);
    let last = server.requests().len() - 1;
    assert_eq!(server.header(last, "range").as_deref(), Some("bytes=100000-"));
    assert_eq!(std::fs::read(user.models().join("m.gguf")).unwrap(), bytes);
}

#[test]
fn a_file_that_changed_meanwhile_begins_anew() {
    let (user, old, new) = (User::new(), model_bytes(500_000), model_bytes(400_000));
    let server = Server::start(File { cuts: vec![100_000], ..file(&old) });
    user.pull(&[&server.url("m.gguf"), "--attempts", "1"]).ends_with_code(6);
    server.change(|file| {
        file.bytes = new.clone();
        file.etag = Some("\"v2\"");
    });
    user.pull(&[&server.url("m.gguf")]).ends_with_code(0);
    assert_eq!(std::fs::read(user.models().join("m.gguf")).unwrap(), new);
}

#[test]
fn a_server_without_ranges_is_no_obstacle() {
    let (user, bytes) = (User::new(), model_bytes(300_000));
    let server = Server::start(File { ranges: false, cuts: vec![10_000], ..file(&bytes) });
    user.pull(&[&server.url("m.gguf")]).ends_with_code(0);
    assert_eq!(std::fs::read(user.models().join("m.gguf")).unwrap(), bytes);
}

#[test]
fn a_part_that_is_whole_already_needs_only_its_name() {
    let (user, bytes) = (User::new(), model_bytes(100_000));
    let server = Server::start(file(&bytes));
    let stamp = format!("{{\"source\":\"{}\",\"etag\":\"\\\"v1\\\"\",\"last_modified\":null,\"sha256\":null}}", server.url("m.gguf"));
    user.file("models/m.gguf.part", &bytes);
    user.file("models/m.gguf.part.json", stamp);
    user.pull(&[&server.url("m.gguf")]).ends_with_code(0);
    assert_eq!(server.header(0, "range").as_deref(), Some("bytes=100000-"));
    assert_eq!(std::fs::read(user.models().join("m.gguf")).unwrap(), bytes);
}

#[test]
fn a_wrong_sha256_is_an_error_and_the_old_file_stays() {
    let (user, bytes) = (User::new(), model_bytes(100_000));
    let server = Server::start(file(&bytes));
    user.file("models/m.gguf", b"GGUF old");
    let said = user.pull(&[&server.url("m.gguf"), "--sha256", &"0".repeat(64)]).ends_with_code(7);
    assert!(said.err.contains(&sha256(&bytes)) && said.err.contains(&"0".repeat(64)), "{}", said.err);
    assert_eq!(std::fs::read(user.models().join("m.gguf")).unwrap(), b"GGUF old");
    assert!(!user.models().join("m.gguf.part").exists() && !user.models().join("m.gguf.part.json").exists());
}

#[test]
fn a_file_nobody_knows_the_hash_of_is_replaced_only_if_forced() {
    let (user, bytes) = (User::new(), model_bytes(100_000));
    let server = Server::start(file(&bytes));
    user.file("models/m.gguf", b"GGUF old");
    let said = user.pull(&[&server.url("m.gguf")]).ends_with_code(1);
    assert!(said.err.contains("--force"), "{}", said.err);
    assert!(server.requests().is_empty());
    user.pull(&[&server.url("m.gguf"), "--force"]).ends_with_code(0);
    assert_eq!(std::fs::read(user.models().join("m.gguf")).unwrap(), bytes);
    // The right file is not fetched again.
    let before = server.requests().len();
    let said = user.pull(&[&server.url("m.gguf"), "--sha256", &sha256(&bytes)]).ends_with_code(0);
    assert!(said.out.contains("already"), "{}", said.out);
    assert_eq!(server.requests().len(), before);
}

#[test]
fn a_web_page_never_becomes_a_model() {
    let user = User::new();
    let page = Server::start(File { content_type: Some("text/html; charset=utf-8"), ..file(b"<html>sign in</html>") });
    let said = user.pull(&[&page.url("m.gguf")]).ends_with_code(7);
    assert!(said.err.contains("web page"), "{}", said.err);
    let liar = Server::start(file(b"<html>sign in</html>"));
    let said = user.pull(&[&liar.url("m.gguf")]).ends_with_code(7);
    assert!(said.err.contains("not a GGUF file"), "{}", said.err);
    assert!(!user.models().join("m.gguf").exists());
}

#[test]
fn every_refusal_has_its_code_and_its_advice() {
    let (user, bytes) = (User::new(), model_bytes(10_000));
    let server = Server::start(File { refusals: vec!["404 Not Found", "401 Unauthorized", "503 Busy", "503 Busy"], ..file(&bytes) });
    let said = user.pull(&[&server.url("m.gguf")]).ends_with_code(3);
    assert!(said.err.contains("spelling"), "{}", said.err);
    let said = user.pull(&[&server.url("m.gguf")]).ends_with_code(6);
    assert!(said.err.contains("HF_TOKEN"), "{}", said.err);
    // Busy twice, then there.
    user.pull(&[&server.url("m.gguf")]).ends_with_code(0);
    let said = user.pull(&["http://127.0.0.1:1/m2.gguf", "--attempts", "2"]).ends_with_code(6);
    assert!(said.err.contains("cannot connect"), "{}", said.err);
    let said = user.pull(&["http://example.org/m3.gguf"]).ends_with_code(2);
    assert!(said.err.contains("not encrypted"), "{}", said.err);
    user.pull(&["ftp://example.org/m.gguf"]).ends_with_code(2);
    user.pull(&["no-such-model"]).ends_with_code(3);
    user.pull(&["./no-such-file.gguf"]).ends_with_code(3);
}

#[test]
fn the_hub_names_the_hash_and_its_token_stays_with_it() {
    let (user, bytes) = (User::new(), model_bytes(200_000));
    let store = Server::start(file(&bytes));
    let linked = |sha256: String| File {
        redirect: Some((store.url("blob"), vec![("x-linked-etag", format!("\"{sha256}\"")), ("x-linked-size", bytes.len().to_string())])),
        ..File::default()
    };
    let hub = Server::start(linked(sha256(&bytes)));
    let pull = |what: &str| {
        let mut command = user.command();
        command.args(["pull", "--models-dir"]).arg(user.models()).arg(what);
        command.env("HF_ENDPOINT", hub.url("").trim_end_matches('/')).env("HF_TOKEN", "hush");
        crate::support::Said::of(command.output().unwrap())
    };
    let said = pull("hf:ada/models@v2/gguf/m.gguf").ends_with_code(0);
    assert!(said.out.contains(&sha256(&bytes)), "{}", said.out);
    assert!(hub.requests()[0][0].starts_with("HEAD /ada/models/resolve/v2/gguf/m.gguf "), "{:?}", hub.requests());
    assert_eq!(hub.header(1, "authorization").as_deref(), Some("Bearer hush"));
    assert_eq!(store.header(0, "authorization"), None, "the token must not reach the store");
    assert!(!said.err.contains("hush") && !said.out.contains("hush"));
    // A store that sends something else than the hub has named.
    hub.change(|file| *file = linked("1".repeat(64)));
    pull("hf:ada/models/other.gguf").ends_with_code(7);
}

#[test]
fn two_pulls_of_one_file_do_not_mix() {
    let user = User::new();
    let part = user.file("models/m.gguf.part", b"GG");
    let other = std::fs::File::open(&part).unwrap();
    other.lock().unwrap();
    let server = Server::start(file(&model_bytes(1000)));
    let said = user.pull(&[&server.url("m.gguf")]).ends_with_code(1);
    assert!(said.err.contains("another pull"), "{}", said.err);
    assert_eq!(std::fs::read(part).unwrap(), b"GG");
}

#[test]
fn a_part_that_is_a_link_is_not_written_through() {
    let user = User::new();
    let target = user.file("precious", b"precious");
    std::fs::create_dir_all(user.models()).unwrap();
    std::os::unix::fs::symlink(&target, user.models().join("m.gguf.part")).unwrap();
    let server = Server::start(file(&model_bytes(1000)));
    user.pull(&[&server.url("m.gguf")]).ends_with_code(1);
    assert_eq!(std::fs::read(target).unwrap(), b"precious");
}

#[test]
fn names_cannot_leave_the_models_folder() {
    let (user, bytes) = (User::new(), model_bytes(1000));
    let server = Server::start(file(&bytes));
    for url in [server.url("..%2Fescaped.gguf"), server.url(".hidden.gguf"), server.url("a%5Cb.gguf"), server.url("")] {
        user.pull(&[&url]).ends_with_code(2);
    }
    user.pull(&[&server.url("m.gguf"), "--as", "../x.gguf"]).ends_with_code(2);
    assert!(!user.home().join("escaped.gguf").exists() && !user.home().join("x.gguf").exists());
}

#[test]
fn a_local_file_is_copied_and_checked() {
    let (user, bytes) = (User::new(), model_bytes(5000));
    let from = user.file("down loads/m.gguf", &bytes);
    user.pull(&[from.to_str().unwrap()]).ends_with_code(0);
    assert_eq!(std::fs::read(user.models().join("m.gguf")).unwrap(), bytes);
    // A file that lies there already is only looked at.
    let there = user.models().join("m.gguf");
    user.pull(&[there.to_str().unwrap(), "--sha256", &sha256(&bytes)]).ends_with_code(0);
    user.pull(&[there.to_str().unwrap(), "--sha256", &"0".repeat(64)]).ends_with_code(7);
    assert_eq!(std::fs::read(there).unwrap(), bytes);
}

#[test]
fn a_manifest_names_several_sources_and_the_first_that_works_is_used() {
    let (user, bytes) = (User::new(), model_bytes(100_000));
    let server = Server::start(File { refusals: vec!["404 Not Found"], ..file(&bytes) });
    let manifest = format!(
        "schema = 1\nname = \"tiny\"\n[model]\nfile = \"tiny.gguf\"\nsha256 = \"{}\"\nbytes = {}\nsource = [\"{}\", \"{}\"]\n",
        sha256(&bytes),
        bytes.len(),
        server.url("gone.gguf"),
        server.url("other-name.gguf"),
    );
    user.file("manifests/tiny.toml", manifest);
    let manifests = user.home().join("manifests");
    let said = user.pull(&["tiny", "--manifest-dir", manifests.to_str().unwrap()]).ends_with_code(0);
    assert!(said.err.contains("gone.gguf") && said.err.contains("onebit-host run tiny"), "{}", said.err);
    assert_eq!(std::fs::read(user.models().join("tiny.gguf")).unwrap(), bytes);
    let said = user.pull(&["tinny", "--manifest-dir", manifests.to_str().unwrap()]).ends_with_code(3);
    assert!(said.err.contains("Did you mean tiny?"), "{}", said.err);
}
