//! `doctor`: what this machine has, what of it the host can use, and what to do about the rest.
//!
//! The first thing to ask for in a report of trouble. Each part looks at one thing and returns findings; nothing is changed, and what could
//! crash (graphics drivers, plugins) is asked in a process of its own.

pub mod cpu;
pub mod devices;
pub mod finding;
pub mod folders;
pub mod memory;
pub mod plugins;
pub mod sandbox;
