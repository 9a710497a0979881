//! What a failure of llama.cpp means. It answers null and writes the reason into its log; here the log becomes a typed error.
//!
//! This is the only place that reads text which llama.cpp wrote for people. Should its words change, an error becomes less precise
//! (a damaged file instead of an unknown architecture), never a success.

use onebit_sdk::{Error, Reason};

use crate::weights::{Place, Shape, Weights};

/// What went wrong, as far as the words tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Memory,
    Unsupported,
    DeviceLost,
    Other,
}

/// Words that give a kind away, in lower case.
const SIGNS: &[(&str, Kind)] = &[
    ("outofdevicememory", Kind::Memory),
    ("outofhostmemory", Kind::Memory),
    ("out of memory", Kind::Memory),
    ("failed to allocate", Kind::Memory),
    ("unable to allocate", Kind::Memory),
    ("bad_alloc", Kind::Memory),
    ("cannot allocate memory", Kind::Memory),
    ("exceeds device buffer size limit", Kind::Memory),
    ("devicelost", Kind::DeviceLost),
    ("unknown model architecture", Kind::Unsupported),
    ("unknown pre-tokenizer", Kind::Unsupported),
    ("not supported", Kind::Unsupported),
    ("unsupported", Kind::Unsupported),
];

fn kind(heard: &[String], thrown: &str) -> Kind {
    let all = format!("{}\n{thrown}", heard.join("\n")).to_lowercase();
    SIGNS.iter().find(|(sign, _)| all.contains(sign)).map_or(Kind::Other, |(_, kind)| *kind)
}

/// The most telling words: the first complaint, without the function's name.
fn words(heard: &[String], thrown: &str) -> String {
    let first = heard.iter().map(String::as_str).chain([thrown]).find(|line| !line.is_empty());
    let first = first.unwrap_or("llama.cpp gives no reason");
    match first.split_once(": ") {
        Some((function, rest)) if !function.contains(' ') => rest.to_owned(),
        _ => first.to_owned(),
    }
}

fn memory(place: &Place, want: u64, text: String) -> Error {
    match place {
        Place::Cpu => Error::out_of_host_memory(want, available_host_memory(), text),
        Place::Vulkan { .. } => Error::out_of_device_memory(want, place.free(), text),
    }
}

/// A load that failed. `want` = bytes of the weights.
pub fn load(heard: &[String], thrown: &str, place: &Place, want: u64) -> Error {
    let words = words(heard, thrown);
    match kind(heard, thrown) {
        Kind::Memory => memory(place, want, format!("no memory for the weights: {words}")),
        Kind::Unsupported => Error::unsupported(format!("llama.cpp cannot load this model: {words}")),
        Kind::DeviceLost => Error::device_lost(format!("the device failed while loading: {words}")),
        Kind::Other => Error::corrupt(format!("llama.cpp cannot load this model: {words}")),
    }
}

/// The same for `fit`, where a refusal is an answer.
pub fn refusal(heard: &[String], thrown: &str) -> (Reason, String) {
    let words = words(heard, thrown);
    match kind(heard, thrown) {
        Kind::Unsupported => (Reason::UnsupportedModel, words),
        _ => (Reason::CorruptModel, words),
    }
}

/// A context that could not be made.
pub fn context(heard: &[String], thrown: &str, weights: &Weights, shape: &Shape) -> Error {
    let words = words(heard, thrown);
    let f16 = weights.facts.kv_bytes_per_token_f16.saturating_mul(shape.context.into());
    let state =
        weights.settings.kv_type.scaled(f16).saturating_add(weights.facts.state_bytes_per_sequence.saturating_mul(shape.sequences.into()));
    match kind(heard, thrown) {
        Kind::Memory => memory(&weights.place, state, format!("no memory for a context of {} positions: {words}", shape.context)),
        Kind::DeviceLost => Error::device_lost(format!("the device failed while making a context: {words}")),
        Kind::Unsupported => Error::unsupported(format!("this model cannot have such a context: {words}")),
        Kind::Other => Error::internal(format!("llama.cpp makes no context: {words}")),
    }
}

/// A batch that ended with an exception or an answer below zero.
pub fn compute(heard: &[String], thrown: &str, place: &Place) -> Error {
    let words = words(heard, thrown);
    match kind(heard, thrown) {
        Kind::Memory => memory(place, 0, format!("no memory to compute this batch: {words}")),
        Kind::DeviceLost => Error::device_lost(format!("the device was lost: {words}")),
        _ => Error::internal(format!("llama.cpp failed to compute: {words}")),
    }
}

/// Bytes that the system could still give; 0 = it does not say.
pub fn available_host_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: Option<u64> = line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok());
    kib.map_or(0, |kib| kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_llama_cpp_become_kinds() {
        let heard = |line: &str| vec![line.to_owned()];
        let unknown = heard("llama_model_load: error loading model: unknown model architecture: 'clip9'");
        assert_eq!(kind(&unknown, ""), Kind::Unsupported);
        assert_eq!(words(&unknown, ""), "error loading model: unknown model architecture: 'clip9'");
        assert_eq!(kind(&[], "vk::Device::allocateMemory: ErrorOutOfDeviceMemory"), Kind::Memory);
        assert_eq!(kind(&[], "vk::Queue::submit: ErrorDeviceLost"), Kind::DeviceLost);
        assert_eq!(kind(&heard("llama_model_load: error loading model: missing tensor 'output_norm.weight'"), ""), Kind::Other);
        assert_eq!(words(&[], ""), "llama.cpp gives no reason");
    }
}
