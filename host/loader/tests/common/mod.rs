//! What all tests of the loader share: installed plugins, opened models, batches in one line.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use onebit_faults::Which;
use onebit_loader::devices::{self, Device};
use onebit_loader::{
    Batch, CancelFlag, Door, ForwardModel, HostSink, Input, Model, OpenRequest, Plugin, PluginError, Session, SessionArgs, inspect,
};

/// The plugins of this process, installed once; the folder goes with the process.
pub fn plugins() -> &'static Path {
    static DIR: OnceLock<tempfile::TempDir> = OnceLock::new();
    let dir = DIR.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a folder");
        for which in [Which::Ngram, Which::NgramC] {
            onebit_faults::install(which, dir.path()).expect("a plugin");
        }
        onebit_faults::ngram_model(dir.path()).expect("a model");
        dir
    });
    dir.path()
}

pub fn story() -> PathBuf {
    plugins().join("story.ngram")
}

/// One honest plugin behind one door.
pub struct Subject {
    pub name: &'static str,
    pub plugin: Plugin,
}

/// The same model in two languages, through both doors.
pub fn subjects() -> Vec<Subject> {
    [("ngram, door rust", "ngram", Door::Rust), ("ngram, door c", "ngram", Door::C), ("ngram-c, door c", "ngram-c", Door::C)]
        .map(|(name, id, door)| {
            let file = inspect(&plugins().join(id)).unwrap_or_else(|refusal| panic!("{refusal}")).file;
            let plugin = Plugin::load_through(&file, HostSink::tracing(), door).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(plugin.door(), door);
            Subject { name, plugin }
        })
        .into()
}

pub fn cpu() -> Device {
    devices::cpu()
}

impl Subject {
    pub fn open(
        &self,
        path: &Path,
        options: &[(&str, &str)],
        cancel: &CancelFlag,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Model, PluginError> {
        let options: Vec<(String, String)> = options.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        self.plugin.open(OpenRequest { path, device: &cpu(), threads: Some(1), options: &options, cancel, progress })
    }

    pub fn model(&self) -> Model {
        self.open(&story(), &[], &CancelFlag::new(), &mut |_| {}).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    pub fn session(&self) -> Session {
        session(&self.model().forward().expect("forward"))
    }
}

pub fn session(forward: &ForwardModel) -> Session {
    forward
        .open_session(&SessionArgs { context: 1024, sequences: 8, batch: 256, threads_decode: None, threads_prefill: None, options: &[] })
        .expect("a session")
}

pub fn tokens(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

/// Appends `tokens` at `start` of `sequence`; the logits of all rows.
pub fn append(session: &mut Session, sequence: u32, start: u32, tokens: &[u32]) -> Result<Vec<Vec<f32>>, PluginError> {
    let positions: Vec<u32> = (start..).take(tokens.len()).collect();
    let sequences = vec![sequence; tokens.len()];
    let wants = vec![true; tokens.len()];
    let batch = Batch { input: Input::Tokens(tokens), positions: &positions, sequences: &sequences, wants_logits: &wants, cancel: None };
    let logits = session.forward(&batch)?;
    Ok((0..logits.rows()).map(|row| logits.row(row).to_vec()).collect())
}

/// Bits, so that equal means equal.
pub fn bits(rows: &[Vec<f32>]) -> Vec<Vec<u32>> {
    rows.iter().map(|row| row.iter().map(|value| value.to_bits()).collect()).collect()
}

#[track_caller]
pub fn assert_same(name: &str, left: &[Vec<f32>], right: &[Vec<f32>]) {
    assert!(bits(left) == bits(right), "{name}: the logits differ");
}
