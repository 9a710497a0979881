//! The only entry for building, trying and testing onebit-host; a person and CI run the same commands.
//!
//! Each command is one file. None of them leaves anything outside the clone's `target/`, the per-user cache and the per-user models
//! folder; what must be installed system-wide is named and asked for in `setup`.

mod abi_diff;
mod abi_fixture;
mod bench;
mod cargo;
mod demo;
mod dev_kit;
mod fuzz;
mod http;
mod model;
mod package;
mod packages;
mod paths;
mod process;
mod server;
mod setup;
mod stage;
mod test;
mod vulkan_sdk;

use clap::{Parser, Subcommand};

/// Build, try, test and measure onebit-host.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say what this machine lacks for a build, and install it through apt.
    Setup(setup::Args),
    /// Build the host and its plugins in release mode and lay them out as installed in target/dist.
    Stage(stage::Args),
    /// Set up, build, fetch the demo model, start the server and stream one answer.
    Demo(demo::Args),
    /// Run every check and every test; what CI runs.
    Test(test::Args),
    /// Show what changed in the plugin ABI between two revisions; fails on what breaks existing plugins.
    AbiDiff(abi_diff::Args),
    /// Build the honest plugins small and keep them as fixtures of the current ABI minor; once, when a minor is released.
    AbiFixture,
    /// Throw made-up inputs at everything that reads foreign bytes (needs a nightly compiler).
    Fuzz(fuzz::Args),
    /// Measure ours and llama.cpp's own programs side by side; writes target/bench.
    Bench(bench::Args),
    /// Pack target/dist into a tarball with its sha256.
    Package(package::Args),
    /// Fetch the demo model (checked by sha256) into the models folder and print its path.
    FetchModel(model::Args),
}

fn main() -> std::process::ExitCode {
    let result = match Cli::parse().command {
        Command::Setup(args) => setup::run(&args),
        Command::Stage(args) => stage::run(&args).map(|_| ()),
        Command::Demo(args) => demo::run(&args),
        Command::Test(args) => test::run(&args),
        Command::AbiDiff(args) => abi_diff::run(&args),
        Command::AbiFixture => abi_fixture::run(),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Package(args) => package::run(&args),
        Command::FetchModel(args) => model::run(&args),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_commands_and_their_options_do_not_contradict_each_other() {
        super::Cli::command().debug_assert();
    }
}
