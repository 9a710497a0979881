//! llama-server's own routes.

use onebit_http::models::Defaults;
use serde_json::{Value, json};

use super::client::{get, post};
use super::script::{PIECES, Script, facts, greeting, serve};

#[tokio::test]
async fn text_becomes_tokens_and_tokens_text() {
    let server = serve(&Script::new(greeting)).await;
    assert_eq!(post(server.port(), "/tokenize", &json!({"content": "a b c"})).await.json(), json!({"tokens": [0, 1, 2]}));
    let pieces = post(server.port(), "/tokenize", &json!({"content": "a b", "with_pieces": true, "model": "demo"})).await.json();
    assert_eq!(pieces, json!({"tokens": [{"id": 0, "piece": "w0"}, {"id": 1, "piece": "w1"}]}));
    assert_eq!(post(server.port(), "/detokenize", &json!({"tokens": [4, 5]})).await.json(), json!({"content": "w4 w5"}));
    for bad in [json!({}), json!({"tokens": [-1]}), json!({"tokens": ["x"]}), json!({"tokens": [99_999_999]})] {
        assert_eq!(post(server.port(), "/detokenize", &bad).await.status, 400, "{bad}");
    }
    assert_eq!(post(server.port(), "/tokenize", &json!({"model": "demo"})).await.status, 400);
}

#[tokio::test]
async fn a_template_is_applied_without_an_answer() {
    let script = Script::new(greeting);
    let server = serve(&script).await;
    let answer = post(server.port(), "/apply-template", &json!({"messages": [{"role": "user", "content": "Hi"}]})).await.json();
    assert_eq!(answer["prompt"], "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    assert!(script.asked().is_empty());
}

#[tokio::test]
async fn the_middle_is_filled_where_the_model_has_tokens_for_it() {
    let server = serve(&Script::new(greeting)).await;
    let body = json!({"input_prefix": "def f():\n", "input_suffix": "\n    return x", "n_predict": 8});
    assert_eq!(post(server.port(), "/infill", &body).await.status, 400);
    let mut coder = facts();
    coder.control_tokens.extend(["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"].map(str::to_owned));
    let script = Script::with(coder, Defaults::default(), None, greeting);
    let server = serve(&script).await;
    let answer = post(server.port(), "/infill", &body).await.json();
    assert_eq!((&answer["content"], &answer["stop_type"]), (&json!(PIECES.concat()), &json!("eos")));
    let parts: Vec<(String, bool)> = script.last_parts();
    let wanted =
        [("<|fim_prefix|>", true), ("def f():\n", false), ("<|fim_suffix|>", true), ("\n    return x", false), ("<|fim_middle|>", true)];
    assert_eq!(parts, wanted.map(|(text, control)| (text.to_owned(), control)));
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    let chunks: Vec<Value> = post(server.port(), "/infill", &streamed).await.chunks();
    let text: String = chunks.iter().map(|chunk| chunk["content"].as_str().unwrap()).collect();
    assert_eq!((text, &chunks.last().unwrap()["stop"]), (PIECES.concat(), &json!(true)));
    // The same by OpenAI's name.
    let answer = post(server.port(), "/v1/completions", &json!({"model": "demo", "prompt": "a", "suffix": "b"})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn models_are_loaded_and_sent_away() {
    let script = Script::new(greeting);
    let server = serve(&script).await;
    assert_eq!(get(server.port(), "/models").await.json()["data"][0]["status"], json!({"value": "loaded"}));
    assert_eq!(post(server.port(), "/models/load", &json!({"model": "demo"})).await.json(), json!({"success": true}));
    assert_eq!(post(server.port(), "/models/unload", &json!({"model": "demo"})).await.json(), json!({"success": true}));
    assert_eq!(script.unloaded(), ["demo"]);
    assert_eq!(post(server.port(), "/models/load", &json!({"model": "nobody"})).await.status, 404);
}

#[tokio::test]
async fn what_serves_and_how_busy_it_is_can_be_asked() {
    let server = serve(&Script::new(greeting)).await;
    assert_eq!(get(server.port(), "/health").await.json(), json!({"status": "ok"}));
    let props = get(server.port(), "/props").await.json();
    assert_eq!((&props["total_slots"], &props["default_generation_settings"]["n_ctx"]), (&json!(2), &json!(2048)));
    assert!(props["chat_template"].as_str().unwrap().contains("im_start"));
    let slots = get(server.port(), "/slots?model=demo").await.json();
    assert_eq!(slots.as_array().unwrap().len(), 2);
    assert_eq!(get(server.port(), "/slots?model=nobody").await.status, 404);
}
