//! The functions that a client describes: read and bounded in one place, whatever the dialect calls their parts.

use serde_json::{Value, json};

use crate::errors::ApiError;
use crate::fields::Fields;
use crate::formats::Tool;

/// Agents bring some dozens; more would not fit into any prompt.
pub const MAX_TOOLS: usize = 1024;
/// Anthropic's limit, the widest.
pub const MAX_NAME: usize = 128;

/// Refuses sets of functions that cannot be told apart, or are too many.
pub fn check(param: &str, tools: &[Tool]) -> Result<(), ApiError> {
    if tools.len() > MAX_TOOLS {
        return Err(ApiError::invalid(param, format!("{param:?} has {} entries; at most {MAX_TOOLS} are allowed", tools.len())));
    }
    for (index, tool) in tools.iter().enumerate() {
        if tools[..index].iter().any(|other| other.name == tool.name) {
            return Err(ApiError::invalid(param, format!("{param:?} has two functions named {:?}; give each its own name", tool.name)));
        }
    }
    Ok(())
}

/// A function; `schema` is what the dialect calls its arguments' schema.
pub fn function_of(fields: &Fields<'_>, schema: &str) -> Result<Tool, ApiError> {
    let name = fields.string("name")?.ok_or_else(|| fields.missing("name", "the function's name"))?;
    check_name(fields, name)?;
    let parameters = match fields.object(schema)? {
        Some(object) => Value::Object(object.clone()),
        None => json!({"type": "object", "properties": {}}),
    };
    Ok(Tool { name: name.to_owned(), description: fields.string("description")?.map(str::to_owned), parameters })
}

/// Refuses a name that no notation of calls could carry.
pub fn check_name(fields: &Fields<'_>, name: &str) -> Result<(), ApiError> {
    let spelled = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(spelled) {
        let shown: String = name.chars().take(MAX_NAME).collect();
        return Err(ApiError::invalid(
            fields.path("name"),
            format!("a function is named {shown:?}; names have up to {MAX_NAME} letters, digits, and _ - . : /"),
        ));
    }
    Ok(())
}
