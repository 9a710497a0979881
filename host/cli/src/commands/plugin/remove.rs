//! `plugin remove`: takes an installed plugin away. What somebody else has put there (a package, a person) is left to them.

use std::io::{BufRead, IsTerminal, Write};

use clap::{Arg, ArgAction, ArgMatches};

use super::{Sub, install};
use crate::commands::Invocation;
use crate::exit::{Exit, Failure};
use crate::output::{self, note};

pub(super) static SUB: Sub = Sub {
    name: "remove",
    about: "Remove a plugin that was installed with `plugin install`, and its previous version",
    arguments: |command| {
        let yes = Arg::new("yes").long("yes").short('y').action(ArgAction::SetTrue).help("Do not ask");
        command.arg(Arg::new("name").value_name("NAME").required(true).help("The plugin's id")).arg(yes)
    },
    run: remove,
};

fn remove(invocation: &Invocation<'_>, own: &ArgMatches) -> Result<(), Failure> {
    let name = own.get_one::<String>("name").cloned().unwrap_or_default();
    let store = install::store(invocation)?;
    if !own.get_flag("yes") {
        confirm(&format!("Remove {name} from {}, and its previous version?", store.dir().display()))?;
    }
    let gone = store.remove(&name)?;
    let version = gone.version.map_or_else(String::new, |version| format!(" {version}"));
    output::line(format!("{name}{version} is removed from {}", gone.dir.display()))?;
    note("Loaded models go on with it until they are unloaded.");
    Ok(())
}

/// Asks a person. Where nobody can answer, nothing is removed.
fn confirm(question: &str) -> Result<(), Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::new(Exit::Usage, "nobody is there to be asked").next("Say --yes."));
    }
    let mut stderr = std::io::stderr();
    let asked = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    asked.and_then(|()| stdin.lock().read_line(&mut answer)).map_err(|error| Failure::io("ask", &error))?;
    if ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
        return Ok(());
    }
    Err(Failure::new(Exit::Interrupted, "nothing was removed"))
}
