//! `tools` of this API: functions in its flat shape, alone or in a namespace.
//!
//! Templates and notations know functions by one name, so one in a namespace is `NAMESPACE__NAME` to the model; its client sees the two parts.
//! What OpenAI's servers run themselves is refused. But agents offer a search of the web whether there is one or not, and a model may always
//! answer without: it is left out, and the response does not have it among its tools.

use std::collections::HashMap;

use serde_json::Value;

use crate::body::describe;
use crate::chat::functions::{check, check_name, function_of};
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::formats::Tool;

/// All versions begin so.
pub(super) const LEFT_OUT: &str = "web_search";
const BETWEEN: &str = "__";

/// What may be called.
#[derive(Debug, Default)]
pub struct Tools {
    pub functions: Vec<Tool>,
    pub namespaces: Namespaces,
    /// As the response repeats them.
    pub echo: Vec<Value>,
}

/// Functions in namespaces: the name for the model, then namespace and name.
#[derive(Debug, Default, Clone)]
pub struct Namespaces(HashMap<String, (String, String)>);

impl Namespaces {
    /// The namespace and the function's name in it.
    pub fn split(&self, name: &str) -> (Option<String>, String) {
        match self.0.get(name) {
            Some((namespace, name)) => (Some(namespace.clone()), name.clone()),
            None => (None, name.to_owned()),
        }
    }
}

/// What a function in a namespace is called for the model.
pub fn joined(namespace: Option<&str>, name: &str) -> String {
    namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}{BETWEEN}{name}"))
}

/// Reads them.
pub fn read(fields: &Fields<'_>) -> Result<Tools, ApiError> {
    let mut tools = Tools::default();
    for (index, item) in fields.list("tools")?.unwrap_or_default().iter().enumerate() {
        tools.add(&format!("tools[{index}]"), item)?;
    }
    check("tools", &tools.functions)?;
    Ok(tools)
}

impl Tools {
    fn add(&mut self, path: &str, item: &Value) -> Result<(), ApiError> {
        let inside = object(path, item)?;
        match inside.string("type")? {
            Some("function") => self.functions.push(function_of(&inside, "parameters")?),
            Some("namespace") => self.namespace(&inside)?,
            Some(kind) if kind.starts_with(LEFT_OUT) => return Ok(()),
            other => return Err(unsupported(&inside, path, other, "\"function\" or \"namespace\"")),
        }
        self.echo.push(item.clone());
        Ok(())
    }

    fn namespace(&mut self, fields: &Fields<'_>) -> Result<(), ApiError> {
        let namespace = fields.string("name")?.ok_or_else(|| fields.missing("name", "the namespace's name"))?;
        let about = fields.string("description")?.unwrap_or_default();
        for (index, item) in fields.list("tools")?.unwrap_or_default().iter().enumerate() {
            let path = fields.path(&format!("tools[{index}]"));
            let inside = object(&path, item)?;
            match inside.string("type")? {
                Some("function") => {}
                other => return Err(unsupported(&inside, &path, other, "\"function\"")),
            }
            let mut function = function_of(&inside, "parameters")?;
            let name = joined(Some(namespace), &function.name);
            check_name(&inside, &name)?;
            self.namespaces.0.insert(name.clone(), (namespace.to_owned(), std::mem::replace(&mut function.name, name)));
            let both = [about, function.description.as_deref().unwrap_or_default()].join("\n\n");
            function.description = Some(both.trim().to_owned());
            self.functions.push(function);
        }
        Ok(())
    }
}

fn object<'a>(path: &str, item: &'a Value) -> Result<Fields<'a>, ApiError> {
    match item {
        Value::Object(object) => Ok(Fields::inside(object, path)),
        _ => Err(ApiError::invalid(path, format!("{path:?} is {}; it must be an object with \"type\" and \"name\"", describe(item)))),
    }
}

fn unsupported(fields: &Fields<'_>, path: &str, kind: Option<&str>, known: &str) -> ApiError {
    let Some(kind) = kind else { return fields.missing("type", known) };
    let shown: String = kind.chars().take(40).collect();
    ApiError::unsupported(fields.path("type"), format!("{path:?} has the type {shown:?}; this server calls functions of the client's only"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_all(tools: Value) -> Result<Tools, ApiError> {
        read(&Fields::of(json!({"tools": tools}).as_object().expect("an object")))
    }

    #[test]
    fn a_function_in_a_namespace_has_one_name_for_the_model_and_two_for_its_client() {
        let tools = read_all(json!([
            {"type": "function", "name": "run", "parameters": {"type": "object"}},
            {"type": "namespace", "name": "team", "description": "Helpers.", "tools": [
                {"type": "function", "name": "run", "description": "Runs one.", "strict": false},
                {"type": "function", "name": "end"},
            ]},
        ]))
        .expect("fine");
        let names: Vec<_> = tools.functions.iter().map(|tool| (tool.name.as_str(), tool.description.as_deref())).collect();
        assert_eq!(names, [("run", None), ("team__run", Some("Helpers.\n\nRuns one.")), ("team__end", Some("Helpers."))]);
        assert_eq!(tools.namespaces.split("team__run"), (Some("team".to_owned()), "run".to_owned()));
        assert_eq!(tools.namespaces.split("run"), (None, "run".to_owned()));
        assert_eq!(joined(Some("team"), "run"), "team__run");
    }

    #[test]
    fn a_search_of_the_web_is_left_out_and_the_rest_that_is_not_here_is_refused() {
        let tools = read_all(json!([{"type": "web_search", "external_web_access": false}, {"type": "web_search_preview"}])).expect("fine");
        assert!(tools.functions.is_empty() && tools.echo.is_empty());
        let in_namespace = |tool: Value| json!([{"type": "namespace", "name": "n", "tools": [tool]}]);
        for (bad, param) in [
            (json!([{"type": "file_search", "vector_store_ids": ["v"]}]), "tools[0].type"),
            (json!([{"type": "custom", "name": "patch"}]), "tools[0].type"),
            (json!([{"name": "f"}]), "tools[0].type"),
            (json!(["f"]), "tools[0]"),
            (json!([{"type": "namespace", "tools": []}]), "tools[0].name"),
            (in_namespace(json!({"type": "custom", "name": "patch"})), "tools[0].tools[0].type"),
            (in_namespace(json!({"type": "function"})), "tools[0].tools[0].name"),
            (in_namespace(json!({"type": "function", "name": "x".repeat(128)})), "tools[0].tools[0].name"),
            (json!([{"type": "namespace", "name": "a b", "tools": [{"type": "function", "name": "f"}]}]), "tools[0].tools[0].name"),
            (
                json!([{"type": "function", "name": "n__f"}, {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}]),
                "tools",
            ),
        ] {
            assert_eq!(read_all(bad.clone()).expect_err("bad").param.as_deref(), Some(param), "{bad}");
        }
    }
}
