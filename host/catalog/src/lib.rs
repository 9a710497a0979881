//! Which models there are, and which plugin on which device serves each, and why.
//!
//! ```text
//! folders of manifests ─ stack ─ document (tree with origins) ─ keys (checked) ─ manifest ┐
//! folders of model files ─ folder (bounded headers) ──────────────────────────────────────┼─ catalog ─ choose ─ explanation
//! folders of plugins ─ plugins (nothing runs) ────────────────────────────────────────────┘        ↑ answers of the plugins
//! ```
//!
//! The crate starts no process and speaks to no network: what a plugin thinks of a device or a file comes in through [`Answers`]. It is
//! deterministic: folders are sorted, the same answers give the same choice.
//!
//! What it must never do: replace a broken file by defaults, guess what a file does not state, or choose something without being able to
//! say why.

mod answers;
mod catalog;
mod choose;
pub mod context;
mod device;
pub mod document;
mod entry;
mod estimate;
mod explanation;
mod fingerprint;
mod folder;
mod keep_alive;
mod keys;
mod locate;
mod manifest;
mod names;
mod options;
mod plugins;
mod problem;
mod settings;
mod shelf;
mod stack;
mod wishes;
mod written;

pub use answers::{Answers, FitQuestion};
pub use catalog::{Catalog, CatalogPaths};
pub use choose::choose;
pub use device::{Selector, SelectorError};
pub use entry::{ModelEntry, State};
pub use estimate::{Estimate, Free, bytes};
pub use explanation::{Choice, Explanation, Step, Verdict};
pub use fingerprint::fingerprint;
pub use folder::{Facts, ModelFile, Stamp};
pub use keep_alive::KeepAlive;
pub use keys::{KEYS, Key, Kind};
pub use manifest::{Chat, Defaults, Isolation, Manifest, Serve};
pub use names::check as check_name;
pub use onebit_weights::Purpose;
pub use plugins::{PluginEntry, Plugins, RefusedPlugin};
pub use problem::{Problem, Severity};
pub use settings::Setting;
pub use shelf::{Recipe, Shelf, ShelfError, Weights};
pub use wishes::{Failed, Wishes};
