//! Constraints, reasoning and scored prompts on a real vocabulary.

use super::*;

const PERSON: &str = r#"{"type":"object","properties":{"name":{"type":"string","maxLength":40},"age":{"type":"integer","minimum":0,"maximum":120},
    "languages":{"type":"array","items":{"enum":["French","German","Swahili"]},"minItems":1,"maxItems":3}},
    "required":["name","age","languages"],"additionalProperties":false}"#;

fn under(constraint: Constraint, seed: u64) -> GenerateRequest {
    let sampling = Sampling { temperature: 0.8, seed: Some(seed), ..Sampling::default() };
    GenerateRequest { constraint: Some(constraint), sampling, ..ask("A person as JSON, on one line:\n", 200) }
}

#[test]
fn answers_under_a_schema_are_what_it_says() {
    let ((engine, _), _turn) = engine();
    let schema = Constraint::JsonSchema(PERSON.into());
    let streams: Vec<_> = (0..8).map(|seed| submit(engine, under(schema.clone(), seed)).1).collect();
    for stream in streams {
        let said = hear(&stream);
        assert_eq!(said.finished().reason, FinishReason::EndOfGeneration, "{:?}", said.text);
        let person: serde_json::Value = serde_json::from_str(&said.text).unwrap_or_else(|error| panic!("{error} in {:?}", said.text));
        assert!(person["name"].as_str().is_some_and(|name| name.chars().count() <= 40), "{person}");
        assert!(person["age"].as_u64().is_some_and(|age| age <= 120), "{person}");
        assert!(person["languages"].as_array().is_some_and(|list| (1..=3).contains(&list.len())), "{person}");
    }
}

#[test]
fn a_grammar_names_the_control_tokens_of_the_model() {
    let ((engine, _), _turn) = engine();
    let grammar = Constraint::Lark("start: <|im_start|> \"tool\\n\" /[a-z]{3,8}/ <[1]>".into());
    let said = answer(engine, GenerateRequest { control_text: true, ..under(grammar, 1) });
    assert!(said.text.starts_with("<|im_start|>tool\n") && said.text.ends_with("<|im_start|>"), "{:?}", said.text);
}

#[test]
fn a_spent_budget_ends_the_reasoning_and_the_constraint_begins() {
    let ((engine, _), _turn) = engine();
    let reasoning = Some(Reasoning { start: None, end: "</think>".into(), budget: Some(12) });
    let request = GenerateRequest { reasoning, ..under(Constraint::Regex("(yes|no)\\.".into()), 3) };
    let said = answer(engine, request);
    let (_, verdict) = said.text.split_once("</think>").expect("the end was written");
    assert!(["yes.", "no."].contains(&verdict), "{:?}", said.text);
}

#[test]
fn the_scores_of_a_prompt_are_those_of_an_answer() {
    let ((engine, _), _turn) = engine();
    let alone = answer(engine, golden(0));
    let whole = Prompt::Tokens([GOLDEN[0].1, &alone.ids()].concat());
    let (_, events) = submit(engine, GenerateRequest { prompt_logprobs: Some(5), max_tokens: Some(0), ..GenerateRequest::new(whole) });
    let told = loop {
        match events.recv_timeout(Duration::from_secs(120)).expect("an event within two minutes") {
            Event::Prompt { tokens } => break tokens,
            Event::Failed(error) => panic!("{error}"),
            _ => {}
        }
    };
    assert_eq!(told.len(), GOLDEN[0].1.len() + alone.tokens.len());
    for (scored, made) in told[GOLDEN[0].1.len()..].iter().zip(&alone.tokens) {
        assert_eq!(scored.id, made.id);
        assert!((logprob(scored).logprob - logprob(made).logprob).abs() < ROUNDING, "{scored:?} {made:?}");
    }
}
