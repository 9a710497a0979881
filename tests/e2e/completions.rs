//! Stop strings and whole characters, streamed and not.

use onebit_tests::client::{Client, finish_reason, joined};
use onebit_tests::server::Home;
use serde_json::{Value, json};

use crate::{continuation, with};

/// Text and finish reason, whole and streamed.
fn both(client: &Client, body: &Value) -> [(String, String); 2] {
    let whole = client.post("/v1/completions", body).good();
    let choice = &whole["choices"][0];
    let events = client.stream("/v1/completions", &with(body.clone(), &json!({"stream": true}))).all();
    [
        (choice["text"].as_str().unwrap().to_owned(), choice["finish_reason"].as_str().unwrap().to_owned()),
        (joined(&events), finish_reason(&events).unwrap()),
    ]
}

#[test]
fn any_piece_of_an_answer_stops_it_right_there() {
    let server = Home::with_model().serve();
    let client = server.client();
    let body = continuation("In the harbour there lay", 32);
    let [(full, _), (streamed, _)] = both(&client, &body);
    assert_eq!(full, streamed);
    let characters: Vec<char> = full.chars().collect();
    let mut checks = 0;
    for start in (1..characters.len().saturating_sub(8)).step_by(9) {
        for length in [1, 3, 8] {
            let stop: String = characters[start..start + length].iter().collect();
            let expected = (full[..full.find(&stop).unwrap()].to_owned(), "stop".to_owned());
            for form in [json!([stop]), json!(stop), json!(["\u{2603}nowhere", stop])] {
                for found in both(&client, &with(body.clone(), &json!({"stop": form}))) {
                    assert_eq!(found, expected, "stop {form}");
                    checks += 1;
                }
            }
        }
    }
    assert!(checks >= 18, "the answer was too short to try stops on: {full:?}");
}

#[test]
fn no_chunk_holds_half_a_character() {
    let server = Home::with_model().serve();
    let client = server.client();
    // A row of characters of three and four bytes, which the model likes to go on with.
    for prompt in ["😀😃😄😀😃😄😀😃😄😀😃😄😀😃😄", "漢字漢字漢字漢字漢字漢字漢字漢字漢字", "éàüéàüéàüéàüéàüéàüéàü"]
    {
        for limit in [1, 2, 3, 5, 24] {
            let body = with(continuation(prompt, limit), &json!({"ignore_eos": true}));
            let [(whole, _), (streamed, _)] = both(&client, &body);
            assert_eq!(whole, streamed);
            assert!(!whole.contains('\u{fffd}'), "{prompt}, {limit} tokens: {whole:?}");
        }
        let events = client.stream("/v1/completions", &with(continuation(prompt, 24), &json!({"stream": true, "ignore_eos": true}))).all();
        assert!(!joined(&events).is_ascii(), "the model did not go on with such characters: {:?}", joined(&events));
    }
}

#[test]
fn token_ids_that_are_none_are_refused_and_several_prompts_are_several_answers() {
    let server = Home::with_model().serve();
    let client = server.client();
    for bad in [json!([-1]), json!([99_999_999]), json!([1.5]), json!([]), json!([[]]), json!(["a", 1]), json!({"a": 1})] {
        let answer = client.post("/v1/completions", &continuation(bad.clone(), 1));
        assert_eq!(answer.status, 400, "{bad}: {}", answer.text);
        answer.error();
    }
    for (prompts, count) in [(json!([[504, 3575], [22007, 6463]]), 2), (json!(["a", "b", "c"]), 3)] {
        let answer = client.post("/v1/completions", &continuation(prompts, 1)).good();
        assert_eq!(answer["choices"].as_array().unwrap().len(), count);
    }
}
