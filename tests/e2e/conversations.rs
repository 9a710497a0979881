//! What becomes of messages: templates, control tokens, prefilled answers, and that conversations do not see each other.

use onebit_tests::MODEL;
use onebit_tests::client::Client;
use onebit_tests::server::Home;
use serde_json::{Value, json};

use crate::{question, with};

fn prompt_tokens(client: &Client, messages: Value) -> u64 {
    let body = json!({"model": MODEL, "temperature": 0, "max_tokens": 1, "messages": messages});
    client.post("/v1/chat/completions", &body).good()["usage"]["prompt_tokens"].as_u64().unwrap()
}

#[test]
fn the_next_turn_computes_only_what_is_new() {
    let server = Home::with_model().serve();
    let client = server.client();
    let first = question(&"Tell me about the river and the boats on it. ".repeat(12), 12);
    let answer = client.post("/v1/chat/completions", &first).good();
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let mut second = first.clone();
    let said = [answer["choices"][0]["message"].clone(), json!({"role": "user", "content": "Shorter."})];
    second["messages"].as_array_mut().unwrap().extend(said);
    let usage = client.post("/v1/chat/completions", &second).good()["usage"].clone();
    let (all, found) = (usage["prompt_tokens"].as_u64().unwrap(), usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap());
    assert!(found + 40 > all && found >= answer["usage"]["prompt_tokens"].as_u64().unwrap(), "{usage}");
}

#[test]
fn markers_that_a_user_types_stay_text() {
    let server = Home::with_model().serve();
    let client = server.client();
    let markers = "<|im_start|><|im_end|>".repeat(5);
    for role in ["user", "system"] {
        let messages = |text: &str| {
            if role == "user" {
                json!([{"role": "user", "content": text}])
            } else {
                json!([{"role": "system", "content": text}, {"role": "user", "content": "Go."}])
            }
        };
        let with_markers = prompt_tokens(&client, messages(&format!("Repeat: {markers}")));
        let without = prompt_tokens(&client, messages("Repeat: "));
        assert!(with_markers - without >= 30, "{role}: ten markers cost {} tokens: they became control tokens", with_markers - without);
    }
    // The raw path is for people who write templates themselves; there a marker is one token.
    let raw = client.post("/v1/completions", &json!({"model": MODEL, "prompt": "<|im_start|>", "max_tokens": 1})).good();
    assert!(raw["usage"]["prompt_tokens"].as_u64().unwrap() >= 1);
}

#[test]
fn an_empty_system_message_is_allowed() {
    let server = Home::with_model().serve();
    prompt_tokens(&server.client(), json!([{"role": "system", "content": ""}, {"role": "user", "content": "Hi"}]));
}

#[test]
fn a_prefilled_answer_is_the_same_as_text_and_as_parts() {
    let server = Home::with_model().serve();
    let client = server.client();
    let ask = |content: Value| {
        let messages = json!([{"role": "user", "content": "What do cats eat?"}, {"role": "assistant", "content": content}]);
        let answer =
            client.post("/v1/chat/completions", &json!({"model": MODEL, "temperature": 0, "max_tokens": 12, "messages": messages})).good();
        (answer["usage"]["prompt_tokens"].clone(), answer["choices"][0]["message"]["content"].clone())
    };
    let text = "Gladly: cats eat";
    assert_eq!(ask(json!(text)), ask(json!([{"type": "text", "text": text}])));
}

/// Answer, best first tokens with their log-probabilities, tokens of the prompt.
type Seen = (String, Vec<(String, f64)>, u64);

fn ask(client: &Client, text: &str) -> Seen {
    let body = with(question(text, 20), &json!({"logprobs": true, "top_logprobs": 5, "seed": 1}));
    let answer = client.post("/v1/chat/completions", &body).good();
    let choice = &answer["choices"][0];
    let top = choice["logprobs"]["content"][0]["top_logprobs"].as_array().unwrap();
    let first = top.iter().map(|entry| (entry["token"].as_str().unwrap().to_owned(), entry["logprob"].as_f64().unwrap())).collect();
    (choice["message"]["content"].as_str().unwrap().to_owned(), first, answer["usage"]["prompt_tokens"].as_u64().unwrap())
}

/// Rounding of another batch is allowed, another conversation is not. The kernels quantise activations, so a prompt that is computed in other
/// pieces moves the log-probability of a token by 0.1 to 0.6; an answer to something else shares hardly any of its best tokens.
fn same(a: &Seen, b: &Seen) -> bool {
    let shared: Vec<(f64, f64)> =
        a.1.iter().filter_map(|(token, x)| b.1.iter().find(|(other, _)| other == token).map(|(_, y)| (*x, *y))).collect();
    a.2 == b.2 && shared.len() >= 3 && shared.iter().all(|(x, y)| (x - y).abs() < 1.0)
}

#[test]
fn an_answer_does_not_depend_on_other_conversations() {
    let server = Home::with_model().serve();
    let client = server.client();
    let filler = "The ferry leaves at nine and comes back at noon. ".repeat(20);
    let long = format!("My word is quandelbrimp. {filler}Repeat my word.");
    let edited = format!("My word is vostrelkin. {filler}Repeat my word.");
    let short = "Name three rivers.";

    let short_first = ask(&client, short);
    let long_first = ask(&client, &long);
    assert!(same(&short_first, &ask(&client, short)), "after a long conversation");
    let other = ask(&client, &edited);
    assert!(!other.0.contains("quandel"), "the edited prompt still sees the old word: {}", other.0);
    assert!(same(&short_first, &ask(&client, short)), "after an edited one");
    assert!(same(&long_first, &ask(&client, &long)), "the long one again");

    std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..8)
            .map(|n| {
                let (text, expected) = match n % 3 {
                    0 => (&long[..], &long_first),
                    1 => (short, &short_first),
                    _ => (&edited[..], &other),
                };
                let client = client.clone();
                scope.spawn(move || (same(&ask(&client, text), expected), n))
            })
            .collect();
        for job in jobs {
            let (same, n) = job.join().unwrap();
            assert!(same, "request {n} of eight at once");
        }
    });
}

#[test]
fn a_very_long_run_of_one_character_costs_seconds_at_most() {
    let server = Home::with_model().serve();
    let client = server.client();
    for character in ["A", ".", "漢", " ", "é", "0"] {
        let since = std::time::Instant::now();
        let answer = client.post("/v1/chat/completions", &question(&character.repeat(200_000), 1));
        assert!(answer.status == 400 || answer.status == 200, "{character:?}: {}", answer.text);
        assert!(since.elapsed().as_secs() < 30, "{character:?} took {:?}", since.elapsed());
        let stop = client.post("/v1/chat/completions", &with(question("Hi", 1), &json!({"stop": character.repeat(50_000)})));
        assert!(stop.status == 400 || stop.status == 200, "{character:?} as a stop string: {}", stop.text);
        client.post("/v1/chat/completions", &question("Hi", 1)).good();
    }
}
