//! Schemas that no finite value satisfies.
//!
//! A schema may contain itself. Where every way through it leads into it again, no answer would ever be complete: a ring of references, a
//! node that requires a node. Such a place is refused wherever it stands, because a model that enters it cannot leave. What is known to be
//! finite is found from the leaves up: a schema is finite when a value can be built of parts that are.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::schema::{Subschemas, resolve};

/// Rounds until everything finite must be found. Parts come before wholes, so one is enough without recursion, and each level of recursion
/// through recursion costs one more.
const MOST_ROUNDS: usize = 64;

/// Looks at everything that [`super::schema::check`] found in `root`.
///
/// # Errors
/// A place that has no end.
pub(super) fn check(root: &Value, subschemas: &Subschemas<'_>) -> Result<(), String> {
    let mut finite: HashSet<*const Value> = HashSet::new();
    for _ in 0..MOST_ROUNDS {
        let before = finite.len();
        for (_, schema) in subschemas {
            if is_finite(root, schema, &finite) {
                finite.insert(std::ptr::from_ref(*schema));
            }
        }
        if finite.len() == before {
            break;
        }
    }
    match subschemas.iter().find(|(_, schema)| !finite.contains(&std::ptr::from_ref(*schema))) {
        None => Ok(()),
        Some((path, _)) => Err(format!("no finite value satisfies {path}: it always contains itself")),
    }
}

fn is_finite(root: &Value, schema: &Value, finite: &HashSet<*const Value>) -> bool {
    let known = |schema: &Value| finite.contains(&std::ptr::from_ref(schema));
    let Value::Object(schema) = schema else { return true };
    let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
    let referred = match schema.get("$ref") {
        Some(Value::String(reference)) => resolve(root, reference).is_ok_and(known),
        _ => true,
    };
    let all = list("allOf").is_none_or(|schemas| schemas.iter().all(known));
    let any = ["anyOf", "oneOf"].iter().all(|keyword| list(keyword).is_none_or(|schemas| schemas.is_empty() || schemas.iter().any(known)));
    let spelled_out = schema.contains_key("const") || schema.contains_key("enum");
    referred && all && any && (spelled_out || types(schema).iter().any(|kind| has_end(schema, kind, &known)))
}

/// The types a value may have; without a word about it, one that has an end is among them.
fn types(schema: &Map<String, Value>) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => vec!["null"],
    }
}

fn has_end(schema: &Map<String, Value>, kind: &str, known: &impl Fn(&Value) -> bool) -> bool {
    let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    match kind {
        "object" => list("required").iter().filter_map(Value::as_str).all(|name| {
            let named = schema.get("properties").and_then(|properties| properties.get(name));
            let other = schema.get("additionalProperties").filter(|_| !schema.contains_key("patternProperties"));
            named.or(other).is_none_or(known)
        }),
        "array" => {
            let least = schema.get("minItems").and_then(Value::as_u64).map_or(0, |least| usize::try_from(least).unwrap_or(usize::MAX));
            let (first, rest) = match schema.get("items") {
                Some(Value::Array(first)) => (first.as_slice(), schema.get("additionalItems")),
                rest => (list("prefixItems"), rest),
            };
            first.iter().take(least).all(known) && (least <= first.len() || rest.is_none_or(known))
        }
        _ => true,
    }
}
