//! `/v1/embeddings`.

use base64::Engine as _;
use onebit_http::models::Defaults;
use serde_json::{Value, json};

use super::client::post;
use super::script::{Script, facts, greeting, serve};

const PATH: &str = "/v1/embeddings";

#[tokio::test]
async fn numbers_and_base64_are_the_same_vectors() {
    let server = serve(&Script::new(greeting)).await;
    let ask = async |format: Value| {
        post(server.port(), PATH, &json!({"model": "demo", "input": ["alpha", "beta"], "encoding_format": format})).await.json()
    };
    let numbers = ask(Value::Null).await;
    assert_eq!(numbers["data"][1], json!({"object": "embedding", "index": 1, "embedding": [1.0, 0.5, 1.0]}));
    assert_eq!(numbers["usage"], json!({"prompt_tokens": 5, "total_tokens": 5}));
    let packed = ask(json!("base64")).await;
    for index in 0..2 {
        let text = packed["data"][index]["embedding"].as_str().unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
        let values: Vec<f32> = bytes.chunks(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect();
        assert_eq!(json!(values), numbers["data"][index]["embedding"]);
    }
}

#[tokio::test]
async fn all_shapes_of_input_and_the_refusals() {
    let server = serve(&Script::new(greeting)).await;
    for (input, vectors) in [(json!("a"), 1), (json!(["a", "b"]), 2), (json!([1, 2, 3]), 1), (json!([[1, 2, 3], [4]]), 2)] {
        let json = post(server.port(), PATH, &json!({"model": "demo", "input": input, "dimensions": 3})).await.json();
        assert_eq!(json["data"].as_array().unwrap().len(), vectors, "{input}");
    }
    for bad in [
        json!({"input": ""}),
        json!({"input": []}),
        json!({"input": ["a", ""]}),
        json!({"input": [[99999999]]}),
        json!({"input": "a", "encoding_format": "int8"}),
        json!({"input": "a", "dimensions": 2}),
        json!({}),
    ] {
        let mut body = bad.clone();
        body["model"] = json!("demo");
        let answer = post(server.port(), PATH, &body).await;
        assert_eq!(answer.status, 400, "{bad}");
        answer.code();
    }
    let mut deaf = facts();
    deaf.embedding = None;
    let server = serve(&Script::with(deaf, Defaults::default(), None, greeting)).await;
    assert_eq!(post(server.port(), PATH, &json!({"model": "demo", "input": "a"})).await.code(), "unsupported_by_model");
}
