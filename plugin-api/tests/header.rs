//! The C header: generated from this crate, compiled as C11 and C++17, and of the same layout.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use onebit_plugin_api::layout::LAYOUTS;
use onebit_plugin_api::{ONEBIT_EMBED_1, ONEBIT_ENTRY_SYMBOL, ONEBIT_FORWARD_1, ONEBIT_NOTE_SECTION, ONEBIT_RERANK_1, ONEBIT_TOKENIZE_1};

const BLESS: &str = "ONEBIT_BLESS=1 cargo test -p onebit-plugin-api --test header";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn header_path() -> PathBuf {
    root().join("include/onebit_plugin.h")
}

fn generate() -> String {
    let mut config = cbindgen::Config::from_file(root().join("cbindgen.toml")).expect("cbindgen.toml");
    let structs = LAYOUTS.iter().map(|layout| layout.name.to_owned());
    config.export.include = structs.chain(["OnebitEntry".into(), "OnebitProgress".into()]).collect();
    let bindings = cbindgen::Builder::new().with_crate(root()).with_config(config).generate().expect("bindings");
    let mut body = Vec::new();
    bindings.write(&mut body);
    let body = plain_comments(&String::from_utf8(body).expect("UTF-8"));

    let read = |name: &str| std::fs::read_to_string(root().join("header").join(name)).expect(name);
    let ids = [
        ("ONEBIT_FORWARD_1", ONEBIT_FORWARD_1),
        ("ONEBIT_TOKENIZE_1", ONEBIT_TOKENIZE_1),
        ("ONEBIT_EMBED_1", ONEBIT_EMBED_1),
        ("ONEBIT_RERANK_1", ONEBIT_RERANK_1),
    ];
    let ids = ids.map(|(name, id)| format!("#define {name} \"{id}\"")).join("\n");
    let tail = read("tail.h").replace("@CAPABILITIES@", &ids);
    assert!(tail.contains(ONEBIT_ENTRY_SYMBOL.to_str().expect("UTF-8")) && tail.contains(ONEBIT_NOTE_SECTION));
    format!("{}{}\n{tail}", read("head.h"), body.trim())
}

/// Links of rustdoc mean nothing in C.
fn plain_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("[`") {
        let Some(end) = rest[start..].find("`]") else { break };
        out.push_str(&rest[..start]);
        out.push_str(&rest[start + 1..start + end + 1].replace("::", "."));
        rest = &rest[start + end + 2..];
        if let Some(target) = rest.strip_prefix('(') {
            rest = target.split_once(')').map_or(target, |(_, rest)| rest);
        }
    }
    out + rest
}

#[test]
fn the_header_is_up_to_date() {
    let generated = generate();
    if std::env::var_os("ONEBIT_BLESS").is_some() {
        std::fs::create_dir_all(root().join("include")).expect("include/");
        std::fs::write(header_path(), &generated).expect("the header");
    }
    let kept = std::fs::read_to_string(header_path()).unwrap_or_default();
    assert!(kept == generated, "include/onebit_plugin.h differs from src/ and header/; if that is meant, run: {BLESS}");
}

/// A file that uses everything and asserts every size and offset that Rust sees.
fn probe_source() -> String {
    let mut source = String::from(
        "#include \"onebit_plugin.h\"\n#ifdef __cplusplus\n#define SAME(a, b) static_assert((a) == (b), #a)\n#else\n\
         #define SAME(a, b) _Static_assert((a) == (b), #a)\n#endif\n",
    );
    for layout in LAYOUTS {
        let name = layout.name;
        writeln!(source, "SAME(sizeof({name}), {});", layout.size).expect("text");
        let align = layout.align;
        writeln!(source, "#ifdef __cplusplus\nSAME(alignof({name}), {align});\n#else\nSAME(_Alignof({name}), {align});\n#endif")
            .expect("text");
        for field in layout.fields {
            writeln!(source, "SAME(offsetof({name}, {}), {});", field.name, field.offset).expect("text");
            writeln!(source, "SAME(sizeof((({name} *)0)->{}), {});", field.name, field.size).expect("text");
        }
    }
    source.push_str(
        "ONEBIT_PLUGIN_NOTE(\"id=x\\nversion=1.0.0\\ncapabilities=\" ONEBIT_FORWARD_1 \",\" ONEBIT_TOKENIZE_1 \",\" ONEBIT_EMBED_1 \"\\n\"\n\
         \"licence=MIT\\nabi_min_minor=0\\npanic=none\\ndoors=c\\n\");\n\
         static OnebitPlugin table;\n\
         const OnebitPlugin *onebit_plugin_v1(const OnebitHost *host) {\n\
           OnebitEntry self = onebit_plugin_v1;\n\
           return host && self && ONEBIT_HAS_FIELD(host, OnebitHost, report_error) ? &table : NULL;\n}\n",
    );
    source
}

fn compile(compiler: &str, standard: &str, extension: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join(format!("probe.{extension}"));
    let library = dir.path().join("libprobe.so");
    std::fs::write(&source, probe_source()).expect("the source");
    let output = Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wmissing-declarations", "-shared", "-fPIC", "-O2"])
        .arg("-I")
        .arg(root().join("include"))
        .arg(&source)
        .arg("-o")
        .arg(&library)
        .output()
        .unwrap_or_else(|error| panic!("{compiler} cannot be run ({error}); install it (Debian, Ubuntu: apt install gcc g++)"));
    assert!(output.status.success(), "{compiler} {standard}:\n{}", String::from_utf8_lossy(&output.stderr));
    (dir, library)
}

#[test]
fn the_header_is_c11_with_the_layout_that_rust_sees() {
    compile("gcc", "-std=c11", "c");
}

#[test]
fn the_header_is_cpp17_with_the_layout_that_rust_sees() {
    compile("g++", "-std=c++17", "cpp");
}

#[test]
fn the_note_of_c_and_cpp_is_an_elf_note_that_readelf_understands() {
    for (compiler, standard, extension) in [("gcc", "-std=c11", "c"), ("g++", "-std=c++17", "cpp")] {
        let (_dir, library) = compile(compiler, standard, extension);
        let output = Command::new("readelf").arg("-SnW").arg(&library).output().expect("readelf, of package binutils");
        let text = String::from_utf8_lossy(&output.stdout);
        let section = text.lines().find(|line| line.contains(".note.onebit")).expect("the section");
        assert!(section.contains(" NOTE "), "{section}");
        assert!(text.lines().any(|line| line.trim_start().starts_with("onebit ")), "{text}");
        let bytes = std::fs::read(&library).expect("the library");
        let note = b"note=1\nabi_major=1\nabi_built_minor=1\ntarget=";
        assert!(bytes.windows(note.len()).any(|window| window == note), "{compiler}");
    }
}
