//! What the prefix cache is worth and what it costs: two servers, one of which keeps nothing, in turn.
//!
//! A second turn is the first one's prompt and some tokens more. Eight people begin with the same instructions and come together. And a stream
//! that has nothing to do with any of it runs while all that is kept lies beside it.

use anyhow::Result;

use super::report::{Bar, Report, Series};
use super::{Bench, load};

/// The other ones, in the tables.
const FIRST: &str = "first turn";
const WITHOUT: &str = "prefix_cache off";
/// Tokens of a first turn, and how many more the second has.
const TURN: usize = 4000;
const MORE: usize = 40;
/// Instructions that all begin with, people, and tokens for each of them.
const INSTRUCTIONS: usize = 2000;
const PEOPLE: u32 = 8;
const TOKENS: u32 = 64;

/// Milliseconds to the first token, and tokens a second.
pub fn measure(bench: &Bench, rounds: u32, report: &mut Report) -> Result<()> {
    let mut second = Series::new("time to first token, second turn of 4000 tokens", "ms", &[Bar::at_most(FIRST, 0.15)]);
    let mut crowd = Series::new("8 streams that begin with the same 2000 tokens", "tok/s", &[Bar::at_least(WITHOUT, 1.3)]);
    let mut beside = Series::new("decode, one stream beside what is kept", "tok/s", &[Bar::at_least(WITHOUT, 0.98)]);
    let context = [("ONEBIT_CONTEXT", "4608")];
    let keeps = bench.ours("turns", &context)?;
    let forgets = bench.ours("turns-off", &[context[0], ("ONEBIT_PREFIX_CACHE", "off")])?;
    for server in [&keeps, &forgets] {
        load::decode(server, 8, 0)?;
    }
    for round in 1..=rounds {
        eprintln!("    round {round} of {rounds}");
        second.add(FIRST, load::first_token_ms(&keeps, TURN, round)?);
        second.add("onebit-host", load::next_turn_ms(&keeps, TURN, MORE, round)?);
        // One of them first each time.
        let mut servers = [("onebit-host", &keeps), (WITHOUT, &forgets)];
        servers.rotate_left(round as usize % 2);
        for (name, server) in servers {
            crowd.add(name, load::crowd_alike(server, PEOPLE, INSTRUCTIONS, TOKENS, round)?);
        }
        for repeat in 0..4 {
            for (name, server) in servers {
                beside.add(name, load::decode(server, TOKENS, 10_000 + round * 10 + repeat)?);
            }
        }
    }
    report.extend([second, crowd, beside]);
    Ok(())
}
