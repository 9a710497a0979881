//! From tokens to the text that may be shown: [`Pieces`] knows the bytes of a token, [`Utf8`] makes whole characters of them,
//! [`Stops`] finds stop strings, and [`Answer`] lets go of text and tokens once nothing can change them any more.

mod answer;
mod pieces;
mod stops;
mod utf8;

pub(crate) use answer::{Answer, Shown};
pub(crate) use pieces::Pieces;
pub(crate) use stops::{Match, Stops};
pub(crate) use utf8::Utf8;
