//! A model whose state cannot be cut: a tiny Mamba with random weights, written here. What it says means nothing; the laws hold all the same.
//!
//! Run with `cargo xtask test`, or with ONEBIT_DIST set: `cargo test --release -p onebit-plugin-vulkan-ggml`.

mod support;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use onebit_plugin_api::*;
use support::{END, Model, Row, TestDevice, difference, plugin, turn};

const EMBEDDING: u64 = 64;
const INNER: u64 = 2 * EMBEDDING;
const STATE: u64 = 16;
const KERNEL: u64 = 4;
const RANK: u64 = 8;
const LAYERS: u64 = 3;
const VOCABULARY: u64 = 96;

/// Numbers between -1 and 1 that look random and are always the same.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// The file: metadata, tensor infos and weights.
fn mamba() -> Vec<u8> {
    let text = |text: &str| [(text.len() as u64).to_le_bytes().as_slice(), text.as_bytes()].concat();
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for (key, value) in [("general.architecture", "mamba"), ("tokenizer.ggml.model", "none")] {
        keys.push([text(key), 8_u32.to_le_bytes().to_vec(), text(value)].concat());
    }
    for (key, value) in [
        ("context_length", 4096),
        ("embedding_length", EMBEDDING),
        ("feed_forward_length", 0),
        ("block_count", LAYERS),
        ("attention.head_count", 0),
        ("vocab_size", VOCABULARY),
        ("ssm.conv_kernel", KERNEL),
        ("ssm.inner_size", INNER),
        ("ssm.state_size", STATE),
        ("ssm.time_step_rank", RANK),
    ] {
        keys.push([text(&format!("mamba.{key}")), 4_u32.to_le_bytes().to_vec(), (value as u32).to_le_bytes().to_vec()].concat());
    }
    keys.push([text("mamba.attention.layer_norm_rms_epsilon"), 6_u32.to_le_bytes().to_vec(), 1e-5_f32.to_le_bytes().to_vec()].concat());

    let mut tensors: Vec<(String, Vec<u64>, f32, f32)> =
        vec![("token_embd.weight".into(), vec![EMBEDDING, VOCABULARY], 0.0, 1.0), ("output_norm.weight".into(), vec![EMBEDDING], 1.0, 0.1)];
    for layer in 0..LAYERS {
        for (name, shape, middle, spread) in [
            ("attn_norm.weight", vec![EMBEDDING], 1.0, 0.1),
            ("ssm_in.weight", vec![EMBEDDING, 2 * INNER], 0.0, 0.2),
            ("ssm_conv1d.weight", vec![KERNEL, INNER], 0.0, 0.5),
            ("ssm_conv1d.bias", vec![INNER], 0.0, 0.1),
            ("ssm_x.weight", vec![INNER, RANK + 2 * STATE], 0.0, 0.2),
            ("ssm_dt.weight", vec![RANK, INNER], 0.0, 0.2),
            ("ssm_dt.bias", vec![INNER], 0.0, 0.5),
            ("ssm_a", vec![STATE, INNER], -1.5, 1.0),
            ("ssm_d", vec![INNER], 1.0, 0.1),
            ("ssm_out.weight", vec![INNER, EMBEDDING], 0.0, 0.2),
        ] {
            tensors.push((format!("blk.{layer}.{name}"), shape, middle, spread));
        }
    }
    let mut bytes =
        [b"GGUF".as_slice(), &3_u32.to_le_bytes(), &(tensors.len() as u64).to_le_bytes(), &(keys.len() as u64).to_le_bytes()].concat();
    bytes.extend(keys.concat());
    let mut data: Vec<u8> = Vec::new();
    let mut noise = Noise(7);
    for (name, shape, middle, spread) in &tensors {
        data.resize(data.len().next_multiple_of(32), 0);
        bytes.extend(text(name));
        bytes.extend((shape.len() as u32).to_le_bytes());
        bytes.extend(shape.iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend((data.len() as u64).to_le_bytes());
        let count: u64 = shape.iter().product();
        data.extend((0..count).flat_map(|_| (middle + spread * noise.next()).to_le_bytes()));
    }
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes.extend(data);
    bytes
}

fn shared() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mamba.gguf");
        std::fs::write(&path, mamba()).expect("a file");
        // Not mapped: the folder goes away.
        plugin().open(&path, &TestDevice::cpu(), &[("mmap", "false")], None, &mut |_| {}).expect("opens")
    })
}

#[test]
fn it_says_that_its_state_cannot_be_cut() {
    let _turn = turn();
    let model = shared();
    assert_eq!((model.architecture.as_str(), model.quantisation.as_str()), ("mamba", "F32"));
    let limits = model.limits();
    assert_eq!(limits.flags & (ONEBIT_STATE_CUT | ONEBIT_STATE_SNAPSHOT), ONEBIT_STATE_SNAPSHOT);
    assert_eq!((limits.vocabulary, limits.state_per_token), (96, 0));
    assert_eq!(limits.state_per_sequence, 4 * LAYERS * ((KERNEL - 1) * INNER + STATE * INNER));
    assert!(!model.offers(ONEBIT_TOKENIZE_1), "the file has no vocabulary");
    let session = model.session(1000, 4, 64).expect("a session");
    assert_eq!(session.state_bytes, 4 * limits.state_per_sequence);
}

#[test]
fn parts_are_refused_and_wholes_work() {
    let _turn = turn();
    let model = shared();
    let mut session = model.session(256, 3, 64).expect("a session");
    session.feed(0, 0, &[1, 2, 3, 4, 5]);
    for refused in [session.remove(0, 3, END), session.remove(0, 0, 2), session.copy(0, 1, 0, 3)] {
        assert_eq!(refused.expect_err("a part").code, ONEBIT_UNSUPPORTED);
    }
    session.copy(0, 1, 0, END).expect("copies the whole");
    let (source, copy) = (session.feed(0, 5, &[6, 7]), session.feed(1, 5, &[6, 7]));
    assert_eq!(source, copy, "bit for bit");
    session.remove(0, 0, END).expect("removes the whole");
    session.feed(0, 0, &[1, 2, 3, 4, 5]);
    let again = session.feed(0, 5, &[6, 7]);
    assert!(difference(&source, &again) < 1e-5, "{}", difference(&source, &again));
}

#[test]
fn a_loaded_snapshot_goes_on_bit_for_bit() {
    let _turn = turn();
    let model = shared();
    let mut session = model.session(256, 2, 64).expect("a session");
    session.feed(0, 0, &[1, 2, 3, 4, 5]);
    let saved = session.save(0);
    let plain = session.feed(0, 5, &[6, 7, 8]);
    session.load(0, &saved).expect("loads");
    assert_eq!(session.feed(0, 5, &[6, 7, 8]), plain);
    session.load(1, &saved).expect("loads elsewhere");
    assert_eq!(session.feed(1, 5, &[6, 7, 8]), plain);
}

#[test]
fn a_cancelled_sequence_is_used_again_only_after_it_was_removed() {
    let _turn = turn();
    let model = shared();
    let mut session = model.session(4096, 2, 4096).expect("a session");
    session.feed(0, 0, &[1, 2, 3]);
    session.feed(1, 0, &[4, 5, 6]);
    let rows: Vec<Row> = (3..4000).map(|p| (p % 96, p, 0, p == 3999)).collect();
    let flag = AtomicU32::new(0);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(5));
            flag.store(1, Ordering::SeqCst);
        });
        session.forward(&rows, Some(&flag))
    });
    assert_eq!(result.err().map(|failure| failure.code), Some(ONEBIT_CANCELLED));
    assert_eq!(session.forward(&[(1, 3, 0, true)], None).expect_err("half computed").code, ONEBIT_INVALID_ARGUMENT);
    session.feed(1, 3, &[7]);
    session.remove(0, 0, END).expect("removes the whole");
    session.feed(0, 0, &[1, 2, 3]);
}
