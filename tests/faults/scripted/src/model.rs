//! The vocabulary: bytes, an end, and the begin of an answer.

use std::sync::Arc;

use onebit_sdk::{
    Allocation, Encode, Error, Forward, ForwardLimits, Model, ModelDescription, Session, SessionArgs, TokenInfo, Tokenizer, Vocabulary,
};

use crate::script::{BEGIN, END, Script, VOCABULARY};
use crate::session::ScriptedSession;

/// Agents write long prompts, and here every byte counts.
pub(crate) const CONTEXT_TRAINED: u32 = 1 << 19;
const CONTROL: [(u32, &str); 2] = [(END, "<|end|>"), (BEGIN, "<|begin|>")];

pub(crate) struct ScriptedModel {
    script: Arc<Script>,
    description: ModelDescription,
    vocabulary: Vocabulary,
    texts: Vec<String>,
}

impl ScriptedModel {
    pub(crate) fn new(script: Script) -> Self {
        let byte_text = |byte: u8| if byte.is_ascii() { char::from(byte).to_string() } else { format!("<0x{byte:02X}>") };
        let template = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}\
                        {% if add_generation_prompt %}<|begin|>{% endif %}";
        Self {
            script: Arc::new(script),
            description: ModelDescription { computes_on: "CPU".into(), architecture: "script".into(), quantisation: "none".into() },
            vocabulary: Vocabulary {
                size: VOCABULARY,
                eos: Some(END),
                eot: Some(END),
                chat_template: Some(template.into()),
                kind: "bytes".into(),
                ..Vocabulary::default()
            },
            texts: (0..=u8::MAX).map(byte_text).chain(CONTROL.map(|(_, text)| text.to_owned())).collect(),
        }
    }
}

impl Model for ScriptedModel {
    fn description(&self) -> &ModelDescription {
        &self.description
    }

    fn forward(&self) -> Option<&dyn Forward> {
        Some(self)
    }

    fn tokenizer(&self) -> Option<&dyn Tokenizer> {
        Some(self)
    }
}

impl Forward for ScriptedModel {
    fn limits(&self) -> ForwardLimits {
        ForwardLimits {
            vocabulary: VOCABULARY,
            context_trained: CONTEXT_TRAINED,
            max_batch: 8192,
            max_sequences: 16,
            cut: true,
            state_per_token: 8,
            ..ForwardLimits::default()
        }
    }

    fn open_session(&self, args: &SessionArgs<'_>) -> Result<Box<dyn Session>, Error> {
        let scratch_bytes = u64::from(args.batch) * u64::from(VOCABULARY) * 4;
        let allocation = Allocation { context: args.context, state_bytes: u64::from(args.context) * 8, scratch_bytes };
        Ok(Box::new(ScriptedSession::new(Arc::clone(&self.script), allocation, args.sequences)))
    }
}

impl Tokenizer for ScriptedModel {
    fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    fn token(&self, id: u32) -> Option<TokenInfo<'_>> {
        let text = self.texts.get(id as usize)?;
        Some(TokenInfo { text, control: id >= END, end: id == END, byte: id < END, ..TokenInfo::default() })
    }

    fn encode(&self, text: &str, how: Encode) -> Result<Vec<u32>, Error> {
        let (mut tokens, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
        while let [first, ..] = rest {
            let control = CONTROL.iter().find(|(_, mark)| how.parse_control && rest.starts_with(mark.as_bytes()));
            let (token, length) = control.map_or((u32::from(*first), 1), |(token, mark)| (*token, mark.len()));
            tokens.push(token);
            rest = &rest[length..];
        }
        Ok(tokens)
    }

    fn decode(&self, tokens: &[u32], control: bool) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        for token in tokens {
            match u8::try_from(*token) {
                Ok(byte) => bytes.push(byte),
                Err(_) => {
                    let text =
                        self.texts.get(*token as usize).ok_or_else(|| Error::invalid_argument(format!("there is no token {token}")))?;
                    bytes.extend(text.as_bytes().iter().filter(|_| control));
                }
            }
        }
        Ok(bytes)
    }
}
