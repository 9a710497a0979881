//! `cargo xtask setup`: says what is missing and gets it, through apt and with consent.

use std::io::IsTerminal;
use std::process::Command;

use anyhow::{Result, bail};

use crate::{packages, process, vulkan_sdk};

/// Options of `setup`, shared by the commands that begin with it.
#[derive(clap::Args, Clone, Default)]
#[group(skip)]
pub struct Args {
    /// Install without asking.
    #[arg(long)]
    pub yes: bool,
    /// Build with the system's shader compiler on purpose, without the cooperative-matrix and integer-dot shaders.
    #[arg(long, env = "ONEBIT_PORTABLE_SHADERS", value_parser = clap::builder::FalseyValueParser::new(), action = clap::ArgAction::SetTrue)]
    pub portable_shaders: bool,
}

/// Checks, installs, and makes the Vulkan tool-chain.
pub fn run(args: &Args) -> Result<()> {
    let missing = packages::missing();
    if missing.is_empty() {
        eprintln!("setup: everything a build needs is installed");
    } else {
        eprintln!("setup: missing on this machine:");
        for need in &missing {
            eprintln!("    {:<22} {}", need.apt, need.why);
        }
        install(&missing.iter().map(|need| need.apt).collect::<Vec<_>>(), args)?;
        let still: Vec<&str> = packages::missing().iter().map(|need| need.apt).collect();
        if !still.is_empty() {
            bail!("apt reported success, but these are still not found: {}", still.join(" "));
        }
    }
    let tools = vulkan_sdk::ensure(args.portable_shaders)?;
    eprintln!("setup: shaders are compiled with {}", tools.describe());
    Ok(())
}

fn install(packages: &[&str], args: &Args) -> Result<()> {
    let list = packages.join(" ");
    if process::find("apt-get").is_none() {
        bail!("install what is listed above with this system's package manager (the names are Debian's), then run this again");
    }
    let root = process::output(Command::new("id").arg("-u"))?.trim() == "0";
    let prefix: &[&str] = if root { &[] } else { &["sudo"] };
    if !root && process::find("sudo").is_none() {
        bail!("not root and no sudo here; as root: apt-get install --no-install-recommends {list}");
    }
    let shown = format!("{}apt-get install --no-install-recommends {list}", if root { "" } else { "sudo " });
    if !args.yes {
        if !std::io::stdin().is_terminal() {
            bail!("run `{shown}`, or give --yes");
        }
        if !process::confirm(&format!("run `{shown}`?"))? {
            bail!("nothing installed; run `{shown}` and try again");
        }
    }
    let since = process::begin(&shown);
    apt(prefix, &["-q", "update"])?;
    let mut words = vec!["-q", "install", "-y", "--no-install-recommends"];
    words.extend(packages);
    apt(prefix, &words)?;
    process::done("installed", since);
    Ok(())
}

fn apt(prefix: &[&str], words: &[&str]) -> Result<()> {
    let mut line: Vec<&str> = prefix.to_vec();
    line.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    line.extend(words);
    process::run(Command::new(line[0]).args(&line[1..]))
}
