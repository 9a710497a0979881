//! The probe process: loads one plugin, asks it one question, answers, ends.
//!
//! Its socket is its standard input. Before anything of a plugin or a driver runs, standard input and output are moved away, so that
//! whatever a library prints is log and never answer. It may crash or hang: that is what it is for.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use onebit_loader::devices::Device;
use onebit_loader::trust::{Seen, Trust};
use onebit_loader::{FitRequest, HostSink, LoadError, Plugin, Refusal};
use rustix::process::{Resource, Rlimit, Signal};

use onebit_confine::SandboxConfig;

use super::message::{Answer, LINE_MAX, Probed, Question};

/// Runs the hidden command `onebit-host probe`. Its arguments are for people who look at the process list; the question comes over the socket.
pub fn probe_main(_args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // Standard error is the log of the host, and all that a person who runs this by hand sees.
            #[allow(clippy::print_stderr, reason = "the process has no other way to say why it cannot even answer")]
            {
                eprintln!("onebit-host probe: {message}");
            }
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let stdin = std::io::stdin();
    if rustix::net::sockopt::socket_type(stdin.as_fd()).is_err() {
        return Err("is started by the host itself; use `onebit-host doctor` or `onebit-host plugin list --why`".into());
    }
    let socket = stdin.as_fd().try_clone_to_owned().map(UnixStream::from).map_err(|error| format!("cannot keep its socket: {error}"))?;
    shield().map_err(|error| format!("cannot shield its streams: {error}"))?;
    // The program may have set up its log already; then that one is right.
    tracing_subscriber::fmt().with_writer(std::io::stderr).try_init().ok();

    let mut line = String::new();
    let reader = socket.try_clone().map_err(|error| error.to_string())?;
    BufReader::new(reader.take(LINE_MAX as u64)).read_line(&mut line).map_err(|error| format!("got no question: {error}"))?;
    let question: Question = serde_json::from_str(&line).map_err(|error| format!("got a question that it does not understand: {error}"))?;
    let mut answer = serde_json::to_vec(&answer(question)).map_err(|error| format!("cannot write its answer: {error}"))?;
    answer.push(b'\n');
    (&socket).write_all(&answer).map_err(|error| format!("the host did not take the answer: {error}"))
}

/// Moves the standard streams away, dies with the host, writes no core file.
fn shield() -> std::io::Result<()> {
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(std::io::stderr())?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(())
}

fn answer(question: Question) -> Answer {
    match question {
        Question::Devices => Answer::Devices(onebit_loader::devices::list()),
        Question::Probe { plugin_dir, trust, seen, devices, sandbox } => match load(&plugin_dir, &trust, seen, None, &devices, &sandbox) {
            Err(reason) => Answer::Failed(reason),
            Ok(plugin) => match plugin.probe(&devices) {
                Ok(reports) => Answer::Probed(Probed { info: plugin.info().clone(), reports }),
                Err(error) => Answer::Failed(format!("its probe failed: {error}")),
            },
        },
        Question::Fit { plugin_dir, trust, seen, device, path, context, sequences, options, sandbox } => {
            match load(&plugin_dir, &trust, seen, Some(&path), std::slice::from_ref(&*device), &sandbox) {
                Err(reason) => Answer::Failed(reason),
                Ok(plugin) => {
                    let request = FitRequest { path: &path, device: &device, context: Some(context), sequences, options: &options };
                    match plugin.fit(&request) {
                        Ok(fit) => Answer::Fit(fit),
                        Err(error) => Answer::Failed(format!("its judgement of the file failed: {error}")),
                    }
                }
            }
        }
    }
}

/// Checks the files, confines this process, maps the library.
fn load(
    dir: &Path,
    trust: &Trust,
    seen: Vec<Seen>,
    model: Option<&Path>,
    devices: &[Device],
    sandbox: &SandboxConfig,
) -> Result<Plugin, String> {
    let mut inspection = onebit_loader::inspect_under(dir, trust).map_err(|refusal| one_line(&refusal))?;
    inspection.file.seen = seen;
    sandbox.enter(&inspection, model, devices, None).map_err(|error| error.to_string())?;
    Plugin::load(&inspection.file, HostSink::tracing()).map_err(|error| match error {
        LoadError::Refused(refusal) => one_line(&refusal),
        error => error.to_string(),
    })
}

/// A refusal as a sentence: its table has no place in a trace with one line for each step.
fn one_line(refusal: &Refusal) -> String {
    let rows: Vec<String> = refusal
        .rows
        .iter()
        .map(|row| format!("{}: this host has {}, the plugin {}; {}", row.field, row.host, row.plugin, row.remedy))
        .collect();
    format!("cannot be loaded: {}", rows.join("; "))
}
