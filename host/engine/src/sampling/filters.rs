//! Narrows the choice: top-k, typical, top-p, min-p, in this order, each on what the one before it left.
//!
//! Without top-k the first filter sees the whole vocabulary. Sorting that costs milliseconds, so each filter looks only at what it can
//! need and proves that it was enough: the mass of what it took is compared with what it had to reach. The result is that of the textbook
//! definition.

use std::cmp::Ordering;

use super::exp::exp;
use super::select::{self, better};
use super::{Sampling, row};
use crate::request::TokenId;

/// A token that may still be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    /// Which.
    pub(crate) token: TokenId,
    /// Its logit.
    pub(crate) logit: f32,
}

/// What is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Every token; the candidates are not filled.
    All,
    /// The candidates; at least one.
    Some,
}

/// Applies the filters of `settings` to a row with the highest logit `max`.
pub(crate) fn narrow(settings: &Sampling, row: &[f32], max: f32, candidates: &mut Vec<Candidate>) -> Kept {
    let mut kept = Kept::All;
    if settings.top_k > 0 && (settings.top_k as usize) < row.len() {
        select::top(row, settings.top_k as usize, candidates);
        kept = Kept::Some;
    }
    if settings.typical_p < 1.0 {
        match kept {
            Kept::All => {
                let sum = row::sum_exp(row, max);
                let mean = row::mean_logit(row, max, sum);
                select::at_least(row, f32::NEG_INFINITY, candidates);
                typical(candidates, max, sum, mean, settings.typical_p);
            }
            Kept::Some => {
                let max = highest(candidates);
                let sum = mass(candidates, max);
                let mean = candidates.iter().map(|c| f64::from(exp(c.logit - max)) * f64::from(c.logit)).sum::<f64>() / sum;
                typical(candidates, max, sum, mean, settings.typical_p);
            }
        }
        kept = Kept::Some;
    }
    if settings.top_p < 1.0 {
        match kept {
            Kept::All => nucleus_of_row(row, max, settings.top_p, candidates),
            Kept::Some => {
                let max = highest(candidates);
                let wanted = f64::from(settings.top_p) * mass(candidates, max);
                keep_mass(candidates, better, max, wanted);
            }
        }
        kept = Kept::Some;
    }
    if settings.min_p > 0.0 {
        match kept {
            Kept::All => select::at_least(row, max + settings.min_p.ln(), candidates),
            Kept::Some => {
                let line = highest(candidates) + settings.min_p.ln();
                candidates.retain(|c| c.logit >= line);
            }
        }
        kept = Kept::Some;
    }
    kept
}

fn highest(candidates: &[Candidate]) -> f32 {
    candidates.iter().fold(f32::NEG_INFINITY, |max, c| if c.logit > max { c.logit } else { max })
}

fn mass(candidates: &[Candidate], max: f32) -> f64 {
    candidates.iter().map(|c| f64::from(exp(c.logit - max))).sum()
}

/// Keeps the first candidates of `order` until their mass reaches `wanted`; at least one. They are left in the order of their ids, so that
/// a draw from them does not depend on how they were found.
///
/// A selection that halves instead of a sort: linear, however flat the distribution is.
fn keep_mass(candidates: &mut Vec<Candidate>, order: impl Fn(&Candidate, &Candidate) -> Ordering + Copy, max: f32, wanted: f64) {
    const SORTED: usize = 64;
    let (mut low, mut high, mut reached) = (0, candidates.len(), 0.0);
    while high - low > SORTED {
        let middle = low + (high - low) / 2;
        candidates[low..high].select_nth_unstable_by(middle - low, order);
        let left = mass(&candidates[low..middle], max);
        if reached + left >= wanted {
            high = middle;
        } else {
            reached += left;
            low = middle;
        }
    }
    candidates[low..high].sort_unstable_by(order);
    let mut count = low;
    while count < high && (count == 0 || reached < wanted) {
        reached += f64::from(exp(candidates[count].logit - max));
        count += 1;
    }
    candidates.truncate(count);
    candidates.sort_unstable_by_key(|candidate| candidate.token);
}

/// Top-p over a whole row: first of the tokens within e⁻⁶ of the best, and only if those are not enough of more.
fn nucleus_of_row(row: &[f32], max: f32, top_p: f32, candidates: &mut Vec<Candidate>) {
    let wanted = f64::from(top_p) * row::sum_exp(row, max);
    for depth in [6.0, 12.0, f32::INFINITY] {
        select::at_least(row, max - depth, candidates);
        if depth == f32::INFINITY || mass(candidates, max) >= wanted {
            break;
        }
    }
    keep_mass(candidates, better, max, wanted);
}

/// Keeps the smallest set of tokens whose surprise is nearest to the expected one, with a mass of at least `typical_p`.
fn typical(candidates: &mut Vec<Candidate>, max: f32, sum: f64, mean: f64, typical_p: f32) {
    let mean = mean as f32;
    // Surprise minus entropy is the distance of the logit from the mean logit: the normaliser falls out.
    let nearer = |a: &Candidate, b: &Candidate| (a.logit - mean).abs().total_cmp(&(b.logit - mean).abs()).then_with(|| better(a, b));
    keep_mass(candidates, nearer, max, f64::from(typical_p) * sum);
}
