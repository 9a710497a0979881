//! Calls of functions from the real model, which is too small to choose one: so they are demanded, and what is tested is ours.

use onebit_tests::client::Client;
use onebit_tests::server::Home;
use onebit_tests::{MODEL, MODEL_FILE};
use serde_json::{Value, json};

use crate::{question, with};

fn weather() -> Value {
    let parameters = json!({
        "type": "object", "required": ["city", "days"],
        "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 7}}
    });
    json!([
        {"type": "function", "function": {"name": "get_weather", "description": "Weather now", "parameters": parameters}},
        {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}}
    ])
}

fn named(name: &str) -> Value {
    json!({"tools": weather(), "tool_choice": {"type": "function", "function": {"name": name}}})
}

fn checked(call: &Value) -> Value {
    assert_eq!(call["function"]["name"], "get_weather", "{call}");
    let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    assert!(["Oslo", "Rome"].contains(&arguments["city"].as_str().unwrap()), "{arguments}");
    assert!((1..=7).contains(&arguments["days"].as_i64().unwrap()) && arguments.as_object().unwrap().len() == 2, "{arguments}");
    arguments
}

/// The arguments of each call of a stream, by its index.
fn streamed(client: &Client, body: &Value) -> (Vec<String>, String) {
    let events = client.stream("/v1/chat/completions", &with(body.clone(), &json!({"stream": true}))).all();
    let (mut calls, mut reason): (Vec<String>, String) = (Vec::new(), String::new());
    for event in &events {
        let choice = &event["choices"][0];
        for delta in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let index = usize::try_from(delta["index"].as_u64().unwrap()).unwrap();
            if index == calls.len() {
                assert!(delta["id"].is_string() && delta["function"]["name"] == "get_weather", "{delta}");
                calls.push(String::new());
            }
            calls[index].push_str(delta["function"]["arguments"].as_str().unwrap());
        }
        if let Some(text) = choice["finish_reason"].as_str() {
            reason = text.to_owned();
        }
    }
    (calls, reason)
}

/// One of each notation; the last three have none that a grammar describes, and are asked in the host's own.
const FAMILIES: [&str; 13] = [
    "hermes",
    "llama3",
    "mistral",
    "kimi-k2",
    "deepseek-v3",
    "deepseek-dsml",
    "glm",
    "qwen3-coder",
    "harmony",
    "cohere",
    "gemma4",
    "functiongemma",
    "lfm2",
];

#[test]
fn a_demanded_call_fits_its_schema_whole_and_streamed_in_every_family() {
    for family in FAMILIES {
        let home = Home::with_model();
        let manifest = format!(
            "schema = 1\nname = \"family\"\n[model]\nfile = \"{MODEL_FILE}\"\n[chat]\ntool_format = \"{family}\"\n[[serve]]\nplugin = \"vulkan-ggml\"\ndevice = \"cpu\"\n"
        );
        let folder = home.path().join("config/onebit/models.d");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("family.toml"), manifest).unwrap();
        let server = home.serve();
        let client = server.client();
        let mut body = with(question("What is the weather in Oslo?", 300), &named("get_weather"));
        body["model"] = "family".into();
        let answer = client.post("/v1/chat/completions", &body).good();
        let choice = &answer["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{family}: {answer}");
        let calls = choice["message"]["tool_calls"].as_array().unwrap();
        assert_eq!(calls.len(), 1, "{family}: {answer}");
        let arguments = checked(&calls[0]);
        let (streamed, reason) = streamed(&client, &body);
        assert_eq!((streamed.len(), reason.as_str()), (1, "tool_calls"), "{family}");
        assert_eq!(serde_json::from_str::<Value>(&streamed[0]).unwrap(), arguments, "{family}");
    }
}

#[test]
fn several_calls_are_numbered_and_a_result_is_answered() {
    let server = Home::with_model().serve();
    let client = server.client();
    let body = with(
        question("Weather in Oslo and Rome?", 60),
        &json!({"tools": weather(), "tool_choice": "required", "parallel_tool_calls": true}),
    );
    let (calls, _) = streamed(&client, &with(body, &json!({"tools": [weather()[0]]})));
    assert!(!calls.is_empty());
    let history = json!({"messages": [
        {"role": "user", "content": "Weather in Oslo?"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\":\"Oslo\",\"days\":1}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "4 degrees and rain"}
    ]});
    let answer = client
        .post("/v1/chat/completions", &with(with(question("", 30), &history), &json!({"tools": weather(), "tool_choice": "none"})))
        .good();
    assert!(!answer["choices"][0]["message"]["content"].as_str().unwrap().is_empty());
}

#[test]
fn a_function_without_arguments_is_called_with_an_empty_object() {
    let server = Home::with_model().serve();
    let answer = server.client().post("/v1/chat/completions", &with(question("What time is it?", 60), &named("get_time"))).good();
    let call = &answer["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(
        (&call["function"]["name"], serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).ok()),
        (&json!("get_time"), Some(json!({})))
    );
}

#[test]
fn ollama_and_openai_name_the_same_model() {
    let server = Home::with_model().serve();
    let client = server.client();
    let tags = client.get("/api/tags").good();
    assert_eq!(tags["models"][0]["name"], MODEL);
    let body = json!({"model": MODEL, "stream": false, "options": {"temperature": 0, "num_predict": 40}, "messages": [{"role": "user", "content": "What is 2+2?"}]});
    assert_eq!(client.post("/api/chat", &body).good()["message"]["content"], "The answer to this classic math problem is 4.");
    for (keep_alive, listed) in [(json!(-1), true), (json!("5m"), true), (json!(0), false)] {
        client
            .post(
                "/api/generate",
                &json!({"model": MODEL, "prompt": "Hi", "stream": false, "keep_alive": keep_alive, "options": {"num_predict": 1}}),
            )
            .good();
        let gone = |client: &Client| client.get("/api/ps").good()["models"].as_array().unwrap().is_empty();
        let began = std::time::Instant::now();
        while gone(&client) == listed && began.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert_eq!(gone(&client), !listed, "{keep_alive}");
    }
}
