//! The laws of reasoning: its budget, and where the constraint begins.

use super::*;

const START: &str = "<t>";
const END: &str = "</t>";

fn thinks(start: bool, budget: Option<u32>) -> Option<Reasoning> {
    Some(Reasoning { start: start.then(|| START.to_owned()), end: END.to_owned(), budget })
}

/// The toy as it is, and what it writes when it is made to like these bytes.
fn leaning(text: &str, strength: f32) -> Vec<(TokenId, f32)> {
    let mut bytes: Vec<u8> = text.bytes().collect();
    bytes.sort_unstable();
    bytes.dedup();
    bytes.into_iter().map(|byte| (u32::from(byte), strength)).collect()
}

#[test]
fn a_budget_that_is_spent_writes_the_end_and_the_answer_goes_on() {
    let toy = toy();
    let free = alone(&toy, ask("think", 40));
    for budget in [0, 1, 7, 30] {
        let said = alone(&toy, GenerateRequest { reasoning: thinks(false, Some(budget)), ..ask("think", 40) });
        let (thought, rest) = said.text.split_once(END).expect("the end was written");
        assert_eq!(thought, &free.text[..budget as usize]);
        // All count, and the sequence went on behind what was written by force.
        assert_eq!((rest.len(), said.finished().usage.completion_tokens), (40 - budget as usize - END.len(), 40));
        let again = alone(&toy, ask(&format!("think{thought}{END}"), 20));
        assert!(again.text.starts_with(&rest[..rest.len().min(20)]) || rest.starts_with(&again.text), "{rest:?} {:?}", again.text);
    }
    let cut = alone(&toy, GenerateRequest { reasoning: thinks(false, Some(5)), ..ask("think", 7) });
    assert_eq!((cut.text.as_str(), &cut.finished().reason), (format!("{}</", &free.text[..5]).as_str(), &FinishReason::Length));
    let unhurt = alone(&toy, GenerateRequest { reasoning: thinks(false, Some(100)), ..ask("think", 40) });
    assert_eq!(unhurt.text, free.text);
    let unlimited = alone(&toy, GenerateRequest { reasoning: thinks(false, None), ..ask("think", 40) });
    assert_eq!(unlimited.text, free.text);
}

#[test]
fn a_budget_counts_only_reasoning() {
    // The answer does not begin with the start: nothing is forced.
    let said = alone(&toy(), GenerateRequest { reasoning: thinks(true, Some(0)), ..ask("think", 30) });
    assert_eq!(said.text, alone(&toy(), ask("think", 30)).text);
    // The control token that begins it is not a token of the reasoning; the one that ends it is written as a token.
    let reasoning = Some(Reasoning { start: Some("<|mark|>".into()), end: "<|mark|>!".into(), budget: Some(3) });
    let sampling = Sampling { logit_bias: vec![(MARK, 22.0)], presence_penalty: 90.0, ..Sampling::default() };
    let said = alone(&toy(), GenerateRequest { reasoning, sampling, control_text: true, ..ask("think", 20) });
    let ids = said.ids();
    assert_eq!((ids[0], ids[4], ids[5]), (MARK, MARK, u32::from(b'!')), "{:?}", said.text);
}

#[test]
fn forced_tokens_have_log_probabilities_of_their_own() {
    let said = alone(&toy(), GenerateRequest { reasoning: thinks(false, Some(2)), logprobs: Some(1), ..ask("think", 10) });
    for token in &said.tokens[2..6] {
        let logprob = token.logprob.as_ref().expect("asked for");
        assert!(logprob.logprob < 0.0 && logprob.top[0].2 > logprob.logprob, "{logprob:?}");
    }
}

#[test]
fn the_constraint_begins_behind_the_end() {
    for (start, budget) in [(false, 0), (false, 9), (false, 60)] {
        for seed in 0..6 {
            let mut request = GenerateRequest { reasoning: thinks(start, Some(budget)), ..under(regex("[xyz]{6}"), seed) };
            request.sampling.logit_bias = leaning("</t> ", 4.0);
            let said = alone(&toy(), request);
            let (thought, rest) = said.text.split_once(END).expect("the end was written");
            assert!(thought.len() < budget as usize + END.len(), "{:?}", said.text);
            assert!(rest.len() == 6 && rest.bytes().all(|byte| (b'x'..=b'z').contains(&byte)) && ended(&said), "{:?}", said.text);
        }
    }
}

#[test]
fn an_answer_may_reason_or_not_and_is_constrained_either_way() {
    // The beginnings overlap: `<` and `<t` may still become either.
    let constraint = || regex("<(t[xy]{4}|list)>");
    let (mut reasoned, mut direct) = (0, 0);
    for seed in 0..60 {
        let mut request = GenerateRequest { reasoning: thinks(true, Some(5)), ..under(constraint(), seed) };
        request.sampling.logit_bias = leaning(" \t\n\x0C\r", -7.0);
        let said = alone(&toy(), request);
        assert!(ended(&said), "{:?}", said.text);
        let answer = match said.text.trim_start().strip_prefix(START) {
            Some(thought) => {
                reasoned += 1;
                thought.split_once(END).expect("the end was written").1
            }
            None => {
                direct += 1;
                said.text.as_str()
            }
        };
        assert!(answer == "<list>" || (answer.len() == 7 && answer.starts_with("<t") && answer.ends_with('>')), "{:?}", said.text);
    }
    assert!(reasoned > 5 && direct > 5, "{reasoned} reasoned and {direct} did not");
}

#[test]
fn a_constrained_answer_cannot_end_while_it_reasons() {
    // This toy's end token is by far the best now and then.
    let toy = Toy::new(1, 400);
    for seed in 0..10 {
        let said = alone(&toy, GenerateRequest { reasoning: thinks(false, Some(80)), ..under(regex("yes|no"), seed) });
        assert!((said.text.ends_with("</t>yes") || said.text.ends_with("</t>no")) && ended(&said), "{:?}", said.text);
    }
    // Without a constraint the model may end whenever it wants.
    let ends = (0..10).any(|n| ended(&alone(&toy, GenerateRequest { reasoning: thinks(false, Some(80)), ..ask(&format!("end {n}"), 70) })));
    assert!(ends);
}

#[test]
fn marks_and_wishes_that_contradict_are_refused_by_name() {
    let param = |request: GenerateRequest| match alone(&toy(), request).end {
        Event::Failed(EngineError::InvalidRequest { param, .. }) => param,
        other => panic!("{other:?}"),
    };
    let reasoning = Some(Reasoning { start: None, end: String::new(), budget: None });
    assert_eq!(param(GenerateRequest { reasoning, ..ask("x", 1) }).as_deref(), Some("reasoning"));
    assert_eq!(param(GenerateRequest { ignore_eos: true, ..under(regex("a"), 1) }).as_deref(), Some("ignore_eos"));
}
