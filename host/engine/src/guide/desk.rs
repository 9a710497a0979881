//! Where guides are asked, beside the device.
//!
//! To find the tokens that a grammar allows takes from microseconds to milliseconds, and so does the device. So the question is asked the
//! moment the last token was chosen, and answered by another thread while the device computes. A guide moves to the desk with the question
//! and comes back with the answer; nothing is shared and nothing is locked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use super::{Allowed, Guide, STACK_BYTES};
use crate::request::{EngineError, TokenId};

/// How long the engine waits for an answer that is not there when the device is done: all its streams wait with it. A grammar's bounds
/// make that tens of milliseconds at the worst, so only a machine that stands still, or a bound that does not hold, comes near.
const PATIENCE: Duration = Duration::from_secs(2);

/// Threads at most: there are other things to compute.
const MOST_THREADS: usize = 8;

/// A guide, and what it says.
type Answer = (Box<Guide>, Result<Allowed, EngineError>);

struct Question {
    guide: Box<Guide>,
    /// What was chosen since the last question.
    chosen: Option<TokenId>,
    answer: Sender<Answer>,
}

/// The threads that answer.
pub(crate) struct Desk {
    questions: Option<Sender<Question>>,
    threads: Vec<JoinHandle<()>>,
}

/// A guide whose answer is on its way.
pub(crate) struct Guided(Receiver<Answer>);

impl Desk {
    /// With threads for `answers` side by side.
    ///
    /// # Errors
    /// [`EngineError::Internal`] if the system gives no thread.
    pub(crate) fn open(answers: usize) -> Result<Self, EngineError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (questions, inbox) = unbounded::<Question>();
        let mut desk = Self { questions: Some(questions), threads: Vec::new() };
        for _ in 0..answers.min(cores).clamp(1, MOST_THREADS) {
            let inbox = inbox.clone();
            let thread = std::thread::Builder::new()
                .name("onebit-guide".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || inbox.iter().for_each(answer));
            desk.threads
                .push(thread.map_err(|error| EngineError::Internal(format!("a thread for constraints could not be started: {error}")))?);
        }
        Ok(desk)
    }

    /// Asks what may come next, after `chosen`.
    pub(crate) fn ask(&self, guide: Box<Guide>, chosen: Option<TokenId>) -> Guided {
        let (answer, answers) = bounded(1);
        if let Some(questions) = &self.questions {
            // A desk without threads is found out when the answer is waited for.
            drop(questions.send(Question { guide, chosen, answer }));
        }
        Guided(answers)
    }
}

impl Guided {
    /// Waits for the answer.
    ///
    /// # Errors
    /// [`EngineError::Constraint`] and the plugin's: the guide cannot say.
    pub(crate) fn wait(self) -> Result<(Box<Guide>, Allowed), EngineError> {
        let (guide, allowed) = self.0.recv_timeout(PATIENCE).map_err(|error| {
            EngineError::Constraint(match error {
                RecvTimeoutError::Timeout => format!("one token took longer than {} s to find", PATIENCE.as_secs()),
                RecvTimeoutError::Disconnected => "its computing panicked".to_owned(),
            })
        })?;
        Ok((guide, allowed?))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.questions = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread for constraints panicked");
            }
        }
    }
}

fn answer(question: Question) {
    let Question { mut guide, chosen, answer } = question;
    let said = catch_unwind(AssertUnwindSafe(|| {
        let allowed = chosen.map_or(Ok(()), |token| guide.accept(token)).and_then(|()| guide.allowed());
        (guide, allowed)
    }));
    if let Ok(said) = said {
        // Nobody waits for a request that is gone.
        drop(answer.send(said));
    }
}
