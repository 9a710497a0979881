//! What an answer is held to: a call that was demanded, a format that was asked for, or both as alternatives.

use onebit_engine::Constraint;

use super::closed::closed;
use super::request::{AnswerFormat, AskedFormat, ToolChoice};
use crate::errors::ApiError;
use crate::formats::{Demand, Grammar, Tool, grammar, harmony_answer};
use crate::generation::{HeldTo, Reading};

/// The constraint of a chat's answers.
pub(super) fn constraint(
    reading: &Reading,
    choice: &ToolChoice,
    several: Option<bool>,
    format: Option<AskedFormat>,
) -> Result<Option<HeldTo>, ApiError> {
    let demanded = matches!(choice, ToolChoice::Required | ToolChoice::Named(_));
    let family = reading.tools.filter(|_| !reading.known.is_empty());
    let (family, schema, field) = match (family, format) {
        (Some(family), _) if demanded => (family, None, "tools"),
        (_, None) => return Ok(None),
        // The model may call or answer, and what it answers has the format.
        (Some(family), Some(AskedFormat { field, format: AnswerFormat::Schema(schema) })) => (family, Some(schema), field),
        (Some(_), Some(AskedFormat { format: AnswerFormat::Constraint(_), .. })) => {
            return Err(ApiError::unsupported(
                "tools",
                "with \"tools\" only a JSON schema can be asked of the answer; send \"tool_choice\": \"none\", or leave one of them out",
            ));
        }
        (None, Some(AskedFormat { field, format })) => {
            return answer(reading, field, format).map(|constraint| Some(HeldTo { constraint, field }));
        }
    };
    let wanted = |tool: &&Tool| !matches!(choice, ToolChoice::Named(name) if *name != tool.name);
    let tools: Vec<Tool> =
        reading.known.iter().filter(wanted).map(|tool| Tool { parameters: closed(tool.parameters.clone()), ..tool.clone() }).collect();
    let schema = schema.map(closed);
    let several = several.unwrap_or(!demanded) && !matches!(choice, ToolChoice::Named(_));
    let demand = Demand { tools: &tools, several };
    grammar(family, demand, schema.as_ref()).map(|grammar| Some(HeldTo { constraint: lark(grammar), field })).ok_or_else(|| {
        ApiError::unsupported(
            field,
            format!(
                "answers with calls in the notation of this model ({}) cannot be held to a schema; leave {field:?} out, or send \"tool_choice\": \"none\"",
                family.name
            ),
        )
    })
}

fn answer(reading: &Reading, field: &str, format: AnswerFormat) -> Result<Constraint, ApiError> {
    let harmony = reading.tools.is_some_and(|format| format.marks_whole_answer());
    match format {
        AnswerFormat::Schema(schema) if harmony => Ok(lark(harmony_answer(&closed(schema)))),
        AnswerFormat::Constraint(_) if harmony => {
            Err(ApiError::unsupported(field, "this model marks up its whole answer; only a JSON schema can be asked for"))
        }
        format => Ok(format.into_constraint()),
    }
}

fn lark(grammar: Grammar) -> Constraint {
    Constraint::Marked { lark: grammar.lark, marks: grammar.marks, schemas: grammar.schemas }
}
