//! What the handles add to a plugin: the host's own refusals before a plugin is asked, buffers that grow, lives that hold each other, and one
//! model that is the same in every language. The laws of the contract are tested by `onebit-kit`.

mod common;

use common::{append, assert_same, session, story, subjects, tokens};
use onebit_loader::{CancelFlag, Encode, SessionArgs, Status};

const PROMPT: &str = "The moon is far. A c";

#[test]
fn the_same_prompt_gives_the_same_logits_in_every_language_and_through_every_door() {
    let mut first = None;
    for subject in subjects() {
        let logits = append(&mut subject.session(), 0, 0, &tokens(PROMPT)).expect("logits");
        assert_same(subject.name, first.get_or_insert(logits.clone()), &logits);
    }
}

#[test]
fn a_model_answers_with_the_text_it_was_given() {
    for subject in subjects() {
        let mut session = subject.session();
        let mut answer = tokens("Hello");
        let mut logits = append(&mut session, 0, 0, &answer).expect("prompt").pop().expect("a row");
        loop {
            let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).expect("a token") as u32;
            if best == 256 || answer.len() > 60 {
                break;
            }
            logits = append(&mut session, 0, answer.len() as u32, &[best]).expect("a step").pop().expect("a row");
            answer.push(best);
        }
        let text: String = answer.iter().map(|byte| char::from(*byte as u8)).collect();
        assert_eq!(text, "Hello you.", "{}", subject.name);
    }
}

#[test]
fn what_is_out_of_range_is_refused_before_the_plugin_is_asked() {
    for subject in subjects() {
        let mut session = subject.session();
        for (what, result) in [
            ("an empty batch", append(&mut session, 0, 0, &[])),
            ("a large batch", append(&mut session, 6, 0, &[65; 257])),
            ("a sequence that is not there", append(&mut session, 8, 0, &[65])),
            ("a token that is not there", append(&mut session, 6, 0, &[257])),
        ] {
            assert_eq!(result.expect_err(what).status, Status::INVALID_ARGUMENT, "{}: {what}", subject.name);
        }
        assert_eq!(session.seq_remove(8, 0, 1).expect_err("no sequence").status, Status::INVALID_ARGUMENT, "{}", subject.name);
        assert_eq!(session.seq_remove(0, 2, 1).expect_err("no range").status, Status::INVALID_ARGUMENT, "{}", subject.name);
        let model = subject.model();
        let args = SessionArgs { context: 16, sequences: 65, batch: 1, threads_decode: None, threads_prefill: None, options: &[] };
        let error = model.forward().expect("forward").open_session(&args).err().expect("too many sequences");
        assert_eq!(error.status, Status::INVALID_ARGUMENT, "{}", subject.name);
        let tokenizer = model.tokenizer().expect("tokenizer");
        assert_eq!(tokenizer.token(257).expect_err("no token").status, Status::INVALID_ARGUMENT, "{}", subject.name);
    }
}

#[test]
fn texts_to_embed_are_counted_before_the_plugin_is_asked() {
    for embedder in subjects().iter().filter_map(|subject| subject.model().embedder()) {
        let error = embedder.embed(&[&[65; 513]], true, None).expect_err("too long");
        assert_eq!((error.status, error.have, error.need), (Status::CONTEXT_OVERFLOW, 512, 513));
        assert_eq!(embedder.embed(&[], true, None).expect("nothing"), Vec::<Vec<f32>>::new());
    }
}

#[test]
fn a_first_guess_of_a_buffer_that_is_too_small_is_followed_by_one_that_is_not() {
    for subject in subjects() {
        let tokenizer = subject.model().tokenizer().expect("tokenizer");
        // More text of control tokens than the guess has bytes.
        let many = vec![256; 100];
        assert_eq!(tokenizer.decode(&many, true).expect("bytes"), "<|end|>".repeat(100).as_bytes(), "{}", subject.name);
        let parsed = tokenizer.encode("a<|end|>", Encode { parse_control: true, add_special: false }).expect("tokens");
        assert_eq!(parsed, [97, 256], "{}", subject.name);
    }
}

#[test]
fn a_session_outlives_the_handles_it_came_from_and_moves_between_threads() {
    for subject in subjects() {
        let expected = append(&mut subject.session(), 0, 0, &tokens(PROMPT)).expect("logits");
        let mut session = {
            let model = subject.model();
            let forward = model.forward().expect("forward");
            drop(model);
            session(&forward)
        };
        let moved = std::thread::spawn(move || append(&mut session, 0, 0, &tokens(PROMPT)).expect("logits")).join().expect("a thread");
        assert_same(subject.name, &moved, &expected);
    }
}

#[test]
fn progress_reaches_whoever_listens_and_a_panic_of_the_listener_comes_back_to_its_owner() {
    for subject in subjects() {
        let mut heard = Vec::new();
        subject.open(&story(), &[("open_ms", "50")], &CancelFlag::new(), &mut |fraction| heard.push(fraction)).expect("a model");
        assert!(heard.len() >= 3 && heard.last() == Some(&1.0), "{}: {heard:?}", subject.name);
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = subject.open(&story(), &[("open_ms", "50")], &CancelFlag::new(), &mut |_| panic!("told to"));
        }));
        assert!(panics.is_err(), "{}", subject.name);
    }
}
