//! The program from outside: real processes, a real HTTP server, real (small) disks.

mod config;
mod disks;
mod exits;
mod packages;
mod pull;
mod server;
mod support;
mod words;
