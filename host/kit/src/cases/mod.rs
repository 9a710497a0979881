//! The table of cases, by theme. A new case is a function and a row.

mod behaviour;
mod cancel;
mod embed;
mod entry;
mod files;
mod fit;
mod forward;
mod leaks;
mod lies;
mod open;
mod probe;
mod refusals;
mod rerank;
mod sequences;
mod snapshot;
mod tokenizer;

use crate::case::Case;

#[rustfmt::skip]
static THEMES: &[&[Case]] = &[
    entry::CASES, probe::CASES, fit::CASES, open::CASES, forward::CASES, refusals::CASES, sequences::CASES, snapshot::CASES,
    tokenizer::CASES, embed::CASES, rerank::CASES, cancel::CASES, leaks::CASES, lies::CASES, behaviour::CASES,
];

/// All cases, in the order in which a failure says most about those behind it.
pub fn all() -> impl Iterator<Item = &'static Case> {
    THEMES.iter().copied().flatten()
}

/// The case of this id.
pub fn find(id: &str) -> Option<&'static Case> {
    all().find(|case| case.id == id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_has_an_id_of_its_own_and_a_law_in_one_sentence() {
        let ids: BTreeSet<&str> = all().map(|case| case.id).collect();
        assert_eq!(ids.len(), all().count());
        for case in all() {
            let (theme, name) = case.id.split_once('.').unwrap_or_default();
            let word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            assert!(word(theme) && word(name), "{}", case.id);
            assert!(!case.law.ends_with('.') && !case.law.contains('\n') && case.law.len() < 140, "{}: {}", case.id, case.law);
        }
    }
}
