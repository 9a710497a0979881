//! Why the host has no model for a request. One variant is one row in the HTTP error table.

use std::path::PathBuf;
use std::time::Duration;

use onebit_catalog::{Explanation, Problem, ShelfError};

use crate::error::WorkerError;

/// Why there is no lease.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// No model has this name.
    #[error("there is no model {name:?}{}", suggested(suggestions))]
    UnknownModel {
        /// What was asked for.
        name: String,
        /// What may have been meant, best first; may be empty.
        suggestions: Vec<String>,
    },
    /// The model is known, its file is not here.
    #[error("{model} cannot be served: {message}")]
    NotDownloaded {
        /// The model.
        model: String,
        /// What is missing and what gets it.
        message: String,
    },
    /// The model's manifest or file cannot be used.
    #[error("{model} cannot be served: {}", listed(problems))]
    Broken {
        /// The model.
        model: String,
        /// What is wrong, with file and line.
        problems: Vec<Problem>,
    },
    /// No plugin can serve it here.
    #[error("{} cannot be served: {}; `onebit-host explain {}` shows every step", explanation.model, explanation.refusal().unwrap_or_default(), explanation.model)]
    Unservable {
        /// Every step, with its reason.
        explanation: Box<Explanation>,
    },
    /// The file is not the one that the manifest means.
    #[error("{model} is not served: {} has the SHA-256 {found}, its manifest says {expected}; `onebit-host pull {model}` gets the right file", path.display())]
    WrongFile {
        /// The model.
        model: String,
        /// The file.
        path: PathBuf,
        /// Lower case hexadecimal.
        expected: String,
        /// Lower case hexadecimal.
        found: String,
    },
    /// The model was not ready before the caller's deadline. Its load goes on only if others wait for it.
    #[error("{model} was not ready within {:.1} s; it may still be loading: ask again later", waited.as_secs_f32())]
    Deadline {
        /// The model.
        model: String,
        /// How long the caller waited.
        waited: Duration,
    },
    /// A model was not made, copied or removed.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// The host itself failed at something: a thread, a file.
    #[error("{0}")]
    Internal(String),
    /// A worker failed.
    #[error(transparent)]
    Worker(#[from] WorkerError),
}

fn suggested(names: &[String]) -> String {
    match names {
        [] => "; `onebit-host list` shows what there is".to_owned(),
        [name] => format!("; did you mean {name}?"),
        names => format!("; did you mean one of {}?", names.join(", ")),
    }
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
