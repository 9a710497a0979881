//! The laws of `onebit.forward/1`: positions, copies, cuts, snapshots, batches.
//!
//! Run with `cargo xtask test`, or with ONEBIT_DIST and ONEBIT_TEST_MODELS set: `cargo test --release -p onebit-plugin-vulkan-ggml`.

mod support;

use onebit_plugin_api::*;
use support::{END, Row, best, difference, shared, turn};

const PROMPT: &str = "The quick brown fox jumps over the lazy dog, and then it goes home to sleep until the next morning comes.";

#[test]
fn limits_are_those_of_the_model() {
    let _turn = turn();
    let model = shared();
    let limits = model.limits();
    assert_eq!((limits.vocabulary, limits.embedding, limits.context_trained), (49152, 576, 8192));
    assert_eq!(limits.flags, ONEBIT_STATE_CUT | ONEBIT_STATE_SNAPSHOT | ONEBIT_FORWARD_EMBEDDINGS);
    // 30 layers × 3 heads × (64 + 64) values × 2 bytes.
    assert_eq!((limits.state_per_token, limits.state_per_sequence), (23040, 0));
    let session = model.session(1000, 4, 256).expect("a session");
    assert_eq!(session.context, 1000);
    assert_eq!(session.state_bytes, 23040 * 1024, "llama.cpp rounds up");
    assert!(session.scratch_bytes > 0);
}

#[test]
fn a_cut_is_as_if_nothing_had_been_there() {
    let _turn = turn();
    let model = shared();
    let tokens = model.encode(PROMPT, 0);
    let (head, tail) = tokens.split_at(10);
    let mut session = model.session(512, 2, 256).expect("a session");
    session.feed(0, 0, head);
    let plain = session.feed(0, 10, tail);
    session.remove(0, 0, END).expect("removes");
    session.feed(0, 0, head);
    session.feed(0, 10, &[504, 3575, 282, 4649, 314, 7042, 30]);
    session.remove(0, 10, END).expect("cuts");
    assert_eq!(session.feed(0, 10, tail), plain, "bit for bit");
}

#[test]
fn a_copy_goes_on_like_its_source() {
    let _turn = turn();
    let model = shared();
    let tokens = model.encode(PROMPT, 0);
    let (head, tail) = tokens.split_at(10);
    let mut session = model.session(512, 3, 256).expect("a session");
    session.feed(0, 0, head);
    session.copy(0, 1, 0, END).expect("copies");
    session.copy(0, 2, 0, 5).expect("copies a part");
    let source = session.feed(0, 10, tail);
    let copy = session.feed(1, 10, tail);
    println!("copy against source: {}", difference(&source, &copy));
    assert!(difference(&source, &copy) < 1e-3);
    assert_eq!(best(&source), best(&copy));
    let again = session.feed(2, 5, &tokens[5..]);
    assert!(difference(&source, &again) < 0.5, "{}", difference(&source, &again));
    let refused = session.copy(0, 1, 0, END).expect_err("not empty");
    assert_eq!(refused.code, ONEBIT_INVALID_ARGUMENT);
    // The source may go; the copy stays.
    session.remove(0, 0, END).expect("removes");
    session.feed(1, tokens.len() as u32, &[504]);
}

#[test]
fn a_loaded_snapshot_goes_on_bit_for_bit() {
    let _turn = turn();
    let model = shared();
    let tokens = model.encode(PROMPT, 0);
    let (head, tail) = tokens.split_at(10);
    let mut session = model.session(512, 2, 256).expect("a session");
    session.feed(0, 0, head);
    let saved = session.save(0);
    let plain = session.feed(0, 10, tail);
    println!("a state of 10 positions: {} bytes", saved.len());
    assert!(saved.len() as u64 >= 10 * model.limits().state_per_token);

    session.load(0, &saved).expect("replaces what is there");
    assert_eq!(session.feed(0, 10, tail), plain, "same sequence");
    drop(session);
    let mut other = model.session(512, 2, 256).expect("a session");
    other.load(0, &saved).expect("another session");
    assert_eq!(other.feed(0, 10, tail), plain, "another session");
    other.load(1, &saved).expect("another sequence");
    let elsewhere = other.feed(1, 10, tail);
    println!("in another place of the cache: {}", difference(&elsewhere, &plain));
    assert_eq!(elsewhere, plain, "another sequence, behind other state");
}

#[test]
fn a_damaged_snapshot_changes_nothing() {
    let _turn = turn();
    let model = shared();
    let tokens = model.encode(PROMPT, 0);
    let (head, tail) = tokens.split_at(10);
    let mut session = model.session(512, 1, 256).expect("a session");
    session.feed(0, 0, head);
    let saved = session.save(0);
    for at in [0, 9, 20, 60, saved.len() / 2, saved.len() - 1] {
        let mut damaged = saved.clone();
        damaged[at] ^= 1;
        assert_eq!(session.load(0, &damaged).expect_err("damaged").code, ONEBIT_INVALID_ARGUMENT, "byte {at}");
    }
    assert_eq!(session.load(0, &saved[..saved.len() / 2]).expect_err("cut off").code, ONEBIT_INVALID_ARGUMENT);
    session.feed(0, 10, tail);
}

#[test]
fn the_context_is_exactly_as_large_as_asked_for() {
    let _turn = turn();
    let model = shared();
    let mut session = model.session(100, 2, 100).expect("a session");
    session.feed(0, 0, &[504; 60]);
    session.feed(1, 0, &[504; 40]);
    let overflow = session.forward(&[(504, 60, 0, true)], None).expect_err("full");
    assert_eq!((overflow.code, overflow.have, overflow.need), (ONEBIT_CONTEXT_OVERFLOW, 100, 101));
    session.remove(1, 39, END).expect("makes room");
    session.feed(0, 60, &[504]);
}

#[test]
fn a_gap_a_wrong_sequence_and_a_wrong_token_are_refused() {
    let _turn = turn();
    let model = shared();
    let mut session = model.session(256, 2, 64).expect("a session");
    session.feed(0, 0, &[504, 3575]);
    for row in [(504, 3, 0, true), (504, 1, 0, true), (504, 0, 2, true), (49152, 2, 0, true)] {
        assert_eq!(session.forward(&[row], None).expect_err("refused").code, ONEBIT_INVALID_ARGUMENT, "{row:?}");
    }
    session.feed(0, 2, &[282]);
    for (context, sequences, batch) in [(0, 1, 1), (16, 0, 1), (16, 1, 0), (16, 100_000, 1)] {
        assert!(model.session(context, sequences, batch).is_err(), "{context} {sequences} {batch}");
    }
}

#[test]
fn eight_in_a_batch_say_what_each_says_alone() {
    let _turn = turn();
    let model = shared();
    let prompts = [
        "The capital of France is",
        "Gravity is",
        "Once upon a time, there was a little",
        "Water boils at",
        "My favourite colour is",
        "In the beginning",
        "To be or not to be",
        "1, 2, 3, 4,",
    ];
    let prompts: Vec<Vec<u32>> = prompts.iter().map(|text| model.encode(text, 0)).collect();
    let mut session = model.session(2048, 8, 256).expect("a session");
    let mut rows: Vec<Row> = Vec::new();
    for (sequence, prompt) in (0..).zip(&prompts) {
        rows.extend((0..).zip(prompt).map(|(p, &token)| (token, p, sequence, p as usize + 1 == prompt.len())));
    }
    let together = session.forward(&rows, None).expect("computes");
    let mut worst = 0.0_f32;
    let mut step: Vec<Row> = Vec::new();
    for (sequence, prompt) in (0..).zip(&prompts) {
        let mut alone = model.session(256, 1, 256).expect("a session");
        let alone_logits = alone.feed(0, 0, prompt);
        let logits = &together[sequence as usize];
        worst = worst.max(difference(&alone_logits, logits));
        step.push((best(logits), prompt.len() as u32, sequence, true));
    }
    println!("prompts, together against alone: {worst}");
    assert!(worst < 0.5, "{worst}");
    let together = session.forward(&step, None).expect("computes");
    let mut worst = 0.0_f32;
    for (sequence, prompt) in (0..).zip(&prompts) {
        let mut alone = model.session(256, 1, 256).expect("a session");
        alone.feed(0, 0, prompt);
        let (token, position, _, _) = step[sequence as usize];
        let alone_logits = alone.feed(0, position, &[token]);
        worst = worst.max(difference(&alone_logits, &together[sequence as usize]));
    }
    println!("one token each, together against alone: {worst}");
    assert!(worst < 0.5, "{worst}");
}

#[test]
fn every_row_that_wants_logits_gets_them_in_order() {
    let _turn = turn();
    let model = shared();
    let tokens = model.encode(PROMPT, 0);
    let mut session = model.session(512, 2, 256).expect("a session");
    let rows: Vec<Row> = (0..).zip(&tokens).map(|(p, &token)| (token, p, 0, true)).collect();
    let all = session.forward(&rows, None).expect("computes");
    assert_eq!(all.len(), tokens.len());
    let some: Vec<Row> = (0..).zip(&tokens).map(|(p, &token)| (token, p, 1, p % 3 == 1)).collect();
    let some = session.forward(&some, None).expect("computes");
    for (row, logits) in all.iter().skip(1).step_by(3).zip(&some) {
        assert!(difference(row, logits) < 1e-3);
    }
    let none: Vec<Row> = vec![(504, tokens.len() as u32, 0, false)];
    assert!(session.forward(&none, None).expect("computes").is_empty());
}

/// A half as a float.
fn half(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let size = if exponent == 0 { fraction * 2f32.powi(-24) } else { (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15) };
    if sign == 0 { size } else { -size }
}

#[test]
fn embedding_rows_say_what_their_tokens_say() {
    let _turn = turn();
    let model = shared();
    let file = onebit_weights::Gguf::open(&support::model_path()).expect("the model");
    let table = file.tensor("token_embd.weight").expect("the table");
    assert_eq!((table.kind.name, table.shape[0]), ("Q8_0", 576));
    let bytes = std::fs::read(support::model_path()).expect("the model");
    let prompt = [504_u32, 3575, 282, 4649, 314];
    let row_bytes = 576 / 32 * 34;
    let mut values = Vec::new();
    for token in prompt {
        let row = &bytes[table.offset as usize + token as usize * row_bytes..][..row_bytes];
        for block in row.chunks(34) {
            let scale = half(u16::from_le_bytes([block[0], block[1]]));
            values.extend(block[2..].iter().map(|&q| scale * f32::from(q as i8)));
        }
    }
    let rows: Vec<Row> = (0..).zip(prompt).map(|(p, token)| (token, p, 0, p == 4)).collect();
    let mut session = model.session(256, 1, 16).expect("a session");
    let tokens = session.forward(&rows, None).expect("computes");
    session.remove(0, 0, END).expect("removes");
    let embeddings = session.forward_embeddings(&rows, &values).expect("computes");
    assert!(difference(&tokens[0], &embeddings[0]) < 1e-3, "{}", difference(&tokens[0], &embeddings[0]));
}

#[test]
fn embeddings_of_near_texts_are_near() {
    let _turn = turn();
    let model = shared();
    let texts = ["The cat sleeps on the sofa.", "A cat is sleeping on a couch.", "Quarterly revenue grew by nine percent."];
    let tokens: Vec<Vec<u32>> = texts.iter().map(|text| model.encode(text, 0)).collect();
    let vectors = model.embed(&tokens, true).expect("embeds");
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
    for vector in &vectors {
        assert_eq!(vector.len(), 576);
        assert!((product(vector, vector) - 1.0).abs() < 1e-4);
    }
    let (near, far) = (product(&vectors[0], &vectors[1]), product(&vectors[0], &vectors[2]));
    println!("near {near}, far {far}");
    assert!(near > far);
    let alone = model.embed(&tokens[1..2], true).expect("embeds");
    assert!(difference(&alone[0], &vectors[1]) < 0.01, "{}", difference(&alone[0], &vectors[1]));
    let many: Vec<Vec<u32>> = (0..100).map(|i| tokens[i % 3].clone()).collect();
    assert_eq!(model.embed(&many, false).expect("embeds").len(), 100);
    assert_eq!(model.embed(&[vec![]], true).expect_err("empty").code, ONEBIT_INVALID_ARGUMENT);
    let long = model.embed(&[vec![504; 2049]], true).expect_err("too long");
    assert_eq!((long.code, long.have, long.need), (ONEBIT_CONTEXT_OVERFLOW, 2048, 2049));
}
