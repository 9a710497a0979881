//! `abi.json`: everything two builds must agree on, as data, so that two revisions can be compared without building either.
//!
//! Sizes and offsets come from the compiler, names and C types of fields, functions and constants from the generated header. Names of
//! arguments are left out: a new name for one breaks nobody. `cargo xtask abi-diff` reads these files.

use std::path::{Path, PathBuf};

use onebit_plugin_api::layout::LAYOUTS;
use onebit_plugin_api::{ONEBIT_ABI_MAJOR, ONEBIT_ABI_MINOR, ONEBIT_ENTRY_SYMBOL, ONEBIT_NOTE_OWNER, ONEBIT_NOTE_SECTION};
use serde_json::{Map, Value, json};

const BLESS: &str = "ONEBIT_BLESS=1 cargo test -p onebit-plugin-api --test header --test snapshot";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn snapshot_path() -> PathBuf {
    root().join("abi.json")
}

#[test]
fn the_snapshot_is_up_to_date() {
    let mut generated = serde_json::to_string_pretty(&snapshot()).expect("JSON");
    generated.push('\n');
    if std::env::var_os("ONEBIT_BLESS").is_some() {
        std::fs::write(snapshot_path(), &generated).expect("the snapshot");
    }
    let kept = std::fs::read_to_string(snapshot_path()).unwrap_or_default();
    assert!(kept == generated, "abi.json differs from src/; if that is meant, run: {BLESS}");
}

fn snapshot() -> Value {
    let header = without_comments(&std::fs::read_to_string(root().join("include/onebit_plugin.h")).expect("the header"));
    let structs: Map<String, Value> = LAYOUTS
        .iter()
        .map(|layout| {
            let types = field_types(&header, layout.name);
            let fields: Vec<Value> = layout
                .fields
                .iter()
                .map(|field| {
                    let (_, kind) = types
                        .iter()
                        .find(|(name, _)| name == field.name)
                        .unwrap_or_else(|| panic!("the header has no {}.{}", layout.name, field.name));
                    json!({"name": field.name, "offset": field.offset, "size": field.size, "type": kind})
                })
                .collect();
            assert_eq!(types.len(), fields.len(), "{} has other fields in the header", layout.name);
            (layout.name.to_owned(), json!({"size": layout.size, "align": layout.align, "growable": layout.growable, "fields": fields}))
        })
        .collect();
    json!({
        "major": ONEBIT_ABI_MAJOR,
        "minor": ONEBIT_ABI_MINOR,
        "pointer_bytes": size_of::<usize>(),
        "structs": structs,
        "functions": functions(&header),
        "constants": constants(&header),
    })
}

fn without_comments(header: &str) -> String {
    header.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Name and C type of each field of a struct.
fn field_types(header: &str, name: &str) -> Vec<(String, String)> {
    let (_, rest) = header.split_once(&format!("typedef struct {name} {{")).unwrap_or_else(|| panic!("the header has no {name}"));
    let (body, _) = rest.split_once(&format!("}} {name};")).expect("its end");
    body.split(';').map(str::trim).filter(|field| !field.is_empty()).map(declaration).collect()
}

/// `const uint32_t *tokens` → `tokens`, `const uint32_t *`; functions and arrays likewise.
fn declaration(text: &str) -> (String, String) {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((result, rest)) = text.split_once("(*") {
        let (name, arguments) = rest.split_once(")(").expect("a function");
        let arguments: Vec<String> = arguments.trim_end_matches(')').split(", ").map(|argument| declaration(argument).1).collect();
        return (name.to_owned(), format!("{} (*)({})", result.trim().replace("struct ", ""), arguments.join(", ")));
    }
    let (text, array) = match text.split_once('[') {
        Some((text, array)) => (text.to_owned(), format!("[{array}")),
        None => (text, String::new()),
    };
    let name: String = {
        let reversed: String = text.chars().rev().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        reversed.chars().rev().collect()
    };
    let kind = text[..text.len() - name.len()].trim().trim_start_matches("struct ").replace("const struct ", "const ");
    // An argument that is only a type has no name.
    if kind.is_empty() { (String::new(), name) } else { (name, format!("{kind}{array}")) }
}

/// Types of functions that stand by themselves.
fn functions(header: &str) -> Map<String, Value> {
    header
        .split(';')
        .filter_map(|text| text.rsplit_once("typedef ").map(|(_, text)| text))
        .filter(|text| text.contains("(*") && !text.contains('{'))
        .map(declaration)
        .map(|(name, kind)| (name, kind.into()))
        .collect()
}

/// Numbers, and ids of capabilities; macros that compute are no part of the contract.
fn constants(header: &str) -> Map<String, Value> {
    let plain = |value: &str| value == "UINT32_MAX" || value.parse::<u64>().is_ok() || value.starts_with("\"onebit.");
    let mut constants: Map<String, Value> = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define ")?.split_once(' '))
        .filter(|(name, value)| plain(value.trim()) && !["ONEBIT_ABI_MAJOR", "ONEBIT_ABI_MINOR"].contains(name))
        .map(|(name, value)| (name.to_owned(), value.trim().into()))
        .collect();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    for (name, value) in [
        ("ONEBIT_ENTRY_SYMBOL", text(ONEBIT_ENTRY_SYMBOL.to_bytes())),
        ("ONEBIT_NOTE_OWNER", text(ONEBIT_NOTE_OWNER)),
        ("ONEBIT_NOTE_SECTION", ONEBIT_NOTE_SECTION.to_owned()),
    ] {
        constants.insert(name.into(), format!("{value:?}").into());
    }
    constants
}

#[test]
fn declarations_lose_the_names_of_arguments() {
    let is = |text: &str, name: &str, kind: &str| assert_eq!(declaration(text), (name.to_owned(), kind.to_owned()));
    is("size_t struct_size", "struct_size", "size_t");
    is("const uint32_t *tokens", "tokens", "const uint32_t *");
    is("const struct OnebitDevice *const *devices", "devices", "const OnebitDevice *const *");
    is("uint8_t uuid[16]", "uuid", "uint8_t[16]");
    is("struct OnebitStr id", "id", "OnebitStr");
    is("void (*close)(OnebitModel *model)", "close", "void (*)(OnebitModel *)");
    is(
        "OnebitStatus (*fit)(const struct OnebitFitArgs *args,\n   struct OnebitFitOut *out)",
        "fit",
        "OnebitStatus (*)(const OnebitFitArgs *, OnebitFitOut *)",
    );
}
