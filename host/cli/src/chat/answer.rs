//! One answer, shown as it is made; Ctrl-C ends it and nothing else.

use onebit_engine::{EngineError, Event, FinishReason, Finished, GenerateRequest};
use onebit_worker::Lease;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Exit, Failure};
use crate::output::{self, note};

/// What came of it.
pub struct Answer {
    /// Everything that was shown.
    pub text: String,
    /// How it ended; `None` = by Ctrl-C.
    pub finished: Option<Finished>,
}

/// Shows an answer on standard output. Dropping the generation, as Ctrl-C does, stops the work in the worker.
pub async fn show(lease: &Lease, request: GenerateRequest) -> Result<Answer, Failure> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| Failure::io("listen for Ctrl-C", &error))?;
    let mut generation = lease.generate(request).await?;
    let mut text = String::new();
    loop {
        let event = tokio::select! {
            event = generation.next() => event,
            _ = interrupt.recv() => return Ok(Answer { text, finished: None }),
        };
        match event {
            Some(Ok(Event::Delta { text: more, .. })) if !more.is_empty() => {
                output::write(&more)?;
                text.push_str(&more);
            }
            Some(Ok(Event::Finished(finished))) => return Ok(Answer { text, finished: Some(finished) }),
            Some(Ok(Event::Failed(error))) => return Err(refused(&error)),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.into()),
            None => return Err(Failure::new(Exit::WorkerDied, "the answer ended without an end")),
        }
    }
}

fn refused(error: &EngineError) -> Failure {
    match error {
        EngineError::ContextOverflow { .. } => Failure::new(Exit::Usage, error).next("In a chat, /clear forgets what was said so far."),
        _ => Failure::new(Exit::Other, error),
    }
}

/// A line about the answer, for `--verbose`.
pub fn describe(lease: &Lease, answer: &Answer) {
    let facts = lease.facts();
    let by = format!("{} {} on {} ({})", facts.plugin, facts.plugin_version, facts.device, facts.computes_on);
    let Some(finished) = &answer.finished else {
        note(format!("[stopped; {by}]"));
        return;
    };
    let rate =
        |tokens: u32, us: u64| if us == 0 { String::new() } else { format!(", {:.1} tokens/s", f64::from(tokens) * 1e6 / us as f64) };
    let (usage, timings) = (&finished.usage, &finished.timings);
    // The decode time runs from the first token to the last, so the first one is not in it.
    let decoded = usage.completion_tokens.saturating_sub(1);
    note(format!(
        "[prompt {} tokens{}; answer {} tokens{}; {by}]",
        usage.prompt_tokens,
        rate(usage.prompt_tokens, timings.prefill_us),
        usage.completion_tokens,
        rate(decoded, timings.decode_us),
    ));
}

/// An answer that was cut says so: never silently.
pub fn cut(answer: &Answer) -> bool {
    answer.finished.as_ref().is_some_and(|finished| finished.reason == FinishReason::Length)
}
