//! The machine is not always kind: ports in use, folders that cannot be written, disks that are full.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use onebit_tests::server::{Home, free_port};
use onebit_tests::{model_file, processes};

use crate::question;

#[test]
fn of_two_hosts_on_one_port_one_serves_and_one_says_why_not() {
    let first = Home::with_model().serve();
    let home = Home::with_model();
    let listen = format!("127.0.0.1:{}", first.port);
    let since = Instant::now();
    let output = home.run(&["serve", "--listen", &listen]);
    assert!(since.elapsed() < Duration::from_secs(10));
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&listen) && said.contains("use"), "{said}");
    first.client().post("/v1/chat/completions", &question("Hi", 1)).good();
}

#[test]
fn two_hosts_started_at_once_on_one_port_leave_exactly_one() {
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let homes = [Home::with_model(), Home::with_model()];
    let mut children: Vec<_> = homes.iter().map(|home| home.command(&["serve", "--listen", &listen]).spawn().unwrap()).collect();
    processes::eventually("one of them gives up", Duration::from_secs(20), || {
        children.iter_mut().any(|child| child.try_wait().unwrap().is_some())
    });
    std::thread::sleep(Duration::from_millis(500));
    let running = children.iter_mut().filter_map(|child| child.try_wait().unwrap().is_none().then_some(child)).collect::<Vec<_>>();
    assert_eq!(running.len(), 1);
    for child in running {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn port_zero_is_a_free_port_and_ipv6_works() {
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let home = Home::new();
        let log = home.path().join("log");
        let file = std::fs::File::create(&log).unwrap();
        let mut child = home.command(&["serve", "--listen", listen]).stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        let host = listen.trim_end_matches(":0");
        let mut port = None;
        processes::eventually("the log names the port", Duration::from_secs(20), || {
            let text = std::fs::read_to_string(&log).unwrap();
            port = text
                .split(&format!("{host}:"))
                .skip(1)
                .filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u16>().ok())
                .find(|port| *port != 0);
            port.is_some()
        });
        let client = onebit_tests::client::Client::new(format!("http://{host}:{}", port.unwrap()));
        processes::eventually("it answers", Duration::from_secs(10), || {
            client.try_get("/healthz").is_some_and(|answer| answer.status == 200)
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_socket_file_left_by_a_killed_host_is_no_obstacle_and_a_live_one_is() {
    let home = Home::new();
    let path = home.path().join("host.sock");
    let listen = format!("unix:{}", path.display());
    let answers = || {
        let Ok(mut socket) = UnixStream::connect(&path) else { return false };
        let _ = socket.write_all(b"GET /healthz HTTP/1.1\r\nHost: anything\r\nConnection: close\r\n\r\n");
        let mut text = String::new();
        socket.read_to_string(&mut text).is_ok() && text.starts_with("HTTP/1.1 200")
    };
    let start = || home.command(&["serve", "--listen", &listen]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let mut first = start();
    processes::eventually("the first answers", Duration::from_secs(20), answers);
    let second = home.run(&["serve", "--listen", &listen]);
    assert!(!second.status.success(), "a second host took the socket of a live one");
    assert!(String::from_utf8_lossy(&second.stderr).contains("host.sock"));
    assert!(answers(), "the second one broke the first");
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(path.exists(), "a killed host cannot tidy up");
    let mut third = start();
    processes::eventually("the next one answers", Duration::from_secs(20), answers);
    third.kill().unwrap();
    third.wait().unwrap();

    let long = home.run(&["serve", "--listen", &format!("unix:/tmp/{}", "x".repeat(120))]);
    assert!(!long.status.success());
    let said = String::from_utf8_lossy(&long.stderr).into_owned();
    assert!(said.contains("107") || said.contains("long"), "{said}");
}

#[test]
fn beyond_this_machine_needs_a_key_or_a_word() {
    let home = Home::new();
    let output = home.run(&["serve", "--listen", &format!("0.0.0.0:{}", free_port())]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("--insecure") && said.to_lowercase().contains("key"), "{said}");
}

/// Runs `script` in a mount namespace of its own, where it may mount what it likes.
fn in_own_mounts(home: &Home, script: &str) -> std::process::Output {
    let inner = home.command(&[]);
    let program = inner.get_program().to_owned();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg("sh").arg(program).arg(home.path()).arg(model_file());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(home.path()).output().unwrap()
}

#[test]
fn a_home_that_cannot_be_written_does_not_keep_a_model_from_answering() {
    let home = Home::with_model();
    // Root may write anywhere that is not mounted read-only, so mounted read-only it is.
    let script = r#"
        mount --bind "$2" "$2" && mount -o remount,bind,ro "$2" || exit 77
        touch "$2/probe" 2>/dev/null && exit 78
        exec "$1" run smollm2:135m "What is 2+2?" --temperature 0 --max-tokens 8
    "#;
    let output = in_own_mounts(&home, script);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("The answer to this"), "{said}");
}

#[test]
fn a_full_disk_during_pull_is_said_and_leaves_no_model_behind() {
    let home = Home::new();
    let script = r#"
        mount -t tmpfs -o size=8m none "$2/models" || exit 77
        "$1" pull "$3" --as half-a-model; code=$?
        ls -A "$2/models" >&2
        find "$2/models" -name '*.gguf' | grep -q . && exit 79
        exit $code
    "#;
    let output = in_own_mounts(&home, script);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(![Some(77), Some(79), Some(0)].contains(&output.status.code()), "{}: {said}", output.status);
    let lower = said.to_lowercase();
    assert!(lower.contains("space") || lower.contains("full"), "{said}");
}

#[test]
fn a_port_that_something_else_holds_is_named() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = other.local_addr().unwrap().to_string();
    let output = Home::new().run(&["serve", "--listen", &listen]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains(&listen));
}
