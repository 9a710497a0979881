//! `/v1/embeddings`: both encodings, texts and token ids.

use base64::Engine;
use onebit_tests::MODEL;
use onebit_tests::server::Home;
use serde_json::{Value, json};

fn floats(value: &Value) -> Vec<f32> {
    match value {
        Value::String(text) => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
            assert_eq!(bytes.len() % 4, 0);
            bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
        }
        _ => value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect(),
    }
}

#[test]
fn base64_and_float_are_the_same_numbers() {
    let server = Home::with_model().serve();
    let client = server.client();
    let get = |encoding: Option<&str>| {
        let mut body = json!({"model": MODEL, "input": ["north", "south"]});
        if let Some(encoding) = encoding {
            body["encoding_format"] = json!(encoding);
        }
        let answer = client.post("/v1/embeddings", &body).good();
        assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() >= 2);
        let data = answer["data"].as_array().unwrap().clone();
        assert_eq!(data.iter().map(|item| item["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(data[0]["embedding"].is_string(), encoding == Some("base64"));
        data.iter().map(|item| floats(&item["embedding"])).collect::<Vec<_>>()
    };
    let plain = get(None);
    assert_eq!(plain[0].len(), 576);
    assert_ne!(plain[0], plain[1]);
    for other in [get(Some("float")), get(Some("base64"))] {
        for (a, b) in plain.iter().flatten().zip(other.iter().flatten()) {
            assert!((a - b).abs() < 1e-6, "{a} and {b}");
        }
    }
    let length: f32 = plain[0].iter().map(|x| x * x).sum::<f32>().sqrt();
    assert!((length - 1.0).abs() < 1e-3, "length {length}");
}

#[test]
fn token_ids_are_inputs_too_and_bad_ones_are_refused() {
    let server = Home::with_model().serve();
    let client = server.client();
    let count =
        |input: Value| client.post("/v1/embeddings", &json!({"model": MODEL, "input": input})).good()["data"].as_array().unwrap().len();
    assert_eq!(count(json!([[10, 20, 30], [40]])), 2);
    assert_eq!(count(json!([10, 20, 30])), 1);
    assert_eq!(count(json!("one text")), 1);
    for bad in [
        json!({"input": [[99_999_999]]}),
        json!({"input": ""}),
        json!({"input": []}),
        json!({"input": [""]}),
        json!({"input": null}),
        json!({"input": 5}),
        json!({"input": "a", "encoding_format": "int8"}),
        json!({"input": "a", "dimensions": 0}),
        json!({"input": "A".repeat(400_000)}),
    ] {
        let mut body = bad.clone();
        body["model"] = json!(MODEL);
        let answer = client.post("/v1/embeddings", &body);
        assert_eq!(answer.status, 400, "{}: {}", bad.to_string().chars().take(60).collect::<String>(), answer.text);
        answer.error();
    }
}
