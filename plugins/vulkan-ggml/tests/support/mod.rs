//! The smallest host: loads the staged plugin through its C door and calls the tables as a host would.
//!
//! It stands on the ABI alone, so what these tests see is what any host sees. Needs two variables, which `cargo xtask test` sets:
//! `ONEBIT_DIST` (the staged tree) and `ONEBIT_TEST_MODELS` (a folder with SmolLM2-135M-Instruct.Q4_1.gguf).

#![allow(dead_code, reason = "each test file uses its part")]

pub mod bert;

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use onebit_plugin_api::*;

/// The end of a sequence.
pub const END: u32 = u32::MAX;

static LOG: Mutex<Vec<(u32, String)>> = Mutex::new(Vec::new());

thread_local! {
    static REPORTED: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// What a failed call said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub code: u32,
    pub have: u64,
    pub need: u64,
    pub want: u64,
    pub message: String,
}

fn text(text: OnebitStr) -> String {
    if text.len == 0 {
        return String::new();
    }
    // SAFETY: the plugin's texts obey the ABI.
    let bytes = unsafe { core::slice::from_raw_parts(text.ptr.cast::<u8>(), text.len) };
    String::from_utf8(bytes.to_vec()).expect("texts are UTF-8")
}

unsafe extern "C" fn on_log(_: *mut c_void, level: u32, target: OnebitStr, message: OnebitStr) {
    // Thousands of lines per load, which no test asks for and which would look like a leak of the plugin.
    if level >= ONEBIT_LOG_DEBUG {
        return;
    }
    let line = format!("{}: {}", text(target), text(message));
    LOG.lock().unwrap_or_else(PoisonError::into_inner).push((level, line));
}

unsafe extern "C" fn on_error(_: *mut c_void, error: *const OnebitError) {
    // SAFETY: the plugin's errors obey the ABI.
    let error = unsafe { &*error };
    let failure = Failure { code: error.code, have: error.have, need: error.need, want: error.want, message: text(error.message) };
    REPORTED.with_borrow_mut(|reported| *reported = Some(failure));
}

/// Everything logged so far.
pub fn log() -> Vec<(u32, String)> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn check(status: OnebitStatus) -> Result<(), Failure> {
    if status == ONEBIT_OK {
        return Ok(());
    }
    let reported = REPORTED.with_borrow_mut(Option::take).expect("a failed call reports its error");
    assert_eq!(reported.code, status, "the status and the report agree: {reported:?}");
    Err(reported)
}

fn variable(name: &str, what: &str) -> PathBuf {
    let value =
        std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: it names {what}. Run `cargo xtask test`, which sets it."));
    PathBuf::from(value)
}

/// The model these tests use.
pub fn model_path() -> PathBuf {
    let path = variable("ONEBIT_TEST_MODELS", "a folder with the test models").join("SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(path.is_file(), "{} is missing; `cargo xtask model` fetches it", path.display());
    path
}

/// The machine is small, and ggml takes all of it: one test at a time.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The plugin's table.
#[derive(Clone, Copy)]
pub struct Plugin(&'static OnebitPlugin);

// SAFETY: tables are constant; the functions used from several threads are allowed there.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

/// Loads the staged plugin once.
pub fn plugin() -> Plugin {
    static PLUGIN: OnceLock<Plugin> = OnceLock::new();
    *PLUGIN.get_or_init(|| {
        let file = variable("ONEBIT_DIST", "the staged tree").join("lib/onebit/plugins/vulkan-ggml/libonebit_plugin_vulkan_ggml.so");
        let name = CString::new(file.to_str().expect("a readable path")).expect("a path");
        // SAFETY: our own plugin; loaded as the host does it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{} cannot be loaded; run `cargo xtask stage`", file.display());
        // SAFETY: an open handle.
        let door = unsafe { libc::dlsym(handle, ONEBIT_ENTRY_SYMBOL.as_ptr()) };
        assert!(!door.is_null(), "there is no door");
        // SAFETY: the ABI says so.
        let door = unsafe { core::mem::transmute::<*mut c_void, OnebitEntry>(door) };
        let host = Box::leak(Box::new(OnebitHost {
            struct_size: size_of::<OnebitHost>(),
            abi_major: ONEBIT_ABI_MAJOR,
            abi_minor: ONEBIT_ABI_MINOR,
            ctx: core::ptr::null_mut(),
            log: Some(on_log),
            metric_add: None,
            metric_set: None,
            now_ns: None,
            report_error: Some(on_error),
        }));
        // SAFETY: a table that lives for ever.
        let table = unsafe { door(host).as_ref() }.expect("the plugin lives with this host");
        Plugin(table)
    })
}

/// A device of the host's list.
#[derive(Clone)]
pub struct TestDevice {
    pub kind: u32,
    pub flags: u32,
    pub uuid: [u8; 16],
    pub id: String,
}

impl TestDevice {
    /// The processor.
    pub fn cpu() -> Self {
        Self { kind: ONEBIT_DEVICE_CPU, flags: 0, uuid: [0; 16], id: "cpu".to_owned() }
    }

    /// A Vulkan device.
    pub fn vulkan(uuid: [u8; 16], flags: u32) -> Self {
        Self { kind: ONEBIT_DEVICE_VULKAN, flags, uuid, id: "vulkan:test".to_owned() }
    }

    fn raw(&self) -> OnebitDevice {
        OnebitDevice {
            struct_size: size_of::<OnebitDevice>(),
            kind: self.kind,
            flags: self.flags,
            id: OnebitStr::new(&self.id),
            name: OnebitStr::EMPTY,
            driver: OnebitStr::EMPTY,
            firmware: OnebitStr::EMPTY,
            uuid: self.uuid,
            vendor_id: 0,
            device_id: 0,
            memory_total: 0,
            memory_free: 0,
        }
    }
}

/// A report of `probe`.
#[derive(Debug, Clone)]
pub struct Report {
    pub usable: bool,
    pub score: u32,
    pub reason: u32,
    pub text: String,
}

/// An answer of `fit`.
#[derive(Debug, Clone)]
pub struct FitAnswer {
    pub usable: bool,
    pub reason: u32,
    pub text: String,
    pub architecture: String,
    pub quantisation: String,
    pub weights_host: u64,
    pub weights_device: u64,
    pub state: u64,
    pub state_per_token: u64,
    pub scratch_host: u64,
    pub context_trained: u64,
    pub parameters: u64,
}

unsafe extern "C" fn on_progress(ctx: *mut c_void, fraction: f32) {
    // SAFETY: `open` passes a closure that lives for the call.
    let progress = unsafe { &mut *ctx.cast::<&mut dyn FnMut(f32)>() };
    progress(fraction);
}

fn pairs(options: &[(&str, &str)]) -> Vec<OnebitKeyValue> {
    options.iter().map(|(key, value)| OnebitKeyValue { key: OnebitStr::new(key), value: OnebitStr::new(value) }).collect()
}

impl Plugin {
    /// What it computes with.
    pub fn computes_with(self) -> String {
        // SAFETY: a plain struct for which zeros are values.
        let mut out: OnebitInfo = unsafe { core::mem::zeroed() };
        out.struct_size = size_of::<OnebitInfo>();
        // SAFETY: the ABI.
        check(unsafe { self.0.info.expect("info")(&raw mut out) }).expect("info");
        text(out.computes_with)
    }

    /// Judges devices.
    pub fn probe(self, devices: &[TestDevice]) -> Vec<Report> {
        let raw: Vec<OnebitDevice> = devices.iter().map(TestDevice::raw).collect();
        let pointers: Vec<*const OnebitDevice> = raw.iter().map(|device| &raw const *device).collect();
        let args = OnebitProbeArgs { struct_size: size_of::<OnebitProbeArgs>(), devices: pointers.as_ptr(), n_devices: pointers.len() };
        let mut out = OnebitProbeOut { struct_size: size_of::<OnebitProbeOut>(), reports: core::ptr::null(), n_reports: 0 };
        // SAFETY: the ABI.
        check(unsafe { self.0.probe.expect("probe")(&raw const args, &raw mut out) }).expect("probe");
        assert_eq!(out.n_reports, devices.len());
        (0..out.n_reports)
            .map(|i| {
                // SAFETY: as many reports as said.
                let report = unsafe { &**out.reports.add(i) };
                Report { usable: report.usable == 1, score: report.score, reason: report.reason_code, text: text(report.reason) }
            })
            .collect()
    }

    /// Judges a file.
    pub fn fit(self, path: &Path, device: &TestDevice, context: u32) -> Result<FitAnswer, Failure> {
        let device = device.raw();
        let path = path.to_str().expect("a readable path");
        let args = OnebitFitArgs {
            struct_size: size_of::<OnebitFitArgs>(),
            path: OnebitStr::new(path),
            device: &raw const device,
            context,
            sequences: 1,
            options: core::ptr::null(),
            n_options: 0,
        };
        // SAFETY: a plain struct for which zeros are values.
        let mut out: OnebitFitOut = unsafe { core::mem::zeroed() };
        out.struct_size = size_of::<OnebitFitOut>();
        // SAFETY: the ABI.
        check(unsafe { self.0.fit.expect("fit")(&raw const args, &raw mut out) })?;
        Ok(FitAnswer {
            usable: out.usable == 1,
            reason: out.reason_code,
            text: text(out.reason),
            architecture: text(out.architecture),
            quantisation: text(out.quantisation),
            weights_host: out.weights_host,
            weights_device: out.weights_device,
            state: out.state,
            state_per_token: out.state_per_token,
            scratch_host: out.scratch_host,
            context_trained: out.context_trained,
            parameters: out.parameters,
        })
    }

    /// Opens a model.
    pub fn open(
        self,
        path: &Path,
        device: &TestDevice,
        options: &[(&str, &str)],
        cancel: Option<&AtomicU32>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Model, Failure> {
        let device = device.raw();
        let options = pairs(options);
        let mut progress = progress;
        let args = OnebitOpenArgs {
            struct_size: size_of::<OnebitOpenArgs>(),
            path: OnebitStr::new(path.to_str().expect("a readable path")),
            device: &raw const device,
            threads: 0,
            reserved: 0,
            options: options.as_ptr(),
            n_options: options.len(),
            cancel: cancel.map_or(core::ptr::null(), |flag| flag.as_ptr().cast_const()),
            progress: Some(on_progress),
            progress_ctx: (&raw mut progress).cast(),
        };
        // SAFETY: a plain struct for which zeros are values.
        let mut out: OnebitOpenOut = unsafe { core::mem::zeroed() };
        out.struct_size = size_of::<OnebitOpenOut>();
        // SAFETY: the ABI.
        check(unsafe { self.0.open.expect("open")(&raw const args, &raw mut out) })?;
        Ok(Model {
            plugin: self,
            raw: out.model,
            computes_on: text(out.computes_on),
            architecture: text(out.architecture),
            quantisation: text(out.quantisation),
        })
    }

    /// The test model on the CPU.
    pub fn open_cpu(self) -> Model {
        self.open(&model_path(), &TestDevice::cpu(), &[], None, &mut |_| {}).expect("the test model opens on the CPU")
    }
}

/// The test model on the CPU, opened once for all tests of a file.
pub fn shared() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| plugin().open_cpu())
}

/// A loaded model.
pub struct Model {
    plugin: Plugin,
    raw: *mut OnebitModel,
    pub computes_on: String,
    pub architecture: String,
    pub quantisation: String,
}

// SAFETY: the ABI allows the functions used here from any thread, and the tests take turns.
unsafe impl Send for Model {}
// SAFETY: as above.
unsafe impl Sync for Model {}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once, after what was made from it.
        unsafe { self.plugin.0.close.expect("close")(self.raw) }
    }
}

impl Model {
    fn extension<T>(&self, id: &str) -> &'static T {
        // SAFETY: the ABI; tables live until the process ends.
        unsafe { self.plugin.0.extension.expect("extension")(self.raw, OnebitStr::new(id)).cast::<T>().as_ref() }
            .unwrap_or_else(|| panic!("{id} is not offered"))
    }

    /// What it can do at token level.
    pub fn limits(&self) -> OnebitForwardLimits {
        // SAFETY: a plain struct for which zeros are values.
        let mut out: OnebitForwardLimits = unsafe { core::mem::zeroed() };
        out.struct_size = size_of::<OnebitForwardLimits>();
        let table: &OnebitForward = self.extension(ONEBIT_FORWARD_1);
        // SAFETY: the ABI.
        check(unsafe { table.limits.expect("limits")(self.raw, &raw mut out) }).expect("limits");
        out
    }

    /// Opens a session.
    pub fn session(&self, context: u32, sequences: u32, batch: u32) -> Result<Session<'_>, Failure> {
        let table: &OnebitForward = self.extension(ONEBIT_FORWARD_1);
        let args = OnebitSessionArgs {
            struct_size: size_of::<OnebitSessionArgs>(),
            context,
            sequences,
            batch,
            threads_decode: 0,
            threads_prefill: 0,
            reserved: 0,
            options: core::ptr::null(),
            n_options: 0,
        };
        // SAFETY: a plain struct for which zeros are values.
        let mut out: OnebitSessionOut = unsafe { core::mem::zeroed() };
        out.struct_size = size_of::<OnebitSessionOut>();
        // SAFETY: the ABI.
        check(unsafe { table.session_open.expect("session_open")(self.raw, &raw const args, &raw mut out) })?;
        Ok(Session {
            table,
            raw: out.session,
            context: out.context,
            state_bytes: out.state_bytes,
            scratch_bytes: out.scratch_bytes,
            _model: self,
        })
    }

    /// Whether a capability is offered.
    pub fn offers(&self, id: &str) -> bool {
        // SAFETY: the ABI.
        !unsafe { self.plugin.0.extension.expect("extension")(self.raw, OnebitStr::new(id)) }.is_null()
    }

    /// Text to tokens.
    pub fn encode(&self, text: &str, flags: u32) -> Vec<u32> {
        let table: &OnebitTokenize = self.extension(ONEBIT_TOKENIZE_1);
        let mut tokens = vec![0; text.len() + 16];
        let args = OnebitEncodeArgs {
            struct_size: size_of::<OnebitEncodeArgs>(),
            text: OnebitStr::new(text),
            flags,
            capacity: tokens.len() as u32,
            tokens: tokens.as_mut_ptr(),
        };
        let mut n = 0;
        // SAFETY: the ABI.
        check(unsafe { table.encode.expect("encode")(self.raw, &raw const args, &raw mut n) }).expect("encodes");
        tokens.truncate(n as usize);
        tokens
    }

    /// Tokens to bytes.
    pub fn decode(&self, tokens: &[u32], control: bool) -> Vec<u8> {
        let table: &OnebitTokenize = self.extension(ONEBIT_TOKENIZE_1);
        let mut bytes = vec![0_u8; 64 * tokens.len() + 16];
        let args = OnebitDecodeArgs {
            struct_size: size_of::<OnebitDecodeArgs>(),
            tokens: tokens.as_ptr(),
            n: tokens.len() as u32,
            control: u32::from(control),
            capacity: bytes.len(),
            bytes: bytes.as_mut_ptr().cast::<c_char>(),
        };
        let mut n = 0;
        // SAFETY: the ABI.
        check(unsafe { table.decode.expect("decode")(self.raw, &raw const args, &raw mut n) }).expect("decodes");
        bytes.truncate(n);
        bytes
    }

    /// Facts about the vocabulary, with its template and kind.
    pub fn vocabulary(&self) -> (OnebitVocabulary, String, String) {
        // SAFETY: a plain struct for which zeros are values.
        let mut out: OnebitVocabulary = unsafe { core::mem::zeroed() };
        out.struct_size = size_of::<OnebitVocabulary>();
        let table: &OnebitTokenize = self.extension(ONEBIT_TOKENIZE_1);
        // SAFETY: the ABI.
        check(unsafe { table.vocabulary.expect("vocabulary")(self.raw, &raw mut out) }).expect("vocabulary");
        let (template, kind) = (text(out.chat_template), text(out.kind));
        (out, template, kind)
    }

    /// Flags and text of a token.
    pub fn token(&self, id: u32) -> Result<(u32, String), Failure> {
        // SAFETY: a plain struct for which zeros are values.
        let mut out: OnebitTokenInfo = unsafe { core::mem::zeroed() };
        out.struct_size = size_of::<OnebitTokenInfo>();
        let table: &OnebitTokenize = self.extension(ONEBIT_TOKENIZE_1);
        // SAFETY: the ABI.
        check(unsafe { table.token_info.expect("token_info")(self.raw, id, &raw mut out) })?;
        Ok((out.flags, text(out.text)))
    }

    /// One vector per text.
    pub fn embed(&self, texts: &[Vec<u32>], normalise: bool) -> Result<Vec<Vec<f32>>, Failure> {
        let table: &OnebitEmbed = self.extension(ONEBIT_EMBED_1);
        // SAFETY: a plain struct for which zeros are values.
        let mut limits: OnebitEmbedLimits = unsafe { core::mem::zeroed() };
        limits.struct_size = size_of::<OnebitEmbedLimits>();
        // SAFETY: the ABI.
        check(unsafe { table.limits.expect("limits")(self.raw, &raw mut limits) })?;
        let tokens: Vec<u32> = texts.concat();
        let mut offsets = vec![0_u32];
        for text in texts {
            offsets.push(offsets.last().expect("never empty") + text.len() as u32);
        }
        let dimension = limits.dimension as usize;
        let mut vectors = vec![0.0_f32; dimension * texts.len()];
        let args = OnebitEmbedArgs {
            struct_size: size_of::<OnebitEmbedArgs>(),
            tokens: tokens.as_ptr(),
            offsets: offsets.as_ptr(),
            n: texts.len() as u32,
            normalise: u32::from(normalise),
            cancel: core::ptr::null(),
            vectors: vectors.as_mut_ptr(),
            capacity: vectors.len(),
        };
        // SAFETY: the ABI.
        check(unsafe { table.embed.expect("embed")(self.raw, &raw const args) })?;
        Ok(vectors.chunks(dimension).map(<[f32]>::to_vec).collect())
    }
}

impl Model {
    /// How much it reads of a query and a document.
    pub fn rerank_limits(&self) -> OnebitRerankLimits {
        // SAFETY: a plain struct for which zeros are values.
        let mut out: OnebitRerankLimits = unsafe { core::mem::zeroed() };
        out.struct_size = size_of::<OnebitRerankLimits>();
        let table: &OnebitRerank = self.extension(ONEBIT_RERANK_1);
        // SAFETY: the ABI.
        check(unsafe { table.limits.expect("limits")(self.raw, &raw mut out) }).expect("limits");
        out
    }

    /// One score per document.
    pub fn rerank(&self, query: &[u32], documents: &[Vec<u32>]) -> Result<Vec<f32>, Failure> {
        let table: &OnebitRerank = self.extension(ONEBIT_RERANK_1);
        let tokens: Vec<u32> = documents.concat();
        let mut offsets = vec![0_u32];
        for document in documents {
            offsets.push(offsets.last().expect("never empty") + document.len() as u32);
        }
        let mut scores = vec![0.0_f32; documents.len()];
        let args = OnebitRerankArgs {
            struct_size: size_of::<OnebitRerankArgs>(),
            query: query.as_ptr(),
            tokens: tokens.as_ptr(),
            offsets: offsets.as_ptr(),
            n_query: query.len() as u32,
            n: documents.len() as u32,
            cancel: core::ptr::null(),
            scores: scores.as_mut_ptr(),
            capacity: scores.len(),
        };
        // SAFETY: the ABI.
        check(unsafe { table.rerank.expect("rerank")(self.raw, &raw const args) })?;
        Ok(scores)
    }
}

/// A session.
pub struct Session<'a> {
    table: &'static OnebitForward,
    raw: *mut OnebitSession,
    pub context: u32,
    pub state_bytes: u64,
    pub scratch_bytes: u64,
    _model: &'a Model,
}

// SAFETY: a session belongs to one thread at a time.
unsafe impl Send for Session<'_> {}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once.
        unsafe { self.table.session_close.expect("session_close")(self.raw) }
    }
}

/// A row of a batch: token, position, sequence, logits wanted.
pub type Row = (u32, u32, u32, bool);

impl Session<'_> {
    /// Computes rows; one vector per row that wanted logits.
    pub fn forward(&mut self, rows: &[Row], cancel: Option<&AtomicU32>) -> Result<Vec<Vec<f32>>, Failure> {
        let tokens: Vec<u32> = rows.iter().map(|row| row.0).collect();
        self.compute(rows, tokens.as_ptr(), core::ptr::null(), cancel)
    }

    /// Like `forward`, with one row of embeddings in the place of each token.
    pub fn forward_embeddings(&mut self, rows: &[Row], embeddings: &[f32]) -> Result<Vec<Vec<f32>>, Failure> {
        self.compute(rows, core::ptr::null(), embeddings.as_ptr(), None)
    }

    fn compute(
        &mut self,
        rows: &[Row],
        tokens: *const u32,
        embeddings: *const f32,
        cancel: Option<&AtomicU32>,
    ) -> Result<Vec<Vec<f32>>, Failure> {
        let positions: Vec<u32> = rows.iter().map(|row| row.1).collect();
        let sequences: Vec<u32> = rows.iter().map(|row| row.2).collect();
        let wanted: Vec<u8> = rows.iter().map(|row| u8::from(row.3)).collect();
        let batch = OnebitBatch {
            struct_size: size_of::<OnebitBatch>(),
            n: rows.len() as u32,
            reserved: 0,
            tokens,
            embeddings,
            positions: positions.as_ptr(),
            sequences: sequences.as_ptr(),
            wants_logits: wanted.as_ptr(),
            cancel: cancel.map_or(core::ptr::null(), |flag| flag.as_ptr().cast_const()),
        };
        // SAFETY: a plain struct for which zeros are values.
        let mut out: OnebitLogits = unsafe { core::mem::zeroed() };
        out.struct_size = size_of::<OnebitLogits>();
        // SAFETY: the ABI.
        check(unsafe { self.table.forward.expect("forward")(self.raw, &raw const batch, &raw mut out) })?;
        let expected = rows.iter().filter(|row| row.3).count();
        assert_eq!(out.rows as usize, expected);
        if expected == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: rows × vocabulary values.
        let data = unsafe { core::slice::from_raw_parts(out.data, expected * out.vocabulary as usize) };
        Ok(data.chunks(out.vocabulary as usize).map(<[f32]>::to_vec).collect())
    }

    /// Feeds `tokens` to a sequence from `position`; the logits of the last one.
    pub fn feed(&mut self, sequence: u32, position: u32, tokens: &[u32]) -> Vec<f32> {
        let rows: Vec<Row> =
            (position..).zip(tokens).map(|(p, &token)| (token, p, sequence, p + 1 == position + tokens.len() as u32)).collect();
        self.forward(&rows, None).expect("computes").pop().expect("one row wants logits")
    }

    fn args(sequence: u32, destination: u32, p0: u32, p1: u32, delta: i32) -> OnebitSeqArgs {
        OnebitSeqArgs { struct_size: size_of::<OnebitSeqArgs>(), sequence, destination, p0, p1, delta, reserved: 0 }
    }

    /// See the ABI.
    pub fn copy(&mut self, source: u32, destination: u32, p0: u32, p1: u32) -> Result<(), Failure> {
        let args = Self::args(source, destination, p0, p1, 0);
        // SAFETY: the ABI.
        check(unsafe { self.table.seq_copy.expect("seq_copy")(self.raw, &raw const args) })
    }

    /// See the ABI.
    pub fn remove(&mut self, sequence: u32, p0: u32, p1: u32) -> Result<(), Failure> {
        let args = Self::args(sequence, 0, p0, p1, 0);
        // SAFETY: the ABI.
        check(unsafe { self.table.seq_remove.expect("seq_remove")(self.raw, &raw const args) })
    }

    /// See the ABI.
    pub fn save(&mut self, sequence: u32) -> Vec<u8> {
        let mut bytes = 0;
        // SAFETY: the ABI.
        check(unsafe { self.table.state_size.expect("state_size")(self.raw, sequence, &raw mut bytes) }).expect("a size");
        let mut buffer = vec![0_u8; bytes as usize];
        // SAFETY: the ABI.
        check(unsafe { self.table.state_save.expect("state_save")(self.raw, sequence, buffer.as_mut_ptr().cast(), &raw mut bytes) })
            .expect("saves");
        buffer.truncate(bytes as usize);
        buffer
    }

    /// See the ABI.
    pub fn load(&mut self, sequence: u32, buffer: &[u8]) -> Result<(), Failure> {
        // SAFETY: the ABI.
        check(unsafe { self.table.state_load.expect("state_load")(self.raw, sequence, buffer.as_ptr().cast(), buffer.len() as u64) })
    }
}

/// A moment, by the clock on the wall and by the processor time this process has used.
#[derive(Clone, Copy)]
pub struct Moment {
    wall: std::time::Instant,
    computed: Duration,
}

impl Moment {
    /// Now.
    pub fn now() -> Self {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a struct to write to.
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
        Self { wall: std::time::Instant::now(), computed: Duration::new(time.tv_sec as u64, time.tv_nsec as u32) }
    }

    /// How long ago on the wall, and how much was computed since. The second does not depend on what else the machine does.
    pub fn since(self) -> (Duration, Duration) {
        let now = Self::now();
        (now.wall - self.wall, now.computed - self.computed)
    }
}

/// The most likely token.
pub fn best(logits: &[f32]) -> u32 {
    assert!(logits.iter().all(|x| x.is_finite()), "logits are numbers");
    let (token, _) = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).expect("a vocabulary");
    token as u32
}

/// The largest difference between two rows of logits.
pub fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
}

/// Greedy continuation of `prompt` in sequence 0 of a new session.
pub fn greedy(model: &Model, prompt: &[u32], count: usize) -> Vec<u32> {
    let mut session = model.session(512, 1, 256).expect("a session");
    let mut out = vec![best(&session.feed(0, 0, prompt))];
    while out.len() < count {
        let position = (prompt.len() + out.len() - 1) as u32;
        let last = *out.last().expect("not empty");
        out.push(best(&session.feed(0, position, &[last])));
    }
    out
}
