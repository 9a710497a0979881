//! Calls of functions and reasoning in OpenAI's chat, told by a script.

use onebit_engine::{Constraint, Event, FinishReason, GenerateRequest, TokenOut};
use onebit_http::models::Defaults;
use serde_json::{Value, json};

use super::client::{Answer, post};
use super::script::{Script, Step, facts, finished, greeting, serve};

const PATH: &str = "/v1/chat/completions";

/// Says these texts, one event each.
fn says(texts: &'static [&'static str]) -> impl Fn(&GenerateRequest) -> Vec<Step> + Send + Sync + 'static {
    move |_| {
        let mut steps = vec![Step::Event(Event::Started { prompt_tokens: 5, cached_tokens: 0 })];
        let delta = |text: &&str| Step::Event(Event::Delta { text: (*text).to_owned(), tokens: vec![TokenOut { id: 1, logprob: None }] });
        steps.extend(texts.iter().map(delta));
        steps.push(finished(5, texts.len() as u32, FinishReason::EndOfGeneration));
        steps
    }
}

fn weather() -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    json!([{"type": "function", "function": {"name": "get_weather", "description": "Tells", "parameters": parameters}}])
}

async fn ask(script: &Script, more: Value) -> Answer {
    let mut body = json!({"model": "demo", "messages": [{"role": "user", "content": "Weather?"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let server = serve(script).await;
    post(server.port(), PATH, &body).await
}

const TWO: &[&str] = &[
    "I look. ",
    "<tool_call>\n{\"name\": \"get_weather\", \"arg",
    "uments\": {\"city\": \"Os",
    "lo\"}}\n</tool_call>\n<tool_call>\n",
    "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bergen\"}}\n</tool_call>",
];

#[tokio::test]
async fn two_calls_are_two_calls_whole_and_streamed() {
    let script = Script::new(says(TWO));
    let whole = ask(&script, json!({"tools": weather()})).await.json();
    let choice = &whole["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["message"]["content"]), (&json!("tool_calls"), &json!("I look.")));
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    let arguments: Vec<Value> =
        calls.iter().map(|call| serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap()).collect();
    assert_eq!(arguments, [json!({"city": "Oslo"}), json!({"city": "Bergen"})]);
    assert!(calls.iter().all(|call| call["type"] == "function" && call["function"]["name"] == "get_weather"));
    assert_ne!(calls[0]["id"], calls[1]["id"]);

    let chunks = ask(&script, json!({"tools": weather(), "stream": true})).await.chunks();
    let deltas: Vec<&Value> = chunks.iter().flat_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array()).flatten().collect();
    for (index, city) in [(0, "Oslo"), (1, "Bergen")] {
        let own: Vec<&&Value> = deltas.iter().filter(|delta| delta["index"] == index).collect();
        assert!(own[0]["id"].is_string() && own[0]["type"] == "function" && own[0]["function"]["name"] == "get_weather");
        assert!(own[1..].iter().all(|delta| delta.get("id").is_none() && delta["function"].get("name").is_none()));
        let text: String = own.iter().map(|delta| delta["function"]["arguments"].as_str().unwrap()).collect();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({"city": city}));
    }
    // Arguments go out while they are written, not at the end.
    assert!(deltas.iter().filter(|delta| delta["index"] == 0).count() > 2);
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
}

#[tokio::test]
async fn a_malformed_call_is_text_with_a_mark_and_never_an_error() {
    let script = Script::new(says(&["<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {oops", "}}\n</tool_call>"]));
    let answer = ask(&script, json!({"tools": weather()})).await;
    assert_eq!(answer.status, 200);
    let choice = &answer.json()["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["message"]["tool_call_parse_error"]), (&json!("stop"), &json!(true)));
    assert_eq!(choice["message"]["content"], "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {oops}}\n</tool_call>");
    assert!(choice["message"].get("tool_calls").is_none());
    let chunks = ask(&script, json!({"tools": weather(), "stream": true})).await.chunks();
    assert!(chunks.iter().any(|chunk| chunk["choices"][0]["delta"]["tool_call_parse_error"] == true));
}

#[tokio::test]
async fn without_tools_the_same_text_is_text() {
    let script = Script::new(says(TWO));
    for more in [json!({}), json!({"tools": weather(), "tool_choice": "none"})] {
        let json = ask(&script, more).await.json();
        assert_eq!(
            (&json["choices"][0]["finish_reason"], &json["choices"][0]["message"]["content"]),
            (&json!("stop"), &json!(TWO.concat()))
        );
    }
    assert!(script.asked().iter().all(|request| !request.control_text));
}

#[tokio::test]
async fn a_template_without_tools_gets_them_as_a_system_message() {
    let script = Script::new(greeting);
    ask(&script, json!({"tools": weather()})).await;
    let prompt: String = script.last_parts().into_iter().map(|(text, _)| text).collect();
    assert!(prompt.starts_with("<|im_start|>system\nYou have functions.") && prompt.contains("\"get_weather\""), "{prompt}");
    assert!(script.asked()[0].control_text && script.asked()[0].constraint.is_none());
}

#[tokio::test]
async fn a_demanded_call_is_a_constraint() {
    let script = Script::new(greeting);
    let named = json!({"type": "function", "function": {"name": "get_weather"}});
    for choice in [json!("required"), named] {
        assert_eq!(ask(&script, json!({"tools": weather(), "tool_choice": choice})).await.status, 200);
        let Some(Constraint::Marked { lark, marks, schemas }) = script.asked().pop().unwrap().constraint else { panic!("no constraint") };
        assert!(lark.starts_with("start: calls\n") && marks == ["<tool_call>", "</tool_call>"], "{lark} {marks:?}");
        let mut closed = weather()[0]["function"]["parameters"].clone();
        closed["additionalProperties"] = false.into();
        assert_eq!(serde_json::from_str::<Value>(&schemas[0]).unwrap(), closed);
    }
    let unknown = json!({"type": "function", "function": {"name": "nobody"}});
    let answer = ask(&script, json!({"tools": weather(), "tool_choice": unknown})).await;
    assert_eq!((answer.status, answer.json()["error"]["param"].clone()), (400, json!("tool_choice")));
    assert_eq!(ask(&script, json!({"tool_choice": "required"})).await.status, 400);
}

#[tokio::test]
async fn one_call_at_a_time_ends_with_the_first() {
    let script = Script::new(|_| {
        let text = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}\n".to_owned();
        vec![
            Step::Event(Event::Started { prompt_tokens: 5, cached_tokens: 0 }),
            Step::Event(Event::Delta { text, tokens: vec![] }),
            finished(5, 9, FinishReason::StopString("</tool_call>".into())),
        ]
    });
    let json = ask(&script, json!({"tools": weather(), "parallel_tool_calls": false})).await.json();
    assert_eq!(script.asked()[0].stop, ["</tool_call>"]);
    assert_eq!(
        (&json["choices"][0]["finish_reason"], json["choices"][0]["message"]["tool_calls"].as_array().unwrap().len()),
        (&json!("tool_calls"), 1)
    );
}

#[tokio::test]
async fn formats_are_constraints_and_beside_tools_an_alternative() {
    let script = Script::new(greeting);
    let format = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}});
    ask(&script, json!({"response_format": format})).await;
    assert_eq!(script.asked().pop().unwrap().constraint, Some(Constraint::JsonSchema("{\"type\":\"integer\"}".into())));
    ask(&script, json!({"response_format": format, "tools": weather()})).await;
    let Some(Constraint::Marked { lark, .. }) = script.asked().pop().unwrap().constraint else { panic!("no constraint") };
    assert!(lark.starts_with("start: calls | answer\n"), "{lark}");
}

fn thinker() -> onebit_engine::ModelFacts {
    let mut facts = facts();
    let template = super::script::TEMPLATE.replace("{{ '<|im_start|>assistant\n' }}", "{{ '<|im_start|>assistant\n' }}{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}");
    assert_ne!(template, super::script::TEMPLATE);
    facts.chat_template = Some(template);
    facts
}

#[tokio::test]
async fn reasoning_has_a_field_of_its_own_and_can_be_switched_off_or_bounded() {
    let script = Script::with(thinker(), Defaults::default(), None, says(&["<thi", "nk>\nHm", ", two.\n</think>\n\nTw", "o."]));
    let json = ask(&script, json!({})).await.json();
    let message = &json["choices"][0]["message"];
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("Hm, two."), &json!("Two.")));
    assert!(json["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 0);
    let chunks = ask(&script, json!({"stream": true})).await.chunks();
    let joined = |field: &str| -> String { chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][field].as_str()).collect() };
    assert_eq!((joined("reasoning_content"), joined("content")), ("Hm, two.".into(), "Two.".into()));

    ask(&script, json!({"thinking_budget_tokens": 9})).await;
    let reasoning = script.asked().pop().unwrap().reasoning.unwrap();
    assert_eq!((reasoning.start.as_deref(), reasoning.end.as_str(), reasoning.budget), (Some("<think>"), "</think>", Some(9)));

    ask(&script, json!({"reasoning_effort": "none"})).await;
    let prompt: String = script.last_parts().into_iter().map(|(text, _)| text).collect();
    assert!(prompt.ends_with("<think>\n\n</think>\n\n"), "{prompt}");
    assert!(script.asked().pop().unwrap().reasoning.is_none());
}

#[tokio::test]
async fn a_format_that_the_manifest_misspells_is_named() {
    let defaults = Defaults { tool_format: Some("hermas".into()), ..Defaults::default() };
    let answer = ask(&Script::with(facts(), defaults, None, greeting), json!({})).await;
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("hermas") && answer.text().contains("kimi-k2"), "{}", answer.text());
}

/// Arguments are a mapping to it, in the order in which they were sent.
#[tokio::test]
async fn a_template_of_its_own_that_walks_over_calls_writes_them_itself() {
    let template = "{% for m in messages %}[{{ m.role }}]{% if m.tool_calls %}{% for call in m.tool_calls %}{% for name, value in call.function.arguments|items %}<{{ name }}>{{ value }}{% endfor %}{% endfor %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
    let mut own = facts();
    own.chat_template = Some(template.into());
    let script = Script::with(own, Defaults::default(), None, greeting);
    let call =
        json!({"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": "{\"unit\":\"C\",\"city\":\"Oslo\"}"}});
    let messages = json!([
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "4"}
    ]);
    for more in [json!({}), json!({"tools": weather()})] {
        let mut body = json!({"messages": messages});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(ask(&script, body).await.status, 200);
        let prompt: String = script.last_parts().into_iter().map(|(text, _)| text).collect();
        assert!(prompt.ends_with("[user]Q[assistant]<unit>C<city>Oslo[tool]4"), "{prompt}");
        // Who is offered functions is told how to call them; the template does not say it.
        assert_eq!(prompt.contains("<tool_call>"), more.get("tools").is_some(), "{prompt}");
    }
}
