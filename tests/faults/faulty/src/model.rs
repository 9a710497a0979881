//! The model that works, until its fault happens.

use onebit_sdk::{
    Allocation, Batch, Encode, Error, Forward, ForwardLimits, Host, Input, Level, Model, ModelDescription, Session, SessionArgs, TokenInfo,
    Tokenizer, Vocabulary,
};

use crate::fault::{Deed, Fault, Place};

const VOCABULARY: u32 = 257;
const END: u32 = 256;

pub(crate) struct FaultyModel {
    fault: Fault,
    host: Host,
    description: ModelDescription,
    vocabulary: Vocabulary,
    texts: Vec<String>,
}

impl FaultyModel {
    pub(crate) fn new(fault: Fault, host: Host) -> Self {
        Self {
            fault,
            host,
            description: ModelDescription { computes_on: "CPU".into(), architecture: "faulty".into(), quantisation: "none".into() },
            vocabulary: Vocabulary { size: VOCABULARY, eos: Some(END), eot: Some(END), kind: "bytes".into(), ..Vocabulary::default() },
            texts: (0..VOCABULARY).map(|token| if token < 128 { char::from(token as u8).into() } else { format!("<{token}>") }).collect(),
        }
    }
}

impl Drop for FaultyModel {
    fn drop(&mut self) {
        if let Err(error) = self.fault.happen(Place::Close) {
            self.host.log(Level::Error, "faulty", error.message());
        }
    }
}

impl Model for FaultyModel {
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

impl Forward for FaultyModel {
    fn limits(&self) -> ForwardLimits {
        ForwardLimits {
            vocabulary: VOCABULARY,
            context_trained: 4096,
            max_batch: 512,
            max_sequences: 16,
            cut: true,
            ..ForwardLimits::default()
        }
    }

    fn open_session(&self, args: &SessionArgs<'_>) -> Result<Box<dyn Session>, Error> {
        Ok(Box::new(FaultySession { fault: self.fault, context: args.context, logits: Vec::new() }))
    }
}

struct FaultySession {
    fault: Fault,
    context: u32,
    logits: Vec<f32>,
}

impl Session for FaultySession {
    fn allocated(&self) -> Allocation {
        Allocation { context: self.context, ..Allocation::default() }
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<&[f32], Error> {
        self.fault.happen(Place::Forward)?;
        let Input::Tokens(tokens) = batch.input else {
            return Err(Error::unsupported("tokens only"));
        };
        self.logits.clear();
        for (token, _) in tokens.iter().zip(batch.wants_logits).filter(|(_, wanted)| **wanted != 0) {
            let start = self.logits.len();
            self.logits.resize(start + VOCABULARY as usize, 0.0);
            self.logits[start + ((token + 1) % VOCABULARY) as usize] = 10.0;
            if self.fault.deed == Deed::NanLogit {
                self.logits[start + 7] = f32::NAN;
            }
        }
        Ok(&self.logits)
    }

    // The next token depends on the last one alone, so there is no state to keep in order.
    fn seq_copy(&mut self, _source: u32, _destination: u32, _p0: u32, _p1: u32) -> Result<(), Error> {
        Ok(())
    }

    fn seq_remove(&mut self, _sequence: u32, _p0: u32, _p1: u32) -> Result<(), Error> {
        Ok(())
    }
}

impl Tokenizer for FaultyModel {
    fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    fn token(&self, id: u32) -> Option<TokenInfo<'_>> {
        let text = self.texts.get(id as usize)?;
        Some(TokenInfo { text, control: id == END, end: id == END, byte: id != END, ..TokenInfo::default() })
    }

    fn encode(&self, text: &str, _how: Encode) -> Result<Vec<u32>, Error> {
        Ok(text.bytes().map(u32::from).collect())
    }

    fn decode(&self, tokens: &[u32], _control: bool) -> Result<Vec<u8>, Error> {
        Ok(tokens.iter().filter_map(|token| u8::try_from(*token).ok()).collect())
    }
}
