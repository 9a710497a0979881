//! The C side of the SDK under callers that are older, careless or lying. The plugin is exported by this test itself and entered as a host
//! would, through the C door.

use std::cell::RefCell;
use std::ffi::c_void;

use onebit_plugin_api as abi;
use onebit_sdk::{
    Allocation, Batch, Cancel, Device, Encode, Error, Fit, FitRequest, Forward, ForwardLimits, Host, Info, MemoryKinds, Model,
    ModelDescription, OpenRequest, Plugin, ProbeReport, Session, SessionArgs, TokenInfo, Tokenizer, Vocabulary, export_plugin,
};

struct Small;

impl Plugin for Small {
    fn new(_host: Host) -> Result<Self, Error> {
        Ok(Self)
    }

    fn info(&self) -> Info {
        Info { computes_with: "nothing".into(), facts: vec![("a".into(), "b".into())] }
    }

    fn probe(&self, devices: &[Device]) -> Vec<ProbeReport> {
        devices.iter().map(|_| ProbeReport::usable(1, MemoryKinds::default())).collect()
    }

    fn fit(&self, request: &FitRequest<'_>) -> Result<Fit, Error> {
        Ok(Fit { state: request.context.unwrap_or(7).into(), ..Fit::usable() })
    }

    fn open(&self, request: &OpenRequest<'_>, progress: &mut dyn FnMut(f32), _cancel: Cancel<'_>) -> Result<Box<dyn Model>, Error> {
        progress(f32::NAN);
        progress(2.0);
        match request.path.to_str() {
            Some("panic") => panic!("told to"),
            Some("panic with a number") => std::panic::panic_any(42),
            _ => Ok(Box::new(SmallModel::default())),
        }
    }
}

#[derive(Default)]
struct SmallModel {
    description: ModelDescription,
    vocabulary: Vocabulary,
}

impl Model for SmallModel {
    fn description(&self) -> &ModelDescription {
        &self.description
    }

    fn forward(&self) -> Option<&dyn Forward> {
        Some(self)
    }

    fn tokenizer(&self) -> Option<&dyn Tokenizer> {
        Some(self)
    }
}

impl Forward for SmallModel {
    fn limits(&self) -> ForwardLimits {
        ForwardLimits { vocabulary: 4, context_trained: 8, max_batch: 4, max_sequences: 2, ..ForwardLimits::default() }
    }

    fn open_session(&self, args: &SessionArgs<'_>) -> Result<Box<dyn Session>, Error> {
        Ok(Box::new(SmallSession { context: args.context, logits: vec![0.0; 16] }))
    }
}

struct SmallSession {
    context: u32,
    logits: Vec<f32>,
}

impl Session for SmallSession {
    fn allocated(&self) -> Allocation {
        Allocation { context: self.context, ..Allocation::default() }
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<&[f32], Error> {
        match batch.positions[0] {
            1000 => panic!("in the middle of a batch"),
            // One value too few.
            1001 => Ok(&self.logits[..batch.wanted() * 4 - 1]),
            _ => Ok(&self.logits[..batch.wanted() * 4]),
        }
    }

    fn seq_copy(&mut self, _: u32, _: u32, _: u32, _: u32) -> Result<(), Error> {
        Ok(())
    }

    fn seq_remove(&mut self, _: u32, _: u32, _: u32) -> Result<(), Error> {
        Ok(())
    }
}

impl Tokenizer for SmallModel {
    fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    fn token(&self, _id: u32) -> Option<TokenInfo<'_>> {
        None
    }

    fn encode(&self, text: &str, _how: Encode) -> Result<Vec<u32>, Error> {
        Ok(text.bytes().map(u32::from).collect())
    }

    fn decode(&self, _tokens: &[u32], _control: bool) -> Result<Vec<u8>, Error> {
        Ok(Vec::new())
    }
}

export_plugin!(Small, { id: "small", version: "1.2.3", capabilities: [onebit_sdk::FORWARD, onebit_sdk::TOKENIZE], licence: "MIT" });

unsafe extern "C" {
    fn onebit_plugin_v1(host: *const abi::OnebitHost) -> *const abi::OnebitPlugin;
}

thread_local! {
    static REPORTED: RefCell<Vec<(u32, String)>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "C" fn report(_ctx: *mut c_void, error: *const abi::OnebitError) {
    // SAFETY: the SDK's error and its text live for this call.
    let (code, message) = unsafe {
        let error = &*error;
        (error.code, std::slice::from_raw_parts(error.message.ptr.cast::<u8>(), error.message.len))
    };
    REPORTED.with_borrow_mut(|reported| reported.push((code, String::from_utf8(message.to_vec()).expect("UTF-8"))));
}

unsafe extern "C" fn log(_ctx: *mut c_void, _level: u32, _target: abi::OnebitStr, message: abi::OnebitStr) {
    // SAFETY: borrowed for this call.
    let message = unsafe { std::slice::from_raw_parts(message.ptr.cast::<u8>(), message.len) };
    // The SDK's hook keeps panics off stderr; a failing assertion of this test must be seen all the same.
    eprintln!("{}", String::from_utf8_lossy(message));
}

fn host() -> &'static abi::OnebitHost {
    Box::leak(Box::new(abi::OnebitHost {
        struct_size: size_of::<abi::OnebitHost>(),
        abi_major: abi::ONEBIT_ABI_MAJOR,
        abi_minor: abi::ONEBIT_ABI_MINOR,
        ctx: std::ptr::null_mut(),
        log: Some(log),
        metric_add: None,
        metric_set: None,
        now_ns: None,
        report_error: Some(report),
    }))
}

fn table() -> &'static abi::OnebitPlugin {
    // SAFETY: a proper host; the table lives until the process ends.
    unsafe { onebit_plugin_v1(host()).as_ref() }.expect("a table")
}

/// The status, and the one report that belongs to it.
#[track_caller]
fn reported(status: u32) -> (u32, String) {
    let reports = REPORTED.with_borrow_mut(std::mem::take);
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!(reports[0].0, status);
    reports[0].clone()
}

/// A struct of zeros that says it has this size, in a buffer that is watched beyond it.
#[repr(C, align(8))]
struct Watched([u8; 512]);

impl Watched {
    fn new(struct_size: usize) -> Self {
        let mut bytes = [0xaa; 512];
        let end = struct_size.min(512);
        bytes[..end].fill(0);
        bytes[..8].copy_from_slice(&struct_size.to_ne_bytes());
        Self(bytes)
    }

    fn as_mut_ptr<T>(&mut self) -> *mut T {
        self.0.as_mut_ptr().cast()
    }

    fn is_untouched_from(&self, end: usize) -> bool {
        self.0[end..].iter().all(|byte| *byte == 0xaa)
    }
}

fn device() -> abi::OnebitDevice {
    abi::OnebitDevice {
        struct_size: size_of::<abi::OnebitDevice>(),
        kind: abi::ONEBIT_DEVICE_CPU,
        flags: 0,
        id: abi::OnebitStr::new("cpu"),
        name: abi::OnebitStr::new("CPU"),
        driver: abi::OnebitStr::EMPTY,
        firmware: abi::OnebitStr::EMPTY,
        uuid: [0; 16],
        vendor_id: 0,
        device_id: 0,
        memory_total: 0,
        memory_free: 0,
    }
}

fn open(path: &str, out: *mut abi::OnebitOpenOut) -> u32 {
    let device = device();
    let args = abi::OnebitOpenArgs {
        struct_size: size_of::<abi::OnebitOpenArgs>(),
        path: abi::OnebitStr::new(path),
        device: &raw const device,
        threads: 0,
        reserved: 0,
        options: std::ptr::null(),
        n_options: 0,
        cancel: std::ptr::null(),
        progress: None,
        progress_ctx: std::ptr::null_mut(),
    };
    // SAFETY: proper arguments; `out` is what the test is about.
    unsafe { table().open.expect("open")(&raw const args, out) }
}

fn model() -> *mut abi::OnebitModel {
    let mut out = Watched::new(size_of::<abi::OnebitOpenOut>());
    assert_eq!(open("x", out.as_mut_ptr()), abi::ONEBIT_OK);
    // SAFETY: filled by `open`.
    unsafe { (*out.as_mut_ptr::<abi::OnebitOpenOut>()).model }
}

#[test]
fn an_output_of_an_older_host_is_written_only_as_far_as_it_reaches() {
    let info = table().info.expect("info");
    // Every size an older minor may have had, from the bare size to one that is newer than ours.
    for size in (8..=size_of::<abi::OnebitInfo>()).step_by(8).chain([200]) {
        let mut out = Watched::new(size);
        // SAFETY: the buffer holds what it says.
        assert_eq!(unsafe { info(out.as_mut_ptr()) }, abi::ONEBIT_OK);
        assert!(out.is_untouched_from(size), "a host of {size} bytes was overwritten");
        assert_eq!(out.0[..8], size.to_ne_bytes(), "the host's size was changed");
        if size >= 24 {
            assert_ne!(out.0[8..16], [0; 8], "id is written where it fits");
        }
    }
}

#[test]
fn an_input_of_an_older_host_reads_as_zero_where_it_ends() {
    let fit = table().fit.expect("fit");
    let device = device();
    let mut args = Watched::new(std::mem::offset_of!(abi::OnebitFitArgs, context));
    let mut out = Watched::new(size_of::<abi::OnebitFitOut>());
    // SAFETY: writes within the size that the buffer says it has; behind it lie 0xaa, which must not be read as a context.
    unsafe {
        let args = args.as_mut_ptr::<abi::OnebitFitArgs>();
        (*args).path = abi::OnebitStr::new("x");
        (*args).device = &raw const device;
        assert_eq!(fit(args, out.as_mut_ptr()), abi::ONEBIT_OK);
        assert_eq!((*out.as_mut_ptr::<abi::OnebitFitOut>()).state, 7, "the default, not what lies behind");
    }
}

#[test]
fn null_misaligned_and_absurd_arguments_are_invalid_and_reported() {
    REPORTED.with_borrow_mut(Vec::clear);
    let table = table();
    let mut good = Watched::new(size_of::<abi::OnebitFitOut>());
    let mut huge = Watched::new(1 << 40);
    let mut tiny = Watched::new(3);
    let device = device();
    let fit_args = |path: abi::OnebitStr, device: *const abi::OnebitDevice, n_options: usize| abi::OnebitFitArgs {
        struct_size: size_of::<abi::OnebitFitArgs>(),
        path,
        device,
        context: 0,
        sequences: 0,
        options: std::ptr::null(),
        n_options,
    };
    let proper = fit_args(abi::OnebitStr::new("x"), &raw const device, 0);
    let null_path = abi::OnebitStr { ptr: std::ptr::null(), len: 5 };
    let long_path = abi::OnebitStr { ptr: c"x".as_ptr(), len: usize::MAX };
    let not_text = abi::OnebitStr { ptr: c"\xff".as_ptr(), len: 1 };
    let wrong = [
        (fit_args(abi::OnebitStr::EMPTY, &raw const device, 0), "path is empty"),
        (fit_args(null_path, &raw const device, 0), "path is null"),
        (fit_args(long_path, &raw const device, 0), "is no count"),
        (fit_args(not_text, &raw const device, 0), "path is not UTF-8"),
        (fit_args(abi::OnebitStr::new("x"), std::ptr::null(), 0), "OnebitDevice is null"),
        (fit_args(abi::OnebitStr::new("x"), &raw const device, 3), "options is null"),
    ];
    let mut cases = vec![
        (std::ptr::null(), good.as_mut_ptr(), "OnebitFitArgs is null"),
        (&raw const proper, std::ptr::null_mut(), "OnebitFitOut is null"),
        (&raw const proper, huge.as_mut_ptr(), "is no size"),
        (&raw const proper, tiny.as_mut_ptr(), "is no size"),
        (&raw const proper, good.as_mut_ptr::<u8>().wrapping_add(1).cast(), "not aligned"),
    ];
    cases.extend(wrong.iter().map(|(args, expected)| (std::ptr::from_ref(args), good.as_mut_ptr(), *expected)));
    for (args, out, expected) in cases {
        // SAFETY: what is wrong about the arguments is what the SDK must find before it follows them.
        assert_eq!(unsafe { table.fit.expect("fit")(args, out) }, abi::ONEBIT_INVALID_ARGUMENT, "{expected}");
        let (_, message) = reported(abi::ONEBIT_INVALID_ARGUMENT);
        assert!(message.contains(expected), "{message:?}, not {expected:?}");
    }
    // SAFETY: null is allowed.
    unsafe {
        table.close.expect("close")(std::ptr::null_mut());
        assert!(table.extension.expect("extension")(std::ptr::null_mut(), abi::OnebitStr::new("onebit.forward/1")).is_null());
    }
    reported(abi::ONEBIT_INVALID_ARGUMENT);
}

#[test]
fn a_panic_is_a_status_with_its_words_and_its_place() {
    let mut out = Watched::new(size_of::<abi::OnebitOpenOut>());
    assert_eq!(open("panic", out.as_mut_ptr()), abi::ONEBIT_PANIC);
    let (_, message) = reported(abi::ONEBIT_PANIC);
    assert!(message.contains("border.rs:") && message.ends_with("told to"), "{message}");
    assert_eq!(open("panic with a number", out.as_mut_ptr()), abi::ONEBIT_PANIC);
    assert!(reported(abi::ONEBIT_PANIC).1.contains("a panic without text"));
    // SAFETY: a zeroed output that `open` must not have touched.
    assert!(unsafe { (*out.as_mut_ptr::<abi::OnebitOpenOut>()).model }.is_null());
}

#[test]
fn a_host_of_another_major_gets_no_table_and_a_reason() {
    let other = abi::OnebitHost { abi_major: 2, ..*host() };
    // SAFETY: a proper host of another version; null is what is expected.
    assert!(unsafe { onebit_plugin_v1(Box::leak(Box::new(other))) }.is_null());
    let (_, message) = reported(abi::ONEBIT_ABI_MISMATCH);
    assert_eq!(message, "small 1.2.3 speaks ABI 1.0 or newer of that major, this host 2.1");
    // SAFETY: null is allowed.
    assert!(unsafe { onebit_plugin_v1(std::ptr::null()) }.is_null());
}

/// A session of the model and its table.
fn session(model: *mut abi::OnebitModel) -> (&'static abi::OnebitForward, *mut abi::OnebitSession) {
    // SAFETY: a live model, proper arguments.
    unsafe {
        let forward = table().extension.expect("extension")(model, abi::OnebitStr::new(abi::ONEBIT_FORWARD_1));
        let forward = forward.cast::<abi::OnebitForward>().as_ref().expect("forward");
        let mut args = Watched::new(size_of::<abi::OnebitSessionArgs>());
        let raw = args.as_mut_ptr::<abi::OnebitSessionArgs>();
        ((*raw).context, (*raw).sequences, (*raw).batch) = (8, 2, 4);
        let mut out = Watched::new(size_of::<abi::OnebitSessionOut>());
        assert_eq!(forward.session_open.expect("session_open")(model, raw, out.as_mut_ptr()), abi::ONEBIT_OK);
        (forward, (*out.as_mut_ptr::<abi::OnebitSessionOut>()).session)
    }
}

fn compute(forward: &abi::OnebitForward, session: *mut abi::OnebitSession, tokens: &[u32], position: u32, sequence: u32) -> u32 {
    let (positions, sequences, wants) = (vec![position; tokens.len()], vec![sequence; tokens.len()], vec![1u8; tokens.len()]);
    let batch = abi::OnebitBatch {
        struct_size: size_of::<abi::OnebitBatch>(),
        n: tokens.len() as u32,
        reserved: 0,
        tokens: tokens.as_ptr(),
        embeddings: std::ptr::null(),
        positions: positions.as_ptr(),
        sequences: sequences.as_ptr(),
        wants_logits: wants.as_ptr(),
        cancel: std::ptr::null(),
    };
    let mut out = Watched::new(size_of::<abi::OnebitLogits>());
    // SAFETY: a live session, proper arguments.
    unsafe { forward.forward.expect("forward")(session, &raw const batch, out.as_mut_ptr()) }
}

#[test]
fn a_session_checks_what_it_is_given_and_what_the_plugin_gives_back() {
    let model = model();
    let (forward, raw) = session(model);
    assert_eq!(compute(forward, raw, &[0, 1], 0, 0), abi::ONEBIT_OK);
    for (tokens, position, sequence, status) in [
        (&[][..], 0, 0, abi::ONEBIT_INVALID_ARGUMENT),
        (&[0; 5][..], 0, 0, abi::ONEBIT_INVALID_ARGUMENT),
        (&[4][..], 0, 0, abi::ONEBIT_INVALID_ARGUMENT),
        (&[0][..], 0, 2, abi::ONEBIT_INVALID_ARGUMENT),
        (&[0][..], 1001, 0, abi::ONEBIT_INTERNAL),
    ] {
        REPORTED.with_borrow_mut(Vec::clear);
        assert_eq!(compute(forward, raw, tokens, position, sequence), status, "{tokens:?} {position} {sequence}");
        reported(status);
    }
    // SAFETY: both are live, and the session goes first.
    unsafe {
        forward.session_close.expect("session_close")(raw);
        table().close.expect("close")(model);
    }
}

#[test]
fn a_session_that_panicked_only_closes() {
    let model = model();
    let (forward, raw) = session(model);
    assert_eq!(compute(forward, raw, &[0], 1000, 0), abi::ONEBIT_PANIC);
    assert!(reported(abi::ONEBIT_PANIC).1.ends_with("in the middle of a batch"));
    assert_eq!(compute(forward, raw, &[0], 0, 0), abi::ONEBIT_PANIC);
    assert!(reported(abi::ONEBIT_PANIC).1.contains("can only be closed"));
    // SAFETY: as above.
    unsafe {
        forward.session_close.expect("session_close")(raw);
        table().close.expect("close")(model);
    }
}

#[test]
fn a_buffer_that_is_too_small_is_told_the_size_to_come_back_with() {
    let model = model();
    // SAFETY: a live model, proper arguments.
    unsafe {
        let tokenize = table().extension.expect("extension")(model, abi::OnebitStr::new(abi::ONEBIT_TOKENIZE_1));
        let tokenize = tokenize.cast::<abi::OnebitTokenize>().as_ref().expect("tokenize");
        let mut tokens = [0; 3];
        let mut args = abi::OnebitEncodeArgs {
            struct_size: size_of::<abi::OnebitEncodeArgs>(),
            text: abi::OnebitStr::new("four"),
            flags: 0,
            capacity: 0,
            tokens: std::ptr::null_mut(),
        };
        let mut n = 0;
        assert_eq!(tokenize.encode.expect("encode")(model, &raw const args, &raw mut n), abi::ONEBIT_BUFFER_TOO_SMALL);
        assert_eq!(n, 4);
        reported(abi::ONEBIT_BUFFER_TOO_SMALL);
        (args.capacity, args.tokens) = (3, tokens.as_mut_ptr());
        assert_eq!(tokenize.encode.expect("encode")(model, &raw const args, &raw mut n), abi::ONEBIT_BUFFER_TOO_SMALL);
        assert_eq!(tokens, [0; 3], "nothing is written in part");
        table().close.expect("close")(model);
    }
}

#[test]
fn capabilities_that_a_model_has_not_are_null() {
    let model = model();
    // SAFETY: a live model.
    unsafe {
        let extension = table().extension.expect("extension");
        for id in [abi::ONEBIT_EMBED_1, "onebit.forward/2", "org.example.other/1", ""] {
            assert!(extension(model, abi::OnebitStr::new(id)).is_null(), "{id}");
        }
        table().close.expect("close")(model);
    }
}
