//! A query and documents to scores.

use onebit_loader::{Reranker, Status};

use super::embed::{furthest, slices, texts, too_long};
use super::open::typed;
use crate::bench::Bench;
use crate::case::{Case, Failing, Need, Outcome, Stop, ensure, fail};

#[rustfmt::skip]
pub(super) static CASES: &[Case] = &[
    Case::new("rerank.scores", "Scores lie between 0 and 1 and are the same bits each time", &[Need::Rerank], scores),
    Case::new("rerank.alone", "A document's score does not depend on the documents beside it", &[Need::Rerank], alone),
    Case::new("rerank.refused", "A pair that is too long is refused with both numbers, a token that does not exist as invalid", &[Need::Rerank], refused),
];

/// How far a score may be off beside other documents: the order of additions changes.
const CLOSE: f64 = 1e-2;

/// A model, and what it is asked: each text has at most a third of the tokens that it reads.
struct Question {
    reranker: Reranker,
    query: Vec<u32>,
    documents: Vec<Vec<u32>>,
}

fn question(bench: &Bench) -> Result<Question, Stop> {
    let reranker = bench.model()?.reranker().ok_or_else(|| Stop::Skipped("this model has no onebit.rerank/1".into()))?;
    let most = (reranker.limits().max_tokens as usize / 3).max(1);
    let mut documents = texts(bench, most)?;
    let query = documents.swap_remove(0);
    documents.push(query.clone());
    Ok(Question { reranker, query, documents })
}

fn scores(bench: &Bench) -> Outcome {
    let Question { reranker, query, documents } = question(bench)?;
    bench.step("ranking");
    let first = reranker.rerank(&query, &slices(&documents), None).failed("rerank")?;
    let again = reranker.rerank(&query, &slices(&documents), None).failed("rerank")?;
    let bits = |scores: &[f32]| scores.iter().map(|score| score.to_bits()).collect::<Vec<_>>();
    ensure!(bits(&first) == bits(&again), "the same documents once more have scores that differ by {:e}", furthest(&first, &again));
    if first.windows(2).all(|pair| pair[0] == pair[1]) {
        bench.remark(format!("all documents have the score {}", first[0]));
    }
    Ok(())
}

fn alone(bench: &Bench) -> Outcome {
    let Question { reranker, query, documents } = question(bench)?;
    bench.step("ranking documents together");
    let together = reranker.rerank(&query, &slices(&documents), None).failed("rerank")?;
    let mut worst = 0.0_f64;
    for (document, score) in documents.iter().zip(&together) {
        bench.step("ranking a document alone");
        let alone = reranker.rerank(&query, &[document.as_slice()], None).failed("rerank")?;
        worst = worst.max(furthest(&alone, &[*score]));
    }
    bench.step("ranking documents in another order");
    let turned: Vec<&[u32]> = documents.iter().rev().map(Vec::as_slice).collect();
    let mut turned = reranker.rerank(&query, &turned, None).failed("rerank")?;
    turned.reverse();
    worst = worst.max(furthest(&turned, &together));
    bench.number("difference of a score", worst, "", Some(CLOSE));
    ensure!(worst <= CLOSE, "a document's score changes by {worst} with the documents beside it");
    Ok(())
}

fn refused(bench: &Bench) -> Outcome {
    let Question { reranker, query, documents } = question(bench)?;
    let most = reranker.limits().max_tokens;
    if most < 1 << 20 {
        bench.step("ranking a pair that is one token too long");
        let long: Vec<u32> = query.iter().copied().cycle().take(most as usize + 1 - query.len()).collect();
        match reranker.rerank_unchecked(&query, &long, None) {
            Ok(_) => fail!("a pair of {} tokens was ranked; the limit is {most}", most + 1),
            Err(error) => too_long("a pair", &error, most)?,
        }
    }
    for id in [u32::MAX, i32::MAX as u32] {
        for (query, document) in [(&[id][..], &documents[0][..]), (&query[..], &[id][..])] {
            bench.step(&format!("ranking with token {id}"));
            match reranker.rerank_unchecked(query, document, None) {
                Ok(_) => fail!("token {id} was ranked"),
                Err(error) => typed(&format!("token {id}"), &error, &[Status::INVALID_ARGUMENT])?,
            }
        }
    }
    bench.step("ranking after the refusals");
    reranker.rerank(&query, &slices(&documents), None).failed("rerank after the refusals")?;
    Ok(())
}
