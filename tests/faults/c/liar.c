/* The C template with one lie, chosen by ONEBIT_LIE. Each breaks one rule of the contract that a host can check, or that the conformance kit
 * finds, and no other: a host that checks comes out of every one of them with a sentence. A name that is not known ends in an entry that gives no table. */
#define _POSIX_C_SOURCE 200809L
#include "onebit_plugin.h"

#define PLUGIN_ID "liar"
#define onebit_plugin_v1 honest_entry
#include "support.c"
#include "model.c"
#include "session.c"
#include "tokenize.c"
#include "plugin.c"
#undef onebit_plugin_v1

static OnebitPlugin lying_plugin;
static OnebitForward lying_forward;
static OnebitTokenize lying_tokenize;
static const char *lie;

static int tells(const char *name) { return strcmp(lie, name) == 0; }

static const void *lying_extension(OnebitModel *model, OnebitStr id) {
  const void *honest = extension(model, id);
  if (honest == &forward_table) return &lying_forward;
  if (honest == &tokenize_table) return &lying_tokenize;
  return honest;
}

static OnebitStatus lying_forward_call(OnebitSession *raw, const OnebitBatch *batch, OnebitLogits *out) {
  uint32_t tokens[MAX_BATCH];
  OnebitBatch within = *batch;
  for (uint32_t i = 0; tells("token-wraps") && i < batch->n && i < MAX_BATCH; i++) tokens[i] = batch->tokens[i] % VOCABULARY;
  if (tells("token-wraps")) within.tokens = tokens;
  OnebitStatus status = forward(raw, tells("token-wraps") ? &within : batch, out);
  if (tells("logits-null")) out->data = NULL;
  if (tells("logits-misaligned")) out->data = (const float *)(const void *)((const char *)out->data + 1);
  if (tells("vocabulary-grows")) out->vocabulary += 1;
  if (tells("rows-missing") && out->rows) out->rows -= 1;
  if (tells("status-unknown")) return 4711;
  if (tells("fails-silently")) return ONEBIT_INTERNAL;
  return status;
}

static OnebitStatus lying_probe(const OnebitProbeArgs *args, OnebitProbeOut *out) {
  static const OnebitProbeReport *nothing[64];
  OnebitStatus status = probe(args, out);
  if (tells("reports-missing") && out->n_reports) out->n_reports -= 1;
  if (tells("report-null")) out->reports = nothing;
  for (size_t i = 0; tells("any-kind") && i < out->n_reports; i++) {
    OnebitProbeReport *report = (OnebitProbeReport *)(uintptr_t)out->reports[i];
    report->usable = report->score = report->memory_kinds = 1;
    report->reason_code = ONEBIT_REASON_NONE;
  }
  return status;
}

static OnebitStatus lying_open(const OnebitOpenArgs *args, OnebitOpenOut *out) {
  if (tells("model-null")) return ONEBIT_OK;
  OnebitStatus status = open_model(args, out);
  if (tells("text-not-utf8")) out->computes_on = str("\xff\xfe");
  if (tells("text-endless")) out->architecture.len = (size_t)1 << 40;
  return status;
}

static OnebitStatus lying_info(OnebitInfo *out) {
  if (tells("no-size-is-fine") && out->struct_size == 0) return ONEBIT_OK;
  OnebitStatus status = info(out);
  if (tells("writes-beyond")) *(volatile size_t *)&out->n_facts = 0;
  if (tells("writes-behind") && out->struct_size > sizeof *out) memset((char *)out + sizeof *out, 0, out->struct_size - sizeof *out);
  if (tells("other-version")) out->version = str("9.9.9");
  return status;
}

static OnebitStatus lying_fit(const OnebitFitArgs *args, OnebitFitOut *out) {
  if (tells("reads-beyond")) (void)*(const volatile size_t *)&args->n_options;
  if (tells("refuses-longer") && args->struct_size > sizeof *args) return FAIL(ONEBIT_INVALID_ARGUMENT, "OnebitFitArgs is too long");
  return fit(args, out);
}

static OnebitStatus lying_seq_remove(OnebitSession *session, const OnebitSeqArgs *args) {
  if (tells("runs-backwards") && args->p0 > args->p1) return ONEBIT_OK;
  return seq_remove(session, args);
}

static OnebitStatus lying_state_load(OnebitSession *session, uint32_t sequence, const void *buffer, uint64_t bytes) {
  return state_load(session, tells("any-sequence") ? 0 : sequence, buffer, bytes);
}

static OnebitStatus lying_limits(OnebitModel *model, OnebitForwardLimits *out) {
  OnebitStatus status = limits(model, out);
  if (tells("vocabulary-zero")) out->vocabulary = 0;
  return status;
}

static OnebitStatus lying_vocabulary(OnebitModel *model, OnebitVocabulary *out) {
  OnebitStatus status = vocabulary(model, out);
  if (tells("eos-outside")) out->eos = out->size;
  return status;
}

static OnebitStatus lying_encode(OnebitModel *model, const OnebitEncodeArgs *args, uint32_t *out_n) {
  OnebitStatus status = encode(model, args, out_n);
  if (tells("token-outside") && *out_n) args->tokens[0] = VOCABULARY;
  if (tells("tokens-overflow")) *out_n = args->capacity + 1;
  if (tells("tokens-beyond") && status == ONEBIT_BUFFER_TOO_SMALL && args->tokens) args->tokens[args->capacity] = 7;
  return status;
}

static OnebitStatus lying_state_size(OnebitSession *session, uint32_t sequence, uint64_t *out_bytes) {
  OnebitStatus status = state_size(session, sequence, out_bytes);
  if (tells("state-endless")) *out_bytes = (uint64_t)1 << 60;
  return status;
}

static OnebitStatus lying_session_open(OnebitModel *model, const OnebitSessionArgs *args, OnebitSessionOut *out) {
  OnebitSessionArgs fewer = *args;
  if (tells("fewer-sequences") && fewer.sequences > MAX_SEQUENCES) fewer.sequences = MAX_SEQUENCES;
  OnebitStatus status = session_open(model, tells("fewer-sequences") ? &fewer : args, out);
  if (tells("context-smaller") && status == ONEBIT_OK) out->context = args->context / 2;
  return status;
}

const OnebitPlugin *onebit_plugin_v1(const OnebitHost *host) {
  static const char *const known[] = {"none",          "logits-null",      "logits-misaligned", "vocabulary-grows",       "rows-missing",
                                      "status-unknown", "fails-silently",  "reports-missing",   "report-null",            "model-null",
                                      "text-not-utf8", "text-endless",     "other-version",     "vocabulary-zero",        "shift-without-function",
                                      "eos-outside",   "token-outside",    "tokens-overflow",   "state-endless",          "context-smaller",
                                      "table-null",    "table-misaligned", "table-short",       "table-huge",             "open-null",
                                      "other-major",   "forward-short",    "forward-null",      "no-size-is-fine",       "writes-beyond",
                                      "writes-behind", "reads-beyond",     "refuses-longer",    "runs-backwards",        "any-sequence",
                                      "any-kind",      "tokens-beyond",    "fewer-sequences",   "token-wraps",           "calls-null",
                                      "same-minor",    "new-tables"};
  lie = getenv("ONEBIT_LIE") ? getenv("ONEBIT_LIE") : "none";
  int is_known = 0;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) is_known |= tells(known[i]);
  const OnebitPlugin *honest = honest_entry(host);
  if (!honest || !is_known) {
    FAIL(ONEBIT_INVALID_ARGUMENT, "there is no lie %s", lie);
    return NULL;
  }
  if (tells("calls-null")) host->log(host->ctx, ONEBIT_LOG_INFO, str("liar"), str("started"));
  if (tells("same-minor") && host->abi_minor != ONEBIT_ABI_MINOR) {
    FAIL(ONEBIT_ABI_MISMATCH, "this host is too new");
    return NULL;
  }
  lying_forward = forward_table;
  lying_forward.seq_remove = lying_seq_remove;
  lying_forward.state_load = lying_state_load;
  lying_forward.forward = lying_forward_call;
  lying_forward.limits = lying_limits;
  lying_forward.state_size = lying_state_size;
  lying_forward.session_open = lying_session_open;
  if (tells("forward-short")) lying_forward.struct_size = 16;
  if (tells("shift-without-function")) lying_forward.seq_shift = NULL;
  if (tells("forward-null")) lying_forward.forward = NULL;
  lying_tokenize = tokenize_table;
  lying_tokenize.vocabulary = lying_vocabulary;
  lying_tokenize.encode = lying_encode;
  lying_plugin = plugin_table;
  lying_plugin.info = lying_info;
  lying_plugin.probe = lying_probe;
  lying_plugin.fit = lying_fit;
  lying_plugin.open = lying_open;
  lying_plugin.extension = lying_extension;
  if (tells("table-null")) return NULL;
  if (tells("table-misaligned")) return (const OnebitPlugin *)(const void *)((const char *)&lying_plugin + 1);
  if (tells("table-short")) lying_plugin.struct_size = 24;
  if (tells("table-huge")) lying_plugin.struct_size = (size_t)1 << 40;
  if (tells("open-null")) lying_plugin.open = NULL;
  if (tells("other-major")) lying_plugin.abi_major = 7;
  if (tells("new-tables")) {
    OnebitPlugin *another = (OnebitPlugin *)malloc(sizeof *another);
    if (another) *another = lying_plugin;
    return another;
  }
  return &lying_plugin;
}
