//! What a case is: a row of a table. And what it can answer.

use serde::{Deserialize, Serialize};

use crate::bench::Bench;

/// One law of the contract and the function that tests it.
pub struct Case {
    /// `theme.name`.
    pub id: &'static str,
    /// The law, in one sentence.
    pub law: &'static str,
    /// What there must be for it to say anything.
    pub needs: &'static [Need],
    /// Seconds after which it is ended.
    pub seconds: u64,
    /// Whether the way the process ends by itself is part of the case.
    pub ends_by_itself: bool,
    /// Tests it.
    pub run: fn(&Bench) -> Outcome,
}

impl Case {
    /// A row that only needs what differs.
    pub(crate) const fn new(id: &'static str, law: &'static str, needs: &'static [Need], run: fn(&Bench) -> Outcome) -> Self {
        Self { id, law, needs, seconds: 60, ends_by_itself: false, run }
    }
}

/// Something that not every plugin or call of the kit has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A model file.
    Model,
    /// `onebit.forward/1`, and a model file.
    Forward,
    /// `onebit.tokenize/1`, and a model file.
    Tokenize,
    /// `onebit.embed/1`, and a model file.
    Embed,
    /// `onebit.rerank/1`, and a model file.
    Rerank,
    /// The flag `ONEBIT_STATE_SNAPSHOT`.
    Snapshot,
    /// The flag `ONEBIT_STATE_SHIFT`.
    Shift,
    /// The flag `ONEBIT_FORWARD_EMBEDDINGS`.
    Embeddings,
}

impl Need {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "a model",
            Self::Forward => "onebit.forward/1",
            Self::Tokenize => "onebit.tokenize/1",
            Self::Embed => "onebit.embed/1",
            Self::Rerank => "onebit.rerank/1",
            Self::Snapshot => "ONEBIT_STATE_SNAPSHOT",
            Self::Shift => "ONEBIT_STATE_SHIFT",
            Self::Embeddings => "ONEBIT_FORWARD_EMBEDDINGS",
        }
    }

    /// The capability it stands for.
    pub(crate) fn capability(self) -> Option<&'static str> {
        matches!(self, Self::Forward | Self::Tokenize | Self::Embed | Self::Rerank).then(|| self.name())
    }
}

/// How a case ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The law holds, as far as the case can see.
    Passed,
    /// The law holds, and something should be looked at all the same.
    Warned,
    /// The law does not hold.
    Failed,
    /// Nothing was tested.
    Skipped,
}

/// A number that was measured, beside the limit that it was held against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// What.
    pub name: String,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: String,
    /// The most that is allowed, where there is such a number.
    pub limit: Option<f64>,
}

/// What came of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// How it ended.
    pub state: State,
    /// What failed, why it was skipped, what to look at; may be empty when it passed.
    pub text: String,
    /// What was measured.
    pub numbers: Vec<Number>,
}

impl Verdict {
    pub(crate) fn new(state: State, text: impl Into<String>) -> Self {
        Self { state, text: text.into(), numbers: Vec::new() }
    }
}

/// Why a case ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The law does not hold.
    Failed(String),
    /// Something should be looked at.
    Warned(String),
    /// It cannot be tested here.
    Skipped(String),
}

/// What a case's function returns.
pub type Outcome = Result<(), Stop>;

/// Ends a case as failed.
macro_rules! fail {
    ($($text:tt)*) => { return Err($crate::case::Stop::Failed(format!($($text)*))) };
}

/// Ends a case as failed unless something holds.
macro_rules! ensure {
    ($holds:expr, $($text:tt)*) => {{
        let holds: bool = $holds;
        if !holds {
            return Err($crate::case::Stop::Failed(format!($($text)*)));
        }
    }};
}

pub(crate) use {ensure, fail};

/// For `result.failed("opening the model")?`: an error where the law says that there is none.
pub(crate) trait Failing<T> {
    fn failed(self, doing: &str) -> Result<T, Stop>;
}

impl<T, E: core::fmt::Display> Failing<T> for Result<T, E> {
    fn failed(self, doing: &str) -> Result<T, Stop> {
        self.map_err(|error| Stop::Failed(format!("{doing}: {error}")))
    }
}
