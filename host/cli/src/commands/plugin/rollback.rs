//! `plugin rollback`: a plugin and its previous version change places. Done twice it leads back.

use clap::{Arg, ArgMatches};

use super::{Sub, install};
use crate::commands::Invocation;
use crate::exit::Failure;
use crate::output::{self, note};

pub(super) static SUB: Sub = Sub {
    name: "rollback",
    about: "Go back to the previous version of a plugin; a second time goes forward again",
    arguments: |command| command.arg(Arg::new("name").value_name("NAME").required(true).help("The plugin's id")),
    run: rollback,
};

fn rollback(invocation: &Invocation<'_>, own: &ArgMatches) -> Result<(), Failure> {
    let name = own.get_one::<String>("name").cloned().unwrap_or_default();
    let done = install::store(invocation)?.rollback(&name)?;
    let from = done.from.map_or_else(String::new, |from| format!(", {from} is kept"));
    output::line(format!("{name} {} is in use again in {}{from}", done.version, done.dir.display()))?;
    note("Loaded models keep the version they have until they are loaded again.");
    Ok(())
}
