//! `/v1/completions`.

use onebit_engine::Prompt;
use serde_json::{Value, json};

use super::client::post;
use super::script::{PIECES, Script, greeting, serve};

const PATH: &str = "/v1/completions";

#[tokio::test]
async fn the_old_shape_whole_and_streamed() {
    let script = Script::new(greeting);
    let server = serve(&script).await;
    let json = post(server.port(), PATH, &json!({"model": "demo", "prompt": "Once"})).await.json();
    assert_eq!(json["object"], "text_completion");
    assert_eq!(json["choices"][0], json!({"text": PIECES.concat(), "index": 0, "logprobs": null, "finish_reason": "stop"}));
    assert_eq!(json["usage"]["total_tokens"], 11);
    assert_eq!(script.asked()[0].max_tokens, Some(16), "OpenAI's default");
    assert_eq!(script.last_parts(), [("Once".to_owned(), true)], "a raw prompt may hold control tokens");
    let answer =
        post(server.port(), PATH, &json!({"model": "demo", "prompt": "Once", "stream": true, "stream_options": {"include_usage": true}}))
            .await;
    let chunks = answer.chunks();
    let text: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["text"].as_str()).collect();
    assert_eq!(text, PIECES.concat());
    assert_eq!(chunks.last().unwrap()["usage"]["completion_tokens"], 4);
    assert!(chunks.iter().all(|chunk| chunk["object"] == "text_completion"));
    assert_eq!(answer.events().last().unwrap(), "[DONE]");
}

#[tokio::test]
async fn every_prompt_of_a_list_gets_its_answers_in_order() {
    let script = Script::new(greeting);
    let server = serve(&script).await;
    let json = post(server.port(), PATH, &json!({"model": "demo", "prompt": [[1], [2]], "n": 2})).await.json();
    assert_eq!(json["choices"].as_array().unwrap().len(), 4);
    assert_eq!(json["usage"]["prompt_tokens"], 14, "each prompt once");
    let prompts: Vec<Prompt> = script.asked().into_iter().map(|request| request.prompt).collect();
    assert_eq!(prompts, [Prompt::Tokens(vec![1]), Prompt::Tokens(vec![1]), Prompt::Tokens(vec![2]), Prompt::Tokens(vec![2])]);
}

#[tokio::test]
async fn old_logprobs_are_four_arrays_of_one_length() {
    let server = serve(&Script::new(greeting)).await;
    let json = post(server.port(), PATH, &json!({"model": "demo", "prompt": "Once", "logprobs": 1})).await.json();
    let logprobs = &json["choices"][0]["logprobs"];
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(logprobs[name].as_array().unwrap().len(), PIECES.len(), "{name}");
    }
    assert_eq!(logprobs["text_offset"], json!([0, 5, 7, 8]));
    let chunks = post(server.port(), PATH, &json!({"model": "demo", "prompt": "Once", "logprobs": 0, "stream": true})).await.chunks();
    let offsets: Vec<Value> =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["logprobs"]["text_offset"].as_array()).flatten().cloned().collect();
    assert_eq!(offsets, [json!(0), json!(5), json!(7), json!(8)]);
}

#[tokio::test]
async fn bad_token_ids_are_400() {
    let server = serve(&Script::new(greeting)).await;
    for prompt in [json!([-1]), json!([99999999]), json!([1.5]), json!([]), json!([[]]), json!([1, "a"])] {
        let answer = post(server.port(), PATH, &json!({"model": "demo", "prompt": prompt})).await;
        assert_eq!(answer.status, 400, "{prompt}");
        answer.code();
    }
}
