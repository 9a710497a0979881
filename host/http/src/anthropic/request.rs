//! The fields of a message request.

use serde_json::Value;

use super::{conversation, tools};
use crate::body::{Object, describe};
use crate::chat::{AnswerFormat, AskedFormat, ChatRequest, Thinking};
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::generation::{SamplingWishes, Wishes, check_stops};
use crate::openai::{common, format};

/// Anthropic's limit.
pub(super) const LEAST_BUDGET: u32 = 1024;
/// Words for how much to think.
pub(super) const EFFORTS: &[&str] = &["low", "medium", "high", "xhigh", "max"];

/// Fields that would change the answer, and what to do instead. Empty lists and objects ask for nothing.
const REFUSED: &[(&str, &str)] = &[
    ("mcp_servers", "call the servers yourself and send their tools in \"tools\""),
    ("container", "run code yourself and send its output in a \"tool_result\""),
];

/// A request for a message, or for the count of its tokens.
#[derive(Debug)]
pub struct Asked {
    /// What is asked.
    pub chat: ChatRequest,
    /// Answer as a stream of events.
    pub stream: bool,
    /// Whether blocks of thinking are told.
    pub thinking_shown: bool,
}

impl Asked {
    /// Reads a request whose answer is wanted.
    pub fn read(object: &Object) -> Result<Self, ApiError> {
        let fields = Fields::of(object);
        if fields.value("max_tokens").is_none() {
            return Err(fields.missing("max_tokens", "the most tokens that the answer may have"));
        }
        Self::read_for_counting(object)
    }

    /// Reads a request of which only the prompt is wanted.
    pub fn read_for_counting(object: &Object) -> Result<Self, ApiError> {
        let fields = Fields::of(object);
        refuse(&fields)?;
        let max_tokens = fields.count("max_tokens", 1..=u32::MAX)?;
        let (thinking, thinking_shown) = thinking(&fields, max_tokens)?;
        let tools = tools::read(&fields)?;
        let sampling = SamplingWishes {
            temperature: fields.number("temperature", 0.0, 1.0)?,
            top_p: fields.number("top_p", 0.0, 1.0)?,
            top_k: fields.count("top_k", 0..=u32::MAX)?,
            ..SamplingWishes::default()
        };
        let chat = ChatRequest {
            model: common::model(&fields)?,
            conversation: conversation::read(&fields)?,
            tools: tools.tools,
            tool_choice: tools.choice,
            // Only what is forbidden is said.
            parallel_tool_calls: (!tools.parallel).then_some(false),
            format: answer_format(&fields)?,
            thinking,
            wishes: Wishes { max_tokens, stop: stops(&fields)?, sampling, ..Wishes::default() },
            max_tokens,
            logprobs: None,
        };
        Ok(Self { chat, stream: fields.boolean("stream")?.unwrap_or(false), thinking_shown })
    }
}

fn refuse(fields: &Fields<'_>) -> Result<(), ApiError> {
    let empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Object::is_empty);
    match REFUSED.iter().find(|(field, _)| fields.value(field).is_some_and(|value| !empty(value))) {
        None => Ok(()),
        Some((field, instead)) => {
            Err(ApiError::unsupported(*field, format!("{field:?} is not supported by this version of the server; {instead}")))
        }
    }
}

/// `thinking`, and how much effort `output_config` wants.
fn thinking(fields: &Fields<'_>, max_tokens: Option<u32>) -> Result<(Thinking, bool), ApiError> {
    let effort = match fields.object("output_config")? {
        Some(object) => effort(&Fields::inside(object, "output_config"))?,
        None => None,
    };
    let Some(object) = fields.object("thinking")? else { return Ok((Thinking { effort, ..Thinking::default() }, true)) };
    let inside = Fields::inside(object, "thinking");
    let (wanted, budget) = match inside.string("type")? {
        Some("disabled") => (false, None),
        Some("adaptive") => (true, None),
        Some("enabled") => (true, Some(budget(&inside, max_tokens)?)),
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            return Err(ApiError::invalid(
                "thinking.type",
                format!("\"thinking.type\" is {shown:?}; it must be \"enabled\", \"disabled\" or \"adaptive\""),
            ));
        }
        None => return Err(inside.missing("type", "\"enabled\", \"disabled\" or \"adaptive\"")),
    };
    let shown = match inside.string("display")? {
        None | Some("summarized") => true,
        Some("omitted") => false,
        Some(_) => return Err(ApiError::invalid("thinking.display", "\"thinking.display\" must be \"summarized\" or \"omitted\"")),
    };
    Ok((Thinking { wanted: Some(wanted), effort, budget }, shown))
}

fn budget(thinking: &Fields<'_>, max_tokens: Option<u32>) -> Result<u32, ApiError> {
    let budget = thinking.count("budget_tokens", LEAST_BUDGET..=u32::MAX)?;
    let budget = budget.ok_or_else(|| thinking.missing("budget_tokens", "the most tokens of thinking, at least 1024"))?;
    match max_tokens {
        Some(max_tokens) if budget >= max_tokens => Err(ApiError::invalid(
            "thinking.budget_tokens",
            format!(
                "\"thinking.budget_tokens\" is {budget} and \"max_tokens\" is {max_tokens}; the thinking is part of the answer, give it less"
            ),
        )),
        _ => Ok(budget),
    }
}

fn effort(config: &Fields<'_>) -> Result<Option<String>, ApiError> {
    match config.string("effort")? {
        None => Ok(None),
        Some(word) if EFFORTS.contains(&word) => Ok(Some(word.to_owned())),
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            let message = format!("\"output_config.effort\" is {shown:?}; it must be one of {EFFORTS:?}");
            Err(ApiError::invalid("output_config.effort", message))
        }
    }
}

/// `output_config.format`, and its older name.
fn answer_format(fields: &Fields<'_>) -> Result<Option<AskedFormat>, ApiError> {
    let new = match fields.object("output_config")? {
        Some(object) => json_format(&Fields::inside(object, "output_config"), "format")?,
        None => None,
    };
    let old = json_format(fields, "output_format")?;
    if new.is_some() && old.is_some() {
        return Err(ApiError::invalid("output_format", "\"output_format\" and \"output_config.format\" mean the same; give one of them"));
    }
    let new = new.map(|format| format.asked_in("output_config.format"));
    Ok(new.or_else(|| old.map(|format| format.asked_in("output_format"))))
}

fn json_format(fields: &Fields<'_>, name: &str) -> Result<Option<AnswerFormat>, ApiError> {
    let Some(object) = fields.object(name)? else { return Ok(None) };
    let inside = Fields::inside(object, fields.path(name));
    match inside.string("type")? {
        Some("json_schema") => {
            let schema = format::schema(&inside, "schema")?;
            schema.map(Some).ok_or_else(|| inside.missing("schema", "a JSON schema"))
        }
        _ => {
            let path = inside.path("type");
            let message = format!("{path:?} must be \"json_schema\"");
            Err(ApiError::invalid(path, message))
        }
    }
}

fn stops(fields: &Fields<'_>) -> Result<Vec<String>, ApiError> {
    let items = fields.list("stop_sequences")?.unwrap_or_default();
    let mut texts = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let path = format!("stop_sequences[{index}]");
        match item.as_str() {
            Some(text) if !text.is_empty() && text.trim().is_empty() => {
                return Err(ApiError::invalid(
                    &path,
                    format!("{path:?} is only white space, which Anthropic's API does not take; leave it out"),
                ));
            }
            Some(text) => texts.push(text),
            None => return Err(ApiError::invalid(&path, format!("{path:?} is {}; it must be a string", describe(item)))),
        }
    }
    check_stops("stop_sequences", &texts)?;
    Ok(texts.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(more: Value) -> Result<Asked, ApiError> {
        let mut body = json!({"model": "m", "max_tokens": 4096, "messages": [{"role": "user", "content": "Q"}]});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        Asked::read(body.as_object().expect("an object"))
    }

    #[test]
    fn thinking_is_read_in_all_its_forms() {
        let of = |more: Value| {
            read(more).map(|asked| (asked.chat.thinking.wanted, asked.chat.thinking.budget, asked.thinking_shown)).expect("fine")
        };
        assert_eq!(of(json!({})), (None, None, true));
        assert_eq!(of(json!({"thinking": {"type": "disabled"}})), (Some(false), None, true));
        assert_eq!(of(json!({"thinking": {"type": "adaptive", "display": "omitted"}})), (Some(true), None, false));
        assert_eq!(of(json!({"thinking": {"type": "enabled", "budget_tokens": 2048}})), (Some(true), Some(2048), true));
        let effort = read(json!({"output_config": {"effort": "high"}})).expect("fine").chat.thinking;
        assert_eq!((effort.wanted, effort.effort.as_deref()), (None, Some("high")));
        for bad in [
            json!({"type": "enabled"}),
            json!({"type": "enabled", "budget_tokens": 1023}),
            json!({"type": "enabled", "budget_tokens": 4096}),
            json!({"type": "always"}),
            json!({"type": "adaptive", "display": "loud"}),
            json!({}),
            json!("enabled"),
        ] {
            assert!(read(json!({"thinking": bad})).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_format_has_two_names_and_one_meaning() {
        let format = json!({"type": "json_schema", "schema": {"type": "integer"}});
        let wanted = |field| Some(AnswerFormat::Schema(json!({"type": "integer"})).asked_in(field));
        assert_eq!(read(json!({"output_config": {"format": format}})).expect("new").chat.format, wanted("output_config.format"));
        assert_eq!(read(json!({"output_format": format})).expect("old").chat.format, wanted("output_format"));
        for bad in [
            json!({"output_format": format, "output_config": {"format": format}}),
            json!({"output_format": {"type": "json_object"}}),
            json!({"output_format": {"type": "json_schema"}}),
            json!({"output_config": {"effort": "none"}}),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_a_coding_agent_sends_passes() {
        let asked = read(json!({
            "system": [{"type": "text", "text": "You code.", "cache_control": {"type": "ephemeral"}}],
            "metadata": {"user_id": "u"}, "service_tier": "auto", "stream": true, "thinking": {"type": "adaptive"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}, "mcp_servers": [], "container": null,
            "tools": [{"name": "Bash", "description": "Runs", "input_schema": {"type": "object"}, "eager_input_streaming": true}],
            "tool_choice": {"type": "auto"}, "temperature": 1
        }))
        .expect("fine");
        assert!(asked.stream && asked.chat.tools.len() == 1);
    }
}
