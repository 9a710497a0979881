//! Plugins, laid out once for each process, and the kit on them.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use onebit_confine::SandboxConfig;
use onebit_faults::Which;
use onebit_kit::{CaseResult, Plan, Program, Setup, Way};

/// The folder of all plugins and models of this process.
fn folder() -> &'static Path {
    static DIR: OnceLock<tempfile::TempDir> = OnceLock::new();
    DIR.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

/// A plugin and its model.
#[derive(Clone)]
pub struct Subject {
    dir: PathBuf,
    pub model: Option<PathBuf>,
    environment: Vec<(String, String)>,
    sandbox: SandboxConfig,
    options: Vec<(String, String)>,
    ways: Vec<Way>,
}

impl Subject {
    /// Through every door that its note offers.
    pub fn new(which: Which) -> Self {
        // Tests of one process share the folder, and each lays its plugin out anew.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap();
        let dir = onebit_faults::install(which, folder()).unwrap();
        let model = match which {
            Which::Unlawful => onebit_faults::unlawful_model(folder()),
            Which::Faulty => onebit_faults::faulty_model(folder(), "none"),
            _ => onebit_faults::ngram_model(folder()),
        };
        let note = onebit_loader::inspect(&dir).unwrap_or_else(|refusal| panic!("{refusal}")).file.note;
        let ways = [(note.has_rust_door(), Way::Rust), (note.has_c_door(), Way::C)];
        let ways = ways.into_iter().filter(|(there, _)| *there).map(|(_, way)| way).collect();
        Self { dir, model: Some(model.unwrap()), environment: Vec::new(), sandbox: SandboxConfig::default(), options: Vec::new(), ways }
    }

    /// With other rules for what its processes may do.
    pub fn under(mut self, sandbox: SandboxConfig) -> Self {
        self.sandbox = sandbox;
        self
    }

    /// Through one door only.
    pub fn once(mut self) -> Self {
        self.ways.truncate(1);
        self
    }

    /// With a variable of its processes.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// With an option of the plugin.
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.options.push((name.into(), value.into()));
        self
    }

    pub fn plan(&self) -> Plan {
        let setup = |way: &Way| Setup {
            dir: self.dir.clone(),
            way: *way,
            model: self.model.clone(),
            device: "cpu".into(),
            sandbox: self.sandbox.clone(),
            options: self.options.clone(),
            seed: 1,
            tolerance: onebit_kit::TOLERANCE,
        };
        Plan {
            program: Program { exe: Some(example()), environment: self.sandbox.environment("any", &self.environment) },
            setups: self.ways.iter().map(setup).collect(),
            capabilities: onebit_loader::inspect(&self.dir).unwrap_or_else(|refusal| panic!("{refusal}")).file.note.capabilities,
            jobs: 2,
        }
    }

    /// The cases whose ids have one of `include` in them.
    pub fn run(&self, include: &[&str]) -> Vec<CaseResult> {
        let include: Vec<String> = include.iter().map(|pattern| (*pattern).to_owned()).collect();
        onebit_kit::run(&self.plan(), &onebit_kit::select(&include, &[]), &|_| {}).unwrap()
    }

    /// One case through the first door.
    pub fn case(&self, id: &str) -> CaseResult {
        let mut results = self.run(&[id]);
        results.retain(|result| result.id == id);
        results.into_iter().next().unwrap_or_else(|| panic!("there is no case {id}"))
    }
}

/// The process of a case, which cargo builds before it runs tests.
fn example() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().and_then(Path::parent).unwrap().join("examples/kit_case");
    assert!(path.exists(), "{} is missing: build it with `cargo build -p onebit-kit --examples`", path.display());
    path
}
