//! The process of a case: takes its task from its standard input, which is a socket, does it, answers, ends.
//!
//! Standard output and error stay what they are: whatever a plugin prints there is seen by the kit. Nothing of the kit prints.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use onebit_loader::{HostSink, LogLevel, Sink};
use rustix::process::{Resource, Rlimit, Signal};

use crate::bench::{Bench, Voice};
use crate::case::{State, Verdict};
use crate::message::{LINE_MAX, Ops, Said, Task};
use crate::{cases, fuzz};

/// Runs the hidden command [`ROLE`](crate::ROLE).
pub fn kit_case_main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // All that a person who runs this by hand sees.
            #[allow(clippy::print_stderr, reason = "the process has no other way to say why it cannot even answer")]
            {
                eprintln!("onebit-host {}: {message}", crate::ROLE);
            }
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let stdin = std::io::stdin();
    if rustix::net::sockopt::socket_type(stdin.as_fd()).is_err() {
        return Err("is started by the host itself; use `onebit-host plugin test`".into());
    }
    let socket = stdin.as_fd().try_clone_to_owned().map(UnixStream::from).map_err(|error| format!("cannot keep its socket: {error}"))?;
    shield().map_err(|error| format!("cannot shield its streams: {error}"))?;
    let mut lines = BufReader::new(socket.try_clone().map_err(|error| error.to_string())?);
    let said = Spoken(Arc::new(Mutex::new(socket)));
    let Some(task) = read::<Task>(&mut lines)? else { return Err("got no task".into()) };
    match task {
        Task::Case { setup, id } => {
            let case = cases::find(&id).ok_or_else(|| format!("there is no case {id}"))?;
            let bench = Bench::new(setup, Box::new(said.clone()));
            let verdict = match bench.confine() {
                Ok(()) => mind_refusals(bench.judge(case)),
                Err(stop) => Verdict::of(stop),
            };
            said.say(&Said::Verdict(verdict));
        }
        Task::Fuzz { setup } => {
            let bench = Bench::new(setup, Box::new(said.clone()));
            let confined = bench.confine();
            while let Some(ops) = read::<Ops>(&mut lines)? {
                let verdict = match confined.clone().and_then(|()| fuzz::attempt(&bench, &ops)) {
                    Ok(()) => Verdict::new(State::Passed, ""),
                    Err(stop) => Verdict::of(stop),
                };
                said.say(&Said::Verdict(verdict));
            }
        }
    }
    Ok(())
}

/// A plugin that holds the laws without what the sandbox refused it will hold them in a worker, too; its author should know all the same.
fn mind_refusals(mut verdict: Verdict) -> Verdict {
    let calls: Vec<String> = onebit_loader::refused_calls().into_iter().map(|(call, _)| onebit_sandbox::call_name(call)).collect();
    if verdict.state == State::Passed && !calls.is_empty() {
        verdict.state = State::Warned;
        verdict.text = format!("the sandbox refused the plugin {}", calls.join(", "));
    }
    verdict
}

/// One message; `None` when there will be no more.
fn read<T: serde::de::DeserializeOwned>(lines: &mut BufReader<UnixStream>) -> Result<Option<T>, String> {
    let mut line = Vec::new();
    lines.take(LINE_MAX as u64).read_until(b'\n', &mut line).map_err(|error| format!("cannot read from the kit: {error}"))?;
    if line.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(&line).map(Some).map_err(|error| format!("got a message that it does not understand: {error}"))
}

/// Moves the socket out of the plugin's way, dies with the kit, writes no core file.
fn shield() -> std::io::Result<()> {
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(())
}

/// Speaks to the kit, from any thread.
#[derive(Clone)]
struct Spoken(Arc<Mutex<UnixStream>>);

impl Spoken {
    fn say(&self, said: &Said) {
        let Ok(mut line) = serde_json::to_vec(said) else { return };
        line.push(b'\n');
        // If the kit is gone, so is this process in a moment.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
    }
}

impl Voice for Spoken {
    fn step(&self, what: &str) {
        self.say(&Said::Step(what.to_owned()));
    }

    fn sink(&self) -> HostSink {
        HostSink::new(self.clone())
    }
}

impl Sink for Spoken {
    fn log(&self, level: LogLevel, target: &str, message: &str) {
        if level <= LogLevel::Warn {
            self.say(&Said::Log(format!("{target}: {message}")));
        }
    }

    fn metric_add(&self, _name: &str, _value: f64) {}

    fn metric_set(&self, _name: &str, _value: f64) {}
}
