//! The layout of the border is the same for every compiler that is here: each Rust toolchain of this machine (stable, nightly, old ones),
//! gcc and clang, as C and as C++. What each says is compared with `abi.json`.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// One line for each struct and field: what every compiler is to print.
fn expected() -> String {
    let text = std::fs::read_to_string(root().join("abi.json")).expect("abi.json");
    let snapshot: Value = serde_json::from_str(&text).expect("JSON");
    let mut lines = String::new();
    for (name, layout) in snapshot["structs"].as_object().expect("structs") {
        writeln!(lines, "{name} {} {}", layout["size"], layout["align"]).expect("text");
        for field in layout["fields"].as_array().expect("fields") {
            writeln!(lines, "{name}.{} {} {}", field["name"].as_str().expect("a name"), field["offset"], field["size"]).expect("text");
        }
    }
    lines
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The toolchains of rustup, or the one compiler there is.
fn rust_compilers() -> Vec<Vec<String>> {
    let list = Command::new("rustup").args(["toolchain", "list"]).output();
    let listed = list.ok().filter(|output| output.status.success()).map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let toolchains = listed.iter().flat_map(|text| text.lines()).filter_map(|line| line.split_whitespace().next());
    let through = |toolchain: &str| ["rustup", "run", toolchain, "rustc"].map(str::to_owned).to_vec();
    let all: Vec<_> = toolchains.map(through).collect();
    if all.is_empty() { vec![vec![std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into())]] } else { all }
}

const PRINTS: &str = "fn main() {
    for layout in onebit_plugin_api::layout::LAYOUTS {
        println!(\"{} {} {}\", layout.name, layout.size, layout.align);
        for field in layout.fields { println!(\"{}.{} {} {}\", layout.name, field.name, field.offset, field.size); }
    }
}";

#[test]
fn every_rust_compiler_of_this_machine_lays_the_border_out_alike() {
    let expected = expected();
    for words in rust_compilers() {
        let dir = tempfile::tempdir().expect("a folder");
        let compiler = || {
            let mut command = Command::new(&words[0]);
            // The one that runs this test is not the one that is meant.
            command.args(&words[1..]).env_remove("RUSTUP_TOOLCHAIN").current_dir(dir.path()).args(["--edition=2024"]);
            command
        };
        std::fs::write(dir.path().join("main.rs"), PRINTS).expect("the source");
        let library = root().join("src/lib.rs");
        run(compiler().args(["--crate-name=onebit_plugin_api", "--crate-type=rlib"]).arg(library));
        run(compiler().args(["main.rs", "--extern=onebit_plugin_api=libonebit_plugin_api.rlib", "-o", "main"]));
        assert_eq!(run(&mut Command::new(dir.path().join("main"))), expected, "{words:?}");
    }
}

#[test]
fn gcc_and_clang_lay_the_border_out_as_rust_does_in_c_and_in_cpp() {
    let expected = expected();
    let mut source = String::from(
        "#include <stdio.h>\n#include \"onebit_plugin.h\"\n#ifdef __cplusplus\n#define ALIGN alignof\n#else\n#define ALIGN _Alignof\n#endif\nint main(void) {\n",
    );
    for line in expected.lines() {
        let what = line.split(' ').next().expect("a name");
        let values = match what.split_once('.') {
            None => format!("sizeof({what}), (size_t)ALIGN({what})"),
            Some((name, field)) => format!("offsetof({name}, {field}), sizeof((({name} *)0)->{field})"),
        };
        writeln!(source, "  printf(\"{what} %zu %zu\\n\", {values});").expect("text");
    }
    source.push_str("  return 0;\n}\n");
    // clang is looked at where it is installed; that gcc is, the other tests of the header ask for.
    let clang = ["clang", "clang++"].map(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()));
    let compilers = [
        ("gcc", "-std=c11", "c", true),
        ("g++", "-std=c++17", "cpp", true),
        ("clang", "-std=c11", "c", clang[0]),
        ("clang++", "-std=c++17", "cpp", clang[1]),
    ];
    for (compiler, standard, extension, _) in compilers.into_iter().filter(|(.., there)| *there) {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join(format!("layout.{extension}"));
        std::fs::write(&file, &source).expect("the source");
        let program = dir.path().join("layout");
        run(Command::new(compiler).arg(standard).arg("-I").arg(root().join("include")).arg(&file).arg("-o").arg(&program));
        assert_eq!(run(&mut Command::new(&program)), expected, "{compiler} {standard}");
    }
}
