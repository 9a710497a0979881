//! Picks the best few of a row, or all above a line, without sorting the row.

use std::cmp::Ordering;

use super::filters::Candidate;
use super::row::block_max;

/// Values looked at together: a block whose best value is too low is skipped as a whole.
const BLOCK: usize = 64;

/// Better first: higher logit, then lower id. A total order, so the result does not depend on how it was reached.
pub(crate) fn better(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
}

/// The `count` best tokens into `out`, best first. Forbidden tokens (minus infinity) are never among them.
pub(crate) fn top(row: &[f32], count: usize, out: &mut Vec<Candidate>) {
    out.clear();
    if count == 0 {
        return;
    }
    let full = count.saturating_mul(2).saturating_add(BLOCK);
    let mut line = f32::NEG_INFINITY;
    for (index, block) in row.chunks(BLOCK).enumerate() {
        if block_max(block).0 <= line {
            continue;
        }
        for (offset, logit) in block.iter().enumerate() {
            // An equal logit further right has a higher id and loses.
            if *logit > line {
                out.push(Candidate { token: (index * BLOCK + offset) as u32, logit: *logit });
            }
        }
        if out.len() >= full {
            out.select_nth_unstable_by(count - 1, better);
            out.truncate(count);
            line = out.last().map_or(line, |worst| worst.logit);
        }
    }
    if out.len() > count {
        out.select_nth_unstable_by(count - 1, better);
        out.truncate(count);
    }
    out.sort_unstable_by(better);
}

/// All tokens with a logit of at least `line` into `out`, in the order of their ids. Forbidden tokens are never among them.
pub(crate) fn at_least(row: &[f32], line: f32, out: &mut Vec<Candidate>) {
    out.clear();
    for (index, block) in row.chunks(BLOCK).enumerate() {
        if block_max(block).0 < line {
            continue;
        }
        for (offset, logit) in block.iter().enumerate() {
            if *logit >= line && *logit > f32::NEG_INFINITY {
                out.push(Candidate { token: (index * BLOCK + offset) as u32, logit: *logit });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(row: &[f32]) -> Vec<Candidate> {
        let mut all: Vec<Candidate> = row
            .iter()
            .enumerate()
            .filter(|(_, logit)| **logit > f32::NEG_INFINITY)
            .map(|(token, logit)| Candidate { token: token as u32, logit: *logit })
            .collect();
        all.sort_by(better);
        all
    }

    proptest! {
        #[test]
        fn the_best_few_are_those_a_full_sort_puts_first(
            row in proptest::collection::vec(prop_oneof![-5i8..5, Just(i8::MIN)], 1..900),
            count in 0usize..70,
        ) {
            let row: Vec<f32> = row.into_iter().map(|x| if x == i8::MIN { f32::NEG_INFINITY } else { f32::from(x) }).collect();
            let mut out = Vec::new();
            top(&row, count, &mut out);
            let mut expected = sorted(&row);
            expected.truncate(count);
            prop_assert_eq!(&out, &expected);

            at_least(&row, 1.0, &mut out);
            out.sort_by(better);
            let expected: Vec<Candidate> = sorted(&row).into_iter().filter(|c| c.logit >= 1.0).collect();
            prop_assert_eq!(out, expected);
        }
    }
}
