//! Everything that can be said about a request before it has a sequence: settings, stop strings, tokens, length.
//!
//! Done off the engine's thread, and constraints on a thread of their own. What passes here can be computed; what does not is answered at once, with the setting's name.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crossbeam_channel::Sender;

use super::facts::{Tokens, context_per_request};
use super::kept::Scope;
use super::reply::Reply;
use super::scheduler::Command;
use super::shared::Shared;
use crate::backend::ForwardLimits;
use crate::guide::{self, Guide, Lexicon};
use crate::prompt::{self, Purpose};
use crate::request::{EngineError, Event, GenerateRequest, Priority, Sampling, TokenId};
use crate::sampling;

/// Stop strings a request may have, and bytes of all of them: each costs a little with every byte of the answer.
const MOST_STOPS: usize = 64;
const MOST_STOP_BYTES: usize = 1024 * 1024;

/// Log-probabilities that one [`Event::Prompt`] may hold: it is one message.
const MOST_PROMPT_LOGPROBS: u64 = 2_000_000;

/// A request as it came.
pub(crate) struct Draft {
    /// What is asked.
    pub(crate) request: GenerateRequest,
    /// Who asks.
    pub(crate) reply: Reply,
    /// When.
    pub(crate) arrived: Instant,
}

/// A request that can be computed.
pub(crate) struct Job {
    /// Tokens of the prompt; at least one, at most the context.
    pub(crate) prompt: Vec<TokenId>,
    /// Tokens to make at most; with the prompt they fit into the context.
    pub(crate) limit: u32,
    /// How to choose them.
    pub(crate) sampling: Sampling,
    /// Alternatives to name.
    pub(crate) logprobs: Option<u32>,
    /// Where the answer ends.
    pub(crate) stop: Vec<String>,
    /// Go on after an end token.
    pub(crate) ignore_eos: bool,
    /// What may come next, if not everything.
    pub(crate) guide: Option<Box<Guide>>,
    /// Texts of control tokens are text.
    pub(crate) control_text: bool,
    /// Alternatives to name for each token of the prompt.
    pub(crate) prompt_logprobs: Option<u32>,
    /// Before whom it goes.
    pub(crate) priority: Priority,
    /// With whom it shares state.
    pub(crate) scope: Scope,
    /// Who asks.
    pub(crate) reply: Reply,
    /// When.
    pub(crate) arrived: Instant,
}

/// What was found out about a request; the same fields as in [`Job`].
struct Checked {
    prompt: Vec<TokenId>,
    limit: u32,
    guide: Option<Box<Guide>>,
}

/// Turns drafts into jobs. Clones share the tokenizer.
#[derive(Clone)]
pub(crate) struct Preparer {
    shared: Arc<Shared>,
    tokens: Arc<Tokens>,
    context: u32,
    vocabulary: u32,
    /// Made with the first constraint.
    lexicon: Arc<Mutex<Option<Arc<Lexicon>>>>,
}

impl Preparer {
    /// For a session with `limits`.
    pub(crate) fn new(shared: Arc<Shared>, tokens: Arc<Tokens>, limits: ForwardLimits) -> Self {
        let vocabulary = tokens.facts().size.min(limits.vocabulary);
        Self { shared, tokens, context: context_per_request(&limits), vocabulary, lexicon: Arc::default() }
    }

    /// Checks a draft and gives it to the engine's thread, or answers it.
    pub(crate) fn hand_over(&self, draft: Draft, commands: &Sender<Command>) {
        let Draft { request, reply, arrived } = draft;
        let checked = match self.shared.failure() {
            Some(failure) => Err(failure),
            None if reply.is_cancelled() => Err(EngineError::Cancelled),
            None => self.check(&request),
        };
        let Checked { prompt, limit, guide } = match checked {
            Ok(checked) => checked,
            Err(error) => {
                reply.end(Event::Failed(error));
                return;
            }
        };
        let GenerateRequest { sampling, logprobs, stop, ignore_eos, control_text, prompt_logprobs, priority, scope, .. } = request;
        let job = Job {
            prompt,
            limit,
            sampling,
            logprobs,
            stop,
            ignore_eos,
            guide,
            control_text,
            prompt_logprobs,
            priority,
            scope,
            reply,
            arrived,
        };
        // Without the engine's thread the job comes back and its reply answers for itself.
        drop(commands.send(Command::Submit(Box::new(job))));
    }

    fn check(&self, request: &GenerateRequest) -> Result<Checked, EngineError> {
        sampling::check(&request.sampling, request.logprobs, request.prompt_logprobs, self.vocabulary)?;
        check_stops(&request.stop)?;
        let purpose = Purpose::Continue { add_special: request.add_special };
        let prompt = prompt::tokens(self.tokens.vocabulary(), self.tokens.facts(), &request.prompt, purpose)?;
        let need = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
        if need > self.context {
            return Err(EngineError::ContextOverflow { have: self.context, need });
        }
        check_prompt_logprobs(need, request.prompt_logprobs)?;
        // The last token is not computed any more: it needs no position.
        let room = self.context - need + 1;
        // Last, because it takes longest.
        let guide = self.guide(request)?;
        Ok(Checked { prompt, limit: request.max_tokens.map_or(room, |most| most.min(room)), guide })
    }

    fn guide(&self, request: &GenerateRequest) -> Result<Option<Box<Guide>>, EngineError> {
        let thought = match &request.reasoning {
            Some(reasoning) => Some(guide::check_reasoning(reasoning, self.tokens.vocabulary())?),
            None => None,
        };
        let constraint = match &request.constraint {
            Some(_) if request.ignore_eos => {
                let message = "an answer that must look like something ends when it does; ignore_eos contradicts that";
                return Err(EngineError::InvalidRequest { message: message.to_owned(), param: Some("ignore_eos".to_owned()) });
            }
            Some(constraint) => {
                let lexicon = self.lexicon()?;
                Some((guide::compile(constraint, &lexicon)?, lexicon))
            }
            None => None,
        };
        // Without a budget, reasoning alone asks nothing of an answer.
        let asks = constraint.is_some() || request.reasoning.as_ref().is_some_and(|reasoning| reasoning.budget.is_some());
        Ok(asks.then(|| Box::new(Guide::new(self.tokens.share(), thought, constraint))))
    }

    fn lexicon(&self) -> Result<Arc<Lexicon>, EngineError> {
        let mut lexicon = self.lexicon.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lexicon) = &*lexicon {
            return Ok(Arc::clone(lexicon));
        }
        let read = Arc::new(Lexicon::read(self.tokens.vocabulary())?);
        *lexicon = Some(Arc::clone(&read));
        Ok(read)
    }
}

fn check_prompt_logprobs(tokens: u32, alternatives: Option<u32>) -> Result<(), EngineError> {
    let count = alternatives.map_or(0, |alternatives| u64::from(tokens) * (u64::from(alternatives) + 1));
    if count <= MOST_PROMPT_LOGPROBS {
        return Ok(());
    }
    Err(EngineError::InvalidRequest {
        message: format!("{count} log-probabilities of the prompt were asked for; at most {MOST_PROMPT_LOGPROBS} are given"),
        param: Some("prompt_logprobs".to_owned()),
    })
}

fn check_stops(stops: &[String]) -> Result<(), EngineError> {
    let bytes: usize = stops.iter().map(String::len).sum();
    let message = if stops.iter().any(String::is_empty) {
        "a stop string is empty; every text contains it"
    } else if stops.len() > MOST_STOPS {
        "there are more than 64 stop strings"
    } else if bytes > MOST_STOP_BYTES {
        "the stop strings have more than 1 MiB together"
    } else {
        return Ok(());
    };
    Err(EngineError::InvalidRequest { message: message.to_owned(), param: Some("stop".to_owned()) })
}
