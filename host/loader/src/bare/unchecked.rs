//! Calls with arguments that the host would refuse before the plugin saw them, and buffers that are too small.

use std::sync::{Arc, PoisonError};

use onebit_plugin_api as abi;

use crate::devices::Device;
use crate::plugin::{absent, call, raw_device, read_report};
use crate::{
    Batch, CancelFlag, Embedder, ForwardModel, Logits, Model, Plugin, PluginError, ProbeReport, Reranker, Session, SessionArgs, Tokenizer,
    raw,
};

/// An operation on a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeqCall {
    /// `seq_copy`
    Copy,
    /// `seq_remove`
    Remove,
    /// `seq_shift`
    Shift,
}

impl Plugin {
    /// Probes one device under a kind that may be a number of no kind.
    pub fn probe_kind_unchecked(&self, device: &Device, kind: u32) -> Result<ProbeReport, PluginError> {
        let probe = self.0.table.probe.ok_or_else(|| absent("probe"))?;
        let raw_device = abi::OnebitDevice { kind, ..raw_device(device) };
        let pointers = [&raw const raw_device];
        let args = abi::OnebitProbeArgs { devices: pointers.as_ptr(), n_devices: 1, ..raw::out() };
        let mut out: abi::OnebitProbeOut = raw::out();
        // SAFETY: a function of the table; both structs live for the call.
        call(|| unsafe { probe(&raw const args, &raw mut out) })?;
        // SAFETY: valid until the next `probe`, which nobody else calls in a test's process.
        let reports = unsafe { raw::slice(out.reports, out.n_reports, "reports") }?;
        match reports {
            // SAFETY: as above.
            [report] => unsafe { read_report(*report) },
            _ => Err(PluginError::broken(format!("probe gave {} reports for one device", reports.len()))),
        }
    }
}

impl Model {
    /// Whether the model gives a table for a capability id, whatever its note says.
    pub fn offers_unchecked(&self, id: &str) -> bool {
        !crate::door::extension(&self.0.plugin.table, self.0.raw.as_ptr(), id).is_null()
    }
}

impl ForwardModel {
    /// As [`ForwardModel::open_session`], but the sizes may be out of range.
    pub fn open_session_unchecked(&self, args: &SessionArgs<'_>) -> Result<Session, PluginError> {
        let _lock = self.model.opening.lock().unwrap_or_else(PoisonError::into_inner);
        Session::make(Arc::clone(&self.model), &self.parts, args)
    }
}

impl Session {
    /// As [`Session::forward`], but tokens, sequences and the number of rows may be out of range.
    pub fn forward_unchecked(&mut self, batch: &Batch<'_>) -> Result<Logits<'_>, PluginError> {
        self.submit(batch)
    }

    /// An operation on sequences that may not exist and positions in any order.
    pub fn seq_unchecked(
        &mut self,
        which: SeqCall,
        sequence: u32,
        destination: u32,
        [p0, p1]: [u32; 2],
        delta: i32,
    ) -> Result<(), PluginError> {
        let (function, name) = match which {
            SeqCall::Copy => (self.table.seq_copy, "seq_copy"),
            SeqCall::Remove => (self.table.seq_remove, "seq_remove"),
            SeqCall::Shift => (self.table.seq_shift, "seq_shift"),
        };
        let function = function.ok_or_else(|| absent(name))?;
        let args = abi::OnebitSeqArgs { sequence, destination, p0, p1, delta, ..raw::out() };
        // SAFETY: a function of the table, a live session of this thread.
        call(|| unsafe { function(self.raw.as_ptr(), &raw const args) })
    }

    /// Saves a state into a buffer of any size. Beside the result: the number of bytes that the plugin names.
    pub fn state_save_unchecked(&mut self, sequence: u32, buffer: &mut [u8]) -> Result<(Result<(), PluginError>, u64), PluginError> {
        let function = self.table.state_save.ok_or_else(|| absent("state_save"))?;
        let mut bytes = buffer.len() as u64;
        // SAFETY: as above; the buffer has `bytes` bytes.
        let result = call(|| unsafe { function(self.raw.as_ptr(), sequence, buffer.as_mut_ptr().cast(), &raw mut bytes) });
        Ok((result, bytes))
    }

    /// Loads a state into a sequence that may not exist.
    pub fn state_load_unchecked(&mut self, sequence: u32, state: &[u8]) -> Result<(), PluginError> {
        let function = self.table.state_load.ok_or_else(|| absent("state_load"))?;
        // SAFETY: as above; the slice lives for the call.
        call(|| unsafe { function(self.raw.as_ptr(), sequence, state.as_ptr().cast(), state.len() as u64) })
    }
}

impl Tokenizer {
    /// Facts about a token that may not exist: only whether the plugin answers.
    pub fn token_unchecked(&self, id: u32) -> Result<(), PluginError> {
        let function = self.parts.table.token_info.ok_or_else(|| absent("token_info"))?;
        let mut out: abi::OnebitTokenInfo = raw::out();
        // SAFETY: a function of the table, a live model.
        call(|| unsafe { function(self.model.raw.as_ptr(), id, &raw mut out) })
    }

    /// Encodes into a buffer of any size. Beside the result: the number of tokens that the plugin names.
    pub fn encode_unchecked(&self, text: &str, buffer: &mut [u32]) -> Result<(Result<(), PluginError>, u32), PluginError> {
        let function = self.parts.table.encode.ok_or_else(|| absent("encode"))?;
        let args = abi::OnebitEncodeArgs {
            text: abi::OnebitStr::new(text),
            flags: 0,
            capacity: u32::try_from(buffer.len()).unwrap_or(u32::MAX),
            tokens: buffer.as_mut_ptr(),
            ..raw::out()
        };
        let mut n = 0;
        // SAFETY: a function of the table, a live model, a buffer of `capacity` values.
        let result = call(|| unsafe { function(self.model.raw.as_ptr(), &raw const args, &raw mut n) });
        Ok((result, n))
    }

    /// Decodes tokens that may not exist into a buffer of any size. Beside the result: the number of bytes that the plugin names.
    pub fn decode_unchecked(&self, tokens: &[u32], buffer: &mut [u8]) -> Result<(Result<(), PluginError>, usize), PluginError> {
        let function = self.parts.table.decode.ok_or_else(|| absent("decode"))?;
        let args = abi::OnebitDecodeArgs {
            tokens: tokens.as_ptr(),
            n: u32::try_from(tokens.len()).unwrap_or(u32::MAX),
            control: 0,
            capacity: buffer.len(),
            bytes: buffer.as_mut_ptr().cast(),
            ..raw::out()
        };
        let mut n = 0;
        // SAFETY: a function of the table, a live model, a buffer of `capacity` bytes.
        let result = call(|| unsafe { function(self.model.raw.as_ptr(), &raw const args, &raw mut n) });
        Ok((result, n))
    }
}

impl Embedder {
    /// Embeds one text that may be too long or hold tokens that do not exist.
    pub fn embed_unchecked(&self, text: &[u32], cancel: Option<&CancelFlag>) -> Result<Vec<f32>, PluginError> {
        let function = self.parts.table.embed.ok_or_else(|| absent("embed"))?;
        let offsets = [0, u32::try_from(text.len()).unwrap_or(u32::MAX)];
        let mut vector = vec![0.0; self.limits().dimension as usize];
        let args = abi::OnebitEmbedArgs {
            tokens: text.as_ptr(),
            offsets: offsets.as_ptr(),
            n: 1,
            normalise: 1,
            cancel: cancel.map_or(core::ptr::null(), CancelFlag::as_ptr),
            vectors: vector.as_mut_ptr(),
            capacity: vector.len(),
            ..raw::out()
        };
        // SAFETY: a function of the table, a live model, a buffer of `capacity` values. One call at a time: a test has one thread here.
        call(|| unsafe { function(self.model.raw.as_ptr(), &raw const args) })?;
        Ok(vector)
    }
}

impl Reranker {
    /// Ranks one document that may be too long, with tokens that may not exist.
    pub fn rerank_unchecked(&self, query: &[u32], document: &[u32], cancel: Option<&CancelFlag>) -> Result<f32, PluginError> {
        self.submit(query, &[document], cancel).map(|scores| scores[0])
    }
}
