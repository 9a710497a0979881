//! What Anthropic's routes say of themselves in `/openapi.json`.

mod answers;
mod requests;

pub use answers::{model_info, model_page};

use crate::dialect::ANTHROPIC_VERSION;
use crate::errors::Kind;
use crate::openapi::shapes::{amount, record};
use crate::openapi::{CHATTING, Description};

const TAG: &str = "Anthropic";

/// `POST /v1/messages`.
pub fn messages() -> Description {
    asked("Messages in, a message out")
        .body("MessageRequest", requests::message())
        .computes()
        .ends(&[Kind::ConstraintFailed])
        .answer("Message", answers::message())
        .events("MessageEvent", answers::events())
}

/// `POST /v1/messages/count_tokens`.
pub fn count() -> Description {
    asked("How many tokens a message would read")
        .body("MessageCountRequest", requests::count())
        .stamped()
        .answer("MessageTokens", record("").must("input_tokens", amount("")))
}

fn asked(summary: &'static str) -> Description {
    let unread = "Not needed, and changes nothing";
    Description::new(TAG, summary).header(ANTHROPIC_VERSION, unread).header("anthropic-beta", unread).ends(CHATTING)
}
