//! The families: how each writes calls of functions and reasoning. One row each; a manifest names a row (`chat.tool_format`,
//! `chat.reasoning_format`), else the model's chat template gives it away by the marks it writes itself.
//!
//! The forms were read off the families' own chat templates; a test reads every call back that those templates write.

use super::enclosed::{Enclosed, Notation};
use super::json_calls::JsonCalls;
use super::named_json::NamedJson;
use super::piece::Ids;
use super::tagged::Tagged;

/// How calls are written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Syntax {
    Json(JsonCalls),
    Named(NamedJson),
    Tagged(Tagged),
    Enclosed(Enclosed),
    /// The whole answer is marked up, not only calls.
    Harmony,
}

/// A family's way of calling functions.
#[derive(Debug, Clone, Copy)]
pub struct ToolFormat {
    /// As a manifest names it.
    pub name: &'static str,
    /// A template that holds all of these is of this family.
    marks: &'static [&'static str],
    pub(super) syntax: Syntax,
    /// Text that begins calls; the first character of a call is the first of one of these.
    pub(super) openers: &'static [&'static str],
    /// Calls are looked for at the beginning of the answer only.
    pub(super) first_only: bool,
}

impl ToolFormat {
    /// Everything in an answer is marked up, not only calls.
    pub fn marks_whole_answer(&self) -> bool {
        matches!(self.syntax, Syntax::Harmony)
    }

    /// A grammar describes its calls, so that one can be demanded.
    pub fn has_grammar(&self) -> bool {
        !matches!(self.syntax, Syntax::Enclosed(_))
    }

    /// What stands after each call and nowhere else; `None` where calls stand in a list.
    pub fn call_end(&self) -> Option<&'static str> {
        match self.syntax {
            Syntax::Json(form) if !form.list => form.close,
            Syntax::Named(form) if !form.close.is_empty() => Some(form.close),
            Syntax::Tagged(form) => form.close.last().copied(),
            Syntax::Enclosed(form) => Some(form.close),
            _ => None,
        }
    }
}

/// A family's marks around reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReasoningFormat {
    /// As a manifest names it.
    pub name: &'static str,
    /// Before reasoning.
    pub start: &'static str,
    /// After it.
    pub end: &'static str,
}

const JSON: JsonCalls = JsonCalls {
    open: "<tool_call>",
    close: Some("</tool_call>"),
    name: Some("name"),
    arguments: &["arguments", "parameters"],
    list: false,
    ids: Ids::Long,
};

const NAMED: NamedJson =
    NamedJson { section: ("", ""), open: "", id_end: "", id_mark: "", between: "", close: "", kimi: false, ids: Ids::Long };

const TAGGED: Tagged = Tagged {
    section: ("", ""),
    open: &[],
    name_end: "",
    name_tag: "",
    key: "",
    key_end: "",
    value: "",
    value_end: "",
    close: &[],
    lines: false,
};

const GLM: Tagged = Tagged {
    open: &["<tool_call>"],
    key: "<arg_key>",
    key_end: "</arg_key>",
    value: "<arg_value>",
    value_end: "</arg_value>",
    close: &["</tool_call>"],
    ..TAGGED
};

const QWEN_CODER: Tagged = Tagged {
    open: &["<tool_call>", "<function="],
    name_end: ">",
    key: "<parameter=",
    key_end: ">",
    value: "",
    value_end: "</parameter>",
    close: &["</function>", "</tool_call>"],
    lines: true,
    ..TAGGED
};

const DSML: Tagged = Tagged {
    section: ("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
    open: &["<｜DSML｜invoke name=\""],
    name_end: "\">",
    key: "<｜DSML｜parameter name=\"",
    key_end: "\"",
    value: ">",
    value_end: "</｜DSML｜parameter>",
    close: &["</｜DSML｜invoke>"],
    ..TAGGED
};

const fn format(name: &'static str, marks: &'static [&'static str], openers: &'static [&'static str], syntax: Syntax) -> ToolFormat {
    ToolFormat { name, marks, syntax, openers, first_only: false }
}

/// All families. Where the marks of two are in one template, the first is meant.
pub static TOOL_FORMATS: &[ToolFormat] = &[
    format("harmony", &["<|channel|>", "<|message|>", "functions."], &[], Syntax::Harmony),
    format(
        "kimi-k2",
        &["<|tool_calls_section_begin|>"],
        &["<|tool_calls_section_begin|>"],
        Syntax::Named(NamedJson {
            section: ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
            open: "<|tool_call_begin|>",
            between: "<|tool_call_argument_begin|>",
            close: "<|tool_call_end|>",
            kimi: true,
            ..NAMED
        }),
    ),
    format("deepseek-dsml", &["｜DSML｜", "function_calls"], &["<｜DSML｜function_calls>"], Syntax::Tagged(DSML)),
    format(
        "deepseek-v4",
        &["｜DSML｜", "tool_calls"],
        &["<｜DSML｜tool_calls>"],
        Syntax::Tagged(Tagged { section: ("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"), ..DSML }),
    ),
    format(
        "deepseek-v3",
        &["<｜tool▁calls▁begin｜>", "```json"],
        &["<｜tool▁calls▁begin｜>"],
        Syntax::Named(NamedJson {
            section: ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
            open: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
            between: "\n```json\n",
            close: "\n```<｜tool▁call▁end｜>",
            ..NAMED
        }),
    ),
    format(
        "deepseek-v3.1",
        &["<｜tool▁calls▁begin｜>"],
        &["<｜tool▁calls▁begin｜>"],
        Syntax::Named(NamedJson {
            section: ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
            open: "<｜tool▁call▁begin｜>",
            between: "<｜tool▁sep｜>",
            close: "<｜tool▁call▁end｜>",
            ..NAMED
        }),
    ),
    format(
        "mistral",
        &["[TOOL_CALLS]", "[ARGS]"],
        &["[TOOL_CALLS]"],
        Syntax::Named(NamedJson { open: "[TOOL_CALLS]", id_mark: "[CALL_ID]", between: "[ARGS]", ids: Ids::Nine, ..NAMED }),
    ),
    format(
        "mistral-list",
        &["[TOOL_CALLS]"],
        &["[TOOL_CALLS]"],
        Syntax::Json(JsonCalls { open: "[TOOL_CALLS]", close: None, list: true, ids: Ids::Nine, ..JSON }),
    ),
    format(
        "solar",
        &["<|tool_call:begin|>"],
        &["<|tool_calls|>"],
        Syntax::Named(NamedJson {
            section: ("<|tool_calls|>", "<|calls|>"),
            open: "<|tool_call:begin|>",
            id_end: "<|tool_call:name|>",
            between: "<|tool_call:args|>",
            close: "<|tool_call:end|>",
            ..NAMED
        }),
    ),
    format(
        "hunyuan",
        &["<tool_sep:opensource>"],
        &["<tool_calls:opensource>"],
        Syntax::Tagged(Tagged {
            section: ("<tool_calls:opensource>", "</tool_calls:opensource>"),
            open: &["<tool_call:opensource>"],
            name_tag: "<tool_sep:opensource>",
            key: "<arg_key:opensource>",
            key_end: "</arg_key:opensource>",
            value: "<arg_value:opensource>",
            value_end: "</arg_value:opensource>",
            close: &["</tool_call:opensource>"],
            ..TAGGED
        }),
    ),
    format("glm", &["<arg_key>"], &["<tool_call>"], Syntax::Tagged(GLM)),
    format(
        "seed",
        &["<seed:tool_call>"],
        &["<seed:tool_call>"],
        Syntax::Tagged(Tagged { open: &["<seed:tool_call>", "<function="], close: &["</function>", "</seed:tool_call>"], ..QWEN_CODER }),
    ),
    format(
        "minimax-m2",
        &["<minimax:tool_call>"],
        &["<minimax:tool_call>"],
        Syntax::Tagged(Tagged {
            section: ("<minimax:tool_call>", "</minimax:tool_call>"),
            open: &["<invoke name=\""],
            name_end: "\">",
            key: "<parameter name=\"",
            key_end: "\"",
            value: ">",
            value_end: "</parameter>",
            close: &["</invoke>"],
            ..TAGGED
        }),
    ),
    format("qwen3-coder", &["<tool_call>", "<function="], &["<tool_call>"], Syntax::Tagged(QWEN_CODER)),
    format(
        "functionary",
        &["<function=", "</function>"],
        &["<function="],
        Syntax::Named(NamedJson { open: "<function=", between: ">", close: "</function>", ..NAMED }),
    ),
    format(
        "gemma4",
        &["<|tool_call>call:"],
        &["<|tool_call>"],
        Syntax::Enclosed(Enclosed { open: "<|tool_call>", close: "<tool_call|>", notation: Notation::Gemma("<|\"|>") }),
    ),
    format(
        "functiongemma",
        &["<start_function_call>"],
        &["<start_function_call>"],
        Syntax::Enclosed(Enclosed { open: "<start_function_call>", close: "<end_function_call>", notation: Notation::Gemma("<escape>") }),
    ),
    format(
        "lfm2",
        &["<|tool_call_start|>"],
        &["<|tool_call_start|>"],
        Syntax::Enclosed(Enclosed { open: "<|tool_call_start|>", close: "<|tool_call_end|>", notation: Notation::Python }),
    ),
    format(
        "cohere",
        &["<|START_ACTION|>"],
        &["<|START_ACTION|>"],
        Syntax::Json(JsonCalls {
            open: "<|START_ACTION|>",
            close: Some("<|END_ACTION|>"),
            name: Some("tool_name"),
            arguments: &["parameters", "arguments"],
            list: true,
            ..JSON
        }),
    ),
    format(
        "apertus",
        &["<|tools_prefix|>"],
        &["<|tools_prefix|>"],
        Syntax::Json(JsonCalls {
            open: "<|tools_prefix|>",
            close: Some("<|tools_suffix|>"),
            name: None,
            arguments: &[],
            list: true,
            ..JSON
        }),
    ),
    format(
        "nemotron",
        &["<TOOLCALL>"],
        &["<TOOLCALL>"],
        Syntax::Json(JsonCalls { open: "<TOOLCALL>", close: Some("</TOOLCALL>"), list: true, ..JSON }),
    ),
    format(
        "tool-calls",
        &["<tool_calls>", "</tool_calls>"],
        &["<tool_calls>"],
        Syntax::Json(JsonCalls { open: "<tool_calls>", close: Some("</tool_calls>"), list: true, ..JSON }),
    ),
    format(
        "gigachat",
        &["<|function_call|>"],
        &["<|function_call|>"],
        Syntax::Json(JsonCalls { open: "<|function_call|>", close: None, ..JSON }),
    ),
    format("hermes", &["<tool_call>"], &["<tool_call>"], Syntax::Json(JSON)),
    format(
        "granite",
        &["<|tool_call|>"],
        &["<|tool_call|>"],
        Syntax::Json(JsonCalls { open: "<|tool_call|>", close: None, list: true, ..JSON }),
    ),
    ToolFormat {
        first_only: true,
        ..format(
            "llama3",
            &["\"parameters\": ", "{\"name\": "],
            &["<|python_tag|>", "{"],
            Syntax::Json(JsonCalls { open: "", close: None, arguments: &["parameters", "arguments"], ..JSON }),
        )
    },
];

/// All families' marks around reasoning. Harmony has none: its channels say what is reasoning.
pub static REASONING_FORMATS: &[ReasoningFormat] = &[
    ReasoningFormat { name: "think", start: "<think>", end: "</think>" },
    ReasoningFormat { name: "seed", start: "<seed:think>", end: "</seed:think>" },
    ReasoningFormat { name: "hunyuan", start: "<think:opensource>", end: "</think:opensource>" },
    ReasoningFormat { name: "mistral", start: "[THINK]", end: "[/THINK]" },
    ReasoningFormat { name: "cohere", start: "<|START_THINKING|>", end: "<|END_THINKING|>" },
    ReasoningFormat { name: "gemma4", start: "<|channel>thought\n", end: "<channel|>" },
    ReasoningFormat { name: "apertus", start: "<|inner_prefix|>", end: "<|inner_suffix|>" },
];

/// What models get whose template knows no tools: the host describes them itself.
pub const BY_HOST: &str = "hermes";

/// A row by its name.
pub fn tool_format(name: &str) -> Option<&'static ToolFormat> {
    TOOL_FORMATS.iter().find(|format| format.name == name)
}

/// A row by its name.
pub fn reasoning_format(name: &str) -> Option<&'static ReasoningFormat> {
    REASONING_FORMATS.iter().find(|format| format.name == name)
}

/// Marks of families whose calls are not read yet, and whose templates hold the marks of others.
const UNREAD: &[&str] = &["]<]minimax[>[", "<atem:function_calls>"];

/// Templates that give their family away by something else than the marks of its calls.
const ALSO: &[(&str, &str)] = &[("<|tool_list_start|>", "lfm2"), ("<tool_sep{}>", "hunyuan")];

/// The family whose marks a template writes.
pub fn tool_format_of(template: &str) -> Option<&'static ToolFormat> {
    if UNREAD.iter().any(|mark| template.contains(mark)) {
        return None;
    }
    let by_marks = TOOL_FORMATS.iter().find(|format| format.marks.iter().all(|mark| template.contains(mark)));
    by_marks.or_else(|| ALSO.iter().find(|(mark, _)| template.contains(mark)).and_then(|(_, name)| tool_format(name)))
}

/// Whether a template tells its model of the functions it may call. Some write calls and results only.
pub fn describes_tools(template: &str) -> bool {
    template.contains("tools") || template.contains("functions")
}

/// The marks around reasoning that a template writes or looks for.
pub fn reasoning_format_of(template: &str) -> Option<&'static ReasoningFormat> {
    let spelled = |mark: &str| template.contains(mark) || template.contains(&mark.replace('\n', "\\n"));
    REASONING_FORMATS.iter().find(|format| spelled(format.end))
}
