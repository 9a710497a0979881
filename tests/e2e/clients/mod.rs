//! Client libraries and programs as people use them, each in an environment of its own with pinned versions.
//!
//! What a client's script has checked stands in the table of the README, which is held against it: `ONEBIT_BLESS=1` writes the table anew.

mod agents;
mod node;
mod python;

use std::path::{Path, PathBuf};
use std::process::Command;

pub fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

/// A Python environment with what `requirements` names, made once per user and list.
pub fn environment(requirements: &str) -> PathBuf {
    let list = clients().join(requirements);
    let folder = made(requirements, &std::fs::read_to_string(&list).unwrap(), |folder| {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder));
        let python = folder.join("bin/python");
        run(Command::new(python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]).arg(&list));
    });
    folder.join("bin/python")
}

/// A folder with real chat templates, fetched once per user.
pub fn templates() -> PathBuf {
    let script = clients().join("fetch_templates.py");
    made("chat-templates", &std::fs::read_to_string(&script).unwrap(), |folder| {
        run(Command::new("python3").arg(&script).arg(folder));
    })
}

/// A folder with the scripts of `folder` and the packages that its `package.json` names, made once per user and list.
fn packages(folder: &str) -> PathBuf {
    let scripts = clients().join(folder);
    let list = std::fs::read_to_string(scripts.join("package.json")).unwrap();
    let place = made(folder, &list, |place| {
        std::fs::create_dir_all(place).unwrap();
        std::fs::write(place.join("package.json"), &list).unwrap();
        run(Command::new("npm").args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]).current_dir(place));
    });
    for file in std::fs::read_dir(&scripts).unwrap().map(|entry| entry.unwrap().path()) {
        std::fs::copy(&file, place.join(file.file_name().unwrap())).unwrap();
    }
    place
}

/// A folder for what `list` names, filled by `fill` unless it is there. A changed list gets another folder, so that nobody tests against
/// yesterday's versions.
fn made(name: &str, list: &str, fill: impl FnOnce(&Path)) -> PathBuf {
    let key = list.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let folder = kept().join(format!("{name}-{key:016x}"));
    std::fs::create_dir_all(kept()).unwrap();
    // Two tests may want the same one at the same time; the second waits, and finds it complete.
    let lock = std::fs::File::create(kept().join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    if !folder.join("complete").exists() {
        let _ = std::fs::remove_dir_all(&folder);
        fill(&folder);
        std::fs::write(folder.join("complete"), "").unwrap();
    }
    folder
}

/// Where what was fetched for tests is kept between runs.
pub fn kept() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"))).expect("HOME is set");
    cache.join("onebit/clients")
}

pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    text
}

/// The version of a package that a list of either kind pins.
fn pinned(list: &str, package: &str) -> String {
    let text = std::fs::read_to_string(clients().join(list)).unwrap();
    let quoted = format!("\"{package}\": \"");
    let after = text.lines().find_map(|line| line.strip_prefix(&format!("{package}==")).or_else(|| line.trim().strip_prefix(&quoted)));
    after.unwrap_or_else(|| panic!("{list} does not pin {package}")).trim_end_matches(['"', ',']).to_owned()
}

/// What a script says that it has checked.
fn checked(said: &str) -> String {
    let checks: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("checked ")).collect();
    assert!(!checks.is_empty(), "it checked nothing:\n{said}");
    checks.join(", ")
}

/// Holds a row of the README's table against what was found.
fn attest(client: &str, version: &str, found: &str) {
    const BEGIN: &str = "<!-- clients -->\n";
    let readme = clients().join("../../README.md");
    let row = format!("| {client} | {version} | {found} |\n");
    let first = format!("| {client} |");
    if std::env::var_os("ONEBIT_BLESS").is_none() {
        let text = std::fs::read_to_string(readme).unwrap();
        assert!(text.contains(&row), "the README has another row than\n{row}ONEBIT_BLESS=1 writes it anew");
        return;
    }
    let lock = std::fs::File::create(kept().join("readme.lock")).unwrap();
    lock.lock().unwrap();
    let text = std::fs::read_to_string(&readme).unwrap();
    let (before, after) = text.split_once(BEGIN).expect("the README has a table of clients");
    let (table, after) = after.split_once("\n\n").expect("an empty line ends the table");
    let (head, rows): (Vec<_>, Vec<_>) = table.lines().map(|line| format!("{line}\n")).enumerate().partition(|(number, _)| *number < 2);
    let mut rows: Vec<String> = rows.into_iter().map(|(_, line)| line).filter(|line| !line.starts_with(&first)).chain([row]).collect();
    rows.sort_by_key(|row| row.to_lowercase());
    let lines: Vec<String> = head.into_iter().map(|(_, line)| line).chain(rows).collect();
    std::fs::write(readme, format!("{before}{BEGIN}{}\n{after}", lines.concat())).unwrap();
}
