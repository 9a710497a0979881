//! Anthropic's dialect: messages, the count of their tokens, models.
//!
//! Its clients are strict about order: every block of a streamed message is opened, filled and closed before the next, and none can be taken
//! back. They are generous with fields that mean nothing here (`cache_control`, `metadata`, `context_management`, …), which are passed over;
//! what would change the answer and is not carried out is refused by name.

mod conversation;
pub mod count;
mod events;
pub mod messages;
pub mod model_list;
pub mod openapi;
mod reply;
mod request;
mod tools;
