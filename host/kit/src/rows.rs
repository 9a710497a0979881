//! Sessions and batches in one line, and when two results are the same.

use onebit_loader::{Batch, ForwardLimits, ForwardModel, Input, PluginError, Session, SessionArgs};

use crate::bench::Bench;
use crate::case::{Failing, Outcome, Stop, ensure, fail};

/// Logits of one row.
pub(crate) type Row = Vec<f32>;

/// Sizes of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Positions in all sequences together.
    pub context: u32,
    /// Sequences.
    pub sequences: u32,
    /// Rows of a batch.
    pub batch: u32,
}

impl Shape {
    /// What most cases use: small, and within what any model can do.
    pub fn usual(limits: &ForwardLimits) -> Self {
        let trained = if limits.context_trained == 0 { u32::MAX } else { limits.context_trained };
        let context = 256.min(trained);
        Self { context, sequences: 4.min(limits.max_sequences), batch: 64.min(limits.max_batch).min(context) }
    }

    /// Makes such a session.
    pub fn open(self, forward: &ForwardModel) -> Result<Session, Stop> {
        self.open_unchecked(forward)
            .failed(&format!("opening a session of {} positions, {} sequences, batches of {}", self.context, self.sequences, self.batch))
    }

    /// Makes such a session, or says why not. The host looks at nothing.
    pub fn open_unchecked(self, forward: &ForwardModel) -> Result<Session, PluginError> {
        let Self { context, sequences, batch } = self;
        let args = SessionArgs { context, sequences, batch, threads_decode: None, threads_prefill: None, options: &[] };
        forward.open_session_unchecked(&args)
    }
}

/// One row of a batch: token, position, sequence.
pub(crate) type Cell = (u32, u32, u32);

/// `tokens` from position `start` of `sequence` on.
pub(crate) fn cells(sequence: u32, start: u32, tokens: &[u32]) -> Vec<Cell> {
    tokens.iter().zip(start..).map(|(token, position)| (*token, position, sequence)).collect()
}

/// Computes a batch; the logits of the rows that `wants` names.
pub(crate) fn submit(session: &mut Session, rows: &[Cell], wants: impl Fn(usize) -> bool) -> Result<Vec<Row>, PluginError> {
    let column = |pick: fn(&Cell) -> u32| rows.iter().map(pick).collect::<Vec<_>>();
    let (tokens, positions, sequences) = (column(|row| row.0), column(|row| row.1), column(|row| row.2));
    let wants_logits: Vec<bool> = (0..rows.len()).map(wants).collect();
    let batch =
        Batch { input: Input::Tokens(&tokens), positions: &positions, sequences: &sequences, wants_logits: &wants_logits, cancel: None };
    let logits = session.forward_unchecked(&batch)?;
    Ok((0..logits.rows()).map(|row| logits.row(row).to_vec()).collect())
}

/// Appends tokens in batches of at most `chunk`; the logits of all rows.
pub(crate) fn feed(session: &mut Session, sequence: u32, start: u32, tokens: &[u32], chunk: usize) -> Result<Vec<Row>, Stop> {
    let mut rows = Vec::new();
    for (part, at) in tokens.chunks(chunk.max(1)).zip((start..).step_by(chunk.max(1))) {
        rows.extend(submit(session, &cells(sequence, at, part), |_| true).failed("forward")?);
    }
    Ok(rows)
}

/// Whether two results are the same to the last bit.
pub(crate) fn same_bits(left: &[Row], right: &[Row]) -> bool {
    let bits = |rows: &[Row]| rows.iter().map(|row| row.iter().map(|value| value.to_bits()).collect()).collect::<Vec<Vec<u32>>>();
    bits(left) == bits(right)
}

/// How far two results are apart: of the row that is worst, the relative entropy of the two distributions (Kullback-Leibler, in nats, the larger of
/// both directions). Rounding moves each log-probability a little to either side, which counts squared here and weighs what the model might
/// say; another distribution is whole nats away.
pub(crate) fn difference(left: &[Row], right: &[Row]) -> f64 {
    left.iter().zip(right).map(|(left, right)| row_difference(left, right)).fold(0.0, f64::max)
}

fn row_difference(left: &[f32], right: &[f32]) -> f64 {
    // NaN is never equal to anything.
    if left == right {
        return 0.0;
    }
    let (left, right) = (log_probabilities(left), log_probabilities(right));
    let entropy = |of: &[f64], to: &[f64]| {
        let each = of.iter().zip(to).map(|(a, b)| if a == b { 0.0 } else { a.exp() * (a - b) });
        // What can never be said in one and in the other neither has no weight: 0 · ∞.
        each.zip(of).map(|(term, of)| if *of == f64::NEG_INFINITY { 0.0 } else { term }).sum::<f64>()
    };
    let (there, back) = (entropy(&left, &right), entropy(&right, &left));
    if there.is_nan() || back.is_nan() { f64::INFINITY } else { there.max(back).max(0.0) }
}

fn log_probabilities(row: &[f32]) -> Vec<f64> {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = row.iter().map(|value| f64::from(value - most).exp()).sum();
    row.iter().map(|value| f64::from(value - most) - sum.ln()).collect()
}

impl Bench {
    /// The results must be the same within the tolerance; the difference is kept as a number.
    pub(crate) fn alike(&self, what: &str, left: &[Row], right: &[Row]) -> Outcome {
        self.number(what, difference(left, right), "nats", Some(self.setup.tolerance));
        self.close(what, left, right)
    }

    /// As [`Bench::alike`], without a number.
    pub(crate) fn close(&self, what: &str, left: &[Row], right: &[Row]) -> Outcome {
        ensure!(left.len() == right.len(), "{what}: {} rows against {}", left.len(), right.len());
        let (found, allowed) = (difference(left, right), self.setup.tolerance);
        let row = worst_row(left, right);
        ensure!(
            found <= allowed,
            "{what}: the distributions are {found:.4} nats apart, allowed are {allowed} (row {row} of {})",
            left.len()
        );
        Ok(())
    }

    /// The results must be the same to the last bit.
    pub(crate) fn identical(&self, what: &str, left: &[Row], right: &[Row]) -> Outcome {
        if same_bits(left, right) {
            return Ok(());
        }
        let counts = if left.len() == right.len() { String::new() } else { format!(", {} rows against {}", left.len(), right.len()) };
        fail!("{what}: not the same bits; the distributions are {:.6} nats apart{counts}", difference(left, right))
    }
}

fn worst_row(left: &[Row], right: &[Row]) -> usize {
    let each: Vec<f64> = left.iter().zip(right).map(|(left, right)| row_difference(left, right)).collect();
    (0..each.len()).max_by(|a, b| each[*a].total_cmp(&each[*b])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_differ_by_a_constant_are_the_same_distribution() {
        let left = vec![vec![0.0, 1.0, 2.0]];
        let right = vec![vec![5.0, 6.0, 7.0]];
        assert!(difference(&left, &right) < 1e-6);
        assert!(!same_bits(&left, &right));
    }

    #[test]
    fn rounding_is_little_another_distribution_is_much_and_nan_is_never_the_same() {
        let row: Row = (0..200).map(|index| (index * 7919 % 200) as f32 / 20.0).collect();
        let rounded: Row = row.iter().enumerate().map(|(index, value)| value + [0.1, -0.1][index % 2]).collect();
        let mut another = row.clone();
        another.rotate_left(1);
        let apart = |other: &Row| difference(std::slice::from_ref(&row), std::slice::from_ref(other));
        assert!(apart(&rounded) < 0.02, "{}", apart(&rounded));
        assert!(apart(&another) > 1.0, "{}", apart(&another));
        let mut broken = row.clone();
        broken[199] = f32::NAN;
        assert_eq!(difference(&[broken.clone()], &[broken]), f64::INFINITY);
    }

    #[test]
    fn what_is_said_in_one_and_impossible_in_the_other_is_infinitely_far() {
        let (never, can) = (vec![0.0, f32::NEG_INFINITY, 1.0], vec![0.0, 1.0, 1.0]);
        assert_eq!(difference(std::slice::from_ref(&never), &[can]), f64::INFINITY);
        assert_eq!(difference(std::slice::from_ref(&never), &[vec![0.0, f32::NEG_INFINITY, 1.0]]), 0.0);
        assert!(difference(&[never], &[vec![0.0, f32::NEG_INFINITY, 1.01]]) < 0.01);
    }
}
