//! GGUF models on the CPU and on Vulkan devices, through llama.cpp.
//!
//! What is llama.cpp's stays llama.cpp's: kernels, architectures, vocabularies. What this plugin adds is the contract: a file is checked
//! before llama.cpp sees it, the device that was asked for is the one that computes or the call fails, sequences are exact, calls can be
//! cancelled, failures are typed, and nothing is written to a file descriptor.
//!
//! * [`modules`], [`processor`], [`vulkan`]: which of ggml's compute modules are loaded, and when.
//! * [`load`], [`weights`]: a model and its contexts.
//! * [`session`], [`rows`], [`snapshot`]: `onebit.forward/1`.
//! * [`tokenizer`], [`runs`]: `onebit.tokenize/1`. [`embedder`]: `onebit.embed/1`.
//! * [`reranker`], [`kinds`]: `onebit.rerank/1`; [`pooled`] computes for both.
//! * [`border`], [`failure`], [`logs`]: exceptions, words and aborts of llama.cpp, made harmless.

mod border;
mod embedder;
mod failure;
mod fit;
mod kinds;
mod load;
mod logs;
mod model;
mod modules;
mod plugin;
mod pooled;
mod processor;
mod reranker;
mod rows;
mod runs;
mod session;
mod settings;
mod snapshot;
mod threads;
mod tokenizer;
mod vulkan;
mod weights;

onebit_sdk::export_plugin!(plugin::GgmlPlugin, {
    id: "vulkan-ggml",
    version: env!("CARGO_PKG_VERSION"),
    capabilities: [onebit_sdk::FORWARD, onebit_sdk::TOKENIZE, onebit_sdk::EMBED, onebit_sdk::RERANK],
    licence: "MIT OR Apache-2.0",
});
