//! Objects that say which members they have get no others.
//!
//! JSON schema allows every object members that it does not name, unless `additionalProperties` says otherwise, and most authors forget to. A
//! model that is held to such a schema may add members for ever, and a small one does. Whatever is generated under the closed schema fits the
//! open one, so nothing that was promised is broken; and a schema that says something of other members is left as it is.

use serde_json::{Map, Value};

/// Keywords beside `properties` under which other members may be wanted or even demanded.
const ABOUT_OTHERS: &[&str] = &[
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
    "propertyNames",
    "minProperties",
    "anyOf",
    "oneOf",
    "$ref",
    "if",
];

/// Closes the objects of a schema.
pub fn closed(mut schema: Value) -> Value {
    // Schemas that hold together would close each other out.
    if !mentions(&schema, &["allOf", "unevaluatedProperties", "dependentSchemas", "$dynamicRef"]) {
        close(&mut schema);
    }
    schema
}

fn mentions(value: &Value, keywords: &[&str]) -> bool {
    match value {
        Value::Object(object) => object.iter().any(|(key, value)| keywords.contains(&key.as_str()) || mentions(value, keywords)),
        Value::Array(items) => items.iter().any(|item| mentions(item, keywords)),
        _ => false,
    }
}

fn close(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    let names: Vec<String> =
        object.get("properties").and_then(Value::as_object).map(|all| all.keys().cloned().collect()).unwrap_or_default();
    // A member that is required and not described is one of the others.
    let described = |required: &Value| required.as_str().is_some_and(|name| names.iter().any(|known| known == name));
    let required = object.get("required").and_then(Value::as_array);
    let closes = object.contains_key("properties")
        && required.is_none_or(|all| all.iter().all(described))
        && !ABOUT_OTHERS.iter().any(|keyword| object.contains_key(*keyword));
    if closes {
        object.insert("additionalProperties".into(), false.into());
    }
    // A branch beside members of its own speaks of the same object.
    let alone = !object.contains_key("properties");
    for keyword in ["properties", "$defs", "definitions"] {
        if let Some(Value::Object(all)) = object.get_mut(keyword) {
            each(all);
        }
    }
    for keyword in ["items", "contains", "additionalProperties"] {
        if let Some(inner) = object.get_mut(keyword) {
            close(inner);
        }
    }
    for keyword in ["prefixItems", "anyOf", "oneOf"] {
        if let Some(Value::Array(all)) = object.get_mut(keyword).filter(|_| alone || keyword == "prefixItems") {
            all.iter_mut().for_each(close);
        }
    }
}

fn each(schemas: &mut Map<String, Value>) {
    schemas.values_mut().for_each(close);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_that_name_their_members_are_closed_wherever_they_are() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "object", "properties": {}}, "b": {"type": "array", "items": {"properties": {"c": true}}}},
            "$defs": {"d": {"properties": {"e": {}}}},
            "required": ["a"]
        });
        let closed = closed(schema);
        for pointer in ["", "/properties/a", "/properties/b/items", "/$defs/d"] {
            assert_eq!(closed.pointer(pointer).expect("there")["additionalProperties"], json!(false), "{pointer}");
        }
        assert!(closed["properties"]["b"].get("additionalProperties").is_none());
    }

    #[test]
    fn what_a_schema_says_of_other_members_holds() {
        for schema in [
            json!({"type": "object"}),
            json!({"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}),
            json!({"properties": {"a": {}}, "additionalProperties": true}),
            json!({"properties": {"a": {}}, "patternProperties": {"^x": {}}}),
            json!({"properties": {"a": {}}, "required": ["b"]}),
            json!({"properties": {"a": {}}, "minProperties": 2}),
            json!({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}),
            json!({"properties": {"a": {}}, "anyOf": [{"properties": {"b": {}}}]}),
            json!(true),
        ] {
            assert_eq!(closed(schema.clone()), schema);
        }
        let branches = closed(json!({"anyOf": [{"properties": {"b": {}}}, {"type": "null"}]}));
        assert_eq!(branches["anyOf"][0]["additionalProperties"], json!(false));
    }
}
