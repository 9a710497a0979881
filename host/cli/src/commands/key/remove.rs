//! `key remove`: takes a key away. Its running requests may end; its next one is refused.

use clap::ArgMatches;

use super::file::KeyFile;
use super::{Sub, name_argument, name_of};
use crate::exit::{Exit, Failure};
use crate::output::note;

pub(super) static SUB: Sub =
    Sub { name: "remove", about: "Take a key out of the file", arguments: |command| command.arg(name_argument()), run };

fn run(file: KeyFile, matches: &ArgMatches) -> Result<(), Failure> {
    let name = name_of(matches);
    file.change(|entries, written| {
        let at = entries.iter().position(|entry| entry.name == name).ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("{} has no key named {name:?}", file.path().display()))
                .next("`onebit-host key list` shows those it has.")
        })?;
        written.remove(at);
        Ok(())
    })?;
    note(format!("The key {name:?} is removed. A running server refuses it within seconds; requests that run may end."));
    Ok(())
}
