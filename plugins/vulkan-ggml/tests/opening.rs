//! Opening and refusing: devices, damaged files, cancels, and what is left behind.
//!
//! Run with `cargo xtask test`, or with ONEBIT_DIST and ONEBIT_TEST_MODELS set: `cargo test --release -p onebit-plugin-vulkan-ggml`.

mod support;

use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use onebit_plugin_api::*;
use support::{Failure, Moment, Row, TestDevice, best, model_path, plugin, turn};

fn refused(path: &Path) -> Failure {
    match plugin().open(path, &TestDevice::cpu(), &[], None, &mut |_| {}) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(failure) => failure,
    }
}

/// A header as small as possible: keys are texts.
fn gguf(keys: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [(text.len() as u64).to_le_bytes().as_slice(), text.as_bytes()].concat();
    let mut bytes = [b"GGUF".as_slice(), &3_u32.to_le_bytes(), &0_u64.to_le_bytes(), &(keys.len() as u64).to_le_bytes()].concat();
    for (key, value) in keys {
        bytes.extend(text(key));
        bytes.extend(8_u32.to_le_bytes());
        bytes.extend(text(value));
    }
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes
}

#[test]
fn damaged_files_are_typed_errors_and_the_process_lives() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let whole = std::fs::read(model_path()).expect("the model");
    let mut wrong_magic = whole.clone();
    wrong_magic[0] = b'X';
    let mut counts = whole[..4096].to_vec();
    counts[8..24].fill(0xff);
    let cases: [(&str, Vec<u8>, u32); 8] = [
        ("empty", Vec::new(), ONEBIT_CORRUPT_MODEL),
        ("48 bytes", whole[..48].to_vec(), ONEBIT_CORRUPT_MODEL),
        ("cut in the header", whole[..100_000].to_vec(), ONEBIT_CORRUPT_MODEL),
        ("cut in the weights", whole[..whole.len() / 2].to_vec(), ONEBIT_CORRUPT_MODEL),
        ("wrong magic", wrong_magic, ONEBIT_CORRUPT_MODEL),
        ("absurd counts", counts, ONEBIT_CORRUPT_MODEL),
        ("no tensors", gguf(&[("general.architecture", "llama")]), ONEBIT_CORRUPT_MODEL),
        ("another architecture", gguf(&[("general.architecture", "no-such-thing")]), ONEBIT_UNSUPPORTED),
    ];
    for (name, bytes, code) in cases {
        let path = folder.path().join("case.gguf");
        std::fs::write(&path, bytes).expect("a file");
        let start = Instant::now();
        let failure = refused(&path);
        println!("{name}: {} {}", failure.code, failure.message);
        assert_eq!(failure.code, code, "{name}: {failure:?}");
        assert!(start.elapsed() < Duration::from_secs(2), "{name}");
        let fit = plugin().fit(&path, &TestDevice::cpu(), 0).expect("a damaged file is an answer, not an error");
        assert!(!fit.usable && !fit.text.is_empty(), "{name}: {fit:?}");
        let reason = if code == ONEBIT_UNSUPPORTED { ONEBIT_REASON_UNSUPPORTED_MODEL } else { ONEBIT_REASON_CORRUPT_MODEL };
        assert_eq!(fit.reason, reason, "{name}: {fit:?}");
    }
    assert_eq!(refused(&folder.path().join("none.gguf")).code, ONEBIT_IO);
    assert_eq!(refused(folder.path()).code, ONEBIT_CORRUPT_MODEL);
    let model = plugin().open_cpu();
    assert_eq!(best(&model.session(64, 1, 16).expect("a session").feed(0, 0, &[504, 3575, 282, 4649, 314])), 7042);
}

#[test]
fn fit_tells_the_size_before_anything_is_loaded() {
    let _turn = turn();
    let fit = plugin().fit(&model_path(), &TestDevice::cpu(), 1024).expect("an answer");
    println!("{fit:?}");
    assert!(fit.usable, "{}", fit.text);
    assert_eq!((fit.architecture.as_str(), fit.quantisation.as_str()), ("llama", "Q4_1"));
    assert_eq!((fit.context_trained, fit.parameters), (8192, 134_515_008));
    assert_eq!((fit.state, fit.state_per_token), (23040 * 1024, 23040));
    assert!((90_000_000..98_362_432).contains(&fit.weights_host), "{}", fit.weights_host);
    let model = plugin().open_cpu();
    let session = model.session(1024, 1, 1024).expect("a session");
    println!("scratch: estimated {}, allocated {}", fit.scratch_host, session.scratch_bytes);
    assert!(fit.scratch_host >= session.scratch_bytes, "the estimate is on the safe side");
    assert!(fit.scratch_host <= 4 * session.scratch_bytes, "and not absurd");
}

#[test]
fn a_load_can_be_cancelled() {
    let _turn = turn();
    let flag = AtomicU32::new(1);
    let start = Instant::now();
    let before = plugin().open(&model_path(), &TestDevice::cpu(), &[], Some(&flag), &mut |_| {});
    assert_eq!(before.err().map(|failure| failure.code), Some(ONEBIT_CANCELLED));
    assert!(start.elapsed() < Duration::from_millis(100));

    // Not mapped, so that there is something to wait for.
    flag.store(0, Ordering::SeqCst);
    let mut since = None;
    let during = plugin().open(&model_path(), &TestDevice::cpu(), &[("mmap", "false")], Some(&flag), &mut |fraction| {
        if fraction > 0.2 && since.is_none() {
            flag.store(1, Ordering::SeqCst);
            since = Some(Moment::now());
        }
    });
    let (took, computed) = since.expect("progress was told").since();
    println!("a cancelled load ends after {took:?}, {computed:?} of them computed");
    assert_eq!(during.err().map(|failure| failure.code), Some(ONEBIT_CANCELLED));
    assert!(computed < Duration::from_millis(250), "{computed:?}");

    let mut told = Vec::new();
    let model = plugin().open(&model_path(), &TestDevice::cpu(), &[], None, &mut |fraction| told.push(fraction)).expect("opens");
    assert!(told.windows(2).all(|pair| pair[0] <= pair[1]) && told.last() == Some(&1.0), "{told:?}");
    drop(model);
}

#[test]
fn a_long_prompt_can_be_cancelled_and_leaves_nothing() {
    let _turn = turn();
    let model = plugin().open_cpu();
    let mut session = model.session(4096, 1, 2048).expect("a session");
    session.feed(0, 0, &[504, 3575]);
    let plain = session.feed(0, 2, &[282]);
    session.remove(0, 2, u32::MAX).expect("cuts");
    let rows: Vec<Row> = (2..2002).map(|p| (500 + p % 1000, p, 0, p == 2001)).collect();
    let flag = AtomicU32::new(0);
    let since = std::sync::Mutex::new(None);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(150));
            *since.lock().expect("no panic") = Some(Moment::now());
            flag.store(1, Ordering::SeqCst);
        });
        session.forward(&rows, Some(&flag))
    });
    let (took, computed) = since.lock().expect("no panic").expect("the flag was set").since();
    println!("a cancelled prompt ends after {took:?}, {computed:?} of them computed");
    assert_eq!(result.err().map(|failure| failure.code), Some(ONEBIT_CANCELLED));
    assert!(computed < Duration::from_millis(100), "{computed:?}");
    assert!(!support::log().iter().any(|(_, line)| line.contains("failed to decode")), "that somebody left is no error");
    assert_eq!(session.feed(0, 2, &[282]), plain, "as if the prompt had never been");
}

#[test]
fn a_device_that_is_not_there_is_never_replaced_by_another() {
    let _turn = turn();
    let nowhere = TestDevice::vulkan([0xee; 16], 0);
    let failure = plugin().open(&model_path(), &nowhere, &[], None, &mut |_| {}).err().expect("there is no such device");
    println!("{}", failure.message);
    assert_eq!(failure.code, ONEBIT_DEVICE_UNAVAILABLE);
    let accel = TestDevice { kind: ONEBIT_DEVICE_ACCEL, ..TestDevice::cpu() };
    let reports = plugin().probe(&[TestDevice::cpu(), nowhere, accel]);
    println!("{reports:?}");
    assert!(reports[0].usable && reports[0].score == 50, "{:?}", reports[0]);
    assert!(!reports[1].usable && !reports[1].text.is_empty(), "{:?}", reports[1]);
    assert_eq!((reports[2].usable, reports[2].reason), (false, ONEBIT_REASON_WRONG_KIND));
}

#[test]
fn a_setting_that_is_not_known_is_refused() {
    let _turn = turn();
    let open = |options: &[(&str, &str)]| plugin().open(&model_path(), &TestDevice::cpu(), options, None, &mut |_| {});
    assert_eq!(open(&[("kv_typ", "f16")]).err().map(|failure| failure.code), Some(ONEBIT_INVALID_ARGUMENT));
    assert_eq!(open(&[("ubatch", "many")]).err().map(|failure| failure.code), Some(ONEBIT_INVALID_ARGUMENT));
    let model = open(&[("kv_type", "q8_0"), ("ubatch", "64")]).expect("opens");
    assert_eq!(model.limits().state_per_token, 23040 * 34 / 64);
    let mut session = model.session(256, 1, 128).expect("a session");
    assert_eq!(session.state_bytes, 256 * 23040 * 34 / 64);
    assert_eq!(best(&session.feed(0, 0, &[504, 3575, 282, 4649, 314])), 7042);
}

/// Bytes that were allocated and not freed: in all heaps, and as mappings of their own. The memory a process holds says something else:
/// an allocator keeps what was freed, more of it the more threads there were.
fn allocated() -> u64 {
    // SAFETY: asks the allocator for its books.
    let books = unsafe { libc::mallinfo2() };
    (books.uordblks + books.hblkhd) as u64
}

/// Files and shared memory mapped into this process.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("Linux").lines().filter(|line| line.contains('/')).count()
}

#[test]
fn opening_and_closing_leaves_nothing_behind() {
    let _turn = turn();
    let cycle = || {
        let model = plugin().open_cpu();
        let mut session = model.session(256, 2, 64).expect("a session");
        session.feed(0, 0, &[504, 3575, 282]);
    };
    for _ in 0..3 {
        cycle();
    }
    let before = (allocated(), mappings());
    for _ in 0..12 {
        cycle();
    }
    let grown = allocated().saturating_sub(before.0);
    println!("12 cycles: {grown} bytes more");
    // Lines of a log and names of threads may stay; a vocabulary (4 MiB) or a buffer may not.
    assert!(grown < 256 << 10, "{grown} bytes more after 12 cycles");
    assert_eq!(mappings(), before.1, "mapped files");
}

#[test]
fn nothing_is_written_to_standard_error() {
    let _turn = turn();
    let mut file = tempfile::tempfile().expect("a file");
    // SAFETY: plain descriptors of this process; only this test runs (it has the turn).
    let saved = unsafe { libc::dup(2) };
    // SAFETY: as above.
    unsafe { libc::dup2(file.as_raw_fd(), 2) };
    let opened = plugin().open(&model_path(), &TestDevice::cpu(), &[], None, &mut |_| {});
    let computed = opened.as_ref().map(|model| model.session(256, 1, 64).map(|mut session| session.feed(0, 0, &[504, 3575])).is_ok());
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("bad.gguf"), gguf(&[("general.architecture", "no-such-thing")])).expect("a file");
    let _ = plugin().open(&folder.path().join("bad.gguf"), &TestDevice::cpu(), &[], None, &mut |_| {});
    // SAFETY: as above.
    unsafe {
        libc::dup2(saved, 2);
        libc::close(saved);
    }
    assert_eq!(computed.ok(), Some(true));
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).expect("seeks");
    file.read_to_string(&mut text).expect("reads");
    assert_eq!(text, "");
    assert!(
        support::log().iter().any(|(level, line)| *level == ONEBIT_LOG_ERROR && line.contains("no-such-thing")),
        "it is in the host's log"
    );
}
