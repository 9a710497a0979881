/* The model of ../ngram in C, through the header alone: the same file, the same state, the same logits bit for bit.
 *
 * It is also what a C author may start from: every entry checks its arguments, reports its failures, and honours struct_size.
 * liar.c includes it and bends its tables. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "onebit_plugin.h"

#ifndef PLUGIN_ID
#define PLUGIN_ID "ngram-c"
#endif

ONEBIT_PLUGIN_NOTE("id=" PLUGIN_ID "\nversion=" PLUGIN_VERSION "\ncapabilities=" ONEBIT_FORWARD_1 "," ONEBIT_TOKENIZE_1 "\n"
                   "licence=MIT OR Apache-2.0\nabi_min_minor=0\npanic=none\ndoors=c\n");

enum { END = 256, VOCABULARY = 257, MAX_BATCH = 512, MAX_SEQUENCES = 64, CONTEXT_TRAINED = 4096, MAX_FILE = 1 << 20 };
static const char MAGIC[] = "ngram1\n";
static const char STATE_MAGIC[] = "ngramst1";
static const char END_TEXT[] = "<|end|>";

static const OnebitHost *the_host;

/* ---- small tools ---- */

static OnebitStr str(const char *text) {
  OnebitStr out = {text, strlen(text)};
  return out;
}

static OnebitStatus fail_with(OnebitStatus code, uint64_t have, uint64_t need, const char *format, ...) {
  char message[512];
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  OnebitError error = {sizeof error, code, 0, have, need, 0, 0, 0, {message, strlen(message)}};
  if (the_host && ONEBIT_HAS_FIELD(the_host, OnebitHost, report_error) && the_host->report_error)
    the_host->report_error(the_host->ctx, &error);
  return code;
}

#define FAIL(code, ...) fail_with(code, 0, 0, __VA_ARGS__)

/* Writes an output as far as the host's struct reaches. */
static OnebitStatus put(void *out, const void *value, size_t size) {
  size_t theirs;
  if (!out) return FAIL(ONEBIT_INVALID_ARGUMENT, "an output is null");
  memcpy(&theirs, out, sizeof theirs);
  if (theirs < sizeof theirs || theirs > 4096) return FAIL(ONEBIT_INVALID_ARGUMENT, "struct_size %zu is no size", theirs);
  if (size > theirs) size = theirs;
  memcpy((char *)out + sizeof theirs, (const char *)value + sizeof theirs, size - sizeof theirs);
  return ONEBIT_OK;
}

static int cancelled(const uint32_t *flag) { return flag && __atomic_load_n(flag, __ATOMIC_RELAXED) != 0; }

static void sleep_us(long us) {
  struct timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

static long option(const OnebitKeyValue *options, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (options[i].key.len == strlen(name) && memcmp(options[i].key.ptr, name, options[i].key.len) == 0) {
      char digits[24] = {0};
      if (options[i].value.len < sizeof digits) memcpy(digits, options[i].value.ptr, options[i].value.len);
      return strtol(digits, NULL, 10);
    }
  return 0;
}

/* ---- the counts ---- */

typedef struct {
  uint32_t *tokens; /* the text as tokens */
  size_t n;
  long row_us;
  char texts[VOCABULARY][8];
} Model;

static OnebitStatus read_tokens(OnebitStr path, uint32_t **out, size_t *n) {
  char name[4096];
  if (!path.ptr || path.len == 0 || path.len >= sizeof name) return FAIL(ONEBIT_INVALID_ARGUMENT, "no path");
  memcpy(name, path.ptr, path.len);
  name[path.len] = 0;
  FILE *file = fopen(name, "rb");
  if (!file) return FAIL(ONEBIT_IO, "%s: %s", name, strerror(errno));
  unsigned char *bytes = malloc(MAX_FILE + 1);
  size_t size = bytes ? fread(bytes, 1, MAX_FILE + 1, file) : 0;
  fclose(file);
  OnebitStatus status = ONEBIT_OK;
  size_t start = sizeof MAGIC - 1;
  if (!bytes)
    status = FAIL(ONEBIT_OUT_OF_HOST_MEMORY, "no memory for a file");
  else if (size > MAX_FILE)
    status = FAIL(ONEBIT_CORRUPT_MODEL, "%s has more than %d bytes", name, MAX_FILE);
  else if (size < start || memcmp(bytes, MAGIC, start) != 0)
    status = FAIL(ONEBIT_CORRUPT_MODEL, "%s does not begin with the line ngram1", name);
  else if (size == start)
    status = FAIL(ONEBIT_CORRUPT_MODEL, "%s holds no text", name);
  else if (out) {
    *n = 0;
    *out = malloc(size * sizeof **out);
    if (!*out)
      status = FAIL(ONEBIT_OUT_OF_HOST_MEMORY, "no memory for %zu tokens", size);
    else
      for (size_t i = start; i < size; i++) {
        int end = bytes[i] == '\n' && i + 1 < size && bytes[i + 1] == '\n';
        (*out)[(*n)++] = end ? END : bytes[i];
        i += (size_t)end;
      }
  } else
    *n = size - start;
  free(bytes);
  return status;
}

static void logits(const Model *model, uint32_t before, uint32_t last, float *out) {
  static const uint32_t PAIR = 4, TRIPLE = 64;
  uint32_t counts[VOCABULARY];
  for (int token = 0; token < VOCABULARY; token++) counts[token] = 1;
  uint32_t a = END, b = END;
  for (size_t i = 0; i < model->n; i++) {
    uint32_t token = model->tokens[i];
    if (b == last) counts[token] += PAIR + (a == before ? TRIPLE : 0);
    a = token == END ? END : b;
    b = token;
  }
  for (int token = 0; token < VOCABULARY; token++) out[token] = logf((float)counts[token]);
}

/* ---- sequences ---- */

typedef struct {
  uint32_t position, token;
} Row;

typedef struct {
  Row *rows;
  uint32_t n;
} Sequence;

typedef struct {
  const Model *model;
  uint32_t context, batch, n;
  Sequence *sequences;
  float *logits;
} Session;

static uint32_t used(const Session *session) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < session->n; i++) sum += session->sequences[i].n;
  return sum;
}

static void session_close(OnebitSession *raw) {
  Session *session = (Session *)raw;
  if (!session) return;
  for (uint32_t i = 0; session->sequences && i < session->n; i++) free(session->sequences[i].rows);
  free(session->sequences);
  free(session->logits);
  free(session);
}

static OnebitStatus limits(OnebitModel *raw, OnebitForwardLimits *out) {
  if (!raw) return FAIL(ONEBIT_INVALID_ARGUMENT, "model is null");
  OnebitForwardLimits value = {0};
  value.vocabulary = VOCABULARY;
  value.context_trained = CONTEXT_TRAINED;
  value.max_batch = MAX_BATCH;
  value.max_sequences = MAX_SEQUENCES;
  value.flags = ONEBIT_STATE_CUT | ONEBIT_STATE_SNAPSHOT;
  value.state_per_token = sizeof(Row);
  return put(out, &value, sizeof value);
}

static OnebitStatus session_open(OnebitModel *raw, const OnebitSessionArgs *args, OnebitSessionOut *out) {
  if (!raw || !args || !out) return FAIL(ONEBIT_INVALID_ARGUMENT, "an argument is null");
  if (args->context == 0 || args->sequences == 0 || args->sequences > MAX_SEQUENCES || args->batch == 0 || args->batch > MAX_BATCH)
    return FAIL(ONEBIT_INVALID_ARGUMENT, "a session of %u positions, %u sequences, batches of %u", args->context, args->sequences, args->batch);
  Session *session = calloc(1, sizeof *session);
  if (session) {
    session->model = (const Model *)raw;
    session->context = args->context;
    session->batch = args->batch;
    session->n = args->sequences;
    session->sequences = calloc(session->n, sizeof *session->sequences);
    session->logits = malloc(sizeof(float) * VOCABULARY * session->batch);
  }
  int complete = session && session->sequences && session->logits;
  for (uint32_t i = 0; complete && i < session->n; i++)
    complete = (session->sequences[i].rows = malloc(sizeof(Row) * session->context)) != NULL;
  if (!complete) {
    session_close((OnebitSession *)session);
    return FAIL(ONEBIT_OUT_OF_HOST_MEMORY, "no memory for a session");
  }
  OnebitSessionOut value = {0};
  value.session = (OnebitSession *)session;
  value.context = session->context;
  value.state_bytes = sizeof(Row) * (uint64_t)session->context * session->n;
  value.scratch_bytes = sizeof(float) * (uint64_t)VOCABULARY * session->batch;
  return put(out, &value, sizeof value);
}

static OnebitStatus forward(OnebitSession *raw, const OnebitBatch *batch, OnebitLogits *out) {
  Session *session = (Session *)raw;
  if (!session || !batch || !out) return FAIL(ONEBIT_INVALID_ARGUMENT, "an argument is null");
  if (batch->n == 0 || batch->n > session->batch || !batch->tokens || batch->embeddings || !batch->positions || !batch->sequences || !batch->wants_logits)
    return FAIL(ONEBIT_INVALID_ARGUMENT, "a batch of %u rows", batch->n);
  if (used(session) + batch->n > session->context)
    return fail_with(ONEBIT_CONTEXT_OVERFLOW, session->context, used(session) + batch->n, "the context holds %u positions", session->context);
  /* First look, then change: a refused batch leaves the state as it was. */
  int64_t next[MAX_SEQUENCES];
  for (uint32_t i = 0; i < session->n; i++) {
    const Sequence *sequence = &session->sequences[i];
    next[i] = sequence->n ? (int64_t)sequence->rows[sequence->n - 1].position + 1 : -1;
  }
  for (uint32_t i = 0; i < batch->n; i++) {
    uint32_t sequence = batch->sequences[i];
    if (sequence >= session->n || batch->tokens[i] >= VOCABULARY) return FAIL(ONEBIT_INVALID_ARGUMENT, "row %u is out of range", i);
    if (next[sequence] >= 0 && next[sequence] != batch->positions[i])
      return FAIL(ONEBIT_INVALID_ARGUMENT, "sequence %u does not go on at position %u", sequence, batch->positions[i]);
    next[sequence] = (int64_t)batch->positions[i] + 1;
  }
  uint32_t rows = 0;
  for (uint32_t i = 0; i < batch->n; i++) {
    if (cancelled(batch->cancel)) return FAIL(ONEBIT_CANCELLED, "cancelled");
    if (session->model->row_us > 0) sleep_us(session->model->row_us);
    Sequence *sequence = &session->sequences[batch->sequences[i]];
    uint32_t token = batch->tokens[i], before = END;
    if (sequence->n && sequence->rows[sequence->n - 1].position + 1 == batch->positions[i]) before = sequence->rows[sequence->n - 1].token;
    Row row = {batch->positions[i], token};
    sequence->rows[sequence->n++] = row;
    if (batch->wants_logits[i]) logits(session->model, token == END ? END : before, token, session->logits + (size_t)VOCABULARY * rows++);
  }
  OnebitLogits value = {0, session->logits, rows, VOCABULARY};
  return put(out, &value, sizeof value);
}

/* The rows of p0 ..< p1. */
static void range(const Sequence *sequence, const OnebitSeqArgs *args, uint32_t *from, uint32_t *to) {
  *from = 0;
  while (*from < sequence->n && sequence->rows[*from].position < args->p0) (*from)++;
  *to = *from;
  while (*to < sequence->n && (args->p1 == UINT32_MAX || sequence->rows[*to].position < args->p1)) (*to)++;
}

static OnebitStatus seq_copy(OnebitSession *raw, const OnebitSeqArgs *args) {
  Session *session = (Session *)raw;
  if (!session || !args || args->sequence >= session->n || args->destination >= session->n || args->sequence == args->destination)
    return FAIL(ONEBIT_INVALID_ARGUMENT, "no such sequence");
  const Sequence *source = &session->sequences[args->sequence];
  Sequence *destination = &session->sequences[args->destination];
  if (destination->n) return FAIL(ONEBIT_INVALID_ARGUMENT, "sequence %u is not empty", args->destination);
  uint32_t from, to;
  range(source, args, &from, &to);
  if (used(session) + (to - from) > session->context)
    return fail_with(ONEBIT_CONTEXT_OVERFLOW, session->context, used(session) + (to - from), "the context holds %u positions", session->context);
  memcpy(destination->rows, source->rows + from, sizeof(Row) * (to - from));
  destination->n = to - from;
  return ONEBIT_OK;
}

static OnebitStatus seq_remove(OnebitSession *raw, const OnebitSeqArgs *args) {
  Session *session = (Session *)raw;
  if (!session || !args || args->sequence >= session->n) return FAIL(ONEBIT_INVALID_ARGUMENT, "no such sequence");
  Sequence *sequence = &session->sequences[args->sequence];
  uint32_t from, to;
  range(sequence, args, &from, &to);
  memmove(sequence->rows + from, sequence->rows + to, sizeof(Row) * (sequence->n - to));
  sequence->n -= to - from;
  return ONEBIT_OK;
}

static OnebitStatus state_size(OnebitSession *raw, uint32_t sequence, uint64_t *out_bytes) {
  Session *session = (Session *)raw;
  if (!session || sequence >= session->n || !out_bytes) return FAIL(ONEBIT_INVALID_ARGUMENT, "no such sequence");
  *out_bytes = sizeof STATE_MAGIC - 1 + sizeof(Row) * (uint64_t)session->sequences[sequence].n;
  return ONEBIT_OK;
}

static OnebitStatus state_save(OnebitSession *raw, uint32_t sequence, void *buffer, uint64_t *bytes) {
  Session *session = (Session *)raw;
  uint64_t need;
  if (!bytes || state_size(raw, sequence, &need) != ONEBIT_OK) return FAIL(ONEBIT_INVALID_ARGUMENT, "no such sequence");
  uint64_t have = *bytes;
  *bytes = need;
  if (have < need || !buffer) return fail_with(ONEBIT_BUFFER_TOO_SMALL, have, need, "%llu bytes are needed", (unsigned long long)need);
  memcpy(buffer, STATE_MAGIC, sizeof STATE_MAGIC - 1);
  memcpy((char *)buffer + sizeof STATE_MAGIC - 1, session->sequences[sequence].rows, need - (sizeof STATE_MAGIC - 1));
  return ONEBIT_OK;
}

static OnebitStatus state_load(OnebitSession *raw, uint32_t sequence, const void *buffer, uint64_t bytes) {
  Session *session = (Session *)raw;
  size_t head = sizeof STATE_MAGIC - 1;
  if (!session || sequence >= session->n || !buffer) return FAIL(ONEBIT_INVALID_ARGUMENT, "no such sequence");
  if (bytes < head || memcmp(buffer, STATE_MAGIC, head) != 0 || (bytes - head) % sizeof(Row) != 0)
    return FAIL(ONEBIT_INVALID_ARGUMENT, "these bytes are no saved state of ngram");
  uint64_t n = (bytes - head) / sizeof(Row);
  Sequence *target = &session->sequences[sequence];
  uint64_t need = used(session) - target->n + n;
  if (need > session->context) return fail_with(ONEBIT_CONTEXT_OVERFLOW, session->context, need, "the context holds %u positions", session->context);
  for (uint64_t i = 0; i < n; i++) {
    Row row, before = {0, 0};
    memcpy(&row, (const char *)buffer + head + i * sizeof row, sizeof row);
    if (i) memcpy(&before, (const char *)buffer + head + (i - 1) * sizeof row, sizeof row);
    if (row.token >= VOCABULARY || row.position == UINT32_MAX || (i && row.position <= before.position))
      return FAIL(ONEBIT_INVALID_ARGUMENT, "these bytes are no saved state of ngram");
  }
  memcpy(target->rows, (const char *)buffer + head, n * sizeof(Row));
  target->n = (uint32_t)n;
  return ONEBIT_OK;
}

/* ---- the tokenizer ---- */

static OnebitStatus vocabulary(OnebitModel *raw, OnebitVocabulary *out) {
  if (!raw) return FAIL(ONEBIT_INVALID_ARGUMENT, "model is null");
  OnebitVocabulary value = {0};
  value.size = VOCABULARY;
  value.bos = ONEBIT_NO_TOKEN;
  value.eos = value.eot = END;
  value.chat_template = str("{% for message in messages %}{{ message.content }}\n{% endfor %}");
  value.kind = str("bytes");
  return put(out, &value, sizeof value);
}

static OnebitStatus token_info(OnebitModel *raw, uint32_t token, OnebitTokenInfo *out) {
  const Model *model = (const Model *)raw;
  if (!model || token >= VOCABULARY) return FAIL(ONEBIT_INVALID_ARGUMENT, "token %u of a vocabulary of %d", token, VOCABULARY);
  OnebitTokenInfo value = {0};
  value.flags = token == END ? ONEBIT_TOKEN_CONTROL | ONEBIT_TOKEN_END : ONEBIT_TOKEN_BYTE;
  value.text = str(model->texts[token]);
  if (token == 0) value.text.len = 1;
  return put(out, &value, sizeof value);
}

static OnebitStatus encode(OnebitModel *raw, const OnebitEncodeArgs *args, uint32_t *out_n) {
  if (!raw || !args || !out_n || (args->text.len && !args->text.ptr)) return FAIL(ONEBIT_INVALID_ARGUMENT, "an argument is null");
  size_t end = sizeof END_TEXT - 1;
  uint32_t n = 0;
  for (size_t i = 0; i < args->text.len; n++) {
    int control = (args->flags & ONEBIT_ENCODE_PARSE_CONTROL) && args->text.len - i >= end && memcmp(args->text.ptr + i, END_TEXT, end) == 0;
    if (n < args->capacity && args->tokens) args->tokens[n] = control ? END : (unsigned char)args->text.ptr[i];
    i += control ? end : 1;
  }
  *out_n = n;
  if (n > args->capacity) return fail_with(ONEBIT_BUFFER_TOO_SMALL, args->capacity, n, "%u tokens", n);
  return ONEBIT_OK;
}

static OnebitStatus decode(OnebitModel *raw, const OnebitDecodeArgs *args, size_t *out_n) {
  if (!raw || !args || !out_n || (args->n && !args->tokens)) return FAIL(ONEBIT_INVALID_ARGUMENT, "an argument is null");
  size_t n = 0;
  for (uint32_t i = 0; i < args->n; i++) {
    if (args->tokens[i] >= VOCABULARY) return FAIL(ONEBIT_INVALID_ARGUMENT, "token %u of a vocabulary of %d", args->tokens[i], VOCABULARY);
    char byte = (char)args->tokens[i];
    const char *text = args->tokens[i] == END ? END_TEXT : &byte;
    size_t len = args->tokens[i] != END ? 1 : args->control ? sizeof END_TEXT - 1 : 0;
    for (size_t k = 0; k < len; k++, n++)
      if (n < args->capacity && args->bytes) args->bytes[n] = text[k];
  }
  *out_n = n;
  if (n > args->capacity) return fail_with(ONEBIT_BUFFER_TOO_SMALL, args->capacity, n, "%zu bytes", n);
  return ONEBIT_OK;
}

/* ---- the plugin ---- */

static OnebitStatus info(OnebitInfo *out) {
  static const OnebitKeyValue facts[] = {{{"language", 8}, {"C", 1}}};
  OnebitInfo value = {0, str(PLUGIN_ID), str(PLUGIN_VERSION), str("counting"), facts, 1};
  return put(out, &value, sizeof value);
}

static OnebitStatus probe(const OnebitProbeArgs *args, OnebitProbeOut *out) {
  enum { MOST = 64 };
  static OnebitProbeReport reports[MOST];
  static const OnebitProbeReport *pointers[MOST];
  if (!args || !out || args->n_devices > MOST || (args->n_devices && !args->devices)) return FAIL(ONEBIT_INVALID_ARGUMENT, "no devices, or too many");
  for (size_t i = 0; i < args->n_devices; i++) {
    int cpu = args->devices[i]->kind == ONEBIT_DEVICE_CPU;
    OnebitProbeReport report = {0};
    report.struct_size = sizeof report;
    report.usable = (uint32_t)cpu;
    report.score = cpu ? 10 : 0;
    report.reason_code = cpu ? ONEBIT_REASON_NONE : ONEBIT_REASON_WRONG_KIND;
    report.memory_kinds = cpu ? ONEBIT_MEMORY_HOST : 0;
    report.reason = str(cpu ? "" : "ngram computes on the CPU");
    reports[i] = report;
    pointers[i] = &reports[i];
  }
  OnebitProbeOut value = {0, pointers, args->n_devices};
  return put(out, &value, sizeof value);
}

static OnebitStatus fit(const OnebitFitArgs *args, OnebitFitOut *out) {
  size_t n = 0;
  if (!args || !out || !args->device) return FAIL(ONEBIT_INVALID_ARGUMENT, "an argument is null");
  OnebitFitOut value = {0};
  OnebitStatus status = read_tokens(args->path, NULL, &n);
  if (status == ONEBIT_INVALID_ARGUMENT) return status;
  if (status != ONEBIT_OK) {
    value.reason_code = ONEBIT_REASON_CORRUPT_MODEL;
    value.reason = str("it is no file of ngram");
  } else if (args->device->kind != ONEBIT_DEVICE_CPU) {
    value.reason_code = ONEBIT_REASON_WRONG_KIND;
    value.reason = str("ngram computes on the CPU");
  } else {
    value.usable = 1;
    value.weights_host = n * sizeof(uint32_t);
    value.state = (args->context ? args->context : CONTEXT_TRAINED) * (uint64_t)sizeof(Row);
    value.state_per_token = sizeof(Row);
    value.scratch_host = (uint64_t)MAX_BATCH * VOCABULARY * sizeof(float);
    value.context_trained = CONTEXT_TRAINED;
    value.parameters = n;
  }
  value.architecture = str("ngram");
  value.quantisation = str("counts");
  return put(out, &value, sizeof value);
}

static void close_model(OnebitModel *raw) {
  Model *model = (Model *)raw;
  if (model) free(model->tokens);
  free(model);
}

static OnebitStatus open_model(const OnebitOpenArgs *args, OnebitOpenOut *out) {
  if (!args || !out || !args->device) return FAIL(ONEBIT_INVALID_ARGUMENT, "an argument is null");
  if (args->device->kind != ONEBIT_DEVICE_CPU) return FAIL(ONEBIT_DEVICE_UNAVAILABLE, "ngram computes on the CPU");
  Model *model = calloc(1, sizeof *model);
  if (!model) return FAIL(ONEBIT_OUT_OF_HOST_MEMORY, "no memory for a model");
  OnebitStatus status = read_tokens(args->path, &model->tokens, &model->n);
  long steps = (option(args->options, args->n_options, "open_ms") + 9) / 10;
  for (long i = 0; status == ONEBIT_OK && i < steps; i++) {
    if (args->progress) args->progress(args->progress_ctx, (float)i / (float)steps);
    sleep_us(10000);
    if (cancelled(args->cancel)) status = FAIL(ONEBIT_CANCELLED, "cancelled");
  }
  if (status == ONEBIT_OK && cancelled(args->cancel)) status = FAIL(ONEBIT_CANCELLED, "cancelled");
  if (status != ONEBIT_OK) {
    close_model((OnebitModel *)model);
    return status;
  }
  if (args->progress) args->progress(args->progress_ctx, 1.0f);
  model->row_us = option(args->options, args->n_options, "row_us");
  for (int token = 0; token < VOCABULARY; token++) {
    if (token == END)
      snprintf(model->texts[token], sizeof model->texts[token], "%s", END_TEXT);
    else if (token < 128)
      model->texts[token][0] = (char)token;
    else
      snprintf(model->texts[token], sizeof model->texts[token], "<0x%02X>", (unsigned)token & 0xffu);
  }
  OnebitOpenOut value = {0, (OnebitModel *)model, str("CPU"), str("ngram"), str("counts")};
  return put(out, &value, sizeof value);
}

static const OnebitForward forward_table = {sizeof forward_table, limits,     session_open, session_close, forward,   seq_copy,
                                            seq_remove,           NULL,       state_size,   state_save,    state_load};
static const OnebitTokenize tokenize_table = {sizeof tokenize_table, vocabulary, token_info, encode, decode};

static const void *extension(OnebitModel *model, OnebitStr id) {
  if (!model || !id.ptr) return NULL;
  if (id.len == strlen(ONEBIT_FORWARD_1) && memcmp(id.ptr, ONEBIT_FORWARD_1, id.len) == 0) return &forward_table;
  if (id.len == strlen(ONEBIT_TOKENIZE_1) && memcmp(id.ptr, ONEBIT_TOKENIZE_1, id.len) == 0) return &tokenize_table;
  return NULL;
}

static const OnebitPlugin plugin_table = {sizeof plugin_table, ONEBIT_ABI_MAJOR, ONEBIT_ABI_MINOR, info,     probe,
                                          fit,                 open_model,       close_model,      extension};

const OnebitPlugin *onebit_plugin_v1(const OnebitHost *host) {
  if (!host || host->abi_major != ONEBIT_ABI_MAJOR) return NULL;
  the_host = host;
  return &plugin_table;
}
