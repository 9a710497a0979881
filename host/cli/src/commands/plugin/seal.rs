//! `plugin seal`: lists the hashes of a plugin's files in its `plugin.toml`, for its author.

use std::path::PathBuf;

use clap::{Arg, ArgMatches};
use onebit_install::{Sealed, seal};

use super::{Sub, folder_of};
use crate::commands::Invocation;
use crate::exit::Failure;
use crate::output::{self, note};

pub(super) static SUB: Sub = Sub {
    name: "seal",
    about: "List the sha256 of a plugin's files in its plugin.toml, so that others notice one that was altered",
    arguments: |command| {
        let file = Arg::new("file")
            .value_name("FILE")
            .required(true)
            .value_parser(clap::value_parser!(PathBuf))
            .help("Folder of a plugin, or its library or plugin.toml");
        command.arg(file)
    },
    run,
};

fn run(_: &Invocation<'_>, own: &ArgMatches) -> Result<(), Failure> {
    let dir = folder_of(&own.get_one::<PathBuf>("file").cloned().unwrap_or_default())?;
    let Sealed { files, changed, signed } = seal(&dir)?;
    let toml = dir.join("plugin.toml").display().to_string();
    let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
    output::line(format!("{toml} lists {files}{}", if changed { "" } else { ", as before" }))?;
    match (changed, signed) {
        (true, true) => note(format!("Its signature does not fit any more. Sign again: minisign -Sm {toml}")),
        (_, false) => note(format!("So that others can tell who made it, sign it: minisign -Sm {toml}")),
        (false, true) => {}
    }
    Ok(())
}
