//! Every call of the ABI with a `struct_size` that is a lie.
//!
//! A struct that is said to be short is short: the page behind it is closed, and what a plugin reads or writes there ends the process. A
//! struct that is said to be long is long, with garbage behind what this ABI knows, which must be neither believed nor changed.

use std::ffi::c_void;
use std::path::Path;

use onebit_plugin_api as abi;
use onebit_plugin_api::layout::Growable;

use super::guarded::{GARBAGE, Guarded};
use crate::devices::Device;
use crate::plugin::{call, raw_device, raw_path};
use crate::{Model, Plugin, PluginError, Status, raw};

/// What has to be there before a call can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A plugin.
    Plugin,
    /// A model with `onebit.forward/1`.
    Forward,
    /// A model with `onebit.tokenize/1`.
    Tokenize,
    /// A model with `onebit.embed/1`.
    Embed,
    /// A model with `onebit.rerank/1`.
    Rerank,
}

/// Which struct of a call is lied about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What the plugin reads.
    Args,
    /// What the plugin writes.
    Out,
    /// The device that the arguments point to.
    Device,
}

/// One call of the ABI: its name, what it needs, and its growable structs with their true sizes.
#[derive(Debug)]
pub struct Call {
    /// As in the header.
    pub name: &'static str,
    /// What it needs.
    pub stage: Stage,
    /// Structs that the host allocates: which, its name, its bytes.
    pub structs: &'static [(Part, &'static str, usize)],
    make: fn(&mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError>,
}

/// One lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lie {
    /// About which struct.
    pub part: Part,
    /// The `struct_size` that is claimed; a multiple of 8, at most 4096.
    pub size: usize,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// What the call returned, with the plugin's words.
    pub result: Result<(), PluginError>,
    /// What was written where nothing may be written; empty if all is well.
    pub damage: Vec<String>,
}

/// What the calls are made with.
pub struct Subject<'a> {
    /// The plugin.
    pub plugin: &'a Plugin,
    /// For calls that need one.
    pub model: Option<&'a Model>,
    /// For `fit` and `open`: a model file, or anything.
    pub path: &'a Path,
    /// A device that the plugin takes.
    pub device: &'a Device,
    /// Settings of the plugin.
    pub options: &'a [(String, String)],
    /// A text that the model encodes.
    pub text: &'a str,
}

/// All calls with structs that may grow.
#[rustfmt::skip]
pub static CALLS: &[Call] = &[
    Call { name: "info", stage: Stage::Plugin, structs: &[out::<abi::OnebitInfo>("OnebitInfo")], make: info },
    Call { name: "probe", stage: Stage::Plugin, structs: &[args::<abi::OnebitProbeArgs>("OnebitProbeArgs"), DEVICE, out::<abi::OnebitProbeOut>("OnebitProbeOut")], make: probe },
    Call { name: "fit", stage: Stage::Plugin, structs: &[args::<abi::OnebitFitArgs>("OnebitFitArgs"), DEVICE, out::<abi::OnebitFitOut>("OnebitFitOut")], make: fit },
    Call { name: "open", stage: Stage::Plugin, structs: &[args::<abi::OnebitOpenArgs>("OnebitOpenArgs"), DEVICE, out::<abi::OnebitOpenOut>("OnebitOpenOut")], make: open },
    Call { name: "forward.limits", stage: Stage::Forward, structs: &[out::<abi::OnebitForwardLimits>("OnebitForwardLimits")], make: limits },
    Call { name: "session_open", stage: Stage::Forward, structs: &[args::<abi::OnebitSessionArgs>("OnebitSessionArgs"), out::<abi::OnebitSessionOut>("OnebitSessionOut")], make: session_open },
    Call { name: "forward", stage: Stage::Forward, structs: &[args::<abi::OnebitBatch>("OnebitBatch"), out::<abi::OnebitLogits>("OnebitLogits")], make: forward },
    Call { name: "seq_copy", stage: Stage::Forward, structs: &[args::<abi::OnebitSeqArgs>("OnebitSeqArgs")], make: |wire| sequence(wire, |table| table.seq_copy) },
    Call { name: "seq_remove", stage: Stage::Forward, structs: &[args::<abi::OnebitSeqArgs>("OnebitSeqArgs")], make: |wire| sequence(wire, |table| table.seq_remove) },
    Call { name: "seq_shift", stage: Stage::Forward, structs: &[args::<abi::OnebitSeqArgs>("OnebitSeqArgs")], make: |wire| sequence(wire, |table| table.seq_shift) },
    Call { name: "vocabulary", stage: Stage::Tokenize, structs: &[out::<abi::OnebitVocabulary>("OnebitVocabulary")], make: vocabulary },
    Call { name: "token_info", stage: Stage::Tokenize, structs: &[out::<abi::OnebitTokenInfo>("OnebitTokenInfo")], make: token_info },
    Call { name: "encode", stage: Stage::Tokenize, structs: &[args::<abi::OnebitEncodeArgs>("OnebitEncodeArgs")], make: encode },
    Call { name: "decode", stage: Stage::Tokenize, structs: &[args::<abi::OnebitDecodeArgs>("OnebitDecodeArgs")], make: decode },
    Call { name: "embed.limits", stage: Stage::Embed, structs: &[out::<abi::OnebitEmbedLimits>("OnebitEmbedLimits")], make: embed_limits },
    Call { name: "embed", stage: Stage::Embed, structs: &[args::<abi::OnebitEmbedArgs>("OnebitEmbedArgs")], make: embed },
    Call { name: "rerank.limits", stage: Stage::Rerank, structs: &[out::<abi::OnebitRerankLimits>("OnebitRerankLimits")], make: rerank_limits },
    Call { name: "rerank", stage: Stage::Rerank, structs: &[args::<abi::OnebitRerankArgs>("OnebitRerankArgs")], make: rerank },
];

const DEVICE: (Part, &str, usize) = (Part::Device, "OnebitDevice", size_of::<abi::OnebitDevice>());

const fn args<T: Growable>(name: &'static str) -> (Part, &'static str, usize) {
    (Part::Args, name, size_of::<T>())
}

const fn out<T: Growable>(name: &'static str) -> (Part, &'static str, usize) {
    (Part::Out, name, size_of::<T>())
}

/// Makes a call with one lie in it; without a lie as a truthful host would.
pub fn lie(subject: &Subject<'_>, which: &Call, lie: Option<Lie>) -> Result<Told, PluginError> {
    let mut wire = Wire { subject, lie, kept: Vec::new() };
    let mut failed = None;
    let result = call(|| match (which.make)(&mut wire) {
        Ok(status) => status,
        Err(error) => {
            failed = Some(error);
            abi::ONEBIT_OK
        }
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(Told { damage: wire.damage(result.is_err()), result }),
    }
}

/// The memory that a call was made with.
struct Wire<'a> {
    subject: &'a Subject<'a>,
    lie: Option<Lie>,
    kept: Vec<Kept>,
}

struct Kept {
    part: Part,
    memory: Guarded,
    before: Vec<u8>,
    /// Bytes that the plugin may write to.
    known: usize,
}

impl Wire<'_> {
    /// Puts a struct where it ends at a closed page, as long as the lie says.
    fn place<T: Growable>(&mut self, part: Part, value: &T) -> Result<*mut T, PluginError> {
        let truth = size_of::<T>();
        let size = self.lie.filter(|lie| lie.part == part).map_or(truth, |lie| lie.size);
        // The size itself is always there to be read.
        let memory = Guarded::new(size.max(size_of::<usize>()))
            .map_err(|error| PluginError::new(Status::OUT_OF_HOST_MEMORY, format!("no memory for a struct: {error}")))?;
        // SAFETY: a growable struct has no padding.
        let bytes = unsafe { core::slice::from_raw_parts(core::ptr::from_ref(value).cast::<u8>(), truth) };
        memory.fill(&bytes[..truth.min(memory.bytes().len())]);
        memory.fill(&size.to_ne_bytes());
        let pointer = memory.as_ptr().cast();
        self.kept.push(Kept { part, before: memory.bytes().to_vec(), known: truth, memory });
        Ok(pointer)
    }

    /// What was written where nothing may be written.
    fn damage(&self, failed: bool) -> Vec<String> {
        let mut damage = Vec::new();
        for Kept { part, memory, before, known } in &self.kept {
            let mut say = |what: &str| damage.push(format!("{} {what}", if *part == Part::Out { "the output:" } else { "the arguments:" }));
            let now = memory.bytes();
            if !memory.front_is_intact() {
                say("bytes in front of the struct were written");
            }
            if now[..8] != before[..8] {
                say("struct_size, which is the host's, was changed");
            }
            if *part != Part::Out && now[8..] != before[8..] {
                say("they are the host's and were changed");
            }
            if *part == Part::Out && now.len() > *known && now[*known..].iter().any(|byte| *byte != GARBAGE) {
                say("bytes behind the fields of this ABI were written");
            }
            if *part == Part::Out && failed && now[8..] != before[8..] {
                say("it was written although the call failed");
            }
        }
        damage
    }

    fn model(&self) -> Result<&Model, PluginError> {
        self.subject.model.ok_or_else(|| PluginError::broken("this call needs a model"))
    }

    fn raw_model(&self) -> Result<*mut abi::OnebitModel, PluginError> {
        Ok(self.model()?.0.raw.as_ptr())
    }
}

fn absent(name: &str) -> PluginError {
    PluginError::new(Status::UNSUPPORTED, format!("{name} is not offered"))
}

fn info(wire: &mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError> {
    let out = wire.place(Part::Out, &raw::out::<abi::OnebitInfo>())?;
    let info = wire.subject.plugin.0.table.info.ok_or_else(|| absent("info"))?;
    // SAFETY: here and below: a function of a table, and memory that is as long as it says.
    Ok(unsafe { info(out) })
}

fn probe(wire: &mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError> {
    let device = wire.place(Part::Device, &raw_device(wire.subject.device))?;
    let devices = [device.cast_const()];
    let args = wire.place(Part::Args, &abi::OnebitProbeArgs { devices: devices.as_ptr(), n_devices: 1, ..raw::out() })?;
    let out = wire.place(Part::Out, &raw::out::<abi::OnebitProbeOut>())?;
    let probe = wire.subject.plugin.0.table.probe.ok_or_else(|| absent("probe"))?;
    // SAFETY: as in `info`.
    Ok(unsafe { probe(args, out) })
}

fn fit(wire: &mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError> {
    let subject = wire.subject;
    let device = wire.place(Part::Device, &raw_device(subject.device))?;
    let options = raw::pairs(subject.options);
    let (path, options, n_options) = (raw_path(subject.path)?, options.as_ptr(), options.len());
    let args = abi::OnebitFitArgs { path, device, context: 64, sequences: 1, options, n_options, ..raw::out() };
    let args = wire.place(Part::Args, &args)?;
    let out = wire.place(Part::Out, &raw::out::<abi::OnebitFitOut>())?;
    let fit = subject.plugin.0.table.fit.ok_or_else(|| absent("fit"))?;
    // SAFETY: as in `info`.
    Ok(unsafe { fit(args, out) })
}

/// A pointer that a plugin wrote behind `struct_size`, if there was room for it.
fn written<T>(out: *const T, size: usize) -> *mut c_void {
    // SAFETY: `out` is readable for `size` bytes.
    if size >= 16 { unsafe { out.cast::<*mut c_void>().add(1).read() } } else { core::ptr::null_mut() }
}

fn size_of_out(wire: &Wire<'_>, truth: usize) -> usize {
    wire.lie.filter(|lie| lie.part == Part::Out).map_or(truth, |lie| lie.size)
}

fn open(wire: &mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError> {
    let subject = wire.subject;
    let device = wire.place(Part::Device, &raw_device(subject.device))?;
    let pairs = raw::pairs(subject.options);
    let (path, options, n_options) = (raw_path(subject.path)?, pairs.as_ptr(), pairs.len());
    let args = wire.place(Part::Args, &abi::OnebitOpenArgs { path, device, options, n_options, ..raw::out() })?;
    let out = wire.place(Part::Out, &raw::out::<abi::OnebitOpenOut>())?;
    let table = &subject.plugin.0.table;
    let open = table.open.ok_or_else(|| absent("open"))?;
    // SAFETY: as in `info`.
    let status = unsafe { open(args, out) };
    let model = written(out, size_of_out(wire, size_of::<abi::OnebitOpenOut>())).cast::<abi::OnebitModel>();
    if let (abi::ONEBIT_OK, false, Some(close)) = (status, model.is_null(), table.close) {
        // SAFETY: a model that nothing was made from.
        unsafe { close(model) };
    }
    Ok(status)
}

fn forward_table(wire: &Wire<'_>) -> Result<abi::OnebitForward, PluginError> {
    let parts = wire.model()?.0.forward.as_ref().ok_or_else(|| absent("onebit.forward/1"))?;
    Ok(parts.table)
}

fn limits(wire: &mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError> {
    let out = wire.place(Part::Out, &raw::out::<abi::OnebitForwardLimits>())?;
    let limits = forward_table(wire)?.limits.ok_or_else(|| absent("limits"))?;
    // SAFETY: as in `info`, and a live model.
    Ok(unsafe { limits(wire.raw_model()?, out) })
}

fn session_args() -> abi::OnebitSessionArgs {
    abi::OnebitSessionArgs { context: 32, sequences: 1, batch: 8, ..raw::out() }
}

fn session_open(wire: &mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError> {
    let args = wire.place(Part::Args, &session_args())?;
    let out = wire.place(Part::Out, &raw::out::<abi::OnebitSessionOut>())?;
    let table = forward_table(wire)?;
    let open = table.session_open.ok_or_else(|| absent("session_open"))?;
    // SAFETY: as in `limits`.
    let status = unsafe { open(wire.raw_model()?, args, out) };
    let session = written(out, size_of_out(wire, size_of::<abi::OnebitSessionOut>())).cast::<abi::OnebitSession>();
    if let (abi::ONEBIT_OK, false, Some(close)) = (status, session.is_null(), table.session_close) {
        // SAFETY: a live session.
        unsafe { close(session) };
    }
    Ok(status)
}

/// Makes a session truthfully, hands it to `work` with the table, and closes it.
fn with_session(
    wire: &mut Wire<'_>,
    work: impl FnOnce(&mut Wire<'_>, &abi::OnebitForward, *mut abi::OnebitSession) -> Result<abi::OnebitStatus, PluginError>,
) -> Result<abi::OnebitStatus, PluginError> {
    let table = forward_table(wire)?;
    let open = table.session_open.ok_or_else(|| absent("session_open"))?;
    let (args, mut out) = (session_args(), raw::out::<abi::OnebitSessionOut>());
    let model = wire.raw_model()?;
    // SAFETY: as in `limits`.
    call(|| unsafe { open(model, &raw const args, &raw mut out) })?;
    let answer = work(wire, &table, out.session);
    if let Some(close) = table.session_close {
        // SAFETY: a live session.
        unsafe { close(out.session) };
    }
    answer
}

fn forward(wire: &mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError> {
    with_session(wire, |wire, table, session| {
        let (tokens, positions, sequences, wants_logits) = ([1_u32; 2], [0_u32, 1], [0_u32; 2], [1_u8; 2]);
        let batch = abi::OnebitBatch {
            n: 2,
            tokens: tokens.as_ptr(),
            positions: positions.as_ptr(),
            sequences: sequences.as_ptr(),
            wants_logits: wants_logits.as_ptr(),
            ..raw::out()
        };
        let batch = wire.place(Part::Args, &batch)?;
        let out = wire.place(Part::Out, &raw::out::<abi::OnebitLogits>())?;
        let forward = table.forward.ok_or_else(|| absent("forward"))?;
        // SAFETY: as in `limits`, and a live session.
        Ok(unsafe { forward(session, batch, out) })
    })
}

type SeqFunction = unsafe extern "C" fn(*mut abi::OnebitSession, *const abi::OnebitSeqArgs) -> abi::OnebitStatus;

fn sequence(wire: &mut Wire<'_>, pick: fn(&abi::OnebitForward) -> Option<SeqFunction>) -> Result<abi::OnebitStatus, PluginError> {
    with_session(wire, |wire, table, session| {
        let args = wire.place(Part::Args, &abi::OnebitSeqArgs { p1: u32::MAX, ..raw::out() })?;
        let function = pick(table).ok_or_else(|| absent("the function"))?;
        // SAFETY: as in `forward`.
        Ok(unsafe { function(session, args) })
    })
}

fn tokenize_table(wire: &Wire<'_>) -> Result<abi::OnebitTokenize, PluginError> {
    Ok(wire.model()?.tokenizer().ok_or_else(|| absent("onebit.tokenize/1"))?.parts.table)
}

fn vocabulary(wire: &mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError> {
    let out = wire.place(Part::Out, &raw::out::<abi::OnebitVocabulary>())?;
    let vocabulary = tokenize_table(wire)?.vocabulary.ok_or_else(|| absent("vocabulary"))?;
    // SAFETY: as in `limits`.
    Ok(unsafe { vocabulary(wire.raw_model()?, out) })
}

fn token_info(wire: &mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError> {
    let out = wire.place(Part::Out, &raw::out::<abi::OnebitTokenInfo>())?;
    let token_info = tokenize_table(wire)?.token_info.ok_or_else(|| absent("token_info"))?;
    // SAFETY: as in `limits`.
    Ok(unsafe { token_info(wire.raw_model()?, 0, out) })
}

fn encode(wire: &mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError> {
    let mut tokens = vec![0_u32; wire.subject.text.len() + 16];
    let (text, capacity, tokens) = (abi::OnebitStr::new(wire.subject.text), tokens.len() as u32, tokens.as_mut_ptr());
    let args = wire.place(Part::Args, &abi::OnebitEncodeArgs { text, capacity, tokens, ..raw::out() })?;
    let encode = tokenize_table(wire)?.encode.ok_or_else(|| absent("encode"))?;
    let mut n = 0;
    // SAFETY: as in `limits`; the buffer has `capacity` values.
    Ok(unsafe { encode(wire.raw_model()?, args, &raw mut n) })
}

fn decode(wire: &mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError> {
    let (tokens, mut bytes) = ([0_u32; 2], vec![0_u8; 1024]);
    let (capacity, bytes) = (bytes.len(), bytes.as_mut_ptr().cast());
    let args = wire.place(Part::Args, &abi::OnebitDecodeArgs { tokens: tokens.as_ptr(), n: 2, capacity, bytes, ..raw::out() })?;
    let decode = tokenize_table(wire)?.decode.ok_or_else(|| absent("decode"))?;
    let mut n = 0;
    // SAFETY: as in `limits`; the buffer has `capacity` bytes.
    Ok(unsafe { decode(wire.raw_model()?, args, &raw mut n) })
}

fn embed_limits(wire: &mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError> {
    let out = wire.place(Part::Out, &raw::out::<abi::OnebitEmbedLimits>())?;
    let embedder = wire.model()?.embedder().ok_or_else(|| absent("onebit.embed/1"))?;
    let limits = embedder.parts.table.limits.ok_or_else(|| absent("limits"))?;
    // SAFETY: as in `limits`.
    Ok(unsafe { limits(wire.raw_model()?, out) })
}

fn embed(wire: &mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError> {
    let embedder = wire.model()?.embedder().ok_or_else(|| absent("onebit.embed/1"))?;
    let (tokens, offsets) = ([1_u32; 3], [0_u32, 3]);
    let mut vectors = vec![0.0_f32; embedder.limits().dimension as usize];
    let args = abi::OnebitEmbedArgs {
        tokens: tokens.as_ptr(),
        offsets: offsets.as_ptr(),
        n: 1,
        vectors: vectors.as_mut_ptr(),
        capacity: vectors.len(),
        ..raw::out()
    };
    let args = wire.place(Part::Args, &args)?;
    let embed = embedder.parts.table.embed.ok_or_else(|| absent("embed"))?;
    // SAFETY: as in `limits`; the buffer has `capacity` values.
    Ok(unsafe { embed(wire.raw_model()?, args) })
}

fn rerank_limits(wire: &mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError> {
    let out = wire.place(Part::Out, &raw::out::<abi::OnebitRerankLimits>())?;
    let reranker = wire.model()?.reranker().ok_or_else(|| absent("onebit.rerank/1"))?;
    let limits = reranker.parts.table.limits.ok_or_else(|| absent("limits"))?;
    // SAFETY: as in `limits`.
    Ok(unsafe { limits(wire.raw_model()?, out) })
}

fn rerank(wire: &mut Wire<'_>) -> Result<abi::OnebitStatus, PluginError> {
    let reranker = wire.model()?.reranker().ok_or_else(|| absent("onebit.rerank/1"))?;
    let (query, tokens, offsets, mut scores) = ([1_u32; 2], [1_u32; 3], [0_u32, 3], [0.0_f32]);
    let args = abi::OnebitRerankArgs {
        query: query.as_ptr(),
        tokens: tokens.as_ptr(),
        offsets: offsets.as_ptr(),
        n_query: 2,
        n: 1,
        scores: scores.as_mut_ptr(),
        capacity: 1,
        ..raw::out()
    };
    let args = wire.place(Part::Args, &args)?;
    let rerank = reranker.parts.table.rerank.ok_or_else(|| absent("rerank"))?;
    // SAFETY: as in `limits`; the buffer has `capacity` values.
    Ok(unsafe { rerank(wire.raw_model()?, args) })
}
