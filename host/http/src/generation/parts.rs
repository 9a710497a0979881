//! What is said, with calls whole.
//!
//! A call may turn out to be none while it is written: the model goes astray, or its limit comes first. Dialects whose events cannot take a
//! call back therefore tell of it when it is complete; what was none is text then, as the model wrote it.

use crate::formats::Piece;

/// A complete call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Names it.
    pub id: String,
    /// The function.
    pub name: String,
    /// One JSON object, as the model wrote it.
    pub arguments: String,
}

/// Something that can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part<'a> {
    /// For the reader.
    Text(&'a str),
    /// What the model thought.
    Reasoning(&'a str),
    /// A call.
    Call(Call),
}

/// Holds back the call of one answer that is being written.
#[derive(Debug, Default)]
pub struct Parts {
    open: Option<Call>,
}

impl Parts {
    /// The part that is complete with this piece, if one is.
    pub fn take<'a>(&mut self, piece: &'a Piece) -> Option<Part<'a>> {
        match piece {
            Piece::Text(text) => Some(Part::Text(text)),
            Piece::Reasoning(text) => Some(Part::Reasoning(text)),
            Piece::Call { id, name } => {
                self.open = Some(Call { id: id.clone(), name: name.clone(), arguments: String::new() });
                None
            }
            Piece::Arguments(text) => {
                if let Some(call) = &mut self.open {
                    call.arguments.push_str(text);
                }
                None
            }
            Piece::CallEnd => self.open.take().map(Part::Call),
            Piece::Broken(text) => {
                self.open = None;
                Some(Part::Text(text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_when_it_is_complete_and_a_broken_one_is_text() {
        let begun = |name: &str| Piece::Call { id: "1".into(), name: name.into() };
        let mut parts = Parts::default();
        assert_eq!(parts.take(&begun("f")), None);
        assert_eq!(parts.take(&Piece::Arguments("{\"a\":".into())), None);
        assert_eq!(parts.take(&Piece::Arguments("1}".into())), None);
        let whole = Call { id: "1".into(), name: "f".into(), arguments: "{\"a\":1}".into() };
        assert_eq!(parts.take(&Piece::CallEnd), Some(Part::Call(whole)));
        assert_eq!(parts.take(&begun("g")), None);
        let broken = Piece::Broken("g({".into());
        assert_eq!(parts.take(&broken), Some(Part::Text("g({")));
        assert_eq!(parts.take(&Piece::CallEnd), None);
    }
}
