//! Writes the inputs of `to_worker`, `from_worker` and `probe` that are made of real messages: `cargo run -p onebit-fuzz --example frames`.
//!
//! Frames are not text, so these inputs are made and not written by hand; after a change of the protocol they are made anew.

use std::path::Path;

use onebit_worker::protocol::{FromWorker, Hello, ToWorker, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    write::<ToWorker>("to_worker", to_worker())?;
    write::<FromWorker>("from_worker", from_worker())?;
    for (name, answer) in answers() {
        std::fs::write(corpus("probe").join(name), format!("{answer}\n"))?;
    }
    Ok(())
}

fn corpus(target: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

fn write<M: Serialize + DeserializeOwned>(target: &str, messages: Vec<(&str, Value)>) -> Result<(), Box<dyn std::error::Error>> {
    let hello = encode(&Hello::ours())?;
    let mut all = hello.clone();
    for (name, message) in messages {
        let message: M = serde_json::from_value(message).map_err(|error| format!("{name}: {error}"))?;
        let frame = encode(&message)?;
        all.extend_from_slice(&frame);
        std::fs::write(corpus(target).join(name), [hello.as_slice(), &frame].concat())?;
        std::fs::write(corpus(target).join(format!("{name}-cut")), [hello.as_slice(), &frame[..frame.len() - 1]].concat())?;
    }
    std::fs::write(corpus(target).join("conversation"), all)?;
    std::fs::write(corpus(target).join("huge-length"), [hello.as_slice(), &u32::MAX.to_le_bytes()].concat())?;
    std::fs::write(corpus(target).join("left-over"), [hello.as_slice(), &[3, 0, 0, 0, 99, 0, 0]].concat())?;
    std::fs::write(corpus(target).join("hello-only"), hello)?;
    Ok(())
}

fn sampling() -> Value {
    json!({
        "temperature": 0.5, "top_k": 40, "top_p": 0.9, "min_p": 0.0, "typical_p": 1.0, "repetition_penalty": 1.1, "penalty_window": 64,
        "presence_penalty": 0.0, "frequency_penalty": -1.0, "seed": 7, "logit_bias": [[1, -100.0], [2, 5.5]]
    })
}

fn device() -> Value {
    json!({
        "id": "cpu", "kind": "cpu", "name": "A processor", "driver": "", "firmware": "", "uuid": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        "vendor_id": 0, "device_id": 0, "memory_total": 8589934592_u64, "memory_free": 4294967296_u64, "integrated": true, "software": false
    })
}

fn to_worker() -> Vec<(&'static str, Value)> {
    let parts = json!({"Parts": [{"text": "<|im_start|>", "control": true}, {"text": "Hello 漢", "control": false}]});
    vec![
        (
            "load",
            json!({"Load": {"order": {
                "model": "a:b", "model_path": "/models/a.gguf", "plugin_dir": "/plugins/p", "plugin_id": "p", "plugin_version": "1.0.0",
                "device": device(), "options": [["speed", "3"]], "context": 2048, "slots": 2, "threads": 4, "chat_template": "{{ messages }}", "prefix_cache": true,
                "trust": {"mode": "warn", "keys": ["/etc/keys"]}, "seen": []
            }, "sandbox": {
                "require": true, "exempt": ["q"], "network": [], "read": ["/data"], "memory": 1024, "environment": ["A"], "caches": "/var/cache"
            }}}),
        ),
        (
            "generate",
            json!({"Generate": {"id": 1, "request_id": "req_1", "request": {
                "prompt": parts, "add_special": true, "max_tokens": 16, "sampling": sampling(), "stop": ["\n\n"], "logprobs": 2, "ignore_eos": false,
                "constraint": {"Marked": {"lark": "start: until_0", "marks": ["<call>"], "schemas": ["{}"]}},
                "reasoning": {"start": null, "end": "</think>", "budget": 64}, "control_text": true, "prompt_logprobs": 1, "priority": "high", "scope": "team"
            }}}),
        ),
        ("embed", json!({"Embed": {"id": 2, "request_id": "req_2", "request": {"inputs": [parts, {"Tokens": [1, 2, 3]}]}}})),
        (
            "rerank",
            json!({"Rerank": {"id": 5, "request_id": "req_3", "request": {"query": "a", "documents": ["b", ""], "truncate": true}}}),
        ),
        ("encode", json!({"Encode": {"id": 3, "prompt": parts, "add_special": true}})),
        ("decode", json!({"Decode": {"id": 4, "tokens": [0, 127, 128, 4294967295_u32]}})),
        ("cancel", json!({"Cancel": {"id": 18446744073709551615_u64}})),
        ("shutdown", json!("Shutdown")),
    ]
}

fn from_worker() -> Vec<(&'static str, Value)> {
    let stats = json!({"rss_bytes": 1000000, "rss_file_bytes": 5, "active": 1, "waiting": 2, "progress": 300, "refused_calls": 1});
    let event = |event: Value| json!({"Event": {"id": 1, "event": event}});
    vec![
        ("load-progress", json!({"LoadProgress": {"fraction": 0.5}})),
        (
            "ready",
            json!({"Ready": {"stats": stats, "confinement": {"landlock": 7, "seccomp": true, "missing": ["a cgroup"]}, "facts": {
                "plugin": "p", "plugin_version": "1.0.0", "device": "cpu", "computes_on": "paper", "architecture": "llama", "quantisation": "Q4_1",
                "context": 2048, "context_trained": 2048, "slots": 2, "vocabulary": 49152, "chat_template": "{{ messages }}", "bos": "<s>",
                "eos": null, "control_tokens": ["<s>", "</s>"], "embedding": {"dimension": 3, "tokens": 512}, "ranks": true, "state_bytes": 1
            }}}),
        ),
        (
            "load-failed",
            json!({"LoadFailed": {
                "stage": "Model", "status": "CORRUPT_MODEL", "message": "the file is damaged", "have": 1, "need": 2, "want": 3, "free": 4, "retry_ms": 5
            }}),
        ),
        ("started", event(json!({"Started": {"prompt_tokens": 7, "cached_tokens": 3}}))),
        ("prefill", event(json!({"Prefill": {"done": 512}}))),
        (
            "delta",
            event(
                json!({"Delta": {"text": "é", "tokens": [{"id": 5, "logprob": {"bytes": [195, 169], "logprob": -0.25, "top": [[6, [65], -1.5]]}}]}}),
            ),
        ),
        (
            "finished",
            event(json!({"Finished": {
                "reason": {"StopString": "\n"}, "usage": {"prompt_tokens": 1, "cached_tokens": 1, "completion_tokens": 2},
                "timings": {"queue_us": 1, "prefill_us": 2, "decode_us": 3}
            }})),
        ),
        ("failed-event", event(json!({"Failed": {"ContextOverflow": {"have": 1, "need": 2}}}))),
        ("embedded", json!({"Embedded": {"id": 2, "result": {"Ok": {"vectors": [[1.0, -0.5], []], "prompt_tokens": 4}}}})),
        ("ranked", json!({"Ranked": {"id": 5, "result": {"Ok": {"scores": [0.5, 1.0], "prompt_tokens": 4}}}})),
        ("encoded", json!({"Encoded": {"id": 3, "result": {"Err": {"InvalidRequest": {"message": "no", "param": "prompt"}}}}})),
        ("decoded", json!({"Decoded": {"id": 4, "result": {"Ok": [255, 0]}}})),
        ("stats", json!({"Stats": stats})),
        ("failed", json!({"Failed": {"Plugin": {"status": "DEVICE_LOST", "message": "gone"}}})),
    ]
}

fn answers() -> Vec<(&'static str, Value)> {
    vec![
        (
            "probed",
            json!({"Probed": {
                "info": {"id": "p", "version": "1.0.0", "computes_with": "paper", "facts": [["built", "today"]]},
                "reports": [
                    {"usable": true, "score": 100, "reason": "none", "text": "", "exclusive": false, "memory_host": true, "memory_device": false},
                    {"usable": false, "score": 0, "reason": {"other": 99}, "text": "too old", "exclusive": true, "memory_host": false, "memory_device": true}
                ]
            }}),
        ),
        (
            "fit",
            json!({"Fit": {"usable": true, "reason": "none", "text": "", "architecture": "llama", "quantisation": "Q4_1", "weights_host": 1,
                "weights_device": 2, "state": 3, "state_per_token": 4, "scratch_host": 5, "scratch_device": 6, "context_trained": 7, "parameters": 8}}),
        ),
    ]
}
