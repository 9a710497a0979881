//! What Ollama's routes say of themselves in `/openapi.json`.

use serde_json::json;

use super::create::TEXT_MAX;
use super::embed::MAX_INPUTS;
use super::options::OF_THE_MANIFEST;
use super::parameters::{CONTEXT_MAX, THREADS_MAX};
use crate::chat::functions::MAX_TOOLS;
use crate::errors::Kind;
use crate::generation::stream::LINES;
use crate::openai::chat::MAX_TOP_LOGPROBS;
use crate::openai::openapi::{function, model, stop, token};
use crate::openapi::shapes::{
    Record, Shape, amount, any_object, count, either, flag, list, list_of, measure, number, positive, record, text, text_of, whole, word,
};
use crate::openapi::{ADMIN, CHATTING, Description};

const TAG: &str = "Ollama";

/// `POST /api/chat`.
pub fn chat() -> Description {
    let body = asked(record(""))
        .may("messages", list(message(), "The question last; without any the model is only loaded, or sent away with keep_alive 0"))
        .may("tools", list_of(tool(), 0..=MAX_TOOLS, "Functions that the model may call, each under its own name"))
        .example(json!({"model": "demo", "options": {"num_predict": 8}, "messages": [{"role": "user", "content": "Say hello."}]}));
    let call = record("")
        .must("id", text(""))
        .must("function", record("").must("index", amount("")).must("name", text("")).must("arguments", any_object("")).into());
    let message = record("")
        .must("role", word(&["assistant"], ""))
        .must("content", text(""))
        .sometimes("thinking", text(""))
        .sometimes("tool_calls", list(call.into(), ""))
        .sometimes("tool_call_parse_error", flag("Something began like a call and is none; it stands in content as the model wrote it"));
    answering("Messages in, an answer out", "OllamaChatRequest", body, "OllamaChatLine", line().must("message", message.into()))
}

/// `POST /api/generate`.
pub fn generate() -> Description {
    let body = asked(record(""))
        .may("prompt", text("Without one the model is only loaded, or sent away with keep_alive 0"))
        .may("system", text(""))
        .may("suffix", text("What comes after the text that is to be written, for models that can fill in the middle"))
        .may("raw", flag("The prompt is sent as it is, without the model's template"))
        .example(json!({"model": "demo", "options": {"num_predict": 8}, "prompt": "Say hello."}));
    let line = line().must("response", text("")).sometimes("thinking", text(""));
    answering("One prompt in, an answer out", "OllamaGenerateRequest", body, "OllamaGenerateLine", line)
}

fn answering(summary: &'static str, request: &'static str, body: Record, name: &'static str, line: Record) -> Description {
    let line: Shape = line.into();
    Description::new(TAG, summary)
        .body(request, body)
        .computes()
        .ends(CHATTING)
        .ends(&[Kind::ConstraintFailed])
        .answer(name, line.clone())
        .answer_as(LINES, name, line)
}

/// What chat and generate read the same way.
fn asked(record: Record) -> Record {
    let efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    record
        .must("model", model())
        .may("stream", flag("Answer in lines; the default"))
        .may("keep_alive", keep_alive())
        .may("options", options())
        .may("format", either([word(&["", "json"], ""), any_object("A JSON schema")], "What the answer must look like"))
        .may("think", either([flag(""), word(&efforts, "")], "Whether the model thinks, or how much"))
        .may("logprobs", flag("With the log-probability of each token"))
        .may("top_logprobs", count(0..=MAX_TOP_LOGPROBS, "And of so many alternatives"))
}

fn keep_alive() -> Shape {
    either(
        [measure("Seconds; below 0: for ever"), text("A duration such as 5m")],
        "How long the model stays loaded after this request; 0 sends it away",
    )
}

fn options() -> Shape {
    let setting = || either([measure(""), flag("")], "Belongs to the model's manifest here; without effect");
    OF_THE_MANIFEST.iter().fold(choosing("How tokens are chosen", i64::MIN), |options, name| options.may(name, setting())).into()
}

fn choosing(about: &str, least_seed: i64) -> Record {
    record(about)
        .may("num_predict", whole(-2..=i64::from(u32::MAX), "Tokens at most; -1 and -2: as many as fit"))
        .may("temperature", number(0.0..=2.0, "0 takes the likeliest token"))
        .may("top_p", number(0.0..=1.0, ""))
        .may("top_k", whole(-1..=i64::from(u32::MAX), "-1 and 0: all"))
        .may("min_p", number(0.0..=1.0, ""))
        .may("typical_p", positive(1.0, ""))
        .may("repeat_penalty", positive(10.0, "1 is none"))
        .may("repeat_last_n", whole(-1..=i64::from(u32::MAX), "Tokens that the penalty looks back; -1: all, 0: none"))
        .may("presence_penalty", number(-2.0..=2.0, ""))
        .may("frequency_penalty", number(-2.0..=2.0, ""))
        .may("seed", whole(least_seed..=i64::MAX, ""))
        .may("stop", stop())
}

fn message() -> Shape {
    let function = record("").must("name", text("")).may("arguments", any_object(""));
    let call = record("").may("id", text("")).must("function", function.into());
    record("")
        .must("role", word(&["system", "developer", "user", "assistant", "tool"], ""))
        .may("content", text(""))
        .may("thinking", text("What an assistant thought"))
        .may("name", text(""))
        .may("tool_name", text("Whose result this is"))
        .may("tool_call_id", text(""))
        .may("tool_calls", list(call.into(), ""))
        .into()
}

fn tool() -> Shape {
    record("").must("function", function("parameters").into()).into()
}

/// What the lines of both routes have.
fn line() -> Record {
    record("")
        .must("model", text("As the client named it"))
        .must("created_at", text(""))
        .must("done", flag("The last line, with the numbers"))
        .sometimes("logprobs", list(token(), ""))
        .sometimes("done_reason", word(&["stop", "length", "load", "unload"], ""))
        .sometimes("total_duration", amount("Nanoseconds"))
        .sometimes("load_duration", amount("Nanoseconds"))
        .sometimes("prompt_eval_count", amount(""))
        .sometimes("prompt_eval_duration", amount("Nanoseconds"))
        .sometimes("eval_count", amount(""))
        .sometimes("eval_duration", amount("Nanoseconds"))
}

/// `POST /api/embed`.
pub fn embed() -> Description {
    let texts = list_of(text("An empty one only by itself"), 0..=MAX_INPUTS, "");
    let body = record("")
        .must("model", model())
        .must("input", either([text(""), texts], "What to embed; nothing only loads the model"))
        .may("truncate", flag("Cut a text that is too long; the default"))
        .may("dimensions", count(1..=u32::MAX, "Only what the model's vectors have"))
        .may("keep_alive", keep_alive())
        .example(json!({"model": "demo", "input": ["A text"]}));
    let answer = record("")
        .must("model", text(""))
        .must("embeddings", list(list(measure(""), ""), ""))
        .must("total_duration", amount("Nanoseconds"))
        .must("load_duration", amount("Nanoseconds"))
        .must("prompt_eval_count", amount(""));
    Description::new(TAG, "Texts in, vectors of length one out")
        .body("OllamaEmbedRequest", body)
        .computes()
        .answer("OllamaEmbeddings", answer)
}

/// `POST /api/embeddings`.
pub fn embeddings() -> Description {
    let body = record("")
        .must("model", model())
        .may("prompt", text("Nothing only loads the model"))
        .may("keep_alive", keep_alive())
        .example(json!({"model": "demo", "prompt": "A text"}));
    let answer = record("").must("embedding", list(measure(""), ""));
    Description::new(TAG, "One text in, its vector out").body("OllamaEmbeddingRequest", body).computes().answer("OllamaEmbedding", answer)
}

/// `GET /`.
pub fn root() -> Description {
    Description::new(TAG, "Says that a server is there").answer_as("text/plain", "OllamaRuns", text(""))
}

/// `GET /api/version`.
pub fn version() -> Description {
    let answer = record("").must("version", text("Of Ollama, whose API is spoken")).must("onebit_host", text("Of this host"));
    Description::new(TAG, "Versions").answer("OllamaVersion", answer)
}

/// `GET /api/tags`.
pub fn tags() -> Description {
    let model = named().must("modified_at", text(""));
    Description::new(TAG, "All models").answer("OllamaModels", record("").must("models", list(model.into(), "")))
}

/// `GET /api/ps`.
pub fn ps() -> Description {
    let model = named().must("size_vram", amount("Bytes on the device")).must("expires_at", text("When it leaves if nobody uses it"));
    Description::new(TAG, "Models that are loaded").answer("OllamaLoaded", record("").must("models", list(model.into(), "")))
}

fn named() -> Record {
    record("")
        .must("name", text(""))
        .must("model", text(""))
        .must("size", amount("Bytes"))
        .must("digest", text("Empty of a file that no manifest vouches for"))
        .must("details", details())
}

fn details() -> Shape {
    let about = ["parent_model", "format", "family", "parameter_size", "quantization_level"];
    about.into_iter().fold(record(""), |details, name| details.must(name, text(""))).must("families", list(text(""), "")).into()
}

/// `POST /api/show`.
pub fn show() -> Description {
    let body = asked_for("The name of a model of GET /api/tags").example(json!({"model": "demo"}));
    let texts = ["license", "modelfile", "parameters", "template", "system", "modified_at"];
    let answer = texts
        .into_iter()
        .fold(record(""), |answer, name| answer.must(name, text("")))
        .must("details", details())
        .must("model_info", any_object("What its file says of it, under the file's names"))
        .must("capabilities", list(word(&["completion", "tools", "embedding"], ""), ""));
    Description::new(TAG, "What is known of one model, without loading it")
        .body("OllamaShowRequest", body)
        .answer("OllamaModel", answer)
        .ends(&[Kind::UnknownModel])
}

/// `POST /api/pull`.
pub fn pull() -> Description {
    let body = asked_for("The name of a manifest, or hf.co/owner/repo:QUANT")
        .may("stream", flag("Answer in lines; the default"))
        .may("insecure", flag("Only false"))
        .example(json!({"model": "demo"}));
    let step = step()
        .sometimes("digest", text("Of the file, where it is known beforehand"))
        .sometimes("total", amount("Bytes, where that is known"))
        .sometimes("completed", amount("Bytes so far"));
    stepping("Gets a model by its name; whoever leaves ends it, and the next pull goes on from there", "OllamaPullStep", step)
        .body("OllamaPullRequest", body)
        .ends(&[Kind::UnknownModel, Kind::UnsupportedField, Kind::PullFailed, Kind::Draining])
}

/// `POST /api/create`.
pub fn create() -> Description {
    let parameters = choosing("How its answers are made unless a request says otherwise", 0)
        .may("num_ctx", count(1..=CONTEXT_MAX, "Positions that one request may use"))
        .may("num_thread", count(1..=THREADS_MAX, "CPU threads"));
    let body = asked_for("The name of the new model")
        .may("stream", flag("Answer in lines; the default"))
        .may("from", text("The name of a model whose weights and manifest it takes"))
        .may("files", any_object("Or one uploaded file: its name, and its digest"))
        .may("template", text_of(0..=TEXT_MAX, "Jinja"))
        .may("system", text_of(0..=TEXT_MAX, "System message of chats that have none"))
        .may("parameters", parameters.into())
        .may("license", either([text_of(0..=TEXT_MAX, ""), list(text(""), "")], ""))
        .example(json!({"model": "pirate", "from": "demo", "system": "You are a pirate."}));
    stepping("Makes a model of another one or of an uploaded file: a manifest of the user's", "OllamaCreateStep", step())
        .body("OllamaCreateRequest", body)
        .ends(&[Kind::UnknownModel, Kind::UnsupportedField, Kind::Protected, Kind::Unservable])
}

/// `POST /api/copy`.
pub fn copy() -> Description {
    let body = record("")
        .must("source", text("The name of a model of GET /api/tags"))
        .must("destination", text("The new name"))
        .example(json!({"source": "demo", "destination": "demo-2"}));
    changing("Gives a model a second name, under which it may be changed and removed by itself")
        .body("OllamaCopyRequest", body)
        .nothing(200, "Done")
        .ends(&[Kind::UnknownModel, Kind::Protected, Kind::Unservable])
}

/// `DELETE /api/delete`.
pub fn delete() -> Description {
    let body = asked_for("The name of a model of GET /api/tags").example(json!({"model": "demo"}));
    changing("Removes a model that was made or pulled; its file too, unless another model uses it")
        .body("OllamaDeleteRequest", body)
        .nothing(200, "Done")
        .ends(&[Kind::UnknownModel, Kind::Protected])
}

/// `HEAD /api/blobs/{digest}`.
pub fn blob() -> Description {
    changing("Whether a file is here, for a model that is to be made")
        .path("digest", DIGEST)
        .nothing(200, "It is")
        .nothing(404, "It is not")
        .ends(&[Kind::InvalidValue])
}

/// `POST /api/blobs/{digest}`.
pub fn upload() -> Description {
    changing("Takes a file for a model that is to be made; it is kept for a day")
        .path("digest", DIGEST)
        .bytes("The file")
        .nothing(200, "It is here already")
        .nothing(201, "It is kept")
        .ends(&[Kind::QueueFull])
}

const DIGEST: &str = "sha256: and 64 hexadecimal digits";

/// A route that changes which models there are.
fn changing(summary: &'static str) -> Description {
    Description::new(TAG, summary).ends(ADMIN).ends(&[Kind::StoreFailed, Kind::NoSpace])
}

/// The same, told step by step.
fn stepping(summary: &'static str, name: &'static str, step: Record) -> Description {
    let step: Shape = step.into();
    changing(summary).answer(name, step.clone()).answer_as(LINES, name, step)
}

fn step() -> Record {
    record("").must("status", text("The last is success"))
}

fn asked_for(about: &str) -> Record {
    record("").may("model", text(about)).may("name", text("The same under its older name"))
}
