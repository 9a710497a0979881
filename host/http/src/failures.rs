//! What the host, a worker or the engine reports, as rows of the error table. The only place where their errors are matched.
//!
//! Their own sentences are passed on: they were written for the person who must act.

use std::time::Duration;

use onebit_engine::EngineError;
use onebit_worker::{HostError, ShelfError, WorkerError};

use crate::errors::{ApiError, Kind, unknown_model};

/// A load that did not end in time may end any moment.
const AFTER_A_DEADLINE: Duration = Duration::from_secs(5);

impl From<HostError> for ApiError {
    fn from(error: HostError) -> Self {
        let message = error.to_string();
        match error {
            HostError::UnknownModel { name, suggestions } => unknown_model(&name, &suggestions),
            // Known by its manifest only; to a client it is not there, and the sentence says how to get it.
            HostError::NotDownloaded { .. } => Self::new(Kind::UnknownModel, message).param("model"),
            HostError::Broken { .. } | HostError::Unservable { .. } | HostError::WrongFile { .. } => {
                Self::new(Kind::Unservable, message).param("model")
            }
            HostError::Deadline { .. } => Self::new(Kind::LoadFailed, message).retry_after(Some(AFTER_A_DEADLINE)),
            HostError::Worker(error) => error.into(),
            HostError::Shelf(error) => error.into(),
            _ => Self::new(Kind::Internal, message),
        }
    }
}

impl From<ShelfError> for ApiError {
    fn from(error: ShelfError) -> Self {
        let message = error.to_string();
        match error {
            ShelfError::Name { .. } => Self::invalid("model", message),
            ShelfError::Refused { .. } => Self::new(Kind::InvalidValue, message),
            ShelfError::Unknown(name) => unknown_model(&name, &[]),
            ShelfError::Protected(_) => Self::new(Kind::Protected, message),
            ShelfError::Io { error, .. } if error.kind() == std::io::ErrorKind::StorageFull => Self::new(Kind::NoSpace, message),
            ShelfError::NoFolder | ShelfError::Io { .. } => Self::new(Kind::StoreFailed, message),
        }
    }
}

impl From<WorkerError> for ApiError {
    fn from(error: WorkerError) -> Self {
        let (message, wait) = (error.to_string(), error.retry_after());
        let kind = match error {
            WorkerError::Engine(error) => return error.into(),
            WorkerError::QueueFull { .. } | WorkerError::Deadline { .. } => Kind::QueueFull,
            WorkerError::Load { .. } | WorkerError::CircuitOpen { .. } | WorkerError::Spawn { .. } | WorkerError::BuildMismatch { .. } => {
                Kind::LoadFailed
            }
            WorkerError::Died(_) | WorkerError::Hang { .. } | WorkerError::Protocol { .. } => Kind::WorkerFailed,
            WorkerError::Draining { .. } => Kind::Draining,
            WorkerError::NoMemory { .. } => Kind::OutOfMemory,
            WorkerError::RequestTooLarge { .. } => Kind::TooLarge,
            _ => Kind::Internal,
        };
        Self::new(kind, message).retry_after(wait)
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::ContextOverflow { .. } | EngineError::TextTooLong { .. } => Self::new(Kind::ContextLength, message),
            EngineError::QueryTooLong { .. } => Self::new(Kind::ContextLength, message).param("query"),
            EngineError::DocumentTooLong { .. } => Self::new(Kind::ContextLength, message).param("documents"),
            EngineError::InvalidRequest { param, .. } => Self { param, ..Self::new(Kind::InvalidValue, message) },
            EngineError::Unsupported(_) => Self::new(Kind::UnsupportedJob, message),
            // A cancel that this front did not ask for comes from a worker that is being unloaded.
            EngineError::Cancelled => Self::new(Kind::WorkerFailed, "the model was unloaded while it answered; send the request again"),
            EngineError::OutOfMemory { .. } => Self::new(Kind::OutOfMemory, message),
            EngineError::Plugin { .. } => Self::new(Kind::PluginFailed, message),
            EngineError::Constraint(_) => Self::new(Kind::ConstraintFailed, message),
            _ => Self::new(Kind::Internal, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_overlong_prompt_is_400_with_both_numbers() {
        let error = ApiError::from(EngineError::ContextOverflow { have: 2048, need: 5000 });
        assert_eq!(error.kind.row().status, 400);
        assert!(error.message.contains("2048") && error.message.contains("5000"));
    }

    #[test]
    fn a_full_queue_keeps_its_own_wait() {
        let error = ApiError::from(WorkerError::QueueFull { model: "m".into(), depth: 3, retry_after: Duration::from_secs(7) });
        assert_eq!((error.kind, error.retry_after), (Kind::QueueFull, Some(Duration::from_secs(7))));
    }

    #[test]
    fn a_model_that_is_not_here_is_404_and_says_how_to_get_it() {
        let error = ApiError::from(HostError::NotDownloaded { model: "m".into(), message: "run `onebit-host pull m`".into() });
        assert_eq!(error.kind.row().status, 404);
        assert!(error.message.contains("pull m"));
    }
}
