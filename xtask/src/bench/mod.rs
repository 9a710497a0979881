//! `cargo xtask bench`: our server beside llama.cpp's own programs of the same release, in one run.
//!
//! Everything is measured in rounds in which the programs follow each other at once, because these machines are never the same for a
//! minute. Each program's median is shown; what is judged is the median of the rounds' ratios, in which the machine's mood cancels out. The peers are built from the source of the release that our plugin carries, with the same CPU variants and with
//! OpenMP. Both servers are asked over HTTP in the same words; `llama-bench` neither samples nor turns tokens into text.

mod border;
mod format;
mod front;
mod load;
mod peer;
mod plot;
mod report;
mod sandbox;
mod turns;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::server::{Server, free_port};
use crate::{model, paths, process, setup, stage};
use report::{Bar, Report, Series};

/// Options of `bench`.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// Rounds; the median of each measure is reported.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(5..))]
    rounds: u32,
    /// CPU threads for everybody; the default is what the machine has.
    #[arg(long)]
    threads: Option<usize>,
    /// Load and unload the model this often, and look at the front's memory.
    #[arg(long, default_value_t = 100)]
    cycles: u32,
    /// Measure on this device instead of the CPU: its id in `onebit-host doctor`.
    #[arg(long, requires = "peer_device")]
    device: Option<String>,
    /// The same device as llama.cpp calls it, such as Vulkan0.
    #[arg(long, requires = "device")]
    peer_device: Option<String>,
    /// Measure only this part; repeats.
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Only build what is measured, and stop.
    #[arg(long)]
    prepare: bool,
    #[command(flatten)]
    setup: setup::Args,
}

/// What can be measured for itself.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Speed beside llama.cpp's programs.
    Speed,
    /// The border between host and worker.
    Border,
    /// What confining a plugin costs.
    Sandbox,
    /// What holding an answer to a JSON schema costs.
    Format,
    /// What the prefix cache is worth, and what it costs.
    Turns,
    /// The front process.
    Front,
}

/// Positions for one request, everywhere.
const CONTEXT: u32 = 1024;
/// Requests side by side, everywhere.
const SLOTS: u32 = 8;

/// All of it.
pub fn run(args: &Args) -> Result<()> {
    let wanted = |part| args.only.is_empty() || args.only.contains(&part);
    let peer = match wanted(Part::Speed) {
        true => Some(peer::ensure(args.peer_device.as_deref(), args.setup.portable_shaders)?),
        false => None,
    };
    let dist = stage::run(&stage::Args { setup: args.setup.clone() })?;
    let model = model::ensure_here(&model::Args::default())?;
    if args.prepare {
        return Ok(());
    }
    let threads = args.threads.map_or_else(|| std::thread::available_parallelism().map(usize::from), Ok)?;
    let place = paths::root().join("target/bench");
    std::fs::create_dir_all(&place)?;
    let device = args.device.clone().unwrap_or_else(|| "cpu".into());
    let bench = Bench { dist, model, threads, device, place };
    bench.choose_the_device()?;
    let mut report = Report::new(&bench.device, threads, args.rounds);

    let measured = |what: &str, job: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let since = process::begin(what);
        job()?;
        process::done("measured", since);
        Ok(())
    };
    if let Some(peer) = &peer {
        let what = format!("{} rounds on {threads} threads", args.rounds);
        measured(&what, &mut || bench.speed(peer, args.rounds, &mut report))?;
    }
    if wanted(Part::Border) {
        measured("the border between host and worker", &mut || {
            report.extend([border::measure(&bench.dist, &bench.place)?]);
            Ok(())
        })?;
    }
    if wanted(Part::Sandbox) {
        measured("what confining a plugin costs", &mut || sandbox::measure(&bench, args.rounds, &mut report))?;
    }
    if wanted(Part::Format) {
        measured("what holding an answer to a schema costs", &mut || format::measure(&bench, args.rounds, &mut report))?;
    }
    if wanted(Part::Turns) {
        measured("what the prefix cache is worth", &mut || turns::measure(&bench, args.rounds, &mut report))?;
    }
    if wanted(Part::Front) {
        measured("the front process", &mut || front::measure(&bench, args.cycles, args.rounds, &mut report))?;
    }
    report.write(&bench.place)
}

/// What stays the same through a run.
pub struct Bench {
    dist: PathBuf,
    model: PathBuf,
    threads: usize,
    device: String,
    place: PathBuf,
}

impl Bench {
    /// A manifest that leaves our server no other device; it takes the place of the installed one of the same file name.
    fn choose_the_device(&self) -> Result<()> {
        let folder = self.place.join("home/config/onebit/models.d");
        std::fs::create_dir_all(&folder)?;
        let text = format!(
            "schema = 1\nname = \"{}\"\n\n[model]\nfile = \"{}\"\n\n[[serve]]\nplugin = \"vulkan-ggml\"\ndevice = \"{}\"\n",
            model::NAME,
            model::FILE,
            self.device
        );
        Ok(std::fs::write(folder.join("smollm2-135m-instruct.toml"), text)?)
    }

    /// Our server with the bench's settings and `more` variables, on a port of its own.
    pub fn ours(&self, name: &str, more: &[(&str, &str)]) -> Result<Server> {
        let port = free_port()?;
        let mut command = Command::new(self.dist.join("bin/onebit-host"));
        command.args(["serve", "--listen", &format!("127.0.0.1:{port}")]);
        let home = self.place.join("home");
        for (variable, part) in
            [("XDG_CONFIG_HOME", "config"), ("XDG_DATA_HOME", "data"), ("XDG_CACHE_HOME", "cache"), ("XDG_STATE_HOME", "state")]
        {
            std::fs::create_dir_all(home.join(part))?;
            command.env(variable, home.join(part));
        }
        let models = self.model.parent().unwrap_or(Path::new("/"));
        command.env("ONEBIT_MODELS_DIR", models).env("ONEBIT_THREADS", self.threads.to_string());
        command.env("ONEBIT_SLOTS", SLOTS.to_string()).env("ONEBIT_CONTEXT", CONTEXT.to_string()).env("ONEBIT_KEEP_ALIVE", "1h");
        command.envs(more.iter().copied());
        self.start(command, port, "/healthz", name)
    }

    fn llama_server(&self, peer: &peer::Peer) -> Result<Server> {
        let port = free_port()?;
        let mut command = Command::new(&peer.server);
        command.arg("-m").arg(&self.model).args(["--host", "127.0.0.1", "--port", &port.to_string(), "-t", &self.threads.to_string()]);
        command.args(&peer.device);
        command.args(["-np", &SLOTS.to_string(), "-c", &(SLOTS * CONTEXT).to_string()]);
        self.start(command, port, "/health", "llama-server")
    }

    fn start(&self, command: Command, port: u16, health: &str, name: &str) -> Result<Server> {
        let log = self.place.join(format!("{name}.log"));
        Server::start(command, format!("http://127.0.0.1:{port}"), health, log, Duration::from_secs(120))
    }

    fn speed(&self, peer: &peer::Peer, rounds: u32, report: &mut Report) -> Result<()> {
        let ours = self.ours("onebit-host", &[])?;
        let llama = self.llama_server(peer)?;
        let servers = [("onebit-host", &ours), ("llama-server", &llama)];
        for (_, server) in servers {
            load::decode(server, 8, 0)?;
        }
        let mut decode =
            Series::new("decode, one stream", "tok/s", &[Bar::at_least("llama-bench", 0.96), Bar::at_least("llama-server", 1.02)]);
        let mut prompt = Series::new("prompt, 512 tokens", "tok/s", &[Bar::at_least("llama-bench", 0.97)]);
        let mut crowd = Series::new("decode, 8 streams together", "tok/s", &[Bar::at_least("llama-server", 1.05)]);
        let mut first = Series::new("time to first token, 32 tokens", "ms", &[Bar::at_most("llama-server", 1.05)]);
        for round in 1..=rounds {
            eprintln!("    round {round} of {rounds}");
            // One measure of all programs before the next, and another program first each time.
            let mut programs = [None, Some(servers[0]), Some(servers[1])];
            programs.rotate_left(round as usize % 3);
            for program in programs {
                match program {
                    None => decode.add("llama-bench", peer.decode(&self.model, self.threads)?),
                    Some((name, server)) => decode.add(name, load::decode(server, 128, round)?),
                }
            }
            for program in programs {
                match program {
                    None => prompt.add("llama-bench", peer.prompt(&self.model, self.threads)?),
                    Some((name, server)) => prompt.add(name, load::prompt(server, 512, round)?),
                }
            }
            for (name, server) in programs.into_iter().flatten() {
                crowd.add(name, load::crowd(server, 8, 64, round)?);
            }
            for repeat in 0..3 {
                for (name, server) in programs.into_iter().flatten() {
                    first.add(name, load::first_token_ms(server, 32, round * 10 + repeat)?);
                }
            }
        }
        ensure!(!decode.is_empty(), "nothing was measured");
        report.extend([decode, prompt, crowd, first]);
        Ok(())
    }
}
