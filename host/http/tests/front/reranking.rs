//! `/v1/rerank`.

use onebit_engine::RerankRequest;
use onebit_http::models::Defaults;
use serde_json::{Value, json};

use super::client::post;
use super::keys::{KeyFile, as_key};
use super::script::{Script, facts, greeting, serve, serve_with};

const PATH: &str = "/v1/rerank";

fn body() -> Value {
    json!({"model": "demo", "query": "q", "documents": ["one", "one two three", {"text": "one two"}, "uno dos tres"]})
}

#[tokio::test]
async fn the_best_come_first_and_the_equally_good_stay_in_order() {
    let script = Script::new(greeting);
    let server = serve(&script).await;
    let answer = post(server.port(), PATH, &body()).await.json();
    assert_eq!(
        answer,
        json!({
            "object": "list", "model": "org/demo:1b", "usage": {"prompt_tokens": 9, "total_tokens": 9},
            "results": [
                {"index": 1, "relevance_score": 0.375}, {"index": 3, "relevance_score": 0.375},
                {"index": 2, "relevance_score": 0.25}, {"index": 0, "relevance_score": 0.125},
            ]
        })
    );
    let documents = ["one", "one two three", "one two", "uno dos tres"].map(str::to_owned).to_vec();
    assert_eq!(script.ranked(), [RerankRequest { query: "q".into(), documents, truncate: false }]);
    let mut asked = body();
    asked["top_n"] = json!(2);
    asked["return_documents"] = json!(true);
    asked["truncate"] = json!(true);
    let answer = post(server.port(), "/rerank", &asked).await.json();
    assert_eq!(
        answer["results"],
        json!([
            {"index": 1, "relevance_score": 0.375, "document": {"text": "one two three"}},
            {"index": 3, "relevance_score": 0.375, "document": {"text": "uno dos tres"}},
        ])
    );
    assert!(script.ranked()[1].truncate);
}

#[tokio::test]
async fn what_cannot_be_ranked_is_refused_by_name() {
    let server = serve(&Script::new(greeting)).await;
    let many: Vec<&str> = vec!["x"; 2049];
    for (field, value) in [
        ("query", json!("")),
        ("query", json!(3)),
        ("query", json!(null)),
        ("documents", json!([])),
        ("documents", json!("x")),
        ("documents", json!(null)),
        ("documents", json!(many)),
        ("documents[1]", json!(["x", 3])),
        ("documents[0]", json!([["x"]])),
        ("documents[0].text", json!([{}])),
        ("documents[0].text", json!([{"text": 3}])),
        ("top_n", json!(0)),
        ("top_n", json!(1.5)),
        ("return_documents", json!("yes")),
        ("truncate", json!(1)),
    ] {
        let mut asked = body();
        asked[field.split(['[', '.']).next().unwrap()] = value.clone();
        let answer = post(server.port(), PATH, &asked).await;
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!(field)), "{value}: {}", answer.text());
    }
    let mut deaf = facts();
    deaf.ranks = false;
    let server = serve(&Script::with(deaf, Defaults::default(), None, greeting)).await;
    assert_eq!(post(server.port(), PATH, &body()).await.code(), "unsupported_by_model");
}

#[tokio::test]
async fn a_ranking_is_charged() {
    let file = KeyFile::new(&[("thrifty", "inference", "tokens_per_minute = 5")]);
    let server = serve_with(&Script::new(greeting), file.config()).await;
    let body = body().to_string();
    assert_eq!(as_key(&server, "thrifty", "POST", PATH, body.as_bytes()).await.status, 200);
    assert_eq!(as_key(&server, "thrifty", "POST", PATH, body.as_bytes()).await.status, 429);
}
