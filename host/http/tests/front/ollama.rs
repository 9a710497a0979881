//! Ollama's routes, in its shapes.

use std::time::Duration;

use onebit_engine::{Constraint, Event, FinishReason, GenerateRequest, Prompt, TokenOut};
use onebit_http::models::Defaults;
use onebit_worker::KeepAlive;
use serde_json::{Value, json};

use super::client::{Answer, get, post};
use super::script::{PIECES, Script, Step, facts, finished, greeting, serve};

async fn ask(script: &Script, path: &str, body: Value) -> Answer {
    let server = serve(script).await;
    post(server.port(), path, &body).await
}

fn chat(more: Value) -> Value {
    let mut body = json!({"model": "demo", "messages": [{"role": "user", "content": "Hi"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn lines(answer: &Answer) -> Vec<Value> {
    answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn says(texts: &'static [&'static str]) -> impl Fn(&GenerateRequest) -> Vec<Step> + Send + Sync + 'static {
    move |_| {
        let mut steps = vec![Step::Event(Event::Started { prompt_tokens: 5, cached_tokens: 0 })];
        let delta = |text: &&str| Step::Event(Event::Delta { text: (*text).to_owned(), tokens: vec![TokenOut { id: 1, logprob: None }] });
        steps.extend(texts.iter().map(delta));
        steps.push(finished(5, texts.len() as u32, FinishReason::EndOfGeneration));
        steps
    }
}

#[tokio::test]
async fn a_chat_is_lines_of_json_unless_it_is_asked_whole() {
    let script = Script::new(greeting);
    let answer = ask(&script, "/api/chat", chat(json!({}))).await;
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let lines = lines(&answer);
    let text: String = lines.iter().map(|line| line["message"]["content"].as_str().unwrap()).collect();
    assert_eq!(text, PIECES.concat());
    let (last, others) = lines.split_last().unwrap();
    assert!(others.iter().all(|line| line["done"] == false && line["model"] == "demo" && line["message"]["role"] == "assistant"));
    assert_eq!((&last["done"], &last["done_reason"]), (&json!(true), &json!("stop")));
    assert_eq!((&last["prompt_eval_count"], &last["eval_count"]), (&json!(7), &json!(4)));
    assert_eq!((&last["prompt_eval_duration"], &last["eval_duration"]), (&json!(2_000_000), &json!(10_000_000)));
    assert!(last["total_duration"].as_u64().unwrap() >= 12_000_000 && last["load_duration"].is_u64());

    let whole = ask(&script, "/api/chat", chat(json!({"stream": false}))).await.json();
    assert_eq!((&whole["message"]["content"], &whole["done"]), (&json!(PIECES.concat()), &json!(true)));
}

#[tokio::test]
async fn generate_goes_through_the_template_unless_it_is_raw() {
    let script = Script::new(greeting);
    let body = json!({"model": "demo:latest", "prompt": "Hi", "system": "Be brief.", "stream": false, "options": {"num_predict": 2, "temperature": 0}});
    let whole = ask(&script, "/api/generate", body).await.json();
    assert_eq!((&whole["response"], &whole["done_reason"], &whole["model"]), (&json!("Hello é"), &json!("length"), &json!("demo:latest")));
    let prompt: String = script.last_parts().into_iter().map(|(text, _)| text).collect();
    assert_eq!(prompt, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    ask(&script, "/api/generate", json!({"model": "demo", "prompt": "Hi", "raw": true, "stream": false})).await;
    assert_eq!(script.last_parts(), [("Hi".to_owned(), true)]);
}

#[tokio::test]
async fn a_request_without_a_question_loads_or_unloads() {
    let script = Script::new(greeting);
    for (path, question) in [("/api/chat", json!({"messages": []})), ("/api/generate", json!({})), ("/api/generate", json!({"prompt": ""}))]
    {
        for (keep_alive, reason) in [(json!(null), "load"), (json!(0), "unload")] {
            let mut body = json!({"model": "demo", "keep_alive": keep_alive});
            body.as_object_mut().unwrap().extend(question.as_object().unwrap().clone());
            let answer = ask(&script, path, body).await;
            let json = answer.json();
            assert_eq!((&json["done"], &json["done_reason"]), (&json!(true), &json!(reason)), "{path}");
        }
    }
    assert!(script.asked().is_empty());
    assert_eq!(script.unloaded(), ["demo", "demo", "demo"]);
}

#[tokio::test]
async fn keep_alive_reaches_the_host() {
    let script = Script::new(greeting);
    for keep in [json!(-1), json!("5m"), json!(null)] {
        ask(&script, "/api/chat", chat(json!({"keep_alive": keep, "stream": false}))).await;
    }
    assert_eq!(script.kept(), [Some(KeepAlive::Forever), Some(KeepAlive::For(Duration::from_secs(300))), None]);
}

#[tokio::test]
async fn calls_have_objects_for_arguments_in_both_directions() {
    const CALL: &[&str] = &["<tool_call>\n{\"name\": \"get_weather\", ", "\"arguments\": {\"city\": \"Oslo\"}}", "\n</tool_call>"];
    let script = Script::new(says(CALL));
    let tools = json!([{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]);
    let history = json!([
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}]},
        {"role": "tool", "tool_name": "get_weather", "content": "4 degrees"}
    ]);
    let answer = ask(&script, "/api/chat", json!({"model": "demo", "messages": history, "tools": tools})).await;
    let calls: Vec<Value> = lines(&answer).iter().filter_map(|line| line["message"]["tool_calls"].as_array().cloned()).flatten().collect();
    assert_eq!(calls.len(), 1);
    assert_eq!((&calls[0]["function"]["name"], &calls[0]["function"]["arguments"]), (&json!("get_weather"), &json!({"city": "Oslo"})));
    let prompt: String = script.last_parts().into_iter().map(|(text, _)| text).collect();
    assert!(prompt.contains("{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\"}}") && prompt.contains("4 degrees"), "{prompt}");
}

#[tokio::test]
async fn calls_of_a_stream_are_numbered_over_its_lines() {
    const CALLS: &[&str] = &["<tool_call>{\"name\": \"a\"}</tool_call>", "<tool_call>{\"name\": \"b\"}</tool_call>"];
    let tools = json!([{"type": "function", "function": {"name": "a"}}, {"type": "function", "function": {"name": "b"}}]);
    let answer = ask(&Script::new(says(CALLS)), "/api/chat", chat(json!({"tools": tools}))).await;
    let calls: Vec<Value> = lines(&answer).iter().filter_map(|line| line["message"]["tool_calls"].as_array().cloned()).flatten().collect();
    let seen: Vec<(&str, u64)> =
        calls.iter().map(|call| (call["function"]["name"].as_str().unwrap(), call["function"]["index"].as_u64().unwrap())).collect();
    assert_eq!(seen, [("a", 0), ("b", 1)]);
}

#[tokio::test]
async fn thinking_and_formats_are_carried_out() {
    let mut thinker = facts();
    thinker.chat_template = thinker.chat_template.map(|template| template + "{# </think> #}");
    let script = Script::with(thinker, Defaults::default(), None, says(&["<think>Hm.</think>", "Two."]));
    let json = ask(&script, "/api/chat", chat(json!({"stream": false, "think": true}))).await.json();
    assert_eq!((&json["message"]["thinking"], &json["message"]["content"]), (&json!("Hm."), &json!("Two.")));
    let script = Script::new(greeting);
    for (format, wanted) in [(json!("json"), "{\"type\":\"object\"}"), (json!({"type": "integer"}), "{\"type\":\"integer\"}")] {
        ask(&script, "/api/chat", chat(json!({"format": format, "stream": false}))).await;
        assert_eq!(script.asked().pop().unwrap().constraint, Some(Constraint::JsonSchema(wanted.into())));
    }
}

#[tokio::test]
async fn embeddings_cut_only_what_may_be_cut() {
    let mut small = facts();
    // Less than the context: what a plugin embeds at once is another matter.
    small.embedding = Some(onebit_engine::EmbeddingFacts { dimension: 3, tokens: 3 });
    let script = Script::with(small, Defaults::default(), None, greeting);
    let json = ask(&script, "/api/embed", json!({"model": "demo", "input": ["a b c d e", "x"]})).await.json();
    assert_eq!((json["embeddings"].as_array().unwrap().len(), &json["prompt_eval_count"]), (2, &json!(5)));
    assert_eq!(script.embedded(), [Prompt::Tokens(vec![0, 1, 2]), Prompt::Parts(vec![part("x")])]);
    ask(&script, "/api/embed", json!({"model": "demo", "input": "a b c d e", "truncate": false})).await;
    assert_eq!(script.embedded().last(), Some(&Prompt::Parts(vec![part("a b c d e")])));
    for empty in [json!(""), json!([])] {
        assert_eq!(ask(&script, "/api/embed", json!({"model": "demo", "input": empty})).await.json()["embeddings"], json!([]));
    }
    assert_eq!(ask(&script, "/api/embed", json!({"model": "demo", "input": ["a", ""]})).await.status, 400);
    assert_eq!(ask(&script, "/api/embeddings", json!({"model": "demo", "prompt": "a"})).await.json()["embedding"], json!([1.0, 0.5, 0.0]));
}

fn part(text: &str) -> onebit_engine::PromptPart {
    onebit_engine::PromptPart { text: text.to_owned(), control: false }
}

#[tokio::test]
async fn models_are_listed_shown_and_seen_running() {
    let server = serve(&Script::new(greeting)).await;
    assert_eq!(get(server.port(), "/").await.text(), "Ollama is running");
    let version = get(server.port(), "/api/version").await.json();
    assert_eq!(version, json!({"version": "0.9.0", "onebit_host": env!("CARGO_PKG_VERSION")}));
    let tags = get(server.port(), "/api/tags").await.json();
    let model = &tags["models"][0];
    assert_eq!((&model["name"], &model["size"], &model["digest"]), (&json!("org/demo:1b"), &json!(98_362_432), &json!("ab".repeat(32))));
    assert_eq!((&model["details"]["family"], &model["details"]["parameter_size"]), (&json!("llama"), &json!("134.5M")));
    assert_eq!(model["modified_at"], "2023-11-14T22:13:20Z");
    let ps = get(server.port(), "/api/ps").await.json();
    assert_eq!(
        (&ps["models"][0]["model"], &ps["models"][0]["size"], &ps["models"][0]["size_vram"]),
        (&json!("org/demo:1b"), &json!(900), &json!(0))
    );
    assert!(ps["models"][0]["expires_at"].as_str().unwrap() > "2100");
    for name in ["demo", "demo:latest", "org/demo:1b"] {
        let show = post(server.port(), "/api/show", &json!({"model": name})).await.json();
        assert_eq!((&show["capabilities"], &show["model_info"]["llama.context_length"]), (&json!(["completion", "tools"]), &json!(8192)));
    }
    let missing = post(server.port(), "/api/show", &json!({"model": "nobody"})).await;
    assert_eq!(missing.status, 404);
    assert!(missing.json()["error"].as_str().unwrap().contains("nobody"));
}

#[tokio::test]
async fn errors_are_a_sentence_and_a_status() {
    let script = Script::new(greeting);
    for (path, body) in [
        ("/api/chat", json!({"messages": []})),
        ("/api/chat", chat(json!({"messages": [{"role": "robot", "content": "x"}]}))),
        ("/api/chat", chat(json!({"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}))),
        ("/api/chat", chat(json!({"keep_alive": ""}))),
        ("/api/chat", chat(json!({"keep_alive": []}))),
        ("/api/chat", chat(json!({"options": {"temperature": "hot"}}))),
        ("/api/chat", chat(json!({"options": []}))),
        ("/api/chat", chat(json!({"format": "xml"}))),
        ("/api/chat", chat(json!({"think": "much"}))),
        ("/api/chat", chat(json!({"tools": [{"function": {}}]}))),
        ("/api/generate", json!({"model": "demo", "prompt": "x", "context": [1]})),
        ("/api/generate", json!({"model": "demo", "prompt": "x", "template": "y"})),
        ("/api/generate", json!({"model": "demo", "prompt": "x", "suffix": "y"})),
        ("/api/embed", json!({"model": "demo"})),
        ("/api/embed", json!({"model": "demo", "input": [[1]]})),
        ("/api/embed", json!({"model": "demo", "input": "x", "dimensions": 7})),
        ("/api/show", json!({})),
    ] {
        let answer = ask(&script, path, body.clone()).await;
        assert_eq!(answer.status, 400, "{path} {body}: {}", answer.text());
        assert!(answer.json()["error"].is_string(), "{}", answer.text());
    }
    assert_eq!(ask(&script, "/api/chat", json!({"model": "nobody", "messages": [{"role": "user", "content": "x"}]})).await.status, 404);
}

#[tokio::test]
async fn a_stream_that_breaks_ends_with_an_error_line() {
    let script = Script::new(|_| {
        vec![
            Step::Event(Event::Started { prompt_tokens: 5, cached_tokens: 0 }),
            Step::Event(Event::Delta { text: "Hal".into(), tokens: vec![] }),
            Step::Error(onebit_http::errors::ApiError::new(onebit_http::errors::Kind::WorkerFailed, "it died")),
        ]
    });
    let lines = lines(&ask(&script, "/api/chat", chat(json!({}))).await);
    assert_eq!(lines.last().unwrap(), &json!({"error": "it died"}));
    assert!(lines.iter().all(|line| line["done"] != true));
}
