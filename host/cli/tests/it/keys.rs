//! `key`, and a server that lives by the file.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::exits::Serving;
use crate::support::{User, sha256};

fn key(user: &User, args: &[&str], file: &Path) -> crate::support::Said {
    user.run(&[&["key"], args, &["--api-keys-file", file.to_str().unwrap()]].concat())
}

#[test]
fn a_new_key_is_shown_once_and_only_its_hash_is_kept() {
    let user = User::new();
    let file = user.home().join("keys.toml");
    let said =
        key(&user, &["new", "ann", "--requests-per-minute", "60", "--concurrent", "2", "--priority", "low"], &file).ends_with_code(0);
    let secret = said.out.trim_end();
    assert!(secret.len() == 67 && secret.starts_with("ob-") && !said.err.contains(secret), "{}{}", said.out, said.err);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(&sha256(secret.as_bytes())) && !text.contains(secret), "{text}");
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let other = key(&user, &["new", "boss", "--scope", "admin"], &file).ends_with_code(0);
    assert_ne!(other.out, said.out);
    let list = key(&user, &["list"], &file).ends_with_code(0).out;
    assert!(list.contains("ann   inference  60") && list.contains("boss  admin"), "{list}");
    let json: serde_json::Value = serde_json::from_str(&key(&user, &["list", "--json"], &file).ends_with_code(0).out).unwrap();
    let expected = serde_json::json!({"name": "ann", "scope": "inference", "requests_per_minute": 60, "tokens_per_minute": null, "concurrent": 2, "priority": "low"});
    assert_eq!(json["keys"][0], expected);
    key(&user, &["remove", "ann"], &file).ends_with_code(0);
    let list = key(&user, &["list"], &file).ends_with_code(0).out;
    assert!(!list.contains("ann") && list.contains("boss"), "{list}");
}

#[test]
fn what_cannot_be_done_has_its_code_and_changes_nothing() {
    let user = User::new();
    let file = user.home().join("keys.toml");
    key(&user, &["list"], &file).ends_with_code(0);
    key(&user, &["remove", "nobody"], &file).ends_with_code(3);
    assert!(!file.exists());
    key(&user, &["new", "ann"], &file).ends_with_code(0);
    let before = std::fs::read(&file).unwrap();
    for (args, code) in [
        (&["new", "ann"][..], 2),
        (&["new", "a b"], 2),
        (&["new", "api_key"], 2),
        (&["new", "x", "--scope", "root"], 2),
        (&["new", "x", "--concurrent", "0"], 2),
        (&["new", "x", "--priority", "highest"], 2),
        (&["remove", "bob"], 3),
    ] {
        let said = key(&user, args, &file).ends_with_code(code);
        assert!(said.out.is_empty(), "{args:?}: {}", said.out);
    }
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert!(user.run(&["key", "list"]).ends_with_code(2).err.contains("--api-keys-file"));
    let nowhere = user.home().join("no/such/folder/keys.toml");
    key(&user, &["new", "ann"], &nowhere).ends_with_code(3);
    for broken in ["[[key]]\nname = \"a\"\n", "just words\n", "key = 1\n"] {
        let file = user.file("broken.toml", broken);
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        key(&user, &["new", "ann"], &file).ends_with_code(2);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), broken);
    }
    let open = user.file("open.toml", "");
    std::fs::set_permissions(&open, Permissions::from_mode(0o644)).unwrap();
    assert!(key(&user, &["new", "ann"], &open).ends_with_code(2).err.contains("chmod 600"));
}

#[test]
fn what_a_person_wrote_stays_and_so_do_mode_and_link() {
    let user = User::new();
    let hash = sha256(b"x");
    let written =
        format!("# Keys of the lab.\n\n# Ann left in May.\n[[key]]\nname = 'ann'\nsha256 = \"{hash}\"\nscope = \"admin\" # for now\n");
    let real = user.file("real.toml", &written);
    std::fs::set_permissions(&real, Permissions::from_mode(0o640)).unwrap();
    let link = user.home().join("keys.toml");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    key(&user, &["new", "bob"], &link).ends_with_code(0);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    let text = std::fs::read_to_string(&real).unwrap();
    assert!(text.starts_with(&written) && text.contains("bob"), "{text}");
    assert_eq!(std::fs::metadata(&real).unwrap().mode() & 0o777, 0o640);
    key(&user, &["remove", "bob"], &link).ends_with_code(0);
    assert_eq!(std::fs::read_to_string(&real).unwrap().trim_end(), written.trim_end());
    assert_eq!(
        std::fs::read_dir(user.home())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".tmp"))
            .count(),
        0
    );
}

#[test]
fn keys_made_at_the_same_time_are_all_there() {
    let user = User::new();
    let file = user.home().join("keys.toml");
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (user, file) = (&user, &file);
            scope.spawn(move || key(user, &["new", &format!("key-{number}")], file).ends_with_code(0));
        }
    });
    assert_eq!(key(&user, &["list"], &file).ends_with_code(0).out.matches("key-").count(), 8);
}

/// The status of an answer.
fn status(address: &str, path: &str, key: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_running_server_takes_keys_over_and_lets_them_go() {
    let user = User::new();
    let file = user.home().join("keys.toml");
    let boss = key(&user, &["new", "boss", "--scope", "admin"], &file).ends_with_code(0).out;
    let mut serving = Serving::start(&user, &["--listen", "0.0.0.0:0", "--api-keys-file", file.to_str().unwrap()]);
    let first = serving.line();
    let address = first.trim().rsplit("http://").next().unwrap().replace("0.0.0.0", "127.0.0.1");
    assert_eq!((status(&address, "/metrics", boss.trim()), status(&address, "/v1/models", "ob-wrong")), (200, 401));
    let ann = key(&user, &["new", "ann"], &file).ends_with_code(0).out;
    let soon = |wanted| {
        (0..100).any(|_| {
            status(&address, "/v1/models", ann.trim()) == wanted || {
                std::thread::sleep(Duration::from_millis(50));
                false
            }
        })
    };
    assert!(soon(200), "taken over");
    assert_eq!(status(&address, "/metrics", ann.trim()), 403);
    key(&user, &["remove", "ann"], &file).ends_with_code(0);
    assert!(soon(401), "let go");
    serving.signal(Signal::TERM);
    let (code, err) = serving.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("tls_cert") && err.contains("0.0.0.0"), "keys in the clear: {err}");
    assert!(!err.contains(ann.trim()) && !err.contains(boss.trim()), "{err}");
}

struct SelfSigned {
    cert: rcgen::Certificate,
    key: rcgen::KeyPair,
}

/// As `openssl req -x509` makes them: for another name, and its own authority.
fn self_signed() -> SelfSigned {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(["ai.example".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    SelfSigned { cert: params.self_signed(&key).unwrap(), key }
}

#[test]
fn a_server_with_tls_says_https_and_ps_finds_it() {
    let user = User::new();
    let made = self_signed();
    let cert = user.file("cert.pem", made.cert.pem());
    let private = user.file("key.pem", made.key.serialize_pem());
    let (cert, private) = (cert.to_str().unwrap(), private.to_str().unwrap());
    for half in [["--tls-cert", cert], ["--tls-key", private]] {
        let said = user.run(&["serve", "--listen", "127.0.0.1:0", half[0], half[1]]).ends_with_code(2);
        assert!(said.err.contains("both"), "{}", said.err);
    }
    user.run(&["serve", "--listen", "127.0.0.1:0", "--tls-cert", private, "--tls-key", private]).ends_with_code(2);
    user.run(&["serve", "--listen", "127.0.0.1:0", "--tls-cert", "/no/such/file", "--tls-key", private]).ends_with_code(3);
    let mut serving = Serving::start(&user, &["--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", private]);
    let address = serving.line().trim().rsplit("https://").next().unwrap().to_owned();
    user.run(&["ps", "--listen", &address, "--tls-cert", cert]).ends_with_code(0);
    user.run(&["ps", "--listen", &address, "--tls-cert", private]).ends_with_code(2);
    let other = user.file("other.pem", self_signed().cert.pem());
    user.run(&["ps", "--listen", &address, "--tls-cert", other.to_str().unwrap()]).ends_with_code(3);
    user.run(&["ps", "--listen", &address]).ends_with_code(3);
    serving.signal(Signal::TERM);
    assert_eq!(serving.end().0, Some(0));
}
