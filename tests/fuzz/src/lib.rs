//! The places where foreign bytes enter, each as a function from bytes to nothing that panics when a law is broken.
//!
//! A target is not only "it does not crash": each states what must hold whatever comes in (what was understood can be written and
//! understood again; the same bytes in other portions mean the same; a refusal is a sentence that a terminal can show). The functions know
//! nothing of a fuzzer. `tests/fuzz/libfuzzer` drives them with one, on a nightly compiler, and the test in this crate drives them with the
//! inputs that are kept in `corpus/`, on any compiler, so that what was found once is looked at in every run.
//!
//! Adding a target: a file here, a row in [`TARGETS`], a row in `targets.toml`, a binary in `libfuzzer/`, some inputs in `corpus/`.

pub mod constraint;
pub mod conversation;
pub mod elf;
pub mod formats;
pub mod frames;
pub mod gguf;
mod host;
pub mod http;
mod law;
pub mod manifest;
pub mod note;
pub mod plugin_toml;
pub mod probe;
pub mod template;

/// A target: its name, as in `targets.toml`, and what runs one input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, in the order of `targets.toml`.
pub const TARGETS: &[Target] = &[
    ("elf", elf::run),
    ("note", note::run),
    ("plugin_toml", plugin_toml::run),
    ("manifest", manifest::run),
    ("to_worker", frames::to_worker),
    ("from_worker", frames::from_worker),
    ("probe", probe::run),
    ("gguf", gguf::run),
    ("template", template::run),
    ("conversation", conversation::run),
    ("http", http::run),
    ("constraint", constraint::run),
    ("formats", formats::run),
];
