//! Honest plugins pass, through every door; without a model only what needs none is tested.

use onebit_faults::Which;
use onebit_kit::State;

use crate::support::Subject;

fn passes(which: Which) {
    let results = Subject::new(which).run(&[]);
    let bad: Vec<_> = results.iter().filter(|result| matches!(result.verdict.state, State::Failed | State::Warned)).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    let passed = results.iter().filter(|result| result.verdict.state == State::Passed).count();
    assert!(passed > results.len() * 3 / 4, "{passed} of {} passed, the others were skipped", results.len());
}

#[test]
fn the_rust_plugin_that_everybody_begins_with_passes_through_both_doors() {
    passes(Which::Ngram);
}

#[test]
fn the_c_plugin_that_everybody_begins_with_passes() {
    passes(Which::NgramC);
}

#[test]
fn the_unlawful_plugin_breaks_no_law_unless_it_is_told_to() {
    passes(Which::Unlawful);
}

#[test]
fn a_slow_model_passes_what_is_cancelled_in_its_middle() {
    let subject = Subject::new(Which::Unlawful).once().option("row_us", "4000").option("open_ms", "800");
    for result in subject.run(&["cancel."]) {
        assert_eq!(result.verdict.state, State::Passed, "{result:#?}");
        assert!(result.verdict.numbers.iter().any(|number| number.limit.is_some()), "a latency was measured: {result:#?}");
    }
}

#[test]
fn without_a_model_what_needs_one_is_skipped_and_says_so() {
    let mut subject = Subject::new(Which::NgramC);
    subject.model = None;
    let results = subject.run(&["probe.", "forward.", "lies."]);
    for result in &results {
        let expected = if result.id.starts_with("forward.") || result.id == "lies.model-calls" { State::Skipped } else { State::Passed };
        assert_eq!(result.verdict.state, expected, "{result:#?}");
        assert!(
            expected == State::Passed || result.verdict.text.contains("--model") || result.verdict.text.contains("offer"),
            "{result:#?}"
        );
    }
}
