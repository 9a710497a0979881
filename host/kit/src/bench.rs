//! What a case works with: the plugin, a model, sessions, prompts, numbers.

use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use onebit_loader::bare::HostShape;
use onebit_loader::devices::{self, Device};
use onebit_loader::{
    CancelFlag, Encode, ForwardModel, HostSink, LoadError, Model, OpenRequest, Plugin, PluginError, PluginFile, Tokenizer,
};

use crate::case::{Case, Failing, Need, Number, Outcome, State, Stop, Verdict};
use crate::message::Setup;
use crate::rows::Shape;

/// To whom a case speaks while it runs.
pub(crate) trait Voice {
    /// What comes next: named if the process dies in it.
    fn step(&self, what: &str);
    /// Where the plugin's log goes.
    fn sink(&self) -> HostSink;
}

/// Everything a case may use.
pub struct Bench {
    /// As asked for.
    pub setup: Setup,
    voice: Box<dyn Voice>,
    numbers: RefCell<Vec<Number>>,
    remarks: RefCell<Vec<String>>,
    plugin: OnceCell<Plugin>,
    model: OnceCell<Model>,
    scratch: OnceCell<tempfile::TempDir>,
}

impl Bench {
    pub(crate) fn new(setup: Setup, voice: Box<dyn Voice>) -> Self {
        Self {
            setup,
            voice,
            numbers: RefCell::default(),
            remarks: RefCell::default(),
            plugin: OnceCell::new(),
            model: OnceCell::new(),
            scratch: OnceCell::new(),
        }
    }

    /// Confines this process as a worker is, before any of the plugin's code is in it.
    pub(crate) fn confine(&self) -> Outcome {
        let inspection = onebit_loader::inspect(&self.setup.dir).failed("checking the plugin's files")?;
        // A device that is not there is for the cases that want it to say.
        let device = self.device().ok();
        let (model, scratch) = (self.setup.model.as_deref(), std::env::temp_dir());
        self.setup.sandbox.enter(&inspection, model, device.as_slice(), Some(&scratch)).failed("confining the process")?;
        Ok(())
    }

    /// Runs a case, if everything it needs is there.
    pub(crate) fn judge(&self, case: &Case) -> Verdict {
        let result = self.needed(case).and_then(|()| (case.run)(self));
        let mut verdict = match result {
            Ok(()) => match self.remarks.take() {
                remarks if remarks.is_empty() => Verdict::new(State::Passed, ""),
                remarks => Verdict::new(State::Warned, remarks.join("; ")),
            },
            Err(stop) => Verdict::of(stop),
        };
        verdict.numbers = self.numbers.take();
        verdict
    }

    fn needed(&self, case: &Case) -> Outcome {
        for need in case.needs {
            let there = match need {
                Need::Model => true,
                Need::Forward => self.model()?.forward().is_some(),
                Need::Tokenize => self.model()?.tokenizer().is_some(),
                Need::Embed => self.model()?.embedder().is_some(),
                Need::Rerank => self.model()?.reranker().is_some(),
                Need::Snapshot => self.forward()?.limits().snapshot,
                Need::Shift => self.forward()?.limits().shift,
                Need::Embeddings => self.forward()?.limits().embeddings,
            };
            if !there {
                return Err(Stop::Skipped(format!("this model has no {}", need.name())));
            }
        }
        Ok(())
    }

    /// Says what comes next.
    pub fn step(&self, what: &str) {
        self.voice.step(what);
    }

    /// Keeps a number for the report.
    pub fn number(&self, name: &str, value: f64, unit: &str, limit: Option<f64>) {
        self.numbers.borrow_mut().push(Number { name: name.into(), value, unit: unit.into(), limit });
    }

    /// Something that breaks no law and should be looked at all the same.
    pub fn remark(&self, text: impl Into<String>) {
        self.remarks.borrow_mut().push(text.into());
    }

    /// The plugin's file, checked.
    pub fn file(&self) -> Result<PluginFile, Stop> {
        onebit_loader::inspect(&self.setup.dir).map(|inspection| inspection.file).failed("checking the plugin's files")
    }

    /// Loads the plugin as a host of this shape does.
    pub fn load(&self, shape: HostShape) -> Result<Result<Plugin, LoadError>, Stop> {
        Ok(Plugin::load_shaped(&self.file()?, self.voice.sink(), self.setup.way.door(), shape))
    }

    /// The plugin, loaded once.
    pub fn plugin(&self) -> Result<&Plugin, Stop> {
        if self.plugin.get().is_none() {
            self.step("loading the plugin");
            let plugin = self.load(HostShape::Usual)?.failed("loading the plugin")?;
            let _ = self.plugin.set(plugin);
        }
        self.plugin.get().ok_or_else(|| Stop::Failed("the plugin was not loaded".into()))
    }

    /// The device that was asked for.
    pub fn device(&self) -> Result<Device, Stop> {
        let id = &self.setup.device;
        if id == "cpu" {
            return Ok(devices::cpu());
        }
        let list = devices::list();
        let found = list.devices.iter().find(|device| device.id == *id).cloned();
        found.ok_or_else(|| {
            let there: Vec<&str> = list.devices.iter().map(|device| device.id.as_str()).collect();
            Stop::Failed(format!("there is no device {id} here; there are {}", there.join(", ")))
        })
    }

    /// The model file.
    pub fn path(&self) -> Result<&Path, Stop> {
        self.setup.model.as_deref().ok_or_else(|| Stop::Skipped("needs a model; give one with --model".into()))
    }

    /// Opens `path` on the device.
    pub fn open_with(&self, path: &Path, cancel: &CancelFlag, progress: &mut dyn FnMut(f32)) -> Result<Result<Model, PluginError>, Stop> {
        let device = self.device()?;
        let request = OpenRequest { path, device: &device, threads: None, options: &self.setup.options, cancel, progress };
        Ok(self.plugin()?.open(request))
    }

    /// Opens the model anew.
    pub fn open(&self) -> Result<Model, Stop> {
        self.open_with(self.path()?, &CancelFlag::new(), &mut |_| {})?.failed("opening the model")
    }

    /// The model, opened once.
    pub fn model(&self) -> Result<&Model, Stop> {
        if self.model.get().is_none() {
            self.path()?;
            self.plugin()?;
            self.step("opening the model");
            let _ = self.model.set(self.open()?);
        }
        self.model.get().ok_or_else(|| Stop::Failed("the model was not opened".into()))
    }

    /// The model at token level.
    pub fn forward(&self) -> Result<ForwardModel, Stop> {
        self.model()?.forward().ok_or_else(|| Stop::Skipped("this model has no onebit.forward/1".into()))
    }

    /// The model's vocabulary.
    pub fn tokenizer(&self) -> Result<Tokenizer, Stop> {
        self.model()?.tokenizer().ok_or_else(|| Stop::Skipped("this model has no onebit.tokenize/1".into()))
    }

    /// The session that most cases use.
    pub fn shape(&self) -> Result<Shape, Stop> {
        Ok(Shape::usual(self.forward()?.limits()))
    }

    /// `n` tokens of a text, number `which` of several; without a tokenizer tokens by chance.
    pub fn prompt(&self, which: usize, n: usize) -> Result<Vec<u32>, Stop> {
        let vocabulary = self.forward()?.limits().vocabulary;
        if let Some(tokenizer) = self.model()?.tokenizer() {
            let text = TEXTS[which % TEXTS.len()];
            let tokens = tokenizer.encode(text, Encode::default()).failed("encoding a prompt")?;
            if !tokens.is_empty() && tokens.iter().all(|token| *token < vocabulary) {
                return Ok(tokens.into_iter().cycle().take(n).collect());
            }
        }
        let mut random = self.random(which as u64);
        Ok((0..n).map(|_| random.u32(0..vocabulary)).collect())
    }

    /// Chance, the same for the same seed.
    pub fn random(&self, which: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.setup.seed.wrapping_add(which.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Writes a file of the case's own; it goes when the process ends by itself or with the kit's own folder.
    pub fn scratch(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Stop> {
        if self.scratch.get().is_none() {
            let _ = self.scratch.set(tempfile::Builder::new().prefix("onebit-kit-").tempdir().map_err(cannot)?);
        }
        let dir = self.scratch.get().ok_or_else(|| Stop::Failed("no folder for files".into()))?;
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let path = dir.path().join(format!("{}-{name}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        std::fs::write(&path, bytes).map_err(cannot)?;
        Ok(path)
    }
}

fn cannot(error: std::io::Error) -> Stop {
    Stop::Skipped(format!("the kit cannot write its own files: {error}"))
}

impl Verdict {
    pub(crate) fn of(stop: Stop) -> Self {
        match stop {
            Stop::Failed(text) => Self::new(State::Failed, text),
            Stop::Warned(text) => Self::new(State::Warned, text),
            Stop::Skipped(text) => Self::new(State::Skipped, text),
        }
    }
}

/// Prompts: different from their first word on, so that one cannot be taken for another.
const TEXTS: &[&str] = &[
    "The moon is far away, and the sea below it follows wherever it goes, twice a day, as it has done for a very long time.",
    "A cat sat on the mat while seven rats ran past it, and nobody in the house could say afterwards which of them was afraid.",
    "What is one and one? Two, said the child, and two and two are four; but how many are four apples when three are eaten?",
    "Yesterday it rained in the hills, so today the river carries branches, leaves and a red boat that somebody forgot to tie.",
];
