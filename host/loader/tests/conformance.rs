//! The laws of the contract, for every honest plugin through every door: one suite, three subjects.

mod common;

use std::time::{Duration, Instant};

use common::{append, assert_same, cpu, plugins, session, story, subjects, tokens};
use onebit_loader::{Batch, CancelFlag, Encode, FitRequest, Input, Reason, SessionArgs, Status};

const PROMPT: &str = "The moon is far. A c";

#[test]
fn the_same_prompt_gives_the_same_logits_every_time_and_in_every_language() {
    let mut first = None;
    for subject in subjects() {
        let once = append(&mut subject.session(), 0, 0, &tokens(PROMPT)).expect("logits");
        let again = append(&mut subject.session(), 3, 0, &tokens(PROMPT)).expect("logits");
        assert_same(subject.name, &once, &again);
        assert_same(subject.name, first.get_or_insert(once), &again);
    }
}

#[test]
fn a_sequence_computes_in_a_batch_with_others_what_it_computes_alone() {
    for subject in subjects() {
        let texts = ["The sea", "A cat sat", "What is"];
        let mut alone = Vec::new();
        for text in texts {
            alone.push(append(&mut subject.session(), 0, 0, &tokens(text)).expect("logits"));
        }
        // Rows of the three texts take turns.
        let mut rows: Vec<(u32, u32, u32)> = Vec::new();
        for position in 0..texts.iter().map(|text| text.len()).max().expect("texts") {
            for (sequence, text) in texts.iter().enumerate() {
                rows.extend(text.as_bytes().get(position).map(|byte| (u32::from(*byte), position as u32, sequence as u32)));
            }
        }
        let column = |pick: fn(&(u32, u32, u32)) -> u32| rows.iter().map(pick).collect::<Vec<_>>();
        let (ids, positions, sequences) = (column(|row| row.0), column(|row| row.1), column(|row| row.2));
        let wants = vec![true; rows.len()];
        let batch = Batch { input: Input::Tokens(&ids), positions: &positions, sequences: &sequences, wants_logits: &wants, cancel: None };
        let mut session = subject.session();
        let logits = session.forward(&batch).expect("logits");
        for (sequence, alone) in alone.iter().enumerate() {
            let together: Vec<Vec<f32>> =
                rows.iter().enumerate().filter(|(_, row)| row.2 == sequence as u32).map(|(index, _)| logits.row(index).to_vec()).collect();
            assert_same(subject.name, &together, alone);
        }
    }
}

#[test]
fn a_prompt_in_chunks_equals_a_prompt_at_once_and_only_wanted_rows_come_back() {
    for subject in subjects() {
        let whole = append(&mut subject.session(), 0, 0, &tokens(PROMPT)).expect("logits");
        let mut session = subject.session();
        let ids = tokens(PROMPT);
        append(&mut session, 0, 0, &ids[..7]).expect("first chunk");
        let positions: Vec<u32> = (7..ids.len() as u32).collect();
        let mut wants = vec![false; positions.len()];
        *wants.last_mut().expect("rows") = true;
        let sequences = vec![0; positions.len()];
        let batch =
            Batch { input: Input::Tokens(&ids[7..]), positions: &positions, sequences: &sequences, wants_logits: &wants, cancel: None };
        let logits = session.forward(&batch).expect("second chunk");
        assert_eq!(logits.rows(), 1, "{}", subject.name);
        assert_same(subject.name, &[logits.row(0).to_vec()], &whole[whole.len() - 1..]);
        // A batch that wants nothing is allowed: a chunk in the middle of a prompt.
        let none = Batch { input: Input::Tokens(&[65]), positions: &[20], sequences: &[0], wants_logits: &[false], cancel: None };
        assert_eq!(session.forward(&none).expect("nothing wanted").rows(), 0);
    }
}

#[test]
fn a_copy_goes_on_like_its_source_and_the_source_does_not_notice() {
    for subject in subjects() {
        let mut session = subject.session();
        append(&mut session, 0, 0, &tokens(PROMPT)).expect("prompt");
        session.seq_copy(0, 5, 0, u32::MAX).expect("copy");
        let end = PROMPT.len() as u32;
        let copied = append(&mut session, 5, end, &tokens("at")).expect("copy goes on");
        let source = append(&mut session, 0, end, &tokens("at")).expect("source goes on");
        assert_same(subject.name, &copied, &source);
        // Part of it: as if only the part had been computed.
        session.seq_copy(0, 6, 0, 8).expect("partial copy");
        let part = append(&mut session, 6, 8, &tokens(" is")).expect("part goes on");
        let fresh = append(&mut subject.session(), 0, 0, &tokens(&format!("{} is", &PROMPT[..8]))).expect("fresh");
        assert_same(subject.name, &part, &fresh[8..]);
        assert_eq!(session.seq_copy(0, 6, 0, 8).expect_err("not empty").status, Status::INVALID_ARGUMENT, "{}", subject.name);
    }
}

#[test]
fn what_was_removed_is_gone_and_its_place_can_be_used_again() {
    for subject in subjects() {
        let mut session = subject.session();
        append(&mut session, 2, 0, &tokens(PROMPT)).expect("prompt");
        session.seq_remove(2, 8, u32::MAX).expect("cut");
        let after = append(&mut session, 2, 8, &tokens(" is near")).expect("goes on");
        let fresh = append(&mut subject.session(), 0, 0, &tokens(&format!("{} is near", &PROMPT[..8]))).expect("fresh");
        assert_same(subject.name, &after, &fresh[8..]);
        session.seq_remove(2, 0, u32::MAX).expect("all");
        let anew = append(&mut session, 2, 0, &tokens("The")).expect("anew");
        assert_same(subject.name, &anew, &append(&mut subject.session(), 0, 0, &tokens("The")).expect("fresh"));
    }
}

#[test]
fn a_shift_is_exact_or_refused() {
    for subject in subjects() {
        let mut session = subject.session();
        append(&mut session, 0, 0, &tokens(PROMPT)).expect("prompt");
        session.seq_remove(0, 0, 4).expect("cut the front");
        let shifted = session.seq_shift(0, 4, u32::MAX, -4);
        if !session.limits().shift {
            assert_eq!(shifted.expect_err("not offered").status, Status::UNSUPPORTED, "{}", subject.name);
            continue;
        }
        shifted.expect("shift");
        let after = append(&mut session, 0, PROMPT.len() as u32 - 4, &tokens("at")).expect("goes on");
        let fresh = append(&mut subject.session(), 0, 0, &tokens(&format!("{}at", &PROMPT[4..]))).expect("fresh");
        assert_same(subject.name, &after, &fresh[PROMPT.len() - 4..]);
    }
}

#[test]
fn a_saved_state_goes_on_bit_for_bit_in_another_sequence_and_another_session() {
    for subject in subjects() {
        let mut session = subject.session();
        append(&mut session, 0, 0, &tokens(PROMPT)).expect("prompt");
        let state = session.state_save(0).expect("saved");
        assert_eq!(state.len() as u64, session.state_size(0).expect("size"), "{}", subject.name);
        let whole = append(&mut session, 0, PROMPT.len() as u32, &tokens("at")).expect("goes on");
        let mut other = subject.session();
        append(&mut other, 4, 0, &tokens("something else")).expect("old state");
        other.state_load(4, &state).expect("loaded");
        let loaded = append(&mut other, 4, PROMPT.len() as u32, &tokens("at")).expect("goes on");
        assert_same(subject.name, &loaded, &whole);
    }
}

#[test]
fn a_damaged_state_is_refused_and_changes_nothing() {
    for subject in subjects() {
        let mut session = subject.session();
        append(&mut session, 0, 0, &tokens(PROMPT)).expect("prompt");
        let state = session.state_save(0).expect("saved");
        let mut damaged: Vec<Vec<u8>> =
            (0..state.len()).step_by(5).map(|cut| state[..cut].to_vec()).filter(|cut| cut.len() % 8 != 0).collect();
        damaged.push(Vec::new());
        let mut bad_token = state.clone();
        bad_token[12..16].fill(0xff);
        damaged.push(bad_token);
        for bytes in damaged {
            assert_eq!(session.state_load(0, &bytes).expect_err("damaged").status, Status::INVALID_ARGUMENT, "{}: {bytes:?}", subject.name);
        }
        assert_eq!(session.state_save(0).expect("saved again"), state, "{}", subject.name);
    }
}

#[test]
fn a_cancelled_batch_ends_within_a_hundred_milliseconds() {
    for subject in subjects() {
        let model = subject.open(&story(), &[("row_us", "5000")], &CancelFlag::new(), &mut |_| {}).expect("a slow model");
        let mut session = session(&model.forward().expect("forward"));
        let n = 200;
        let (ids, positions, sequences, wants) = (vec![65; n], (0..n as u32).collect::<Vec<_>>(), vec![0; n], vec![true; n]);
        let cancel = CancelFlag::new();
        let (asked, result) = std::thread::scope(|scope| {
            let flag = cancel.clone();
            let asker = scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                flag.set();
                Instant::now()
            });
            let batch = Batch {
                input: Input::Tokens(&ids),
                positions: &positions,
                sequences: &sequences,
                wants_logits: &wants,
                cancel: Some(&cancel),
            };
            let result = session.forward(&batch).map(|logits| logits.rows());
            let late = Instant::now();
            (late.saturating_duration_since(asker.join().expect("the asker")), result)
        });
        assert_eq!(result.expect_err("cancelled").status, Status::CANCELLED, "{}", subject.name);
        assert!(asked < Duration::from_millis(100), "{}: {asked:?}", subject.name);
        // The rows may or may not be in the state; removed, the sequence is as good as new.
        session.seq_remove(0, 0, u32::MAX).expect("removed");
        append(&mut session, 0, 0, &tokens("A")).expect("goes on");
    }
}

#[test]
fn a_load_tells_how_far_it_is_and_can_be_cancelled() {
    for subject in subjects() {
        let mut heard = Vec::new();
        subject.open(&story(), &[("open_ms", "50")], &CancelFlag::new(), &mut |fraction| heard.push(fraction)).expect("a model");
        assert!(
            heard.len() >= 3 && heard.last() == Some(&1.0) && heard.windows(2).all(|pair| pair[0] <= pair[1]),
            "{}: {heard:?}",
            subject.name
        );
        let cancel = CancelFlag::new();
        let flag = cancel.clone();
        let start = Instant::now();
        let result = subject.open(&story(), &[("open_ms", "60000")], &cancel, &mut |_| flag.set());
        assert_eq!(result.err().expect("cancelled").status, Status::CANCELLED, "{}", subject.name);
        assert!(start.elapsed() < Duration::from_secs(5), "{}", subject.name);
    }
}

#[test]
fn every_failure_is_typed_and_carries_its_numbers() {
    for subject in subjects() {
        let name = subject.name;
        let mut session = subject.session();
        let overflow = (0..5).find_map(|chunk| append(&mut session, chunk, 0, &[65; 250]).err()).expect("an overflow");
        assert_eq!((overflow.status, overflow.have, overflow.need), (Status::CONTEXT_OVERFLOW, 1024, 1250), "{name}: {overflow}");
        let gap = append(&mut session, 0, 400, &tokens("x")).expect_err("a gap");
        assert_eq!(gap.status, Status::INVALID_ARGUMENT, "{name}");
        for (what, result) in [
            ("an empty batch", append(&mut session, 0, 0, &[])),
            ("a large batch", append(&mut session, 6, 0, &[65; 257])),
            ("a sequence that is not there", append(&mut session, 8, 0, &[65])),
            ("a token that is not there", append(&mut session, 6, 0, &[257])),
        ] {
            assert_eq!(result.expect_err(what).status, Status::INVALID_ARGUMENT, "{name}: {what}");
        }
        let open = |path: &std::path::Path| subject.open(path, &[], &CancelFlag::new(), &mut |_| {}).err().expect("no model");
        assert_eq!(open(&plugins().join("nothing.ngram")).status, Status::IO, "{name}");
        let damaged = plugins().join(format!("damaged-{}.ngram", name.replace([' ', ','], "")));
        for bytes in [&b""[..], b"ngram1", b"ngram2\ntext", b"ngram1\n"] {
            std::fs::write(&damaged, bytes).expect("a damaged file");
            let error = open(&damaged);
            assert_eq!(error.status, Status::CORRUPT_MODEL, "{name}: {error}");
        }
        let forward = subject.model().forward().expect("forward");
        let args = SessionArgs { context: 16, sequences: 65, batch: 1, threads_decode: None, threads_prefill: None, options: &[] };
        assert_eq!(forward.open_session(&args).err().expect("too many sequences").status, Status::INVALID_ARGUMENT, "{name}");
    }
}

#[test]
fn a_refused_batch_leaves_the_state_as_it_was() {
    for subject in subjects() {
        let mut session = subject.session();
        append(&mut session, 0, 0, &tokens("The moon")).expect("prompt");
        let before = session.state_save(0).expect("saved");
        // The second row has a gap before it.
        let batch =
            Batch { input: Input::Tokens(&[65, 66]), positions: &[8, 10], sequences: &[0, 0], wants_logits: &[true, true], cancel: None };
        assert_eq!(session.forward(&batch).expect_err("a gap").status, Status::INVALID_ARGUMENT, "{}", subject.name);
        assert_eq!(session.state_save(0).expect("saved"), before, "{}", subject.name);
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
fn sessions_of_one_model_compute_side_by_side_while_others_encode() {
    for subject in subjects() {
        let model = subject.model();
        let expected = append(&mut subject.session(), 0, 0, &tokens(PROMPT)).expect("logits");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let mut session = session(&model.forward().expect("forward"));
                        assert_same(subject.name, &append(&mut session, 0, 0, &tokens(PROMPT)).expect("logits"), &expected);
                    }
                });
                scope.spawn(|| {
                    let tokenizer = model.tokenizer().expect("tokenizer");
                    for _ in 0..200 {
                        assert_eq!(tokenizer.encode(PROMPT, Encode::default()).expect("tokens"), tokens(PROMPT));
                    }
                });
            }
        });
    }
}

#[test]
fn the_tokenizer_gives_back_every_text_and_keeps_users_from_control_tokens() {
    for subject in subjects() {
        let tokenizer = subject.model().tokenizer().expect("tokenizer");
        let facts = tokenizer.vocabulary();
        assert_eq!((facts.size, facts.eos, facts.bos), (257, Some(256), None), "{}", subject.name);
        assert!(facts.chat_template.as_deref().is_some_and(|template| template.contains("messages")));
        let text = "Grüße 😀 <|end|>\0";
        let plain = tokenizer.encode(text, Encode::default()).expect("tokens");
        assert!(!plain.contains(&256), "{}", subject.name);
        assert_eq!(tokenizer.decode(&plain, false).expect("bytes"), text.as_bytes(), "{}", subject.name);
        let parsed = tokenizer.encode(text, Encode { parse_control: true, add_special: true }).expect("tokens");
        assert!(parsed.contains(&256), "{}", subject.name);
        assert_eq!(tokenizer.decode(&parsed, true).expect("bytes"), text.as_bytes(), "{}", subject.name);
        let end = tokenizer.token(256).expect("the end");
        assert!(end.end && end.control && end.text == "<|end|>", "{}: {end:?}", subject.name);
        for id in 0..256 {
            let byte = tokenizer.token(id).expect("a byte");
            assert!(byte.byte && !byte.control && !byte.text.is_empty(), "{}: {id} {byte:?}", subject.name);
        }
        assert_eq!(tokenizer.token(257).expect_err("no token").status, Status::INVALID_ARGUMENT, "{}", subject.name);
        // More control tokens than the text has bytes: the first guess of the buffer is too small, the second is not.
        let many = vec![256; 100];
        assert_eq!(tokenizer.decode(&many, true).expect("bytes"), "<|end|>".repeat(100).as_bytes(), "{}", subject.name);
    }
}

#[test]
fn a_plugin_judges_devices_and_files_before_anything_is_loaded() {
    for subject in subjects() {
        let name = subject.name;
        let mut gpu = cpu();
        gpu.kind = onebit_loader::devices::DeviceKind::Vulkan;
        let reports = subject.plugin.probe(&[cpu(), gpu.clone()]).expect("reports");
        assert!(reports[0].usable && reports[0].memory_host && !reports[1].usable, "{name}: {reports:?}");
        assert_eq!(reports[1].reason, Reason::WrongKind, "{name}");
        let fit = |path: &std::path::Path, device: &onebit_loader::devices::Device| {
            subject.plugin.fit(&FitRequest { path, device, context: Some(100), sequences: 1, options: &[] }).expect("a word")
        };
        let good = fit(&story(), &cpu());
        assert!(good.usable && good.state == 800 && good.weights_host > 0 && good.architecture == "ngram", "{name}: {good:?}");
        let bad = fit(&plugins().join("ngram/plugin.toml"), &cpu());
        assert!(!bad.usable && bad.reason == Reason::CorruptModel && !bad.text.is_empty(), "{name}: {bad:?}");
        assert_eq!(fit(&story(), &gpu).reason, Reason::WrongKind, "{name}");
        let error = subject.plugin.open(onebit_loader::OpenRequest {
            path: &story(),
            device: &gpu,
            threads: None,
            options: &[],
            cancel: &CancelFlag::new(),
            progress: &mut |_| {},
        });
        assert_eq!(error.err().expect("not on that device").status, Status::DEVICE_UNAVAILABLE, "{name}");
    }
}

#[test]
fn embeddings_have_length_one_and_a_text_that_is_too_long_is_told_with_both_numbers() {
    for subject in subjects() {
        let Some(embedder) = subject.model().embedder() else {
            assert!(subject.name.starts_with("ngram-c"), "{}", subject.name);
            continue;
        };
        let (cat, sea) = (tokens("A cat"), tokens("The sea"));
        let vectors = embedder.embed(&[&cat, &sea, &cat], true, None).expect("vectors");
        assert_eq!(vectors[0], vectors[2]);
        assert_ne!(vectors[0], vectors[1]);
        for vector in &vectors {
            assert_eq!(vector.len(), embedder.limits().dimension as usize);
            assert!((vector.iter().map(|value| value * value).sum::<f32>() - 1.0).abs() < 1e-5);
        }
        let error = embedder.embed(&[&vec![65; 513]], true, None).expect_err("too long");
        assert_eq!((error.status, error.have, error.need), (Status::CONTEXT_OVERFLOW, 512, 513));
        assert_eq!(embedder.embed(&[], true, None).expect("nothing"), Vec::<Vec<f32>>::new());
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
