//! From a job to its answers, the same for all dialects: what is wished, the run and its books, the body of a streamed answer.

mod parts;
mod run;
pub mod stream;
mod tally;
mod wishes;

pub use parts::{Call, Part, Parts};
pub use run::{End, Happening, HeldTo, Job, Reading, Run};
pub use tally::Tally;
pub use wishes::{MAX_CHOICES, MAX_STOP_BYTES, MAX_STOPS, SamplingWishes, Wishes, check_stops};
