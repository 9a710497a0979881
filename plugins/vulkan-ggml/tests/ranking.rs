//! Models that read whole texts: scores of pairs, and vectors, against the same model computed in double precision.
//!
//! Run with `cargo xtask test`, or with ONEBIT_DIST set: `cargo test --release -p onebit-plugin-vulkan-ggml --test ranking`.

mod support;

use onebit_plugin_api::*;
use support::bert::{Bert, CLS, CONTEXT, Family, MEAN, RANK};
use support::{Failure, Model, TestDevice, plugin, turn};

/// 16-bit floats inside llama.cpp: keys and values, and its table of gelu.
const CLOSE: f64 = 0.01;

fn open(bert: &Bert) -> Result<Model, Failure> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bert.gguf");
    std::fs::write(&path, bert.gguf()).expect("a file");
    // Not mapped: the folder goes away.
    plugin().open(&path, &TestDevice::cpu(), &[("mmap", "false")], None, &mut |_| {})
}

fn texts(model: &Model) -> Vec<Vec<u32>> {
    ["the panda eats bamboo", "a car is on wheels", "the moon is far far away", "cat", ""]
        .iter()
        .map(|text| model.encode(text, 0))
        .collect()
}

#[test]
fn scores_are_those_of_the_model_in_every_family() {
    let _turn = turn();
    for (family, half) in [(Family::XlmRoberta, false), (Family::Bert, false), (Family::Bert, true)] {
        let bert = Bert::new(family, RANK, half);
        let model = open(&bert).expect("opens");
        assert!(!model.offers(ONEBIT_EMBED_1), "what ranks does not embed");
        let documents = texts(&model);
        for query in ["what eats bamboo", "where is the moon", "panda"] {
            let query = model.encode(query, 0);
            let expected: Vec<f64> = documents.iter().map(|document| bert.score(&query, document)).collect();
            let found = model.rerank(&query, &documents).expect("ranks");
            for (found, expected) in found.iter().zip(&expected) {
                assert!((f64::from(*found) - expected).abs() < CLOSE, "{family:?}: {found:?} where {expected:?} are right");
            }
            let spread = expected.iter().fold(0.0_f64, |most, score| most.max((score - expected[0]).abs()));
            assert!(spread > 10.0 * CLOSE, "a model whose scores are all alike proves nothing: {expected:?}");
            for (document, together) in documents.iter().zip(&found) {
                let alone = model.rerank(&query, std::slice::from_ref(document)).expect("ranks")[0];
                assert!((alone - together).abs() < 1e-3, "alone {alone}, in company {together}");
            }
        }
    }
}

#[test]
fn many_documents_and_long_ones_keep_their_order() {
    let _turn = turn();
    let bert = Bert::new(Family::Bert, RANK, false);
    let model = open(&bert).expect("opens");
    let query = model.encode("what is the cat", 0);
    let most = model.rerank_limits();
    assert_eq!((most.max_tokens, most.joints), (CONTEXT as u32 - 3, 3));
    let words: Vec<u32> = model.encode("the cat sat on a mat far away", 0);
    let room = most.max_tokens as usize - query.len();
    let documents: Vec<Vec<u32>> = (0..70).map(|n| words.iter().copied().cycle().skip(n % 8).take(1 + n * 11 % room).collect()).collect();
    let found = model.rerank(&query, &documents).expect("ranks");
    for (document, found) in documents.iter().zip(found) {
        let expected = bert.score(&query, document);
        assert!((f64::from(found) - expected).abs() < CLOSE, "{found} where {expected} is right, {} tokens", document.len());
    }
    let long: Vec<u32> = words.iter().copied().cycle().take(room + 1).collect();
    let refused = model.rerank(&query, &[long]).expect_err("too long");
    assert_eq!(
        (refused.code, refused.have, refused.need),
        (ONEBIT_CONTEXT_OVERFLOW, most.max_tokens.into(), u64::from(most.max_tokens) + 1)
    );
}

#[test]
fn vectors_of_a_text_are_made_with_its_start_and_its_end() {
    let _turn = turn();
    for (family, pooling) in [(Family::Bert, MEAN), (Family::Bert, CLS), (Family::XlmRoberta, MEAN)] {
        let bert = Bert::new(family, pooling, false);
        let model = open(&bert).expect("opens");
        assert!(!model.offers(ONEBIT_RERANK_1), "what embeds does not rank");
        let (vocabulary, _, _) = model.vocabulary();
        let ends = (vocabulary.bos, vocabulary.eos, vocabulary.adds_bos, vocabulary.adds_eos);
        assert_eq!(ends, (1, 2, 1, 1), "{family:?}: whoever embeds must know what belongs around a text");
        for text in ["the panda eats bamboo", "moon"] {
            let plain = model.encode(text, 0);
            let whole = model.encode(text, ONEBIT_ENCODE_ADD_SPECIAL);
            assert_eq!(whole, [&[1], &plain[..], &[2]].concat(), "{family:?}");
            let found = model.embed(&[whole], true).expect("embeds").remove(0);
            for (found, expected) in found.iter().zip(bert.vector(&plain)) {
                assert!((f64::from(*found) - expected).abs() < CLOSE, "{family:?}, pooling {pooling}: {found} where {expected} is right");
            }
        }
    }
}

#[test]
fn models_that_would_be_ranked_wrong_are_refused_with_the_reason() {
    let _turn = turn();
    let good = Bert::new(Family::Bert, RANK, false).gguf();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("odd.gguf");
    // Names of the same length keep the file whole.
    for (what, with, reason) in [("cls.output.weight", "cls.outpat.weight", "cls.output.weight"), ("bert", "burt", "not burt")] {
        std::fs::write(&path, replace(&good, what.as_bytes(), with.as_bytes())).expect("a file");
        let fit = plugin().fit(&path, &TestDevice::cpu(), 64).expect("judged");
        assert!(!fit.usable && fit.reason == ONEBIT_REASON_UNSUPPORTED_MODEL && fit.text.contains(reason), "{}", fit.text);
        let refused = plugin().open(&path, &TestDevice::cpu(), &[], None, &mut |_| {}).err().expect("refused");
        assert!(refused.code == ONEBIT_UNSUPPORTED && refused.message.contains(reason), "{refused:?}");
    }
}

/// With `with`, which is as long, everywhere in the place of `what`.
fn replace(bytes: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for at in 0..=bytes.len() - what.len() {
        if bytes[at..].starts_with(what) {
            bytes[at..at + with.len()].copy_from_slice(with);
        }
    }
    bytes
}
