//! Passes over a whole row of logits, written so that the compiler makes vector code of them.

use super::BadLogits;
use super::exp::exp;
use crate::request::TokenId;

/// Values per inner loop: enough for several vector registers, small enough that the search in the winning block is nothing.
const LANES: usize = 16;
/// Values per block.
const BLOCK: usize = 64 * LANES;

/// The best token of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Best {
    /// The lowest id of those with the highest logit.
    pub(crate) token: TokenId,
    /// The highest logit.
    pub(crate) logit: f32,
}

/// The highest value of a block, and whether all are below infinity (NaN is not).
#[inline(always)]
pub(crate) fn block_max(block: &[f32]) -> (f32, bool) {
    let mut highest = [f32::NEG_INFINITY; LANES];
    let mut bad = [0u32; LANES];
    let chunks = block.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for lane in 0..LANES {
            let x = chunk[lane];
            highest[lane] = if x > highest[lane] { x } else { highest[lane] };
            // Not `x >= INFINITY`: NaN compares as false with everything.
            bad[lane] |= u32::from(!matches!(x.partial_cmp(&f32::INFINITY), Some(std::cmp::Ordering::Less)));
        }
    }
    let mut max = highest.iter().copied().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a });
    let mut fine = bad.iter().all(|bad| *bad == 0);
    for x in rest {
        max = if *x > max { *x } else { max };
        fine &= *x < f32::INFINITY;
    }
    (max, fine)
}

/// Finds the best token and looks at every value on the way.
pub(crate) fn best(row: &[f32]) -> Result<Best, BadLogits> {
    let mut winner = (f32::NEG_INFINITY, 0usize);
    let mut fine = true;
    for (index, block) in row.chunks(BLOCK).enumerate() {
        let (max, block_fine) = block_max(block);
        fine &= block_fine;
        if max > winner.0 {
            winner = (max, index);
        }
    }
    if !fine {
        return Err(BadLogits::NotFinite);
    }
    let (logit, block) = winner;
    let start = block * BLOCK;
    let position = row.iter().skip(start).position(|x| *x == logit).filter(|_| logit > f32::NEG_INFINITY);
    match position.and_then(|position| TokenId::try_from(start + position).ok()) {
        Some(token) => Ok(Best { token, logit }),
        None => Err(BadLogits::AllForbidden),
    }
}

/// `Σ e^(x − max)`.
pub(crate) fn sum_exp(row: &[f32], max: f32) -> f64 {
    row.chunks(BLOCK).map(|block| f64::from(block_sum(block, max, 1.0))).sum()
}

/// `Σ e^((x − max) · sharpness)` of one block; `sharpness` is one over the temperature, finite.
#[inline(always)]
pub(crate) fn block_sum(block: &[f32], max: f32, sharpness: f32) -> f32 {
    let mut sums = [0.0f32; LANES];
    let chunks = block.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for lane in 0..LANES {
            sums[lane] += exp((chunk[lane] - max) * sharpness);
        }
    }
    let mut sum: f32 = sums.iter().sum();
    for x in rest {
        sum += exp((*x - max) * sharpness);
    }
    sum
}

/// `Σ p · x` with `p` the softmax: what the entropy is made of. `sum` is [`sum_exp`].
pub(crate) fn mean_logit(row: &[f32], max: f32, sum: f64) -> f64 {
    let mut total = 0.0f64;
    for block in row.chunks(BLOCK) {
        let mut part = 0.0f32;
        for x in block {
            let weight = exp(*x - max);
            part += if weight > 0.0 { weight * (*x - max) } else { 0.0 };
        }
        total += f64::from(part);
    }
    f64::from(max) + total / sum
}

/// The row in blocks, as [`block_sum`] sums them.
pub(crate) fn blocks(row: &[f32]) -> std::slice::Chunks<'_, f32> {
    row.chunks(BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_logits_the_lowest_id_is_best() {
        let mut row = vec![0.5f32; 5000];
        row[3210] = 2.0;
        row[4999] = 2.0;
        row[3211] = 2.0;
        assert_eq!(best(&row), Ok(Best { token: 3210, logit: 2.0 }));
    }

    #[test]
    fn a_row_with_nan_or_infinity_is_refused_wherever_it_stands() {
        for position in [0, 15, 16, 1023, 1024, 4990, 4999] {
            for bad in [f32::NAN, f32::INFINITY] {
                let mut row = vec![1.0f32; 5000];
                row[position] = bad;
                assert_eq!(best(&row), Err(BadLogits::NotFinite), "{bad} at {position}");
            }
        }
        assert_eq!(best(&[f32::NEG_INFINITY; 20]), Err(BadLogits::AllForbidden));
        assert_eq!(best(&[]), Err(BadLogits::AllForbidden));
    }

    #[test]
    fn forbidden_tokens_are_no_fault() {
        let mut row = vec![f32::NEG_INFINITY; 3000];
        row[2999] = -7.0;
        assert_eq!(best(&row), Ok(Best { token: 2999, logit: -7.0 }));
        assert!((sum_exp(&row, -7.0) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn the_mean_logit_is_the_weighted_mean() {
        let row = [0.0, 1.0, 2.0, f32::NEG_INFINITY];
        let z: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
        let exact: f64 = row[..3].iter().map(|x| f64::from(*x) * f64::from(*x).exp() / z).sum();
        let sum = sum_exp(&row, 2.0);
        assert!((mean_logit(&row, 2.0, sum) - exact).abs() < 1e-5);
    }
}
