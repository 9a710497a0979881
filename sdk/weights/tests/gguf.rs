//! What the reader says about honest and about hostile files.

mod support;

use std::io::Cursor;
use std::time::{Duration, Instant};

use onebit_weights::gguf::{Array, GgmlType, Gguf, GgufError, Value};
use proptest::prelude::*;
use support::{Bytes, honest};

fn read(file: &Bytes) -> Result<Gguf, GgufError> {
    Gguf::read(Cursor::new(&file.0), file.0.len() as u64)
}

fn refusal(file: &Bytes) -> GgufError {
    match read(file) {
        Ok(_) => panic!("a hostile file was accepted"),
        Err(error) => error,
    }
}

#[test]
fn an_honest_file_gives_its_facts() {
    let file = read(&honest()).expect("an honest file");
    assert_eq!(file.version(), 3);
    assert_eq!(file.alignment(), 32);
    let facts = file.facts().expect("facts");
    assert_eq!(facts.architecture, "llama");
    assert_eq!(facts.name.as_deref(), Some("Tiny"));
    assert_eq!((facts.context_trained, facts.embedding, facts.layers), (2048, 64, 3));
    assert_eq!((facts.heads, facts.kv_heads, facts.vocabulary), (4, 2, 3));
    assert_eq!(facts.parameters, 136);
    assert_eq!(facts.quantisation, "Q4_1");
    assert_eq!(facts.weights_bytes, 80 + 32);
    // 3 layers × 2 heads × (16 + 16) values × 2 bytes.
    assert_eq!(facts.kv_bytes_per_token_f16, 384);
    assert_eq!(facts.state_bytes_per_sequence, 0);
    assert_eq!(facts.chat_template, None);
}

#[test]
fn values_of_every_kind_are_read() {
    let file = read(&honest()).expect("an honest file");
    assert_eq!(file.values().count(), 19);
    let Some(Value::Array(Array::Text(tokens))) = file.meta("tokenizer.ggml.tokens") else { panic!("tokens") };
    assert_eq!(tokens.iter().collect::<Vec<_>>(), ["a".as_bytes(), b"", "漢".as_bytes()]);
    assert_eq!(file.meta("numbers"), Some(&Value::Array(Array::I32(vec![7, -1]))));
    assert!(matches!(file.text("llama.block_count"), Err(GgufError::WrongKind { wanted: "a text", .. })));
    assert!(matches!(file.unsigned("general.name"), Err(GgufError::WrongKind { .. })));
    assert_eq!(file.unsigned("absent").expect("absent is not an error"), None);
    let tensor = file.tensor("blk.0.weight").expect("the tensor");
    assert_eq!((tensor.kind, tensor.bytes, tensor.elements()), (GgmlType::by_name("Q4_1").expect("known"), 80, 128));
    assert_eq!(tensor.offset, file.data_offset());
}

#[test]
fn every_cut_of_an_honest_file_is_refused() {
    let whole = honest().0;
    for length in 0..whole.len() {
        assert!(read(&Bytes(whole[..length].to_vec())).is_err(), "cut to {length} bytes");
    }
}

#[test]
fn a_twelve_byte_file_is_cut_off() {
    let mut file = Bytes::new(3, 0, 0);
    file.0.truncate(12);
    assert!(matches!(refusal(&file), GgufError::Truncated { offset: 8, need: 8, have: 4, .. }));
}

#[test]
fn a_key_longer_than_the_file_is_refused_without_allocating() {
    let file = Bytes::new(3, 0, 1).u64(u64::MAX - 7);
    let error = refusal(&file);
    assert!(matches!(error, GgufError::Count { .. } | GgufError::TooLong { .. }), "{error}");
    let file = Bytes::new(3, 0, 1).u64(60_000).data(64);
    assert!(matches!(refusal(&file), GgufError::Truncated { need: 60_000, .. }));
}

#[test]
fn an_array_of_2_to_the_60_texts_is_refused_at_once() {
    let file = Bytes::new(3, 0, 1).text("tokenizer.ggml.tokens").u32(9).u32(8).u64(1 << 60).data(128);
    let start = Instant::now();
    let error = refusal(&file);
    assert!(matches!(&error, GgufError::Count { count, .. } if *count == 1 << 60), "{error}");
    assert!(error.to_string().contains("tokenizer.ggml.tokens"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn a_zero_dimension_is_refused() {
    let file = Bytes::new(3, 1, 0).tensor("w", &[4, 0], 0, 0).data(32);
    assert!(matches!(refusal(&file), GgufError::Shape { shape, .. } if shape == [4, 0]));
}

#[test]
fn absurd_counts_are_refused() {
    for (tensors, values) in [(u64::MAX, 0), (0, u64::MAX), (1 << 40, 1 << 40), (2, 0)] {
        assert!(read(&Bytes::new(3, tensors, values).u64(0)).is_err());
    }
}

#[test]
fn impossible_shapes_are_refused() {
    let shape = |shape: &[u64]| refusal(&Bytes::new(3, 1, 0).tensor("w", shape, 0, 0).data(32));
    assert!(matches!(shape(&[]), GgufError::Shape { .. }));
    assert!(matches!(shape(&[1, 1, 1, 1, 1]), GgufError::Shape { .. }));
    assert!(matches!(shape(&[1 << 32, 1 << 32]), GgufError::Shape { .. }));
    assert!(matches!(shape(&[u64::MAX]), GgufError::Shape { .. }));
    assert!(matches!(shape(&[1 << 61]), GgufError::OutsideFile { .. } | GgufError::Shape { .. }));
    let rows = refusal(&Bytes::new(3, 1, 0).tensor("w", &[33], 3, 0).data(64));
    assert!(matches!(rows, GgufError::Blocks { row: 33, block: 32, .. }));
}

#[test]
fn tensors_outside_the_file_or_in_each_other_are_refused() {
    let outside = Bytes::new(3, 1, 0).tensor("w", &[64], 0, 1 << 62).data(32);
    assert!(matches!(refusal(&outside), GgufError::OutsideFile { .. }));
    let wrapping = Bytes::new(3, 1, 0).tensor("w", &[64], 0, u64::MAX - 31).data(32);
    assert!(matches!(refusal(&wrapping), GgufError::OutsideFile { .. }));
    let overlap = Bytes::new(3, 2, 0).tensor("a", &[16], 0, 0).tensor("b", &[8], 0, 32).data(64);
    assert!(matches!(refusal(&overlap), GgufError::Overlap { .. }));
    let misaligned = Bytes::new(3, 1, 0).tensor("a", &[8], 0, 1).data(64);
    assert!(matches!(refusal(&misaligned), GgufError::Misaligned { .. }));
}

#[test]
fn names_that_appear_twice_are_refused() {
    let keys = Bytes::new(3, 0, 2).key_u32("a", 1).key_u32("a", 2).data(0);
    assert!(matches!(refusal(&keys), GgufError::DuplicateKey { key } if key == "a"));
    let tensors = Bytes::new(3, 2, 0).tensor("w", &[8], 0, 0).tensor("w", &[8], 0, 32).data(64);
    assert!(matches!(refusal(&tensors), GgufError::DuplicateTensor { name } if name == "w"));
}

#[test]
fn other_files_and_versions_are_named() {
    assert!(matches!(refusal(&Bytes(b"PK\x03\x04 and more".to_vec())), GgufError::Magic { .. }));
    assert!(matches!(refusal(&Bytes::new(1, 0, 0)), GgufError::Version { found: 1 }));
    assert!(matches!(refusal(&Bytes::new(3_u32.swap_bytes(), 0, 0)), GgufError::BigEndian));
    assert!(matches!(refusal(&Bytes::default()), GgufError::Truncated { .. }));
}

#[test]
fn unknown_kinds_and_nested_arrays_are_refused() {
    let kind = Bytes::new(3, 0, 1).text("a").u32(13).u64(0);
    assert!(matches!(refusal(&kind), GgufError::ValueKind { kind: 13, .. }));
    let nested = Bytes::new(3, 0, 1).text("a").u32(9).u32(9).u64(1).u64(0);
    assert!(matches!(refusal(&nested), GgufError::ValueKind { kind: 9, .. }));
    let boolean = Bytes::new(3, 0, 1).text("a").u32(7).u8(2);
    assert!(matches!(refusal(&boolean), GgufError::Boolean { found: 2, .. }));
    let tensor = Bytes::new(3, 1, 0).tensor("w", &[32], 4, 0).data(64);
    assert!(matches!(refusal(&tensor), GgufError::TensorType { kind: 4, .. }));
    let alignment = Bytes::new(3, 0, 1).key_u32("general.alignment", 24).data(0);
    assert!(matches!(refusal(&alignment), GgufError::Alignment { found: 24 }));
}

#[test]
fn folders_missing_files_and_dangling_links_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |path: &std::path::Path| Gguf::open(path).expect_err("must be refused");
    assert!(matches!(open(folder.path()), GgufError::NotAFile { .. }));
    assert!(matches!(open(&folder.path().join("none.gguf")), GgufError::Io { .. }));
    let link = folder.path().join("link.gguf");
    std::os::unix::fs::symlink(folder.path().join("gone"), &link).expect("a link");
    assert!(matches!(open(&link), GgufError::Io { .. }));
}

#[test]
fn a_good_file_behind_a_link_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let real = folder.path().join("real");
    std::fs::create_dir(&real).expect("a folder");
    std::fs::write(real.join("m.gguf"), honest().0).expect("a file");
    let link = folder.path().join("models");
    std::os::unix::fs::symlink(&real, &link).expect("a link");
    assert_eq!(Gguf::open(&link.join("m.gguf")).expect("readable").tensors().len(), 2);
}

#[test]
fn a_set_of_parts_is_opened_as_one_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let part = |no: u32| {
        Bytes::new(3, 1, 3)
            .key_text("general.architecture", "llama")
            .key_u32("split.no", no)
            .key_u32("split.count", 2)
            .tensor(&format!("w{no}"), &[8], 0, 0)
            .data(32)
            .0
    };
    let first = folder.path().join("m-00001-of-00002.gguf");
    std::fs::write(&first, part(0)).expect("a file");
    assert!(matches!(Gguf::open_all(&first), Err(GgufError::Io { .. })), "the second part is missing");
    let second = folder.path().join("m-00002-of-00002.gguf");
    std::fs::write(&second, part(1)).expect("a file");
    assert_eq!(Gguf::open_all(&first).expect("both parts").len(), 2);
    assert!(matches!(Gguf::open_all(&second), Err(GgufError::Parts { .. })));
    std::fs::write(&second, part(0)).expect("a file");
    assert!(matches!(Gguf::open_all(&first), Err(GgufError::Parts { .. })), "the second part says it is the first");
}

#[test]
fn hybrids_count_state_only_where_there_is_attention() {
    let file = Bytes::new(3, 0, 10)
        .key_text("general.architecture", "jamba")
        .key_u32("jamba.embedding_length", 64)
        .key_u32("jamba.block_count", 3)
        .key_u32("jamba.attention.head_count", 4)
        .text("jamba.attention.head_count_kv")
        .u32(9)
        .u32(5)
        .u64(3)
        .u32(0)
        .u32(2)
        .u32(0)
        .key_u32("jamba.ssm.inner_size", 128)
        .key_u32("jamba.ssm.state_size", 16)
        .key_u32("jamba.ssm.conv_kernel", 4)
        .key_u32("jamba.context_length", 100)
        .key_u32("jamba.vocab_size", 7);
    let facts = read(&file).expect("readable").facts().expect("facts");
    assert_eq!(facts.kv_bytes_per_token_f16, 2 * 32 * 2);
    assert_eq!(facts.state_bytes_per_sequence, 2 * 4 * (3 * 128 + 128 * 16));
    assert_eq!(facts.vocabulary, 7);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Whatever is done to an honest file, reading ends with a value: no panic, no runaway allocation. What is accepted is safe to use.
    #[test]
    fn any_mutation_ends_with_a_value(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        word in prop::option::of((any::<prop::sample::Index>(), prop_oneof![any::<u64>(), Just(u64::MAX), Just(1 << 60), Just(0), 0..300_u64])),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = honest().0;
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some((at, value)) = word {
            let at = at.index(bytes.len() - 8);
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(file) = read(&Bytes(bytes.clone())) {
            let facts = file.facts();
            prop_assert!(facts.is_ok() || facts.is_err());
            for tensor in file.tensors() {
                prop_assert!(tensor.elements() > 0);
                prop_assert!(tensor.offset + tensor.bytes <= bytes.len() as u64);
            }
        }
    }

    /// Noise after a valid magic and version is refused or read, never a panic.
    #[test]
    fn noise_ends_with_a_value(noise in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(noise);
        let _ = read(&Bytes(bytes));
    }
}
