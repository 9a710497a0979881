//! Answers that must look like something, from the real model: what users of comparable servers found broken.

use std::process::Command;

use onebit_tests::MODEL;
use onebit_tests::client::{Client, joined};
use onebit_tests::server::Home;
use serde_json::{Value, json};

use crate::clients::{clients, environment, run};
use crate::{question, with};

fn format(schema: Value) -> Value {
    json!({"response_format": {"type": "json_schema", "json_schema": {"name": "t", "strict": true, "schema": schema}}})
}

fn object(value: Value) -> Value {
    json!({"type": "object", "additionalProperties": false, "required": ["v"], "properties": {"v": value}})
}

fn ask(client: &Client, schema: Value, more: Value) -> Value {
    let body = with(with(question("Say anything you like.", 160), &format(schema)), &more);
    let answer = client.post("/v1/chat/completions", &body).good();
    assert_eq!(answer["choices"][0]["finish_reason"], "stop", "{answer}");
    serde_json::from_str(answer["choices"][0]["message"]["content"].as_str().unwrap()).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[test]
fn enums_behind_references_hold_at_every_seed_and_for_every_choice() {
    let server = Home::with_model().serve();
    let client = server.client();
    let line = json!({
        "type": "object", "additionalProperties": false, "required": ["who", "mood", "text"],
        "properties": {"who": {"$ref": "#/$defs/who"}, "mood": {"$ref": "#/$defs/mood"}, "text": {"type": "string", "maxLength": 12}}
    });
    let schema = json!({
        "type": "array", "minItems": 2, "maxItems": 2, "items": line,
        "$defs": {"who": {"enum": ["Ann", "Bo"]}, "mood": {"enum": ["calm", "cross"]}}
    });
    let check = |items: &Value| {
        let items = items.as_array().unwrap();
        assert_eq!(items.len(), 2);
        for item in items {
            assert!(["Ann", "Bo"].contains(&item["who"].as_str().unwrap()) && ["calm", "cross"].contains(&item["mood"].as_str().unwrap()));
            assert!(item["text"].as_str().unwrap().chars().count() <= 12 && item.as_object().unwrap().len() == 3, "{item}");
        }
    };
    for seed in 0..5 {
        check(&ask(&client, schema.clone(), json!({"seed": seed, "temperature": 1})));
    }
    let body = with(with(question("Two lines.", 160), &format(schema)), &json!({"n": 3, "temperature": 1, "seed": 7}));
    let answer = client.post("/v1/chat/completions", &body).good();
    for choice in answer["choices"].as_array().unwrap() {
        check(&serde_json::from_str(choice["message"]["content"].as_str().unwrap()).unwrap());
    }
}

#[test]
fn characters_of_several_tokens_come_whole_streamed_and_in_ollamas_dialect() {
    let server = Home::with_model().serve();
    let client = server.client();
    let schema = object(json!({"const": "é漢字😀👩‍🚀"}));
    let wanted = json!({"v": "é漢字😀👩‍🚀"});
    assert_eq!(ask(&client, schema.clone(), json!({})), wanted);
    let body = with(with(question("Say it.", 160), &format(schema.clone())), &json!({"stream": true}));
    let text = joined(&client.stream("/v1/chat/completions", &body).all());
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), wanted);
    let body = json!({"model": MODEL, "stream": false, "format": schema, "messages": [{"role": "user", "content": "Say it."}]});
    let answer = client.post("/api/chat", &body).good();
    assert_eq!(serde_json::from_str::<Value>(answer["message"]["content"].as_str().unwrap()).unwrap(), wanted);
}

#[test]
fn log_probabilities_beside_a_format_are_finite() {
    let server = Home::with_model().serve();
    let body = with(with(question("Say it.", 40), &format(object(json!({"enum": ["a"]})))), &json!({"logprobs": true, "top_logprobs": 5}));
    let answer = server.client().post("/v1/chat/completions", &body);
    // Neither JSON nor this parser knows infinity.
    let entries = answer.good()["choices"][0]["logprobs"]["content"].as_array().unwrap().clone();
    assert!(entries.iter().all(|entry| (-9999.0..=0.0).contains(&entry["logprob"].as_f64().unwrap())), "{entries:?}");
}

#[test]
fn what_cannot_be_promised_is_refused_by_name_and_soon() {
    let server = Home::with_model().serve();
    let client = server.client();
    let refused = [
        (object(json!({"type": "string", "pattern": "^(open"})), "^(open"),
        (object(json!({"not": {"type": "string"}})), "not"),
        (json!({"type": "object", "dependentSchemas": {"a": {}}}), "dependentSchemas"),
        (json!({"$ref": "#"}), "contains itself"),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}), "contains itself"),
        (json!({"$ref": "https://example.org/schema"}), "$ref"),
        (json!({"type": "object", "required": ["v"], "properties": {"v": {"$ref": "#"}}}), "contains itself"),
    ];
    for (schema, word) in refused {
        let body = with(question("Say it.", 40), &format(schema.clone()));
        let began = std::time::Instant::now();
        let answer = client.post("/v1/chat/completions", &body);
        assert_eq!(answer.status, 400, "{schema}: {}", answer.text);
        assert!(answer.error().contains(word), "{schema}: {}", answer.text);
        assert_eq!(answer.json()["error"]["param"], "response_format", "{}", answer.text);
        // The first one waits for the model.
        assert!(began.elapsed().as_secs() < 60, "{schema}");
    }
    // Under the name that each API has for it.
    let schema = json!({"not": {"type": "string"}});
    let said = [json!({"role": "user", "content": "Say it."})];
    let typed = json!({"type": "json_schema", "name": "n", "schema": schema});
    for (path, body, field) in [
        ("/v1/responses", json!({"input": "Say it.", "text": {"format": typed}}), "text.format"),
        ("/v1/chat/completions", json!({"messages": said, "guided_json": schema}), "guided_json"),
        ("/v1/completions", json!({"prompt": "Say", "json_schema": schema}), "json_schema"),
    ] {
        let answer = client.post(path, &with(body, &json!({"model": MODEL})));
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!(field)), "{path}: {}", answer.text);
    }
    client.post("/v1/chat/completions", &question("What is 2+2?", 4)).good();
}

#[test]
fn a_recursive_list_an_odd_escape_and_other_notations_work() {
    let server = Home::with_model().serve();
    let client = server.client();
    let list = json!({
        "$ref": "#/$defs/list",
        "$defs": {"list": {"type": "object", "additionalProperties": false, "required": ["value", "next"], "properties": {
            "value": {"type": "integer", "minimum": 0, "maximum": 9},
            "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/list"}]}
        }}}
    });
    assert!(ask(&client, list, json!({"temperature": 1, "seed": 3, "max_tokens": 400}))["value"].is_u64());
    let odd = with(question("Say anything.", 24), &format(object(json!({"type": "string", "pattern": "^well done\\!$"}))));
    let answer = client.post("/v1/chat/completions", &odd);
    if answer.status == 200 {
        let content = answer.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
        assert_eq!(serde_json::from_str::<Value>(&content).unwrap(), json!({"v": "well done!"}));
    } else {
        assert!(answer.status == 400 && answer.error().contains("pattern"), "{}", answer.text);
    }
    for (more, allowed) in [
        (json!({"grammar": "root ::= (\"yes\" | \"no\") \".\""}), ["yes.", "no."]),
        (json!({"guided_regex": "(yes|no)\\."}), ["yes.", "no."]),
        (json!({"guided_choice": ["yes.", "no."]}), ["yes.", "no."]),
    ] {
        let answer = client.post("/v1/chat/completions", &with(question("Is it?", 20), &more)).good();
        let content = answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
        assert!(allowed.contains(&content.as_str()), "{more}: {content:?}");
    }
}

/// Asks for so many answers, each held to a schema; all of them must be whole, and valid to Python's jsonschema.
fn outputs(count: u32) {
    let python = environment("jsonschema.txt");
    let server = Home::with_model().serve();
    let said = run(Command::new(python)
        .arg(clients().join("outputs.py"))
        .arg(count.to_string())
        .env("BASE", server.client().base())
        .env("MODEL", MODEL)
        .env("NO_PROXY", "127.0.0.1"));
    assert!(said.contains(&format!("{count} of {count} valid")), "{said}");
}

#[test]
fn answers_are_valid_to_somebody_elses_validator() {
    outputs(50);
}

#[test]
#[ignore = "takes ten minutes; run before a release, or after a change of what answers are held to"]
fn a_thousand_answers_are_valid_to_somebody_elses_validator() {
    outputs(1000);
}
