//! The program from outside: real processes, a real HTTP server, real (small) disks.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so with a panic")]

mod config;
mod disks;
mod exits;
mod keys;
mod models;
mod new_plugin;
mod packages;
mod plugins;
mod pull;
mod pull_by_name;
mod server;
mod support;
mod test_plugin;
mod words;
