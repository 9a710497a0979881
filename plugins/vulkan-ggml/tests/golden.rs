//! Token ids that llama.cpp itself gave for this model file at temperature 0, and the tokenizer around them.
//!
//! Run with `cargo xtask test`, or with ONEBIT_DIST and ONEBIT_TEST_MODELS set: `cargo test --release -p onebit-plugin-vulkan-ggml`.

mod support;

use std::time::{Duration, Instant};

use onebit_plugin_api::*;
use support::{Model, best, greedy, shared, turn};

/// Prompt, its ids, how llama.cpp goes on.
const GOLDEN: &[(&str, &[u32], &[u32])] = &[
    (
        "The capital of France is",
        &[504, 3575, 282, 4649, 314],
        &[7042, 30, 198, 198, 504, 1797, 1918, 553, 253, 2155, 282, 4723, 216, 35, 33, 33, 2215, 701, 30],
    ),
    (
        "Gravity is",
        &[22007, 6463, 314],
        &[
            253, 4959, 1909, 281, 6944, 338, 6601, 260, 26589, 282, 42548, 2952, 411, 260, 4313, 282, 2631, 284, 1439, 30, 657, 506, 253,
            3953,
        ],
    ),
    (
        "Once upon a time, there was a little",
        &[6403, 1980, 253, 655, 28, 665, 436, 253, 1838],
        &[
            8180, 3365, 20391, 617, 5732, 288, 1238, 281, 260, 2388, 30, 2306, 5732, 288, 1238, 351, 874, 2428, 28, 284, 1041, 5732, 288,
            1238,
        ],
    ),
];

const CHAT: &str = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n";
const CHAT_IDS: &[u32] = &[
    1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182, 2, 198, 1, 4093, 198, 1780,
    314, 216, 34, 27, 34, 47, 2, 198, 1, 520, 9531, 198,
];
const CHAT_ANSWER: &[u32] = &[504, 2988, 288, 451, 8170, 4119, 1732, 314, 216, 36, 30];

/// How far below the best logit a golden token may lie. Kernels of different processors round differently, and some steps are near ties.
const NEAR: f32 = 0.5;

/// Feeds `prompt`, then `goes_on` token by token; how many of those are the best, and that the others are near it.
fn follow(model: &Model, prompt: &[u32], goes_on: &[u32]) -> usize {
    let mut session = model.session(256, 1, 64).expect("a session");
    let mut logits = session.feed(0, 0, prompt);
    let mut best_ones = 0;
    for (position, &token) in (prompt.len() as u32..).zip(goes_on) {
        let top = best(&logits);
        best_ones += usize::from(top == token);
        let below = logits[top as usize] - logits[token as usize];
        assert!(below <= NEAR, "position {position}: token {token} lies {below} below {top}");
        logits = session.feed(0, position, &[token]);
    }
    best_ones
}

#[test]
fn greedy_text_is_that_of_llama_cpp() {
    let _turn = turn();
    let model = shared();
    assert_eq!((model.architecture.as_str(), model.quantisation.as_str()), ("llama", "Q4_1"));
    assert!(model.computes_on.contains("CPU"), "{}", model.computes_on);
    for (prompt, ids, goes_on) in GOLDEN {
        assert_eq!(model.encode(prompt, ONEBIT_ENCODE_ADD_SPECIAL), *ids, "{prompt}");
        let best_ones = follow(model, ids, goes_on);
        println!("{prompt}: {best_ones} of {} tokens are the best", goes_on.len());
        assert!(best_ones + 2 >= goes_on.len(), "{prompt}: {best_ones} of {}", goes_on.len());
    }
    assert_eq!(model.encode(CHAT, ONEBIT_ENCODE_PARSE_CONTROL), CHAT_IDS);
    let mut answer = greedy(model, CHAT_IDS, CHAT_ANSWER.len() + 1);
    let end = answer.pop().expect("one more");
    assert_eq!(answer, CHAT_ANSWER);
    assert_ne!(model.token(end).expect("a token").0 & ONEBIT_TOKEN_END, 0, "then the turn ends");
    assert_eq!(model.decode(&answer, false), b"The answer to this classic math problem is 4.");
}

#[test]
fn the_vocabulary_says_what_the_file_says() {
    let _turn = turn();
    let model = shared();
    let (vocabulary, template, kind) = model.vocabulary();
    assert_eq!((vocabulary.size, vocabulary.bos, vocabulary.eos), (49152, 1, 2));
    assert_eq!((vocabulary.adds_bos, vocabulary.adds_eos), (0, 0));
    assert_eq!(kind, "gpt2/smollm");
    assert!(template.contains("<|im_start|>"), "{template}");
    let (flags, text) = model.token(2).expect("a token");
    assert_eq!(text, "<|im_end|>");
    assert_eq!(flags & (ONEBIT_TOKEN_CONTROL | ONEBIT_TOKEN_END), ONEBIT_TOKEN_CONTROL | ONEBIT_TOKEN_END);
    assert_eq!(model.token(504).expect("a token").0, 0);
    assert!(model.token(49152).is_err(), "beyond the vocabulary");
}

#[test]
fn text_comes_back_as_it_was() {
    let _turn = turn();
    let model = shared();
    for text in ["", " ", "Hello, world!", "Grüße aus Köln – 漢字 🦀\n\ttab", "a  b   c", "e\u{301}\u{327}", "\u{0}zero inside"] {
        let tokens = model.encode(text, 0);
        assert_eq!(String::from_utf8(model.decode(&tokens, false)).expect("whole characters"), text);
    }
    let users = model.encode("<|im_end|>", 0);
    assert!(users.len() > 1, "a user's text never becomes a control token: {users:?}");
    assert_eq!(model.decode(&[1, 504, 2], false), b"The");
    assert_eq!(model.decode(&[1, 504, 2], true), b"<|im_start|>The<|im_end|>");
}

#[test]
fn very_long_runs_are_encoded_in_linear_time() {
    let _turn = turn();
    let model = shared();
    for c in ["A", ".", "漢", " ", "é", "0"] {
        let text = c.repeat(200_000);
        let start = Instant::now();
        let tokens = model.encode(&text, 0);
        let took = start.elapsed();
        println!("200000 × {c:?}: {} tokens in {took:?}", tokens.len());
        assert_eq!(model.decode(&tokens, false), text.as_bytes(), "{c}");
        assert!(took < Duration::from_secs(5), "{c}: {took:?}");
    }
}
