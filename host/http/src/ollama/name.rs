//! The model that a request is about, by its name in the body.

use crate::errors::ApiError;
use crate::fields::Fields;

/// The name of a model that is there, or is to be: bounded, and of characters that a name may have. `older` is what clients called the field
/// before.
pub fn read<'a>(fields: &Fields<'a>, field: &str, older: Option<&str>, what: &str) -> Result<&'a str, ApiError> {
    let given = match (fields.string(field)?, older) {
        (Some(name), _) => Some((field, name)),
        (None, Some(older)) => fields.string(older)?.map(|name| (older, name)),
        (None, None) => None,
    };
    let (field, name) = given.ok_or_else(|| fields.missing(field, what))?;
    check(fields, field, name)
}

/// A name that was read already.
pub fn check<'a>(fields: &Fields<'_>, field: &str, name: &'a str) -> Result<&'a str, ApiError> {
    match onebit_worker::check_name(name) {
        Ok(()) => Ok(name),
        Err(problem) => {
            let (path, shown) = (fields.path(field), name.chars().take(40).collect::<String>());
            let message = format!("{path:?} is {shown:?}; it {problem}");
            Err(ApiError::invalid(path, message))
        }
    }
}
