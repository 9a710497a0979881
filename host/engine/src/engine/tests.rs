//! The laws of the engine, on a backend whose every answer is known.

mod answers;
mod ends;
mod faults;
mod prompts;
mod reuse;
mod sharing;
