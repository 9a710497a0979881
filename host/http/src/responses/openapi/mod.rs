//! What the Responses routes say of themselves in `/openapi.json`.

mod answers;
mod events;
mod requests;

use super::stored::{MAX_PAGE, PAGE};
use crate::errors::Kind;
use crate::openapi::shapes::{amount, count as count_of, record, text, word};
use crate::openapi::{CHATTING, Description};

const TAG: &str = "Responses";
const ID: &str = "A kept response's";
/// Where kept responses are read or written.
const KEPT: &[Kind] = &[Kind::StoreFailed];
/// Where an earlier response may be gone on from.
const WENT_ON: &[Kind] = &[Kind::UnknownPrevious, Kind::StoreFailed];

/// `POST /v1/responses`.
pub fn create() -> Description {
    Description::new(TAG, "Items in, a response out")
        .body("ResponseRequest", requests::body())
        .computes()
        .ends(CHATTING)
        .ends(WENT_ON)
        .ends(&[Kind::ConstraintFailed])
        .answer("Response", answers::response())
        .events("ResponseEvent", events::all())
}

/// `POST /v1/responses/input_tokens`.
pub fn count() -> Description {
    Description::new(TAG, "How many tokens a response would read")
        .body("ResponseRequest", requests::body())
        .stamped()
        .ends(CHATTING)
        .ends(WENT_ON)
        .answer("ResponseTokens", record("").must("object", word(&["response.input_tokens"], "")).must("input_tokens", amount("")))
}

/// `GET /v1/responses/{id}`.
pub fn one() -> Description {
    kept("A response, as far as it is")
        .query("stream", word(&["false"], "A kept response is not told as a stream"))
        .answer("Response", answers::response())
        .ends(&[Kind::UnsupportedField])
}

/// `DELETE /v1/responses/{id}`.
pub fn delete() -> Description {
    kept("Deletes a response; one that is being made ends first").answer("ResponseDeleted", answers::deleted())
}

/// `POST /v1/responses/{id}/cancel`.
pub fn cancel() -> Description {
    kept("Ends a response that is made in the background; of one that has ended, its end is told")
        .answer("Response", answers::response())
        .ends(&[Kind::InvalidValue])
}

/// `GET /v1/responses/{id}/input_items`.
pub fn input_items() -> Description {
    kept("All that a response was made from, earlier responses included")
        .query("limit", count_of(1..=MAX_PAGE as u32, &format!("Items of a page; {PAGE} if not said")))
        .query("order", word(&["asc", "desc"], "desc, the default: the last first"))
        .query("after", text("The id of the item before the page"))
        .answer("ResponseItems", answers::page())
}

fn kept(summary: &'static str) -> Description {
    Description::new(TAG, summary).path("id", ID).ends(KEPT).ends(&[Kind::UnknownResponse])
}
