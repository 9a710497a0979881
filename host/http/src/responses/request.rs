//! The fields of a request for a response.

use serde_json::{Map, Value, json};

use super::input;
use super::tools::{self, Namespaces};
use crate::body::Object;
use crate::chat::{AnswerFormat, ChatRequest, Thinking};
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::generation::Wishes;
use crate::openai::chat::effort_of;
use crate::openai::tools::choice;
use crate::openai::{common, format};
use crate::template::conversation::Conversation;

/// OpenAI's limit.
pub(super) const MAX_TOP_LOGPROBS: u32 = 20;
/// OpenAI's limits for `metadata`.
pub(super) const MAX_PAIRS: usize = 16;
pub(super) const MAX_KEY: usize = 64;
pub(super) const MAX_TEXT: usize = 512;

/// A field that would change the answer and is not carried out: the values that ask for nothing, and what to do instead.
struct Refused(&'static str, fn(&Value) -> bool, &'static str);

const REFUSED: &[Refused] = &[
    Refused("conversation", |_| false, "use \"previous_response_id\", or send the items in \"input\""),
    Refused("prompt", |_| false, "write the prompt into \"instructions\" and \"input\""),
    Refused("context_management", empty, "leave out of \"input\" what is no longer needed"),
    Refused("moderation", |_| false, "leave it out"),
    Refused("truncation", |value| value == "disabled", "leave out of \"input\" what does not fit; this server cuts nothing silently"),
    Refused("stop", empty, "use /v1/chat/completions, which has it"),
    Refused("n", |value| value == 1, "ask again for another answer"),
    Refused("modalities", |value| value == &json!(["text"]), "ask for text"),
];

fn empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Object::is_empty)
}

/// Values of `include` that are known. All but the log-probabilities are about tools that are not here, or about what is told anyway.
pub(super) const INCLUDE: &[&str] = &[
    LOGPROBS,
    "reasoning.encrypted_content",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
];
const LOGPROBS: &str = "message.output_text.logprobs";

/// How long a summary of the thinking is to be, which is not made.
pub(super) const SUMMARIES: &[&str] = &["auto", "concise", "detailed"];

/// A request.
#[derive(Debug)]
pub struct Asked {
    /// What is asked; its conversation is put together when the earlier responses are known.
    pub chat: ChatRequest,
    /// The items that were sent.
    pub items: Vec<Value>,
    /// Before all items.
    pub instructions: Option<String>,
    /// The response to go on from.
    pub previous: Option<String>,
    /// Answer as a stream of events.
    pub stream: bool,
    /// Answer at once and go on.
    pub background: bool,
    /// Whether the response is to be kept; `None` = as the server does.
    pub store: Option<bool>,
    /// Which functions are in which namespaces.
    pub namespaces: Namespaces,
    /// What the response repeats of the request.
    pub echo: Map<String, Value>,
}

impl Asked {
    /// Reads.
    pub fn read(object: &Object) -> Result<Self, ApiError> {
        let fields = Fields::of(object);
        refuse(&fields)?;
        let items = input::items(&fields)?;
        let instructions = fields.string("instructions")?.map(str::to_owned);
        let previous = fields.string("previous_response_id")?.map(str::to_owned);
        let (stream, background) = (fields.boolean("stream")?.unwrap_or(false), fields.boolean("background")?.unwrap_or(false));
        if stream && background {
            return Err(ApiError::unsupported(
                "background",
                "a response in the background is asked for with GET /v1/responses/{id}; leave \"stream\" out",
            ));
        }
        let max_tokens = fields.count("max_output_tokens", 1..=u32::MAX)?;
        let sampling = common::sampling(&fields)?;
        let logprobs = logprobs(&fields)?;
        let tools::Tools { functions, namespaces, echo: offered } = tools::read(&fields)?;
        let parallel = fields.boolean("parallel_tool_calls")?;
        let reasoning = fields.object("reasoning")?;
        let echo = json!({
            "instructions": instructions,
            "max_output_tokens": max_tokens,
            "max_tool_calls": null,
            "metadata": metadata(&fields)?,
            "parallel_tool_calls": parallel.unwrap_or(true),
            "previous_response_id": previous,
            "reasoning": {
                "effort": reasoning.and_then(|object| object.get("effort")),
                "summary": reasoning.and_then(|object| object.get("summary")),
            },
            "service_tier": "default",
            "temperature": fields.value("temperature"),
            "text": {"format": fields.object("text")?.and_then(|text| text.get("format")).filter(|format| !format.is_null()).cloned().unwrap_or_else(|| json!({"type": "text"}))},
            "tool_choice": fields.value("tool_choice").cloned().unwrap_or_else(|| "auto".into()),
            "tools": offered,
            "top_logprobs": logprobs.unwrap_or(0),
            "top_p": fields.value("top_p"),
            "truncation": "disabled",
            "user": null,
        });
        let chat = ChatRequest {
            model: common::model(&fields)?,
            conversation: Conversation::default(),
            tools: functions,
            tool_choice: choice(&fields)?,
            parallel_tool_calls: parallel,
            format: text(&fields)?.map(|format| format.asked_in("text.format")),
            thinking: thinking(&fields)?,
            wishes: Wishes { max_tokens, sampling, ..Wishes::default() },
            max_tokens,
            logprobs,
        };
        let echo = match echo {
            Value::Object(echo) => echo,
            _ => Map::new(),
        };
        Ok(Self { chat, items, instructions, previous, stream, background, store: fields.boolean("store")?, namespaces, echo })
    }
}

fn refuse(fields: &Fields<'_>) -> Result<(), ApiError> {
    let asks = |row: &&Refused| fields.value(row.0).is_some_and(|value| !row.1(value));
    match REFUSED.iter().find(asks) {
        None => Ok(()),
        Some(Refused(field, _, instead)) => {
            Err(ApiError::unsupported(*field, format!("{field:?} is not supported by this version of the server; {instead}")))
        }
    }
}

/// `text.format` and `text.verbosity`.
fn text(fields: &Fields<'_>) -> Result<Option<AnswerFormat>, ApiError> {
    let Some(text) = fields.object("text")? else { return Ok(None) };
    let text = Fields::inside(text, "text");
    if text.string("verbosity")?.is_some_and(|word| word != "medium") {
        return Err(ApiError::unsupported(
            "text.verbosity",
            "\"text.verbosity\" is not supported by this version of the server; ask for shorter or longer answers in a message",
        ));
    }
    let Some(object) = text.object("format")? else { return Ok(None) };
    let inside = Fields::inside(object, "text.format");
    match inside.string("type")? {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(AnswerFormat::object())),
        Some("json_schema") => {
            let schema = format::schema(&inside, "schema")?;
            schema.map(Some).ok_or_else(|| inside.missing("schema", "a JSON schema"))
        }
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            let message = format!("\"text.format.type\" is {shown:?}; it must be \"text\", \"json_object\" or \"json_schema\"");
            Err(ApiError::invalid("text.format.type", message))
        }
        None => Err(inside.missing("type", "\"text\", \"json_object\" or \"json_schema\"")),
    }
}

/// `reasoning`. A summary is not made: what was thought is told as it is.
fn thinking(fields: &Fields<'_>) -> Result<Thinking, ApiError> {
    let Some(object) = fields.object("reasoning")? else { return Ok(Thinking::default()) };
    let inside = Fields::inside(object, "reasoning");
    for name in ["summary", "generate_summary"] {
        if inside.string(name)?.is_some_and(|word| !SUMMARIES.contains(&word)) {
            let path = inside.path(name);
            let message = format!("{path:?} must be one of {SUMMARIES:?}");
            return Err(ApiError::invalid(path, message));
        }
    }
    match inside.string("effort")? {
        None => Ok(Thinking::default()),
        Some(word) => effort_of("reasoning.effort", word),
    }
}

/// Alternatives to each token, where `include` wants log-probabilities.
fn logprobs(fields: &Fields<'_>) -> Result<Option<u32>, ApiError> {
    let mut wanted = false;
    for (index, item) in fields.list("include")?.unwrap_or_default().iter().enumerate() {
        let path = format!("include[{index}]");
        match item.as_str() {
            Some(word) if INCLUDE.contains(&word) => wanted |= word == LOGPROBS,
            _ => return Err(ApiError::invalid(&path, format!("{path:?} must be one of {INCLUDE:?}"))),
        }
    }
    match (wanted, fields.count("top_logprobs", 0..=MAX_TOP_LOGPROBS)?) {
        (true, top) => Ok(Some(top.unwrap_or(0))),
        (false, None | Some(0)) => Ok(None),
        (false, Some(_)) => Err(ApiError::invalid("top_logprobs", format!("\"top_logprobs\" needs {LOGPROBS:?} in \"include\""))),
    }
}

fn metadata(fields: &Fields<'_>) -> Result<Object, ApiError> {
    let Some(object) = fields.object("metadata")? else { return Ok(Object::new()) };
    let fits = |(key, value): (&String, &Value)| {
        key.chars().count() <= MAX_KEY && value.as_str().is_some_and(|text| text.chars().count() <= MAX_TEXT)
    };
    if object.len() > MAX_PAIRS || !object.iter().all(fits) {
        return Err(ApiError::invalid(
            "metadata",
            format!("\"metadata\" must be up to {MAX_PAIRS} texts of up to {MAX_TEXT} characters, under keys of up to {MAX_KEY}"),
        ));
    }
    Ok(object.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(more: Value) -> Result<Asked, ApiError> {
        let mut body = json!({"model": "m", "input": "Hi"});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        Asked::read(body.as_object().expect("an object"))
    }

    #[test]
    fn what_is_asked_is_read_and_repeated() {
        let asked = read(json!({
            "instructions": "Be brief.", "max_output_tokens": 9, "temperature": 0.5, "previous_response_id": "resp_1", "store": false,
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": true}], "tool_choice": {"type": "function", "name": "f"},
            "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "integer"}}, "verbosity": "medium"},
            "reasoning": {"effort": "low", "summary": "auto"}, "include": ["message.output_text.logprobs", "reasoning.encrypted_content"], "top_logprobs": 2,
            "metadata": {"a": "b"}, "truncation": "disabled", "parallel_tool_calls": false, "user": "u", "service_tier": "auto"
        }))
        .expect("fine");
        assert_eq!((asked.chat.max_tokens, asked.chat.logprobs, asked.store), (Some(9), Some(2), Some(false)));
        assert_eq!(asked.chat.tool_choice, crate::chat::ToolChoice::Named("f".into()));
        assert_eq!(asked.chat.format, Some(AnswerFormat::Schema(json!({"type": "integer"})).asked_in("text.format")));
        assert_eq!(asked.chat.thinking.effort.as_deref(), Some("low"));
        assert_eq!((&asked.echo["metadata"], &asked.echo["instructions"]), (&json!({"a": "b"}), &json!("Be brief.")));
        assert_eq!((&asked.echo["reasoning"], &asked.echo["temperature"]), (&json!({"effort": "low", "summary": "auto"}), &json!(0.5)));
    }

    #[test]
    fn what_cannot_be_done_is_refused_by_name() {
        for (field, value) in [
            ("conversation", json!("conv_1")),
            ("prompt", json!({"id": "p"})),
            ("context_management", json!([{"type": "compaction"}])),
            ("truncation", json!("auto")),
            ("stop", json!("x")),
            ("n", json!(2)),
            ("metadata", json!({"a": 1})),
            ("metadata", json!({"a": "x".repeat(513)})),
            ("include", json!(["everything"])),
            ("top_logprobs", json!(2)),
            ("tools", json!([{"type": "file_search"}])),
            ("tools", json!([{"type": "function", "function": {"name": "f"}}])),
            ("text", json!({"verbosity": "low"})),
            ("text", json!({"format": {"type": "json_schema", "name": "n"}})),
            ("reasoning", json!({"effort": "very"})),
            ("reasoning", json!({"summary": "long"})),
            ("max_output_tokens", json!(0)),
        ] {
            let error = read(json!({field: value})).expect_err(field);
            assert!(error.param.as_deref().is_some_and(|param| param.starts_with(field)), "{field}: {error:?}");
        }
        assert!(read(json!({"stream": true, "background": true})).is_err());
        assert!(read(json!({"context_management": [], "conversation": null, "n": 1})).is_ok());
    }
}
