//! Talking to a model in the terminal: a loaded model, a conversation, answers as they are made.
//!
//! The prompt is rendered by the same code that serves the HTTP front, so a chat here and a chat there are the same. What a person types is
//! never read as control tokens of the model.

pub mod answer;
mod history;
pub mod loading;
pub mod terminal;

use onebit_catalog::Defaults;
use onebit_engine::{GenerateRequest, Prompt, PromptPart, Sampling};
use onebit_http::template::conversation::{Conversation, Message, Role};
use onebit_http::template::{Renderer, TemplateError, TemplateSource};
use onebit_worker::Lease;

use crate::exit::{Exit, Failure};

/// How answers are made, from flags, settings and the manifest.
#[derive(Debug, Clone, Default)]
pub struct Taste {
    /// System message.
    pub system: Option<String>,
    /// 0 = always the likeliest.
    pub temperature: Option<f32>,
    /// Same seed, same answers.
    pub seed: Option<u64>,
    /// Longest answer.
    pub max_tokens: Option<u32>,
    /// What the manifest says.
    pub manifest: Defaults,
}

/// Without a word from anybody: lively, but not wild.
const TEMPERATURE: f32 = 0.8;

/// A model, and everything said so far.
pub struct Chat {
    /// The loaded model.
    pub lease: Lease,
    /// Runs the model's template, in a process of its own: it is foreign code. `None` = the text is continued as it is.
    template: Option<(Renderer, TemplateSource)>,
    taste: Taste,
    messages: Vec<Message>,
    /// Answers so far: each gets its own seed.
    answers: u64,
}

impl Chat {
    /// Begins a conversation. `raw` = continue texts instead of answering messages.
    pub fn new(lease: Lease, taste: Taste, raw: bool) -> Result<Self, Failure> {
        let facts = lease.facts();
        let template = match (raw, &facts.chat_template) {
            (true, _) => None,
            (false, Some(text)) => {
                let source = TemplateSource {
                    text: text.clone(),
                    bos: facts.bos.clone(),
                    eos: facts.eos.clone(),
                    control_tokens: facts.control_tokens.clone(),
                };
                Some((Renderer::new(crate::places::SELF.into()), source))
            }
            (false, None) => {
                let why = "this model has no chat template, so nobody knows how a question must look to it";
                return Err(Failure::new(Exit::Unservable, why).next(NO_TEMPLATE));
            }
        };
        Ok(Self { lease, template, taste, messages: Vec::new(), answers: 0 })
    }

    /// Forgets everything said so far.
    pub fn clear(&mut self) {
        self.messages.clear();
    }

    /// Changes the system message; what was said so far stays.
    pub fn set_system(&mut self, text: Option<String>) {
        self.taste.system = text;
    }

    /// The request for an answer to `text`.
    pub async fn ask(&mut self, text: &str) -> Result<GenerateRequest, Failure> {
        let prompt = match &self.template {
            None => Prompt::Parts(vec![PromptPart { text: text.to_owned(), control: false }]),
            Some((renderer, source)) => {
                let question = Message::text(Role::User, text);
                let system = self.taste.system.iter().map(|system| Message::text(Role::System, system.clone()));
                let messages = system.chain(self.messages.iter().cloned()).chain([question.clone()]).collect();
                let conversation = Conversation { messages, ..Conversation::default() };
                let model = self.lease.spec().model.clone();
                let parts = renderer.render(model, source.clone(), conversation).await.map_err(template_failed)?;
                self.messages.push(question);
                Prompt::Parts(parts)
            }
        };
        let manifest = &self.taste.manifest;
        let request = GenerateRequest {
            // As the server does it: a template may or may not write the start token; the engine adds it only where it is missing.
            add_special: true,
            max_tokens: self.taste.max_tokens.or(manifest.max_tokens),
            sampling: self.sampling(),
            stop: manifest.stop.clone(),
            ..GenerateRequest::new(prompt)
        };
        self.answers += 1;
        Ok(request)
    }

    /// What became of the last [`Chat::ask`]: an answer stays in the conversation, no answer takes the question out of it.
    pub fn answered(&mut self, text: &str) {
        if self.template.is_none() {
            return;
        }
        if text.is_empty() {
            self.messages.pop();
        } else {
            self.messages.push(Message::text(Role::Assistant, text));
        }
    }

    fn sampling(&self) -> Sampling {
        let Taste { temperature, seed, manifest, .. } = &self.taste;
        let plain = Sampling::default();
        Sampling {
            temperature: temperature.or(manifest.temperature).unwrap_or(TEMPERATURE),
            top_k: manifest.top_k.unwrap_or(plain.top_k),
            top_p: manifest.top_p.unwrap_or(plain.top_p),
            min_p: manifest.min_p.unwrap_or(plain.min_p),
            typical_p: manifest.typical_p.unwrap_or(plain.typical_p),
            repetition_penalty: manifest.repetition_penalty.unwrap_or(plain.repetition_penalty),
            penalty_window: manifest.penalty_window.unwrap_or(plain.penalty_window),
            presence_penalty: manifest.presence_penalty.unwrap_or(plain.presence_penalty),
            frequency_penalty: manifest.frequency_penalty.unwrap_or(plain.frequency_penalty),
            seed: seed.or(manifest.seed).map(|seed| seed.wrapping_add(self.answers)),
            ..plain
        }
    }
}

fn template_failed(error: TemplateError) -> Failure {
    match error {
        TemplateError::Refused(why) => {
            Failure::new(Exit::Usage, format!("the chat template of this model refuses the conversation: {why}"))
                .next("Some models take no system message: leave --system away, or /system without a text.")
        }
        TemplateError::Unusable(why) => {
            Failure::new(Exit::Unservable, format!("the chat template of this model cannot be used: {why}")).next(NO_TEMPLATE)
        }
        TemplateError::Process(why) => Failure::new(Exit::Other, why),
    }
}

const NO_TEMPLATE: &str = "Give it one in a manifest (`chat.template` or `chat.template_file`), or continue plain text with --raw.";
