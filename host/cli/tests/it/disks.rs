//! Disks that are full, small or read-only. Each test mounts its own in a mount namespace of its own, so nothing is left behind.

use std::process::Command;

use crate::server::{File, Server};
use crate::support::{Said, User, model_bytes, sha256};

/// Runs a shell line in which `$MODELS` is a fresh disk with these mount options. Needs root or user namespaces.
fn on_disk(user: &User, options: &str, line: &str) -> Said {
    let models = user.models();
    std::fs::create_dir_all(&models).unwrap();
    let mut command = Command::new("unshare");
    user.dress(&mut command);
    let root = rustix::process::geteuid().is_root();
    command.args(if root { &["-m"][..] } else { &["-U", "-r", "-m"] }).args(["sh", "-c"]);
    command.arg(format!("mount -t tmpfs -o {options} tmpfs \"$MODELS\" || exit 99\n{line}"));
    command.env("MODELS", &models).env("PROGRAM", env!("CARGO_BIN_EXE_onebit-host"));
    let said = Said::of(command.output().expect("unshare runs"));
    assert_ne!(said.code, Some(99), "this test needs the right to mount: {}", said.err);
    said
}

#[test]
fn a_file_that_cannot_fit_is_refused_before_it_is_begun() {
    let (user, bytes) = (User::new(), model_bytes(3 << 20));
    let server = Server::start(File { bytes: bytes.clone(), ..File::default() });
    let line = format!(
        "\"$PROGRAM\" pull --models-dir \"$MODELS\" {}; code=$?; stat -c %s \"$MODELS\"/m.gguf.part; exit $code",
        server.url("m.gguf")
    );
    let said = on_disk(&user, "size=4m", &line).ends_with_code(9);
    assert!(said.err.contains("are free") && said.err.contains("--models-dir"), "{}", said.err);
    assert_eq!(said.out.trim(), "0", "no byte was written");
}

#[test]
fn a_disk_that_fills_up_keeps_what_arrived_and_the_next_pull_goes_on() {
    let (user, bytes) = (User::new(), model_bytes(24 << 20));
    // Without a length nobody can know beforehand that it does not fit.
    let server = Server::start(File { bytes: bytes.clone(), chunked: true, ranges: true, etag: Some("\"v1\""), ..File::default() });
    let pull = format!("\"$PROGRAM\" pull --models-dir \"$MODELS\" {} --sha256 {}", server.url("m.gguf"), sha256(&bytes));
    let line = format!(
        "{pull}; echo \"first $?\"; mount -o remount,size=64m \"$MODELS\"; {pull}; code=$?; sha256sum < \"$MODELS\"/m.gguf; exit $code"
    );
    let said = on_disk(&user, "size=20m", &line).ends_with_code(0);
    assert!(said.out.contains("first 9"), "{}", said.out);
    assert!(said.err.contains("What has arrived is kept"), "{}", said.err);
    assert!(said.out.contains(&sha256(&bytes)), "{}", said.out);
    let last = server.requests().len() - 1;
    let range = server.header(last, "range").expect("the second pull asks for the rest");
    let from: u64 = range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap();
    assert!(from > 4 << 20, "went on at {from}");
}

#[test]
fn a_read_only_folder_is_said_and_another_is_suggested() {
    let user = User::new();
    let server = Server::start(File { bytes: model_bytes(1000), ..File::default() });
    let said = on_disk(&user, "ro,size=1m", &format!("exec \"$PROGRAM\" pull --models-dir \"$MODELS\" {}", server.url("m.gguf")))
        .ends_with_code(10);
    assert!(said.err.contains("Read-only") && said.err.contains("--models-dir"), "{}", said.err);
    // A home that cannot be written: everything that only reads goes on.
    let said = on_disk(&user, "ro,size=1m", "HOME=\"$MODELS\" exec \"$PROGRAM\" list").ends_with_code(0);
    assert!(said.err.contains("No models yet"), "{}", said.err);
}
