//! `explain MODEL`: which plugin on which device serves a model, and every step of the way there.

use clap::Arg;

use super::{Command, Invocation, open};
use crate::exit::{Exit, Failure};
use crate::output;

pub(super) static COMMAND: Command = Command {
    arguments: |command| command.arg(Arg::new("model").value_name("MODEL").required(true).help("Name of a model")).arg(super::json_flag()),
    ..Command::new("explain", "Show what serves a model, and why not something else", run)
};

fn run(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let (runtime, host) = open::asking(invocation)?;
    let name = invocation.matches.get_one::<String>("model").cloned().unwrap_or_default();
    let explanation = runtime.block_on(host.explain(&name))?;
    if invocation.matches.get_flag("json") {
        output::json(&explanation)?;
    } else {
        output::write(&explanation)?;
    }
    // The trace is the answer; the exit code says for scripts how it ended.
    match explanation.choice {
        Some(_) => Ok(()),
        None => Err(Failure::silent(Exit::Unservable)),
    }
}
