//! Which formats a model has: its manifest's word, else what its template gives away.

use crate::errors::{ApiError, Kind};
use crate::formats::{
    BY_HOST, REASONING_FORMATS, ReasoningFormat, TOOL_FORMATS, ToolFormat, describes_tools, reasoning_format, reasoning_format_of,
    tool_format, tool_format_of,
};
use crate::models::Leased;

/// A model's formats.
#[derive(Debug, Clone, Copy)]
pub struct Formats {
    /// How it calls functions.
    pub tools: Option<&'static ToolFormat>,
    /// The template tells the model of its functions; otherwise the host does, in a system message.
    pub template_writes_tools: bool,
    /// The template writes calls and results; otherwise the host does, as text.
    pub template_writes_calls: bool,
    /// The model does not know this way of calling by itself, so it is told.
    pub told: bool,
    /// How it thinks.
    pub reasoning: Option<&'static ReasoningFormat>,
}

impl Formats {
    /// Of a loaded model.
    pub fn of(lease: &dyn Leased) -> Result<Self, ApiError> {
        let (defaults, template) = (lease.defaults(), lease.facts().chat_template.as_deref().unwrap_or_default());
        let named = |key: &str, name: &str, known: String| {
            ApiError::new(Kind::Unservable, format!("the manifest of {:?} says {key} = {name:?}; known are {known}", lease.model()))
                .param("model")
        };
        let by_template = tool_format_of(template);
        let tools = match defaults.tool_format.as_deref() {
            Some(name) => Some(
                tool_format(name).ok_or_else(|| named("chat.tool_format", name, listed(TOOL_FORMATS.iter().map(|format| format.name))))?,
            ),
            None => by_template.or_else(|| tool_format(BY_HOST)),
        };
        let reasoning = match defaults.reasoning_format.as_deref() {
            Some("none") => None,
            Some(name) => Some(reasoning_format(name).ok_or_else(|| {
                named("chat.reasoning_format", name, listed(REASONING_FORMATS.iter().map(|format| format.name).chain(["none"])))
            })?),
            None => reasoning_format_of(template),
        };
        let named = defaults.tool_format.is_some();
        // A template of an unknown family that describes tools would teach its model another notation than the one that is read.
        let walks_calls = template.contains("tool_calls") && (named || !describes_tools(template));
        let template_writes_calls = by_template.is_some() || walks_calls;
        let template_writes_tools = template_writes_calls && describes_tools(template);
        let told = by_template.is_none() && !(named && template_writes_calls);
        Ok(Self { tools, template_writes_tools, template_writes_calls, told, reasoning })
    }
}

fn listed(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
