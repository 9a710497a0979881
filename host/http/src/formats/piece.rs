//! What an answer is made of once its markup is read.

/// A piece of an answer, in the order it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// For the reader.
    Text(String),
    /// What the model thought.
    Reasoning(String),
    /// A call begins; what follows up to [`Piece::CallEnd`] belongs to it.
    Call {
        /// Names this call, so that its result can be told from others'.
        id: String,
        /// The function.
        name: String,
    },
    /// More of the arguments' JSON text.
    Arguments(String),
    /// The call is complete: its name is there and its arguments are one JSON object.
    CallEnd,
    /// Something that began like a call and is none: its text, as the model wrote it. A call that had begun before it stays without an end.
    Broken(String),
}

/// How the ids of calls look. Some templates refuse other ids than their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// `call_` and 24 characters.
    Long,
    /// Nine letters and digits, as Mistral's templates demand.
    Nine,
}

impl Ids {
    /// A new one.
    pub fn make(self) -> String {
        let id = uuid::Uuid::new_v4().simple().to_string();
        match self {
            Self::Long => format!("call_{}", &id[..24]),
            Self::Nine => id[..9].to_owned(),
        }
    }
}
