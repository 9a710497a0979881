//! What holding an answer to a JSON schema costs: the same server, held and free, alternating.
//!
//! The masks are made while the device computes; what is left is what the wait for a late one and the choice among fewer tokens take. Turns
//! are short and many, as with the sandbox.

use anyhow::Result;
use serde_json::{Value, json};

use super::report::{Bar, Report, Series};
use super::{Bench, load};

/// The other one, in the tables.
const FREE: &str = "free";
/// Turns of a round, and what is generated in each.
const TURNS: u32 = 8;
const TOKENS: u32 = 64;

/// More than an answer of this length can hold, so that every one is cut at the same number of tokens.
fn schema() -> Value {
    let properties =
        json!({"name": {"type": "string"}, "count": {"type": "integer"}, "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}}});
    let item = json!({"type": "object", "properties": properties, "required": ["name", "count", "tags"], "additionalProperties": false});
    json!({"type": "array", "items": item, "minItems": 100})
}

/// Tokens a second.
pub fn measure(bench: &Bench, rounds: u32, report: &mut Report) -> Result<()> {
    let mut decode = Series::new("decode, held to a JSON schema", "tok/s", &[Bar::at_least(FREE, 0.95)]);
    let (server, schema) = (bench.ours("format", &[])?, schema());
    // The first one makes the vocabulary's trie.
    load::decode_held(&server, &schema, 8, 0)?;
    load::decode(&server, 8, 0)?;
    for turn in 0..rounds * TURNS {
        let mut held = || load::decode_held(&server, &schema, TOKENS, turn).map(|speed| decode.add("onebit-host", speed));
        if turn % 2 == 0 {
            held()?;
        }
        let free = load::decode(&server, TOKENS, turn)?;
        if turn % 2 == 1 {
            held()?;
        }
        decode.add(FREE, free);
    }
    report.extend([decode]);
    Ok(())
}
