//! What llama-server's routes say of themselves in `/openapi.json`.

use serde_json::json;

use super::rerank::MAX_DOCUMENTS;
use crate::errors::Kind;
use crate::generation::stream::EVENTS;
use crate::openai::openapi::{messages, model, sampling, stop, tools};
use crate::openapi::shapes::{
    Record, Shape, amount, anything, count, either, flag, list, list_of, measure, or_null, record, text, text_of, whole, word,
};
use crate::openapi::{ADMIN, CHATTING, Description};

const TAG: &str = "llama-server";
const WHICH: &str = "Needed only where several models could be meant";

/// `POST /tokenize`.
pub fn tokenize() -> Description {
    let body = record("")
        .may("model", text(WHICH))
        .must("content", text("The text"))
        .may("add_special", flag("With the start token, where the vocabulary asks for one"))
        .may("parse_special", flag("Texts of control tokens become those tokens; the default"))
        .may("with_pieces", flag("With the text of each token"))
        .example(json!({"content": "A text"}));
    let piece = either([text(""), list(count(0..=255, ""), "The bytes of a part of a character")], "");
    let token = either([amount(""), record("").must("id", amount("")).must("piece", piece).into()], "");
    Description::new(TAG, "Text to tokens").body("TokenizeRequest", body).answer("Tokens", record("").must("tokens", list(token, "")))
}

/// `POST /detokenize`.
pub fn detokenize() -> Description {
    let body = record("")
        .may("model", text(WHICH))
        .must("tokens", list(count(0..=u32::MAX, "A token id of the model's vocabulary"), ""))
        .example(json!({"tokens": [1, 2]}));
    Description::new(TAG, "Tokens to text").body("DetokenizeRequest", body).answer("Detokenized", record("").must("content", text("")))
}

/// `POST /apply-template`.
pub fn apply_template() -> Description {
    let body = tools(record("").may("model", text(WHICH)).must("messages", messages()))
        .example(json!({"messages": [{"role": "user", "content": "Say hello."}]}));
    Description::new(TAG, "Messages to the prompt that a chat with them begins with")
        .body("ApplyTemplateRequest", body)
        .answer("AppliedTemplate", record("").must("prompt", text("")))
        .ends(CHATTING)
}

/// `POST /infill`.
pub fn infill() -> Description {
    let file = record("").may("filename", anything("Not looked at")).must("text", text(""));
    let body = record("")
        .may("model", text(WHICH))
        .may("input_extra", list(file.into(), "Other files, before this one"))
        .may("input_prefix", text("What comes before"))
        .may("prompt", text("And what follows it, up to what is to be written"))
        .must("input_suffix", text("What comes after"))
        .may("n_predict", whole(-1..=i64::from(u32::MAX), "Tokens at most; -1: as many as fit"))
        .may("stop", stop())
        .may("stream", flag("Answer in events"));
    let body = sampling(body).example(json!({"input_prefix": "def add(a, b):\n", "input_suffix": "\n", "n_predict": 8}));
    let end = |part: Record| {
        part.must("model", text(""))
            .must("stop_type", word(&["word", "limit", "eos"], ""))
            .must("stopping_word", text(""))
            .must("tokens_predicted", amount(""))
            .must("tokens_evaluated", amount(""))
            .must("timings", timings())
    };
    let part = || record("").must("content", text("")).must("stop", flag("The last"));
    Description::new(TAG, "What stands between two texts, for models that can fill in the middle")
        .body("InfillRequest", body)
        .computes()
        .answer("Infill", end(part()))
        .answer_as(EVENTS, "InfillEvent", either([part().into(), end(part()).into()], ""))
}

fn timings() -> Shape {
    record("")
        .must("prompt_n", amount(""))
        .must("prompt_ms", measure(""))
        .must("predicted_n", amount(""))
        .must("predicted_ms", measure(""))
        .must("predicted_per_second", or_null(measure("")))
        .into()
}

/// `POST /v1/rerank`.
pub fn rerank() -> Description {
    let document = either([text(""), record("").must("text", text("")).into()], "");
    let body = record("")
        .may("model", text(WHICH))
        .must("query", text_of(1..=usize::MAX, "What the documents are to answer"))
        .must("documents", list_of(document, 1..=MAX_DOCUMENTS, "What is to be ranked"))
        .may("top_n", count(1..=u32::MAX, "So many results at most, the best ones; all if it is absent"))
        .may("return_documents", flag("With the documents' texts"))
        .may("truncate", flag("Read only the beginning of a document that is too long, instead of an error"))
        .example(json!({"model": "demo", "query": "What is a panda?", "documents": ["A bear.", "A car."]}));
    let ranked = record("")
        .must("index", amount("Place of the document in the request, from 0"))
        .must("relevance_score", measure("0: has nothing to do with the query, 1: answers it"))
        .may("document", record("").must("text", text("")).into());
    let usage = record("").must("prompt_tokens", amount("Of all pairs of query and document")).must("total_tokens", amount(""));
    let answer = record("")
        .must("object", word(&["list"], ""))
        .must("model", text(""))
        .must("usage", usage.into())
        .must("results", list(ranked.into(), "The best first"));
    Description::new(TAG, "How well documents answer a query").body("RerankRequest", body).computes().answer("Ranking", answer)
}

/// `GET /props`.
pub fn props() -> Description {
    let params =
        record("").must("temperature", measure("")).must("top_k", amount("")).must("top_p", measure("")).must("min_p", measure(""));
    let answer = record("")
        .must("default_generation_settings", record("").must("n_ctx", amount("")).must("params", params.into()).into())
        .must("total_slots", amount(""))
        .must("model_alias", text(""))
        .must("modalities", record("").must("vision", flag("")).must("audio", flag("")).into())
        .must("chat_template", or_null(text("")))
        .must("bos_token", or_null(text("")))
        .must("eos_token", or_null(text("")))
        .must("build_info", text(""));
    Description::new(TAG, "What serves a model; loads it if need be").query("model", text(WHICH)).answer("Props", answer)
}

/// `GET /slots`.
pub fn slots() -> Description {
    let slot = record("").must("id", amount("")).must("n_ctx", amount("")).must("is_processing", flag(""));
    Description::new(TAG, "The places for requests of a model; loads it if need be")
        .query("model", text(WHICH))
        .answer("Slots", list(slot.into(), ""))
}

/// `GET /models`.
pub fn models() -> Description {
    let status = record("").must("value", word(&["loaded", "loading", "failed", "unloaded"], ""));
    let model = record("")
        .must("id", text(""))
        .must("object", word(&["model"], ""))
        .must("created", amount("Unix seconds"))
        .must("owned_by", text(""))
        .must("status", status.into());
    let answer = record("").must("object", word(&["list"], "")).must("data", list(model.into(), ""));
    Description::new(TAG, "All models, with what their workers do").answer("ModelStates", answer)
}

/// `POST /models/load`.
pub fn load() -> Description {
    moved("Loads a model now")
}

/// `POST /models/unload`.
pub fn unload() -> Description {
    moved("Sends a model away once its running answers are done").ends(&[Kind::UnknownModel])
}

fn moved(summary: &'static str) -> Description {
    let body = record("").must("model", model()).example(json!({"model": "demo"}));
    Description::new(TAG, summary).body("ModelRequest", body).answer("Moved", record("").must("success", flag(""))).ends(ADMIN)
}
