//! `/v1/rerank`, on a small model of BERT's family with random weights and known scores.

#[path = "../../plugins/vulkan-ggml/tests/support/bert.rs"]
#[allow(dead_code, reason = "the plugin's own tests use the rest")]
mod bert;

use bert::{Bert, Family, MEAN, RANK};
use onebit_tests::MODEL;
use onebit_tests::client::Client;
use onebit_tests::server::Home;
use serde_json::{Value, json};

const DOCUMENTS: [&str; 4] = ["the panda eats bamboo", "a car is on wheels", "the moon is far far away", "cat"];

fn tokens(client: &Client, text: &str) -> Vec<u32> {
    let answer = client.post("/tokenize", &json!({"model": "ranker", "content": text, "add_special": false})).good();
    answer["tokens"].as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as u32).collect()
}

#[test]
fn documents_are_ranked_as_the_model_ranks_them() {
    let home = Home::with_model();
    let bert = Bert::new(Family::Bert, RANK, false);
    std::fs::write(home.models().join("ranker.gguf"), bert.gguf()).unwrap();
    let server = home.serve();
    let client = server.client();
    let body = json!({"model": "ranker", "query": "what eats bamboo", "documents": DOCUMENTS});
    let answer = client.post("/v1/rerank", &body).good();
    let query = tokens(&client, "what eats bamboo");
    let mut expected: Vec<(usize, f64)> =
        DOCUMENTS.iter().enumerate().map(|(index, document)| (index, bert.score(&query, &tokens(&client, document)))).collect();
    expected.sort_by(|left, right| right.1.total_cmp(&left.1));
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    for (result, (index, score)) in results.iter().zip(&expected) {
        assert_eq!(result["index"], json!(index), "{answer} where {expected:?} is right");
        assert!((result["relevance_score"].as_f64().unwrap() - score).abs() < 0.01, "{answer} where {expected:?} is right");
    }
    let counted: usize = DOCUMENTS.iter().map(|document| query.len() + tokens(&client, document).len() + 3).sum();
    assert_eq!(answer["usage"]["prompt_tokens"], json!(counted));

    let long = json!({"model": "ranker", "query": "cat", "documents": ["cat", "cat ".repeat(100)]});
    let refused = client.post("/v1/rerank", &long);
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("documents")), "{}", refused.text);
    assert!(refused.text.contains("document 1") && refused.text.contains("101") && refused.text.contains("61"), "{}", refused.text);
    let mut cut = long.clone();
    cut["truncate"] = json!(true);
    assert_eq!(client.post("/v1/rerank", &cut).good()["usage"]["prompt_tokens"], json!(2 + 3 + 61 + 3));
}

#[test]
fn who_ranks_does_nothing_else_and_who_does_not_says_so() {
    let home = Home::with_model();
    std::fs::write(home.models().join("ranker.gguf"), Bert::new(Family::XlmRoberta, RANK, false).gguf()).unwrap();
    std::fs::write(home.models().join("embedder.gguf"), Bert::new(Family::Bert, MEAN, false).gguf()).unwrap();
    let server = home.serve();
    let client = server.client();
    let refused = |path: &str, body: Value| {
        let answer = client.post(path, &body);
        assert_eq!(answer.status, 400, "{path}: {}", answer.text);
        answer.error()
    };
    let message = refused("/v1/rerank", json!({"model": MODEL, "query": "a", "documents": ["b"]}));
    assert!(message.contains("does not rank"), "{message}");
    let message = refused("/v1/completions", json!({"model": "ranker", "prompt": "a"}));
    assert!(message.contains("ranks documents"), "{message}");
    let message = refused("/v1/embeddings", json!({"model": "ranker", "input": "a"}));
    assert!(message.contains("does not embed"), "{message}");
    client.post("/v1/rerank", &json!({"model": "ranker", "query": "cat", "documents": ["mat", {"text": "car"}]})).good();
    let capabilities = |model: &str| client.post("/api/show", &json!({"model": model})).good()["capabilities"].clone();
    assert_eq!(
        (capabilities("ranker"), capabilities("embedder"), capabilities(MODEL)),
        (json!([]), json!(["embedding"]), json!(["completion", "tools"]))
    );
    let vectors = client.post("/api/embed", &json!({"model": "embedder", "input": ["cat", "the moon"]})).good();
    assert_eq!(vectors["embeddings"].as_array().unwrap().len(), 2);
}
