//! As much of JSON schema as `/openapi.json` uses: whether a value fits a shape, and values that do not.

use serde_json::{Map, Value, json};

/// Shapes, and the document in which their references are looked up.
pub struct Shapes<'d> {
    pub document: &'d Value,
    /// Members that a shape does not name do not fit it.
    pub closed: bool,
}

impl<'d> Shapes<'d> {
    /// The shape itself, where this is a reference.
    pub fn resolved(&self, shape: &'d Value) -> &'d Value {
        match shape["$ref"].as_str() {
            Some(place) => self.document.pointer(place.trim_start_matches('#')).unwrap_or_else(|| panic!("{place} is not there")),
            None => shape,
        }
    }

    /// The shapes of which a value may have one.
    pub fn alternatives(&self, shape: &'d Value) -> Vec<&'d Value> {
        let shape = self.resolved(shape);
        match shape["anyOf"].as_array() {
            Some(all) => all.iter().flat_map(|one| self.alternatives(one)).collect(),
            None => vec![shape],
        }
    }

    pub fn fits(&self, shape: &'d Value, value: &Value) -> bool {
        self.misfit(shape, value, "").is_none()
    }

    /// What does not fit, and where.
    pub fn misfit(&self, shape: &'d Value, value: &Value, at: &str) -> Option<String> {
        let all: Vec<Option<String>> = self.alternatives(shape).into_iter().map(|one| self.misfit_of_one(one, value, at)).collect();
        if all.iter().any(Option::is_none) { None } else { all.into_iter().flatten().max_by_key(String::len) }
    }

    fn misfit_of_one(&self, shape: &'d Value, value: &Value, at: &str) -> Option<String> {
        let wrong = |what: &str| Some(format!("{at}: {what}: {value}"));
        let types: Vec<&str> = match &shape["type"] {
            Value::String(one) => vec![one],
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            _ => return None,
        };
        let of_type = |name: &&str| match *name {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("the type {other}"),
        };
        if !types.iter().any(of_type) {
            return wrong("not of the type");
        }
        if shape["enum"].as_array().is_some_and(|words| !words.contains(value)) {
            return wrong("not one of the words");
        }
        let beyond = |least: &str, most: &str, size: f64| {
            shape[least].as_f64().is_some_and(|least| size < least) || shape[most].as_f64().is_some_and(|most| size > most)
        };
        match value {
            Value::Number(number) => {
                let number = number.as_f64()?;
                let out = beyond("minimum", "maximum", number) || shape["exclusiveMinimum"].as_f64().is_some_and(|least| number <= least);
                if out { wrong("out of bounds") } else { None }
            }
            Value::String(text) => {
                let spelled = shape["pattern"].as_str().is_none_or(|pattern| matches(pattern, text));
                let out = beyond("minLength", "maxLength", text.chars().count() as f64);
                if out || !spelled {
                    return wrong("not such a string");
                }
                let inside = shape.get("contentSchema")?;
                match serde_json::from_str(text) {
                    Ok(held) => self.misfit(inside, &held, at),
                    Err(_) => wrong("holds no JSON"),
                }
            }
            Value::Array(items) => {
                if beyond("minItems", "maxItems", items.len() as f64) {
                    return wrong("not so many");
                }
                items.iter().enumerate().find_map(|(index, item)| self.misfit(&shape["items"], item, &format!("{at}[{index}]")))
            }
            Value::Object(members) => self.misfit_of_members(shape, members, at),
            _ => None,
        }
    }

    fn misfit_of_members(&self, shape: &'d Value, members: &Map<String, Value>, at: &str) -> Option<String> {
        let required = shape["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(name) = required.into_iter().find(|name| !members.contains_key(*name)) {
            return Some(format!("{at}: {name} is not there"));
        }
        if shape["maxProperties"].as_u64().is_some_and(|most| members.len() as u64 > most) {
            return Some(format!("{at}: too many members"));
        }
        members.iter().find_map(|(name, value)| {
            let at = format!("{at}.{name}");
            if shape["propertyNames"]["maxLength"].as_u64().is_some_and(|most| name.chars().count() as u64 > most) {
                return Some(format!("{at} has a name that is too long"));
            }
            if let Some(pattern) = shape["propertyNames"]["pattern"].as_str().filter(|pattern| !matches(pattern, name)) {
                return Some(format!("{at} is not spelled {pattern}"));
            }
            match (shape["properties"].get(name), &shape["additionalProperties"]) {
                (Some(inside), _) | (None, inside @ Value::Object(_)) => self.misfit(inside, value, &at),
                (None, Value::Bool(true)) => None,
                (None, _) => self.closed.then(|| format!("{at} is not documented")),
            }
        })
    }

    /// A value that fits, as small as can be.
    pub fn sample(&self, shape: &'d Value) -> Value {
        let shape = self.alternatives(shape)[0];
        if let Some(words) = shape["enum"].as_array() {
            return words[0].clone();
        }
        match first_type(shape) {
            "boolean" => json!(true),
            "integer" | "number" => shape.get("minimum").cloned().unwrap_or(json!(1)),
            "string" => shape["pattern"].as_str().and_then(beginning).unwrap_or("a").into(),
            "array" if shape["minItems"].as_u64().is_some_and(|least| least > 0) => json!([self.sample(&shape["items"])]),
            "array" => json!([]),
            _ => self.sample_object(shape),
        }
    }

    /// The same of one alternative.
    pub fn sample_object(&self, shape: &'d Value) -> Value {
        let required = shape["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        required.map(|name| (name.to_owned(), self.sample(&shape["properties"][name]))).collect::<Map<_, _>>().into()
    }

    /// Values that do not fit: of other types, and beyond each bound.
    pub fn misfits(&self, shape: &'d Value) -> Vec<Value> {
        let mut all = vec![json!(true), json!(7.5), json!("no such word"), json!([true]), json!({"x": true})];
        for one in self.alternatives(shape) {
            for (bound, step) in [("minimum", -1.0), ("maximum", 1.0), ("exclusiveMinimum", 0.0)] {
                match &one[bound] {
                    Value::Number(number) if number.is_f64() => all.push(json!(number.as_f64().unwrap() + step)),
                    Value::Number(number) => {
                        let number = number.as_i64().map(|number| i128::from(number) + step as i128);
                        // 64 bits are as far as whole numbers reach.
                        all.extend(number.and_then(serde_json::Number::from_i128).map(Value::Number));
                    }
                    _ => {}
                }
            }
            all.extend([json!(""), json!(" \n")]);
            all.extend(one["maxLength"].as_u64().map(|most| json!("a".repeat(most as usize + 1))));
            if let Some(items) = one.get("items") {
                all.push(json!([]));
                all.extend(one["maxItems"].as_u64().map(|most| json!(vec![self.sample(items); most as usize + 1])));
                all.extend(self.misfits(items).into_iter().map(|item| json!([item])));
            }
            if let Some(most) = one["maxProperties"].as_u64() {
                let member = |number: u64| number.to_string();
                all.push(
                    (0..=most).map(|number| (member(number), self.sample(&one["additionalProperties"]))).collect::<Map<_, _>>().into(),
                );
            }
            if let Some(most) = one["propertyNames"]["maxLength"].as_u64() {
                all.push(json!({"a".repeat(most as usize + 1): self.sample(&one["additionalProperties"])}));
            }
            if one["additionalProperties"].is_object() {
                all.push(json!({"no number": self.sample(&one["additionalProperties"])}));
                all.extend(self.misfits(&one["additionalProperties"]).into_iter().map(|member| json!({"1": member})));
            }
        }
        all.retain(|value| !self.fits(shape, value));
        all
    }

    /// Each word, and each bound itself.
    pub fn limits(&self, shape: &'d Value) -> Vec<Value> {
        let of_one = |one: &Value| {
            let words = one["enum"].as_array().into_iter().flatten();
            words.chain([&one["minimum"], &one["maximum"]]).filter(|value| !value.is_null()).cloned().collect::<Vec<_>>()
        };
        self.alternatives(shape).into_iter().flat_map(of_one).collect()
    }
}

fn first_type(shape: &Value) -> &str {
    shape["type"].as_str().or_else(|| shape["type"][0].as_str()).unwrap_or("string")
}

/// Patterns of the form `^[…]+$`, `^word`, and `\S`.
fn matches(pattern: &str, text: &str) -> bool {
    if pattern == r"\S" {
        return text.contains(|c: char| !c.is_whitespace());
    }
    if let Some(word) = beginning(pattern) {
        return text.starts_with(word);
    }
    let class = pattern.strip_prefix("^[").and_then(|rest| rest.strip_suffix("]+$")).unwrap_or_else(|| panic!("the pattern {pattern}"));
    let class: Vec<char> = class.chars().collect();
    let in_range = |c: char| class.windows(3).any(|part| part[1] == '-' && (part[0]..=part[2]).contains(&c));
    !text.is_empty() && text.chars().all(|c| class.contains(&c) || in_range(c))
}

/// The word of a pattern of the form `^word`.
fn beginning(pattern: &str) -> Option<&str> {
    pattern.strip_prefix('^').filter(|word| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}
