//! Draws a token, in proportion to `e^(logit / temperature)`.
//!
//! The generator and the way its bits become a number are written down here and nowhere else, because "the same seed gives the same
//! answer" has to hold from one release to the next: ChaCha with 8 rounds, the seed in the first eight bytes of the key (little endian),
//! 53 bits per draw.

use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;

use super::exp::exp;
use super::filters::Candidate;
use super::row::{block_sum, blocks};
use crate::request::TokenId;

/// The chance of one request.
#[derive(Debug)]
pub(crate) struct Dice(ChaCha8Rng);

impl Dice {
    /// With a seed, or fresh.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&seed.unwrap_or_else(rand::random).to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// At least 0, below 1.
    fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One of the candidates, of which there is at least one.
    pub(crate) fn draw(&mut self, candidates: &[Candidate], temperature: f32) -> TokenId {
        let max = candidates.iter().fold(f32::NEG_INFINITY, |max, c| if c.logit > max { c.logit } else { max });
        let sharpness = sharpness(temperature);
        let weight = |c: &Candidate| f64::from(exp((c.logit - max) * sharpness));
        let mut left = self.uniform() * candidates.iter().map(weight).sum::<f64>();
        let mut chosen = 0;
        for candidate in candidates {
            let weight = weight(candidate);
            if weight > 0.0 {
                chosen = candidate.token;
                if left < weight {
                    break;
                }
                left -= weight;
            }
        }
        chosen
    }

    /// One token of a whole row with the highest logit `max`: the sum of each block first, then only the block the dice fell into.
    pub(crate) fn draw_row(&mut self, row: &[f32], max: f32, temperature: f32, sums: &mut Vec<f64>) -> TokenId {
        let sharpness = sharpness(temperature);
        sums.clear();
        sums.extend(blocks(row).map(|block| f64::from(block_sum(block, max, sharpness))));
        let mut left = self.uniform() * sums.iter().sum::<f64>();
        let mut start = 0;
        let mut chosen = 0;
        let mut found = false;
        for (block, sum) in blocks(row).zip(sums.iter()) {
            // The last block with any weight takes what rounding left over.
            if *sum > 0.0 {
                chosen = start;
                found = left < *sum;
                if found {
                    break;
                }
                left -= *sum;
            }
            start += block.len();
        }
        let block = &row[chosen..];
        let block = &block[..blocks(block).next().map_or(0, <[f32]>::len)];
        let mut token = chosen;
        for (offset, logit) in block.iter().enumerate() {
            let weight = f64::from(exp((*logit - max) * sharpness));
            if weight > 0.0 {
                token = chosen + offset;
                if found && left < weight {
                    break;
                }
                left -= weight;
            }
        }
        token as TokenId
    }
}

/// One over the temperature. Finite, so that the best token keeps the weight 1 at any temperature above 0.
fn sharpness(temperature: f32) -> f32 {
    (1.0 / temperature).min(f32::MAX)
}
