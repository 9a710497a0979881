/* onebit.forward/1: sequences, and batches that append to them.
 *
 * The state of a sequence is the list of its tokens and their positions, so that copying, cutting, moving and saving it is exact, as the
 * contract demands of every plugin: exact, or ONEBIT_UNSUPPORTED. */
#include "ngram.h"

#define STATE_MAGIC "ngramst1"
#define STATE_MAGIC_LEN (sizeof STATE_MAGIC - 1)

typedef struct {
  uint32_t position, token;
} Row;

typedef struct {
  Row *rows; /* in rising order of position; room for the whole context */
  uint32_t n;
} Sequence;

/* Used by one thread at a time. OnebitSession is this, seen from outside. */
typedef struct {
  const Model *model;
  uint32_t context, batch, n;
  Sequence *sequences;
  float *logits;
} Session;

/* The context is shared: the positions of all sequences together must fit. */
static uint32_t used(const Session *session) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < session->n; i++) sum += session->sequences[i].n;
  return sum;
}

static OnebitStatus no_room(const Session *session, uint64_t need) {
  return fail_with(ONEBIT_CONTEXT_OVERFLOW, session->context, need, "the context holds %u positions", session->context);
}

static OnebitStatus limits(OnebitModel *raw, OnebitForwardLimits *out) {
  OnebitForwardLimits value;
  if (!raw) return FAIL(ONEBIT_INVALID_ARGUMENT, "model is null");
  ZERO(value);
  value.vocabulary = VOCABULARY;
  value.context_trained = CONTEXT_TRAINED;
  value.max_batch = MAX_BATCH;
  value.max_sequences = MAX_SEQUENCES;
  /* Only what is exact. A recurrent model has no ONEBIT_STATE_CUT; without ONEBIT_STATE_SHIFT seq_shift may be null. */
  value.flags = ONEBIT_STATE_CUT | ONEBIT_STATE_SNAPSHOT | ONEBIT_STATE_SHIFT;
  value.state_per_token = STATE_PER_TOKEN;
  return put(out, &value, sizeof value);
}

static void session_close(OnebitSession *raw) {
  Session *session = (Session *)raw;
  if (!session) return;
  for (uint32_t i = 0; session->sequences && i < session->n; i++) free(session->sequences[i].rows);
  free(session->sequences);
  free(session->logits);
  free(session);
}

static OnebitStatus session_open(OnebitModel *raw, const OnebitSessionArgs *args, OnebitSessionOut *out) {
  if (!raw || !REACHES(args, OnebitSessionArgs, n_options) || !REACHES(out, OnebitSessionOut, session))
    return FAIL(ONEBIT_INVALID_ARGUMENT, "an argument is null");
  if (args->context == 0 || args->sequences == 0 || args->sequences > MAX_SEQUENCES || args->batch == 0 || args->batch > MAX_BATCH)
    return FAIL(ONEBIT_INVALID_ARGUMENT, "a session of %u positions, %u sequences, batches of %u", args->context, args->sequences,
                args->batch);
  Session *session = (Session *)calloc(1, sizeof *session);
  if (session) {
    session->model = (const Model *)(const void *)raw;
    session->context = args->context;
    session->batch = args->batch;
    session->n = args->sequences;
    session->sequences = (Sequence *)calloc(session->n, sizeof *session->sequences);
    session->logits = (float *)malloc(sizeof(float) * VOCABULARY * session->batch);
  }
  int complete = session && session->sequences && session->logits;
  for (uint32_t i = 0; complete && i < session->n; i++)
    complete = (session->sequences[i].rows = (Row *)malloc(sizeof(Row) * session->context)) != NULL;
  if (!complete) {
    session_close((OnebitSession *)session);
    return FAIL(ONEBIT_OUT_OF_HOST_MEMORY, "no memory for a session");
  }
  OnebitSessionOut value;
  ZERO(value);
  value.session = (OnebitSession *)session;
  value.context = session->context;
  value.state_bytes = sizeof(Row) * (uint64_t)session->context * session->n;
  value.scratch_bytes = sizeof(float) * (uint64_t)VOCABULARY * session->batch;
  return put(out, &value, sizeof value);
}

/* Looks at the whole batch before anything changes: a refused batch leaves the state as it was. */
static OnebitStatus check_batch(const Session *session, const OnebitBatch *batch) {
  if (batch->n == 0 || batch->n > session->batch || !batch->tokens || !batch->positions || !batch->sequences || !batch->wants_logits)
    return FAIL(ONEBIT_INVALID_ARGUMENT, "a batch of %u rows", batch->n);
  if (batch->embeddings) return FAIL(ONEBIT_UNSUPPORTED, PLUGIN_ID " takes tokens only");
  if (used(session) + batch->n > session->context) return no_room(session, (uint64_t)used(session) + batch->n);
  int64_t next[MAX_SEQUENCES]; /* where each sequence goes on; an empty one may begin anywhere, as what was before may have been cut away */
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
  return ONEBIT_OK;
}

static OnebitStatus forward(OnebitSession *raw, const OnebitBatch *batch, OnebitLogits *out) {
  Session *session = (Session *)raw;
  if (!session || !REACHES(batch, OnebitBatch, cancel) || !out) return FAIL(ONEBIT_INVALID_ARGUMENT, "an argument is null");
  OnebitStatus status = check_batch(session, batch);
  if (status != ONEBIT_OK) return status;
  uint32_t wanted = 0;
  for (uint32_t i = 0; i < batch->n; i++) {
    /* After ONEBIT_CANCELLED the host removes the rows of this batch, those that entered the state and those that did not. */
    if (cancelled(batch->cancel)) return FAIL(ONEBIT_CANCELLED, "cancelled");
    if (session->model->row_us > 0) sleep_us(session->model->row_us);
    Sequence *sequence = &session->sequences[batch->sequences[i]];
    Row row = {batch->positions[i], batch->tokens[i]};
    uint32_t before = END;
    if (sequence->n && row.token != END && sequence->rows[sequence->n - 1].position + 1 == row.position)
      before = sequence->rows[sequence->n - 1].token;
    sequence->rows[sequence->n++] = row;
    if (batch->wants_logits[i]) logits(session->model, before, row.token, session->logits + (size_t)VOCABULARY * wanted++);
  }
  OnebitLogits value;
  ZERO(value);
  value.data = session->logits; /* borrowed by the host until the next call on this session */
  value.rows = wanted;
  value.vocabulary = VOCABULARY;
  return put(out, &value, sizeof value);
}

/* The rows at positions p0 ..< p1, as from ..< to. */
static void range(const Sequence *sequence, const OnebitSeqArgs *args, uint32_t *from, uint32_t *to) {
  *from = 0;
  while (*from < sequence->n && sequence->rows[*from].position < args->p0) (*from)++;
  *to = *from;
  while (*to < sequence->n && (args->p1 == UINT32_MAX || sequence->rows[*to].position < args->p1)) (*to)++;
}

/* Whether the sequence is there and the range does not run backwards. */
static int in_range(const Session *session, const OnebitSeqArgs *args) {
  return REACHES(args, OnebitSeqArgs, delta) && args->sequence < session->n && args->p0 <= args->p1;
}

static OnebitStatus seq_copy(OnebitSession *raw, const OnebitSeqArgs *args) {
  Session *session = (Session *)raw;
  if (!session || !in_range(session, args) || args->destination >= session->n || args->sequence == args->destination)
    return FAIL(ONEBIT_INVALID_ARGUMENT, "no such sequence, or no such range");
  const Sequence *source = &session->sequences[args->sequence];
  Sequence *destination = &session->sequences[args->destination];
  if (destination->n) return FAIL(ONEBIT_INVALID_ARGUMENT, "sequence %u is not empty", args->destination);
  uint32_t from, to;
  range(source, args, &from, &to);
  if (used(session) + (to - from) > session->context) return no_room(session, (uint64_t)used(session) + (to - from));
  memcpy(destination->rows, source->rows + from, sizeof(Row) * (to - from));
  destination->n = to - from;
  return ONEBIT_OK;
}

static OnebitStatus seq_remove(OnebitSession *raw, const OnebitSeqArgs *args) {
  Session *session = (Session *)raw;
  if (!session || !in_range(session, args)) return FAIL(ONEBIT_INVALID_ARGUMENT, "no such sequence, or no such range");
  Sequence *sequence = &session->sequences[args->sequence];
  uint32_t from, to;
  range(sequence, args, &from, &to);
  memmove(sequence->rows + from, sequence->rows + to, sizeof(Row) * (sequence->n - to));
  sequence->n -= to - from;
  return ONEBIT_OK;
}

/* Moves positions, for a host that cuts the oldest part out of a long conversation. Logits here do not depend on positions, so it is exact;
 * where they do, either correct the state exactly or leave ONEBIT_STATE_SHIFT away. */
static OnebitStatus seq_shift(OnebitSession *raw, const OnebitSeqArgs *args) {
  Session *session = (Session *)raw;
  if (!session || !in_range(session, args)) return FAIL(ONEBIT_INVALID_ARGUMENT, "no such sequence, or no such range");
  Sequence *sequence = &session->sequences[args->sequence];
  uint32_t from, to;
  range(sequence, args, &from, &to);
  if (from == to) return ONEBIT_OK;
  int64_t first = (int64_t)sequence->rows[from].position + args->delta, last = (int64_t)sequence->rows[to - 1].position + args->delta;
  if (first < 0 || last >= UINT32_MAX) return FAIL(ONEBIT_INVALID_ARGUMENT, "a position would be out of range");
  if ((from > 0 && first <= sequence->rows[from - 1].position) || (to < sequence->n && last >= sequence->rows[to].position))
    return FAIL(ONEBIT_INVALID_ARGUMENT, "positions would fall on each other");
  for (uint32_t i = from; i < to; i++) sequence->rows[i].position = (uint32_t)((int64_t)sequence->rows[i].position + args->delta);
  return ONEBIT_OK;
}

/* A saved sequence is STATE_MAGIC and its rows. */
static OnebitStatus state_size(OnebitSession *raw, uint32_t sequence, uint64_t *out_bytes) {
  Session *session = (Session *)raw;
  if (!session || sequence >= session->n || !out_bytes) return FAIL(ONEBIT_INVALID_ARGUMENT, "no such sequence");
  *out_bytes = STATE_MAGIC_LEN + sizeof(Row) * (uint64_t)session->sequences[sequence].n;
  return ONEBIT_OK;
}

static OnebitStatus state_save(OnebitSession *raw, uint32_t sequence, void *buffer, uint64_t *bytes) {
  Session *session = (Session *)raw;
  uint64_t need = 0;
  if (!bytes || state_size(raw, sequence, &need) != ONEBIT_OK) return FAIL(ONEBIT_INVALID_ARGUMENT, "no such sequence");
  uint64_t have = *bytes;
  *bytes = need;
  if (have < need || !buffer) return fail_with(ONEBIT_BUFFER_TOO_SMALL, have, need, "%llu bytes are needed", (unsigned long long)need);
  memcpy(buffer, STATE_MAGIC, STATE_MAGIC_LEN);
  memcpy((char *)buffer + STATE_MAGIC_LEN, session->sequences[sequence].rows, (size_t)need - STATE_MAGIC_LEN);
  return ONEBIT_OK;
}

/* The bytes may come from a file that somebody else wrote: all are checked before the first is used. */
static OnebitStatus state_load(OnebitSession *raw, uint32_t sequence, const void *buffer, uint64_t bytes) {
  Session *session = (Session *)raw;
  if (!session || sequence >= session->n || !buffer) return FAIL(ONEBIT_INVALID_ARGUMENT, "no such sequence");
  if (bytes < STATE_MAGIC_LEN || memcmp(buffer, STATE_MAGIC, STATE_MAGIC_LEN) != 0 || (bytes - STATE_MAGIC_LEN) % sizeof(Row) != 0)
    return FAIL(ONEBIT_INVALID_ARGUMENT, "these bytes are no saved state of " PLUGIN_ID);
  const char *saved = (const char *)buffer + STATE_MAGIC_LEN;
  uint64_t n = (bytes - STATE_MAGIC_LEN) / sizeof(Row);
  Sequence *target = &session->sequences[sequence];
  uint64_t need = used(session) - target->n + n;
  if (need > session->context) return no_room(session, need);
  Row before = {0, 0};
  for (uint64_t i = 0; i < n; i++) {
    Row row;
    memcpy(&row, saved + i * sizeof row, sizeof row); /* the buffer may lie at any address */
    if (row.token >= VOCABULARY || row.position == UINT32_MAX || (i && row.position <= before.position))
      return FAIL(ONEBIT_INVALID_ARGUMENT, "these bytes are no saved state of " PLUGIN_ID);
    before = row;
  }
  memcpy(target->rows, saved, (size_t)n * sizeof(Row));
  target->n = (uint32_t)n;
  return ONEBIT_OK;
}

/* In the order of the header. Functions that a header of tomorrow adds at the end stay null, which is "not offered". */
const OnebitForward forward_table = {sizeof forward_table, limits,    session_open, session_close, forward,    seq_copy,
                                     seq_remove,           seq_shift, state_size,   state_save,    state_load};
