//! The operations, and how lists of them are made by chance.
//!
//! Numbers in an operation are small and mean something in every session: `sequence` is taken modulo the sequences that there are, a
//! position is counted from what the sequence holds. So a list stays a list of sensible operations while it is made smaller.

use proptest::collection::vec;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// One batch: each row is a sequence and a token, and goes on where the sequence is. An empty sequence begins at `start`.
    Forward {
        /// Sequence and token.
        rows: Vec<(u8, u16)>,
        /// Where an empty sequence begins.
        start: u8,
    },
    /// Copies a sequence into another, the first `keep` positions of it or all.
    Copy {
        /// From.
        from: u8,
        /// To; refused if it is not empty.
        to: u8,
        /// How much.
        keep: Option<u8>,
    },
    /// Removes a whole sequence.
    Remove {
        /// Which.
        sequence: u8,
    },
    /// Removes the end of a sequence.
    Cut {
        /// Which.
        sequence: u8,
        /// Positions that stay.
        keep: u8,
    },
    /// Removes positions from the middle of a sequence.
    CutMiddle {
        /// Which.
        sequence: u8,
        /// Positions in front that stay.
        keep: u8,
        /// Positions that go.
        gone: u8,
    },
    /// Moves all positions of a sequence.
    Shift {
        /// Which.
        sequence: u8,
        /// By how much.
        delta: i8,
    },
    /// Saves the state of a sequence.
    Save {
        /// Which.
        sequence: u8,
        /// Where to.
        slot: u8,
    },
    /// Loads what was saved.
    Load {
        /// Into which.
        sequence: u8,
        /// From where.
        slot: u8,
    },
    /// Loads what was saved, but for its last bytes.
    LoadTorn {
        /// Into which.
        sequence: u8,
        /// From where.
        slot: u8,
        /// Bytes that are missing, at least one.
        missing: u8,
    },
    /// A batch whose last row leaves a gap.
    Gap {
        /// In which sequence.
        sequence: u8,
        /// Rows in front of the gap.
        rows: u8,
    },
    /// A batch with a token that does not exist.
    NoSuchToken {
        /// In which sequence.
        sequence: u8,
    },
    /// A batch for a sequence that does not exist, behind rows for one that does.
    NoSuchSequence {
        /// Of the rows in front.
        sequence: u8,
    },
}

/// Lists of operations.
pub(super) fn lists() -> impl Strategy<Value = Vec<Op>> {
    let sequence = || 0..4_u8;
    let rows = vec((sequence(), 0..=u16::MAX), 1..=10);
    let op = prop_oneof![
        8 => (rows, 0..20_u8).prop_map(|(rows, start)| Op::Forward { rows, start }),
        3 => (sequence(), sequence(), proptest::option::of(0..12_u8)).prop_map(|(from, to, keep)| Op::Copy { from, to, keep }),
        2 => sequence().prop_map(|sequence| Op::Remove { sequence }),
        2 => (sequence(), 0..12_u8).prop_map(|(sequence, keep)| Op::Cut { sequence, keep }),
        1 => (sequence(), 0..6_u8, 1..6_u8).prop_map(|(sequence, keep, gone)| Op::CutMiddle { sequence, keep, gone }),
        1 => (sequence(), -24..24_i8).prop_map(|(sequence, delta)| Op::Shift { sequence, delta }),
        2 => (sequence(), 0..2_u8).prop_map(|(sequence, slot)| Op::Save { sequence, slot }),
        2 => (sequence(), 0..2_u8).prop_map(|(sequence, slot)| Op::Load { sequence, slot }),
        1 => (sequence(), 0..2_u8, 1..=u8::MAX).prop_map(|(sequence, slot, missing)| Op::LoadTorn { sequence, slot, missing }),
        1 => (sequence(), 0..4_u8).prop_map(|(sequence, rows)| Op::Gap { sequence, rows }),
        1 => sequence().prop_map(|sequence| Op::NoSuchToken { sequence }),
        1 => sequence().prop_map(|sequence| Op::NoSuchSequence { sequence }),
    ];
    vec(op, 1..=16)
}
