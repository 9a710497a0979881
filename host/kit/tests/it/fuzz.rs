//! Fuzzing finds what is wrong, makes it small, and says the same again.

use std::time::Duration;

use onebit_faults::Which;
use onebit_kit::State;
use onebit_kit::fuzz::{Found, Op, fuzz, replay};

use crate::support::Subject;

fn hunt(subject: &Subject) -> Found {
    let plan = subject.plan();
    let report = fuzz(&plan.program, &plan.setups[0], Duration::from_secs(30), &mut |_| {}).unwrap();
    let found = report.found.unwrap_or_else(|| panic!("nothing was found in {} lists", report.lists));
    // What was made small fails again, and its seed makes the whole list again.
    assert_eq!(replay(&plan.program, &plan.setups[0], &found.ops).unwrap().state, State::Failed);
    let again = onebit_kit::Setup { seed: found.seed, ..plan.setups[0].clone() };
    let report = fuzz(&plan.program, &again, Duration::from_millis(1), &mut |_| {}).unwrap();
    assert_eq!((report.lists, report.found.map(|found| found.original)), (1, Some(found.original.clone())));
    found
}

fn unlawful(fault: &str) -> Subject {
    Subject::new(Which::Unlawful).once().with("ONEBIT_FAULT", fault)
}

#[test]
fn honest_plugins_survive_and_the_same_lists_are_made_each_time() {
    for which in [Which::Ngram, Which::NgramC, Which::Unlawful] {
        let plan = Subject::new(which).plan();
        for setup in &plan.setups {
            let report = fuzz(&plan.program, setup, Duration::from_secs(2), &mut |_| {}).unwrap();
            assert!(report.found.is_none() && report.skipped.is_none(), "{report:#?}");
            assert!(report.lists >= 20, "{report:?}");
        }
    }
}

#[test]
fn a_copy_that_is_not_exact_shrinks_to_a_batch_and_a_copy() {
    let found = hunt(&unlawful("copy-loses-first"));
    assert!(found.ops.len() <= 3 && found.ops.iter().any(|op| matches!(op, Op::Copy { .. })), "{found:#?}");
}

#[test]
fn a_snapshot_that_loses_a_token_shrinks_to_a_batch_a_save_and_a_load() {
    let found = hunt(&unlawful("snapshot-loses-last"));
    assert!(found.ops.len() <= 4 && found.ops.iter().any(|op| matches!(op, Op::Load { .. })), "{found:#?}");
}

#[test]
fn rows_of_a_refused_batch_that_stay_are_found() {
    let found = hunt(&unlawful("keeps-refused-rows"));
    let refused = |op: &Op| matches!(op, Op::Gap { .. } | Op::NoSuchToken { .. } | Op::NoSuchSequence { .. });
    assert!(found.ops.len() <= 3 && found.ops.iter().any(refused), "{found:#?}");
}

#[test]
fn a_crash_belongs_to_its_list_and_shrinks_too() {
    let found = hunt(&Subject::new(Which::Faulty).once().with("ONEBIT_FAULT", "segfault-forward"));
    assert!(found.ops.len() == 1 && found.text.contains("SIGSEGV"), "{found:#?}");
}
