/* The contract between onebit-host and its plugins, for C11 and C++17.
 *
 * Generated from the crate onebit-plugin-api: the middle from src/, this head and the tail from header/. Do not edit. To change it,
 * change those and run: ONEBIT_BLESS=1 cargo test -p onebit-plugin-api --test header
 *
 * A plugin is a shared library that exports one function, onebit_plugin_v1, and carries one ELF note, ONEBIT_PLUGIN_NOTE (both at the
 * end of this file). The rules of the contract are in STYLE.md beside this folder; the short form:
 *
 *   - Structs that begin with struct_size may grow at their end. Who allocates sets struct_size = sizeof(type); the other side reads or
 *     writes a field only if ONEBIT_HAS_FIELD says so. Absent means zero means default.
 *   - Every call is status = f(handle, const Args *in, Out *out). A null function is "not offered".
 *   - Who allocates frees. A borrowed pointer says how long it lives.
 *   - Before a status other than ONEBIT_OK is returned, OnebitHost.report_error is called on the same thread.
 *   - No exception leaves a function; no function exits the process or writes to a file descriptor that it did not open.
 */
#ifndef ONEBIT_PLUGIN_H
#define ONEBIT_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A loaded model, made by OnebitPlugin.open. What it points to is the plugin's own business. */
typedef struct OnebitModel OnebitModel;

/* Sequences and their state, made by OnebitForward.session_open. What it points to is the plugin's own business. */
typedef struct OnebitSession OnebitSession;

// Breaking changes. Host and plugin must agree exactly.
#define ONEBIT_ABI_MAJOR 1

// Additions. A plugin states the lowest minor it can live with; a host serves every minor up to its own.
#define ONEBIT_ABI_MINOR 1

// The processor.
#define ONEBIT_DEVICE_CPU 1

// A Vulkan physical device, named by its UUID (`VkPhysicalDeviceIDProperties::deviceUUID`).
#define ONEBIT_DEVICE_VULKAN 2

// A node of the kernel's accel subsystem (`/dev/accel/accelN`).
#define ONEBIT_DEVICE_ACCEL 3

// Shares the machine's memory with the CPU.
#define ONEBIT_DEVICE_FLAG_INTEGRATED 1

// Computes on the CPU (lavapipe and the like): right answers, slowly. Only used when it is asked for.
#define ONEBIT_DEVICE_FLAG_SOFTWARE 2

// Memory kinds, as bits of `OnebitProbeReport.memory_kinds`.
#define ONEBIT_MEMORY_HOST 1

// The device's own memory.
#define ONEBIT_MEMORY_DEVICE 2

// Why a device cannot be used: nothing is wrong.
#define ONEBIT_REASON_NONE 0

// This plugin has nothing for that kind of device.
#define ONEBIT_REASON_WRONG_KIND 1

// A library, driver or firmware is missing.
#define ONEBIT_REASON_MISSING_DRIVER 2

// A driver or firmware is too old.
#define ONEBIT_REASON_OLD_DRIVER 3

// The device lacks a feature.
#define ONEBIT_REASON_MISSING_FEATURE 4

// Permissions, limits (memlock), a cgroup.
#define ONEBIT_REASON_NOT_PERMITTED 5

// The model file is damaged.
#define ONEBIT_REASON_CORRUPT_MODEL 6

// The architecture or quantisation is not known to this plugin.
#define ONEBIT_REASON_UNSUPPORTED_MODEL 7

// The device was tried and failed.
#define ONEBIT_REASON_FAILED 8

// State can be cut at any position: `seq_remove` and partial `seq_copy` work everywhere (attention caches).
#define ONEBIT_STATE_CUT 1

// A sequence's state can be saved and loaded.
#define ONEBIT_STATE_SNAPSHOT 2

// `seq_shift` is exact.
#define ONEBIT_STATE_SHIFT 4

// `forward` takes embedding rows.
#define ONEBIT_FORWARD_EMBEDDINGS 8

// Log levels of `OnebitHost.log`.
#define ONEBIT_LOG_ERROR 1

// Something a person should know.
#define ONEBIT_LOG_WARN 2

// Milestones.
#define ONEBIT_LOG_INFO 3

// For the author of the plugin.
#define ONEBIT_LOG_DEBUG 4

// `n_type` of the note.
#define ONEBIT_NOTE_TYPE 1

// The longest description a host reads, bytes.
#define ONEBIT_NOTE_MAX 4096

// A control token: never produced from a user's text.
#define ONEBIT_TOKEN_CONTROL 1

// Ends a generation.
#define ONEBIT_TOKEN_END 2

// Stands for a single byte.
#define ONEBIT_TOKEN_BYTE 4

// Added by the model's author; matched as text before the tokenizer proper.
#define ONEBIT_TOKEN_ADDED 8

// Stands for nothing.
#define ONEBIT_TOKEN_UNUSED 16

// Texts of control tokens become those tokens.
#define ONEBIT_ENCODE_PARSE_CONTROL 1

// Adds what the model wants at the start (and end) of a text.
#define ONEBIT_ENCODE_ADD_SPECIAL 2

// No token: for `bos`, `eos` and their like.
#define ONEBIT_NO_TOKEN UINT32_MAX

// Result of every call.
typedef uint32_t OnebitStatus;

// UTF-8 text, not NUL-terminated. `ptr` may be null when `len` is 0. Lifetime: stated by the field or argument that carries it.
typedef struct OnebitStr {
  // First byte; may be null when `len` is 0.
  const char *ptr;
  // Bytes.
  size_t len;
} OnebitStr;

// A name and its value, both borrowed for the call unless the field says otherwise.
typedef struct OnebitKeyValue {
  // Name, for example `llama.cpp`.
  struct OnebitStr key;
  // Value, for example `b11434`.
  struct OnebitStr value;
} OnebitKeyValue;

// One device. All texts live as long as the struct that carries them.
typedef struct OnebitDevice {
  // `sizeof(OnebitDevice)` of the host.
  size_t struct_size;
  // One of `ONEBIT_DEVICE_*`.
  uint32_t kind;
  // Bits `ONEBIT_DEVICE_FLAG_*`.
  uint32_t flags;
  // Stable name: `cpu`, `vulkan:<32 hex digits>`, `accel:<PCI address>`.
  struct OnebitStr id;
  // For people.
  struct OnebitStr name;
  // Driver and its version.
  struct OnebitStr driver;
  // Firmware version, or empty.
  struct OnebitStr firmware;
  // `deviceUUID` for Vulkan; zeros otherwise.
  uint8_t uuid[16];
  // PCI vendor, or 0.
  uint32_t vendor_id;
  // PCI device, or 0.
  uint32_t device_id;
  // Bytes of memory the device computes from; 0 = unknown.
  uint64_t memory_total;
  // Bytes free of it, when the list was made; 0 = unknown.
  uint64_t memory_free;
} OnebitDevice;

// A plugin's word about one device.
typedef struct OnebitProbeReport {
  // `sizeof(OnebitProbeReport)` of the plugin.
  size_t struct_size;
  // 1 = can be used, 0 = not, for `reason`.
  uint32_t usable;
  // Higher is better; compared between devices of one plugin only. 100 = what this plugin was made for.
  uint32_t score;
  // One of `ONEBIT_REASON_*`.
  uint32_t reason_code;
  // 1 = only one process at a time may use the device through this plugin.
  uint32_t exclusive;
  // Bits `ONEBIT_MEMORY_*`: where models would lie.
  uint32_t memory_kinds;
  // Zero.
  uint32_t reserved;
  // One sentence for a person. Lives until the next `probe`.
  struct OnebitStr reason;
} OnebitProbeReport;

// What a model gives as embeddings.
typedef struct OnebitEmbedLimits {
  // `sizeof(OnebitEmbedLimits)` of the host.
  size_t struct_size;
  // Values per vector.
  uint32_t dimension;
  // Tokens one text may have at most.
  uint32_t max_tokens;
  // How a text's vector is made, for people: `mean`, `cls`, `last`. Lives until `close`.
  struct OnebitStr pooling;
} OnebitEmbedLimits;

// Input of `embed`: `n` texts, text i = `tokens[offsets[i] ..< offsets[i + 1]]`.
typedef struct OnebitEmbedArgs {
  // `sizeof(OnebitEmbedArgs)` of the host.
  size_t struct_size;
  // All texts' tokens, one after the other.
  const uint32_t *tokens;
  // `n + 1` offsets into `tokens`.
  const uint32_t *offsets;
  // Texts.
  uint32_t n;
  // 1 = scale each vector to length 1.
  uint32_t normalise;
  // Becomes non-zero when the work is to stop; looked at at least every 50 ms. May be null.
  const uint32_t *cancel;
  // Written: `n × dimension` values, row-major. Owned and initialised by the caller.
  float *vectors;
  // Values that fit into `vectors`.
  size_t capacity;
} OnebitEmbedArgs;

// The table of `onebit.embed/1`. All functions must be there. `embed` from any thread, one call at a time per model.
typedef struct OnebitEmbed {
  // `sizeof(OnebitEmbed)` of the plugin.
  size_t struct_size;
  // Fills `out`.
  OnebitStatus (*limits)(OnebitModel *model, struct OnebitEmbedLimits *out);
  // Computes all vectors or fails as a whole.
  OnebitStatus (*embed)(OnebitModel *model, const struct OnebitEmbedArgs *args);
} OnebitEmbed;

// What a model can do at token level.
typedef struct OnebitForwardLimits {
  // `sizeof(OnebitForwardLimits)` of the host.
  size_t struct_size;
  // Columns of the logits.
  uint32_t vocabulary;
  // Columns of an embedding row.
  uint32_t embedding;
  // Positions the model was trained for.
  uint32_t context_trained;
  // Tokens one `forward` may take at most.
  uint32_t max_batch;
  // Sequences one session may hold at most.
  uint32_t max_sequences;
  // Bits `ONEBIT_STATE_*`, `ONEBIT_FORWARD_*`.
  uint32_t flags;
  // Bytes of state one position costs; 0 when the state does not grow.
  uint64_t state_per_token;
  // Bytes of state one sequence costs whatever its length.
  uint64_t state_per_sequence;
} OnebitForwardLimits;

// Input of `session_open`.
typedef struct OnebitSessionArgs {
  // `sizeof(OnebitSessionArgs)` of the host.
  size_t struct_size;
  // Positions in all sequences together. Not more than asked for, not less.
  uint32_t context;
  // Sequences, numbered from 0.
  uint32_t sequences;
  // Largest batch that will be asked for.
  uint32_t batch;
  // CPU threads for one-token batches; 0 = as given to `open`.
  uint32_t threads_decode;
  // CPU threads for larger batches; 0 = as given to `open`.
  uint32_t threads_prefill;
  // Zero.
  uint32_t reserved;
  // Settings of this plugin, from the manifest.
  const struct OnebitKeyValue *options;
  // Entries of `options`.
  size_t n_options;
} OnebitSessionArgs;

// Output of `session_open`.
typedef struct OnebitSessionOut {
  // `sizeof(OnebitSessionOut)` of the host.
  size_t struct_size;
  // The session. Untouched on failure.
  OnebitSession *session;
  // Positions in all sequences together, as allocated.
  uint32_t context;
  // Zero.
  uint32_t reserved;
  // Bytes of state allocated.
  uint64_t state_bytes;
  // Bytes of compute buffers allocated.
  uint64_t scratch_bytes;
} OnebitSessionOut;

// One batch. Row i is token (or embedding) i at `positions[i]` of sequence `sequences[i]`. The positions of one sequence must follow
// its state without a gap and stand in rising order.
typedef struct OnebitBatch {
  // `sizeof(OnebitBatch)` of the host.
  size_t struct_size;
  // Rows.
  uint32_t n;
  // Zero.
  uint32_t reserved;
  // `n` token ids, or null when `embeddings` is given.
  const uint32_t *tokens;
  // `n` rows of `embedding` values, or null when `tokens` is given.
  const float *embeddings;
  // `n` positions.
  const uint32_t *positions;
  // `n` sequence numbers.
  const uint32_t *sequences;
  // `n` flags: 1 = the logits of this row are wanted.
  const uint8_t *wants_logits;
  // Becomes non-zero when the work is to stop; looked at at least every 50 ms. May be null.
  //
  // After `ONEBIT_CANCELLED` the rows of this batch may or may not have entered the state: the host removes them.
  const uint32_t *cancel;
} OnebitBatch;

// Logits of the rows that wanted them, in batch order.
typedef struct OnebitLogits {
  // `sizeof(OnebitLogits)` of the host.
  size_t struct_size;
  // `rows × vocabulary` values, row-major. Owned by the session, valid until the next call on it.
  const float *data;
  // Rows.
  uint32_t rows;
  // Columns.
  uint32_t vocabulary;
} OnebitLogits;

// Input of `seq_copy`, `seq_remove`, `seq_shift`: positions `p0 ..< p1` of a sequence. `p1 = u32::MAX` means "to the end".
typedef struct OnebitSeqArgs {
  // `sizeof(OnebitSeqArgs)` of the host.
  size_t struct_size;
  // The sequence.
  uint32_t sequence;
  // Where to, for `seq_copy`; must be empty.
  uint32_t destination;
  // First position.
  uint32_t p0;
  // One past the last position.
  uint32_t p1;
  // For `seq_shift`: added to the positions.
  int32_t delta;
  // Zero.
  uint32_t reserved;
} OnebitSeqArgs;

// The table of `onebit.forward/1`. All but `seq_shift`, `state_*` must be there. Operations on sequences are exact or UNSUPPORTED.
typedef struct OnebitForward {
  // `sizeof(OnebitForward)` of the plugin.
  size_t struct_size;
  // Fills `out`. From any thread.
  OnebitStatus (*limits)(OnebitModel *model, struct OnebitForwardLimits *out);
  // Makes a session with empty sequences. The model must outlive it. From any thread, one call at a time per model.
  OnebitStatus (*session_open)(OnebitModel *model, const struct OnebitSessionArgs *args, struct OnebitSessionOut *out);
  // Frees a session. Null is allowed.
  void (*session_close)(OnebitSession *session);
  // Computes a batch and appends it to the state. On a status other than `ONEBIT_OK` and `ONEBIT_CANCELLED` the state is as before. An
  // empty sequence may begin at any position.
  OnebitStatus (*forward)(OnebitSession *session, const struct OnebitBatch *batch, struct OnebitLogits *out);
  // Copies (or shares) state. The destination must be empty. Recurrent models only copy whole sequences.
  OnebitStatus (*seq_copy)(OnebitSession *session, const struct OnebitSeqArgs *args);
  // Removes positions. The whole sequence always works; a part only with `ONEBIT_STATE_CUT`.
  OnebitStatus (*seq_remove)(OnebitSession *session, const struct OnebitSeqArgs *args);
  // Moves positions. May be null.
  OnebitStatus (*seq_shift)(OnebitSession *session, const struct OnebitSeqArgs *args);
  // Bytes `state_save` would write now. May be null.
  OnebitStatus (*state_size)(OnebitSession *session, uint32_t sequence, uint64_t *out_bytes);
  // Writes the state of one sequence into `buffer` of `*bytes` initialised bytes and sets `*bytes` to what was written, or with
  // `ONEBIT_BUFFER_TOO_SMALL` to what is needed. May be null.
  OnebitStatus (*state_save)(OnebitSession *session, uint32_t sequence, void *buffer, uint64_t *bytes);
  // Replaces the state of one sequence. The bytes are untrusted; wrong ones are `ONEBIT_INVALID_ARGUMENT` and change nothing. `load(save(prefix)) + tail` equals `prefix + tail`, bit for bit. May be null.
  OnebitStatus (*state_load)(OnebitSession *session, uint32_t sequence, const void *buffer, uint64_t bytes);
} OnebitForward;

// Details of a failure. Borrowed for the call of `report_error`; the host copies.
typedef struct OnebitError {
  // `sizeof(OnebitError)` of the plugin.
  size_t struct_size;
  // Same number that the call returns.
  OnebitStatus code;
  // Zero.
  uint32_t reserved;
  // What there is; unit depends on `code`.
  uint64_t have;
  // What was needed; unit depends on `code`.
  uint64_t need;
  // Bytes asked for.
  uint64_t want;
  // Bytes free.
  uint64_t free;
  // When to try again, for `BUSY`.
  uint64_t retry_ms;
  // One sentence for a person: what happened, to what.
  struct OnebitStr message;
} OnebitError;

// The host's table. Lives until the process ends. A null function is not offered: check before the call.
typedef struct OnebitHost {
  // `sizeof(OnebitHost)` of the host.
  size_t struct_size;
  // ABI major of the host.
  uint32_t abi_major;
  // ABI minor of the host.
  uint32_t abi_minor;
  // First argument of every function here.
  void *ctx;
  // `level`, the part of the plugin that speaks, one line without a line end. Texts are borrowed for the call.
  void (*log)(void *ctx, uint32_t level, struct OnebitStr target, struct OnebitStr message);
  // Adds to a counter. The host prefixes the name with the plugin's id.
  void (*metric_add)(void *ctx, struct OnebitStr name, double value);
  // Sets a gauge. The host prefixes the name with the plugin's id.
  void (*metric_set)(void *ctx, struct OnebitStr name, double value);
  // Monotonic clock, nanoseconds.
  uint64_t (*now_ns)(void *ctx);
  // States why the call in progress on this thread is about to fail. The last report before the return counts.
  void (*report_error)(void *ctx, const struct OnebitError *error);
} OnebitHost;

// Who the plugin is. All texts live until the process ends.
typedef struct OnebitInfo {
  // `sizeof(OnebitInfo)` of the host.
  size_t struct_size;
  // Same id as in the note and in `plugin.toml`.
  struct OnebitStr id;
  // Semantic version.
  struct OnebitStr version;
  // What it computes with, one line: `llama.cpp b11434, ggml 0.26.0`.
  struct OnebitStr computes_with;
  // Build facts: library versions, CPU features, shader features.
  const struct OnebitKeyValue *facts;
  // Entries of `facts`.
  size_t n_facts;
} OnebitInfo;

// Input of `probe`.
typedef struct OnebitProbeArgs {
  // `sizeof(OnebitProbeArgs)` of the host.
  size_t struct_size;
  // `n_devices` pointers, borrowed for the call.
  const struct OnebitDevice *const *devices;
  // Entries of `devices`.
  size_t n_devices;
} OnebitProbeArgs;

// Output of `probe`.
typedef struct OnebitProbeOut {
  // `sizeof(OnebitProbeOut)` of the host.
  size_t struct_size;
  // One report per device, in the order asked. Owned by the plugin, valid until the next `probe`.
  const struct OnebitProbeReport *const *reports;
  // Entries of `reports`; must equal `n_devices`.
  size_t n_reports;
} OnebitProbeOut;

// Input of `fit`.
typedef struct OnebitFitArgs {
  // `sizeof(OnebitFitArgs)` of the host.
  size_t struct_size;
  // Path of the model file or folder.
  struct OnebitStr path;
  // The device it would run on.
  const struct OnebitDevice *device;
  // Positions in all sequences together; 0 = the trained context.
  uint32_t context;
  // Sequences at a time; 0 = 1.
  uint32_t sequences;
  // Settings of this plugin, from the manifest.
  const struct OnebitKeyValue *options;
  // Entries of `options`.
  size_t n_options;
} OnebitFitArgs;

// Output of `fit`: an estimate from the file's header; no weight is read. Sizes in bytes.
typedef struct OnebitFitOut {
  // `sizeof(OnebitFitOut)` of the host.
  size_t struct_size;
  // 1 = can serve, 0 = not, for `reason`.
  uint32_t usable;
  // One of `ONEBIT_REASON_*`.
  uint32_t reason_code;
  // One sentence for a person. Lives until the next `fit` on this thread.
  struct OnebitStr reason;
  // `general.architecture` or its like. Same lifetime.
  struct OnebitStr architecture;
  // The most used weight type. Same lifetime.
  struct OnebitStr quantisation;
  // Weights in host memory.
  uint64_t weights_host;
  // Weights in device memory.
  uint64_t weights_device;
  // State for `context` positions and `sequences` sequences, where the model computes.
  uint64_t state;
  // Of `state`, what one position costs; 0 for recurrent models.
  uint64_t state_per_token;
  // Compute buffers in host memory.
  uint64_t scratch_host;
  // Compute buffers in device memory.
  uint64_t scratch_device;
  // Positions the model was trained for.
  uint64_t context_trained;
  // Weights counted, not bytes.
  uint64_t parameters;
} OnebitFitOut;

// Called by `open` on the calling thread, with 0.0 ..= 1.0, at least every 250 ms of work.
typedef void (*OnebitProgress)(void *ctx, float fraction);

// Input of `open`.
typedef struct OnebitOpenArgs {
  // `sizeof(OnebitOpenArgs)` of the host.
  size_t struct_size;
  // Path of the model file or folder.
  struct OnebitStr path;
  // The device that was chosen; computing elsewhere is not allowed.
  const struct OnebitDevice *device;
  // CPU threads the plugin may use; 0 = its own choice.
  uint32_t threads;
  // Zero.
  uint32_t reserved;
  // Settings of this plugin, from the manifest.
  const struct OnebitKeyValue *options;
  // Entries of `options`.
  size_t n_options;
  // Becomes non-zero when the load is to stop; looked at at least every 50 ms. May be null.
  const uint32_t *cancel;
  // May be null.
  OnebitProgress progress;
  // First argument of `progress`.
  void *progress_ctx;
} OnebitOpenArgs;

// Output of `open`.
typedef struct OnebitOpenOut {
  // `sizeof(OnebitOpenOut)` of the host.
  size_t struct_size;
  // The model. Untouched on failure.
  OnebitModel *model;
  // What it really computes on, for people and for the answers: `NVIDIA H200 (Vulkan)`. Lives until `close`.
  struct OnebitStr computes_on;
  // `general.architecture` or its like. Lives until `close`.
  struct OnebitStr architecture;
  // The most used weight type. Lives until `close`.
  struct OnebitStr quantisation;
} OnebitOpenOut;

// The plugin's table. Lives until the process ends. `info`, `probe`, `fit`, `open`, `close` and `extension` must be there.
//
// Threads: `info`, `probe` and `fit` from any thread, one call at a time. `open` from any thread, also side by side. A model may be used
// from any thread: functions that take it say whether calls may overlap, and calls into its sessions may overlap with them. What `open`
// gave is ended by one `close`, on any thread, after everything made from it is gone.
typedef struct OnebitPlugin {
  // `sizeof(OnebitPlugin)` of the plugin.
  size_t struct_size;
  // ABI major the plugin was built for.
  uint32_t abi_major;
  // ABI minor the plugin was built for.
  uint32_t abi_minor;
  // Fills `out`.
  OnebitStatus (*info)(struct OnebitInfo *out);
  // Judges each device. May start drivers; runs in a process of its own, with a time limit.
  OnebitStatus (*probe)(const struct OnebitProbeArgs *args, struct OnebitProbeOut *out);
  // Judges a model file for a device. Reads headers only. A file that cannot be served is `ONEBIT_OK` with `usable = 0`.
  OnebitStatus (*fit)(const struct OnebitFitArgs *args, struct OnebitFitOut *out);
  // Loads. A failure leaves nothing behind.
  OnebitStatus (*open)(const struct OnebitOpenArgs *args, struct OnebitOpenOut *out);
  // Frees a model. Everything made from it must have been released before. Null is allowed.
  void (*close)(OnebitModel *model);
  // The table of a capability (`onebit.forward/1` → `OnebitForward`), or null. Lives until the process ends.
  // What it offers may depend on the model.
  const void *(*extension)(OnebitModel *model, struct OnebitStr id);
} OnebitPlugin;

// How long a query and a document may be.
typedef struct OnebitRerankLimits {
  // `sizeof(OnebitRerankLimits)` of the host.
  size_t struct_size;
  // Tokens that a query and one document may have together at most, without what the plugin puts around them.
  uint32_t max_tokens;
  // Tokens that the plugin puts around a query and a document; for counting.
  uint32_t joints;
} OnebitRerankLimits;

// Input of `rerank`: a query and `n` documents, document i = `tokens[offsets[i] ..< offsets[i + 1]]`. None of them has start, end or
// separating tokens: how a pair is put together is the model's own, so the plugin does it.
typedef struct OnebitRerankArgs {
  // `sizeof(OnebitRerankArgs)` of the host.
  size_t struct_size;
  // The query's tokens.
  const uint32_t *query;
  // All documents' tokens, one after the other.
  const uint32_t *tokens;
  // `n + 1` offsets into `tokens`.
  const uint32_t *offsets;
  // Tokens of the query.
  uint32_t n_query;
  // Documents.
  uint32_t n;
  // Becomes non-zero when the work is to stop; looked at at least every 50 ms. May be null.
  const uint32_t *cancel;
  // Written: `n` scores, 0 = the document has nothing to do with the query, 1 = it answers it. Owned and initialised by the caller.
  float *scores;
  // Values that fit into `scores`.
  size_t capacity;
} OnebitRerankArgs;

// The table of `onebit.rerank/1`. All functions must be there. `rerank` from any thread, one call at a time per model.
typedef struct OnebitRerank {
  // `sizeof(OnebitRerank)` of the plugin.
  size_t struct_size;
  // Fills `out`.
  OnebitStatus (*limits)(OnebitModel *model, struct OnebitRerankLimits *out);
  // Computes all scores or fails as a whole.
  OnebitStatus (*rerank)(OnebitModel *model, const struct OnebitRerankArgs *args);
} OnebitRerank;

// Facts about a vocabulary. Texts live until `close`.
typedef struct OnebitVocabulary {
  // `sizeof(OnebitVocabulary)` of the host.
  size_t struct_size;
  // Tokens are `0 ..< size`.
  uint32_t size;
  // Beginning of a text, or `ONEBIT_NO_TOKEN`.
  uint32_t bos;
  // End of a text, or `ONEBIT_NO_TOKEN`.
  uint32_t eos;
  // End of a turn, or `ONEBIT_NO_TOKEN`.
  uint32_t eot;
  // 1 = `ONEBIT_ENCODE_ADD_SPECIAL` puts `bos` first.
  uint32_t adds_bos;
  // 1 = `ONEBIT_ENCODE_ADD_SPECIAL` puts `eos` last.
  uint32_t adds_eos;
  // The chat template (Jinja) of the file, or empty.
  struct OnebitStr chat_template;
  // Kind of tokenizer, for people: `gpt2/smollm`.
  struct OnebitStr kind;
} OnebitVocabulary;

// Facts about one token. Texts live until `close`.
typedef struct OnebitTokenInfo {
  // `sizeof(OnebitTokenInfo)` of the host.
  size_t struct_size;
  // Bits `ONEBIT_TOKEN_*`.
  uint32_t flags;
  // Score or merge rank, as in the file.
  float score;
  // The token's text as the vocabulary writes it: for control tokens what a template writes.
  struct OnebitStr text;
} OnebitTokenInfo;

// Input and output of `encode`.
typedef struct OnebitEncodeArgs {
  // `sizeof(OnebitEncodeArgs)` of the host.
  size_t struct_size;
  // UTF-8, at most 2^31-1 bytes.
  struct OnebitStr text;
  // Bits `ONEBIT_ENCODE_*`.
  uint32_t flags;
  // Tokens that fit into `tokens`.
  uint32_t capacity;
  // Written; may be null when `capacity` is 0.
  uint32_t *tokens;
} OnebitEncodeArgs;

// Input of `decode`.
typedef struct OnebitDecodeArgs {
  // `sizeof(OnebitDecodeArgs)` of the host.
  size_t struct_size;
  // `n` tokens.
  const uint32_t *tokens;
  // Tokens.
  uint32_t n;
  // 1 = control tokens are written as their text; 0 = left out.
  uint32_t control;
  // Bytes that fit into `bytes`.
  size_t capacity;
  // Written. Bytes, not text: a token may end inside a UTF-8 character. The bytes of tokens simply follow each other.
  char *bytes;
} OnebitDecodeArgs;

// The table of `onebit.tokenize/1`. All functions must be there.
typedef struct OnebitTokenize {
  // `sizeof(OnebitTokenize)` of the plugin.
  size_t struct_size;
  // Fills `out`.
  OnebitStatus (*vocabulary)(OnebitModel *model, struct OnebitVocabulary *out);
  // Facts about `token`.
  OnebitStatus (*token_info)(OnebitModel *model, uint32_t token, struct OnebitTokenInfo *out);
  // Text to tokens; `*out_n` = tokens written, or with `ONEBIT_BUFFER_TOO_SMALL` the tokens there are.
  OnebitStatus (*encode)(OnebitModel *model, const struct OnebitEncodeArgs *args, uint32_t *out_n);
  // Tokens to bytes; `*out_n` = bytes written, or with `ONEBIT_BUFFER_TOO_SMALL` the bytes there are.
  OnebitStatus (*decode)(OnebitModel *model, const struct OnebitDecodeArgs *args, size_t *out_n);
} OnebitTokenize;

// Door 2, for any language: the one symbol a plugin exports. `host` lives until the process ends. Null, with `report_error` called,
// when the plugin cannot live with this host. A second call gives the same table, and its `host` need not be kept.
typedef const struct OnebitPlugin *(*OnebitEntry)(const struct OnebitHost *host);

// Done.
#define ONEBIT_OK 0

// The caller broke a rule of the contract (null where not allowed, index out of range).
#define ONEBIT_INVALID_ARGUMENT 1

// Understood, and this plugin, model or device cannot do it.
#define ONEBIT_UNSUPPORTED 2

// The model file is damaged or is not what it says.
#define ONEBIT_CORRUPT_MODEL 3

// A file could not be opened or read.
#define ONEBIT_IO 4

// More positions than the context holds. `have` = positions there are, `need` = positions asked for.
#define ONEBIT_CONTEXT_OVERFLOW 5

// `want` and `free` in bytes, as far as the driver tells.
#define ONEBIT_OUT_OF_DEVICE_MEMORY 6

// `want` and `free` in bytes, as far as the system tells.
#define ONEBIT_OUT_OF_HOST_MEMORY 7

// Try again after `retry_ms`.
#define ONEBIT_BUSY 8

// The cancel flag was seen.
#define ONEBIT_CANCELLED 9

// The device stopped answering; the process must be replaced.
#define ONEBIT_DEVICE_LOST 10

// The device that was asked for cannot be used. Never answered by computing elsewhere.
#define ONEBIT_DEVICE_UNAVAILABLE 11

// A fault inside the plugin that has no better name.
#define ONEBIT_INTERNAL 12

// A panic was caught at the plugin's border.
#define ONEBIT_PANIC 13

// The other side is too old or too new for this call. `have` and `need` are ABI minors.
#define ONEBIT_ABI_MISMATCH 14

// The caller's buffer is too small. `have` = its size, `need` = the size to come back with, in the unit of the buffer.
#define ONEBIT_BUFFER_TOO_SMALL 15

/* ---- capability ids ---- */

#define ONEBIT_FORWARD_1 "onebit.forward/1"
#define ONEBIT_TOKENIZE_1 "onebit.tokenize/1"
#define ONEBIT_EMBED_1 "onebit.embed/1"
#define ONEBIT_RERANK_1 "onebit.rerank/1"

/* ---- the entry ---- */

#define ONEBIT_EXPORT __attribute__((visibility("default")))

/* The one function that a plugin exports. The table lives until the process ends. May be called more than once: the same table again. */
ONEBIT_EXPORT const OnebitPlugin *onebit_plugin_v1(const OnebitHost *host);

/* ---- growth ---- */

/* Whether the other side's struct reaches as far as a field: ONEBIT_HAS_FIELD(args, OnebitOpenArgs, threads). */
#define ONEBIT_HAS_FIELD(pointer, type, field) ((pointer)->struct_size >= offsetof(type, field) + sizeof((pointer)->field))

/* ---- the note ---- */

#define ONEBIT_TEXT_OF(value) #value
#define ONEBIT_TEXT(value) ONEBIT_TEXT_OF(value)

#if defined(__x86_64__)
#define ONEBIT_TARGET_MACHINE "x86_64"
#elif defined(__aarch64__)
#define ONEBIT_TARGET_MACHINE "aarch64"
#elif defined(__riscv) && __riscv_xlen == 64
#define ONEBIT_TARGET_MACHINE "riscv64gc"
#elif defined(__loongarch64)
#define ONEBIT_TARGET_MACHINE "loongarch64"
#else
#error "onebit_plugin.h knows no name for this machine"
#endif

#if defined(__GLIBC__)
#define ONEBIT_TARGET ONEBIT_TARGET_MACHINE "-unknown-linux-gnu"
#elif defined(__linux__)
#define ONEBIT_TARGET ONEBIT_TARGET_MACHINE "-unknown-linux-musl"
#else
#error "onebit_plugin.h knows no name for this system"
#endif

/* Puts the note into the library that hosts read before they load it. Once per library, outside of functions, followed by a semicolon:
 *
 *   ONEBIT_PLUGIN_NOTE(
 *       "id=mine\n"
 *       "version=1.0.0\n"
 *       "capabilities=" ONEBIT_FORWARD_1 "," ONEBIT_TOKENIZE_1 "\n"
 *       "licence=MIT\n"
 *       "abi_min_minor=0\n"
 *       "panic=none\n"
 *       "doors=c\n");
 *
 * What the header knows (version of the note, ABI, target) it writes itself. */
#define ONEBIT_PLUGIN_NOTE(lines)                                                                                                       \
  static const struct {                                                                                                                 \
    uint32_t owner_size, text_size, kind;                                                                                               \
    char owner[8];                                                                                                                      \
    char text[sizeof(ONEBIT_NOTE_OWN_LINES lines)];                                                                                     \
  } onebit_plugin_note __attribute__((used, aligned(4), section(".note.onebit"))) = {                                                   \
      8, sizeof(ONEBIT_NOTE_OWN_LINES lines), ONEBIT_NOTE_TYPE, "onebit\0", ONEBIT_NOTE_OWN_LINES lines}

#define ONEBIT_NOTE_OWN_LINES                                                                                                           \
  "note=1\nabi_major=" ONEBIT_TEXT(ONEBIT_ABI_MAJOR) "\nabi_built_minor=" ONEBIT_TEXT(ONEBIT_ABI_MINOR) "\ntarget=" ONEBIT_TARGET "\n"

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* ONEBIT_PLUGIN_H */
