//! Which rows the next batch has.
//!
//! First one row for every sequence that has just one to compute: running answers never wait. What is left goes to prompts: all of it
//! when no answer runs, otherwise as much as keeps the step short. Where more prompts wait than answers run, one answer's pause is the
//! start of several others, and large batches are cheaper by the row: the step may be longer in that proportion, up to a limit. It is
//! also longer by a half where nothing is left over then, because a rest costs a step of its own. The oldest prompt gets at least half, so
//! none starves; the rest goes to the shortest first, so a short question does not wait behind a long document.
//!
//! Pure arithmetic: no plugin, no clock.

/// Prompts per running answer that lengthen a step, at most.
const MOST_PER_ANSWER: usize = 8;

/// A sequence that has rows to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Its slot.
    pub(crate) slot: usize,
    /// When it was admitted; lower is older.
    pub(crate) order: u64,
    /// Rows; at least 1.
    pub(crate) rows: usize,
}

/// What a sequence gets of the batch: its next `rows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// Its slot.
    pub(crate) slot: usize,
    /// Rows; at least 1.
    pub(crate) rows: usize,
}

/// Plans a batch of at most `batch` rows, which is at least the number of sequences; about `beside` rows for each prompt that waits for an
/// answer that runs.
pub(crate) fn plan(pending: &[Pending], batch: usize, beside: usize, shares: &mut Vec<Share>) {
    shares.clear();
    shares.extend(pending.iter().filter(|p| p.rows == 1).take(batch).map(|p| Share { slot: p.slot, rows: 1 }));
    let singles = shares.len();
    let mut prompts: Vec<Pending> = pending.iter().filter(|p| p.rows > 1).copied().collect();
    let room = batch - singles;
    let beside = beside.saturating_mul((prompts.len() / singles.max(1)).clamp(1, MOST_PER_ANSWER));
    let beside = beside.saturating_sub(singles);
    let all: usize = prompts.iter().map(|p| p.rows).sum();
    let mut budget = match singles {
        0 => room,
        _ if all <= beside + beside / 2 => all.min(room),
        _ => beside.clamp(room.min(1), room),
    };
    let Some(oldest) = prompts.iter().enumerate().min_by_key(|(_, p)| p.order).map(|(index, _)| index) else {
        return;
    };
    let oldest = prompts.swap_remove(oldest);
    let mut first = oldest.rows.min(budget.div_ceil(2));
    budget -= first;
    prompts.sort_unstable_by_key(|p| (p.rows, p.order));
    let others = shares.len();
    for prompt in prompts {
        let rows = prompt.rows.min(budget);
        if rows > 0 {
            shares.push(Share { slot: prompt.slot, rows });
            budget -= rows;
        }
    }
    first += budget.min(oldest.rows - first);
    if first > 0 {
        shares.insert(others, Share { slot: oldest.slot, rows: first });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn planned(pending: &[Pending], batch: usize, beside: usize) -> Vec<Share> {
        let mut shares = Vec::new();
        plan(pending, batch, beside, &mut shares);
        shares
    }

    fn p(slot: usize, rows: usize) -> Pending {
        Pending { slot, order: slot as u64, rows }
    }

    #[test]
    fn a_prompt_alone_gets_the_whole_batch() {
        assert_eq!(planned(&[p(0, 5000)], 512, 64), [Share { slot: 0, rows: 512 }]);
    }

    #[test]
    fn beside_a_running_answer_a_prompt_gets_a_short_step() {
        assert_eq!(planned(&[p(0, 1), p(1, 5000)], 512, 64), [Share { slot: 0, rows: 1 }, Share { slot: 1, rows: 63 }]);
    }

    #[test]
    fn a_small_rest_is_not_left_for_a_step_of_its_own() {
        let rows = |prompt: usize| planned(&[p(0, 1), p(1, prompt)], 512, 64)[1].rows;
        assert_eq!((rows(63), rows(94), rows(95)), (63, 94, 63));
    }

    #[test]
    fn several_prompts_may_hold_up_one_answer_and_one_prompt_may_not_hold_up_several() {
        let rows = |answers: usize, prompts: usize| {
            let pending: Vec<Pending> = (0..answers + prompts).map(|slot| p(slot, if slot < answers { 1 } else { 900 })).collect();
            planned(&pending, 4096, 64).iter().map(|share| share.rows).sum::<usize>()
        };
        assert_eq!((rows(1, 1), rows(3, 1), rows(2, 3)), (64, 64, 64));
        assert_eq!((rows(1, 3), rows(2, 4)), (192, 128));
        assert_eq!(rows(1, 63), 512);
    }

    #[test]
    fn a_short_question_does_not_wait_behind_a_long_document() {
        let shares = planned(&[p(0, 5000), p(1, 3000), p(2, 20)], 512, 64);
        assert_eq!(shares, [Share { slot: 0, rows: 256 }, Share { slot: 2, rows: 20 }, Share { slot: 1, rows: 236 }]);
    }

    #[test]
    fn what_short_prompts_leave_over_goes_to_the_oldest() {
        let shares = planned(&[p(0, 5000), p(1, 20)], 512, 64);
        assert_eq!(shares, [Share { slot: 0, rows: 492 }, Share { slot: 1, rows: 20 }]);
    }

    proptest! {
        #[test]
        fn every_plan_keeps_the_rules(
            rows in proptest::collection::vec(prop_oneof![Just(1usize), 1usize..2000], 1..9),
            batch in 9usize..600,
            beside in 0usize..700,
        ) {
            let pending: Vec<Pending> = rows.iter().enumerate().map(|(slot, rows)| Pending { slot, order: (slot as u64 * 7) % 9, rows: *rows }).collect();
            let shares = planned(&pending, batch, beside);
            let total: usize = shares.iter().map(|s| s.rows).sum();
            prop_assert!(total <= batch && total > 0);
            let mut slots: Vec<usize> = shares.iter().map(|s| s.slot).collect();
            slots.sort_unstable();
            slots.dedup();
            prop_assert_eq!(slots.len(), shares.len());
            for share in &shares {
                prop_assert!(share.rows >= 1 && share.rows <= rows[share.slot]);
            }
            // Running answers never wait, and the oldest prompt always moves.
            for single in pending.iter().filter(|p| p.rows == 1) {
                let row = Share { slot: single.slot, rows: 1 };
                prop_assert!(shares.contains(&row));
            }
            if let Some(oldest) = pending.iter().filter(|p| p.rows > 1).min_by_key(|p| p.order) {
                prop_assert!(shares.iter().any(|s| s.slot == oldest.slot));
            }
            // No row of the batch is wasted while prompts wait and no answer runs.
            if pending.iter().all(|p| p.rows > 1) {
                prop_assert_eq!(total, batch.min(rows.iter().sum()));
            }
        }
    }
}
