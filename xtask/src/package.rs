//! `cargo xtask package`: the staged tree as one tarball that runs from wherever it is unpacked.

use std::process::Command;

use anyhow::{Context, Result};

use crate::{model, paths, process, stage};

/// Options of `package`.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    stage: stage::Args,
}

/// Stages, packs, writes the sha256 beside it.
pub fn run(args: &Args) -> Result<()> {
    let dist = stage::run(&args.stage)?;
    let name = format!("onebit-host-{}-{}-linux", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let folder = paths::root().join("target/package");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{name}.tar.gz"));
    // Owner, order and times do not depend on who packed: the same tree gives the same bytes.
    process::output(
        Command::new("tar")
            .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "--use-compress-program=gzip -n", "-cf"])
            .arg(&file)
            .arg("-C")
            .arg(&dist)
            .arg(format!("--transform=s,^\\.,{name},"))
            .arg("."),
    )?;
    let sha256 = model::sha256(&file, |_| ())?;
    let file_name = file.file_name().context("a tarball without a name")?.to_string_lossy().into_owned();
    std::fs::write(folder.join(format!("{file_name}.sha256")), format!("{sha256}  {file_name}\n"))?;
    println!("{}", file.display());
    Ok(())
}
