/* The model: a text, and what follows what in it.
 *
 * A model file is the line `ngram1` and then text; an empty line in the text is where an answer ends. The last line is empty, too, so
 * that a file that was cut off while it was copied is noticed. Asked for the beginning of a line the model answers with the rest of it. */
#include <errno.h>
#include <math.h>

#include "ngram.h"

#define MAGIC "ngram1\n"
#define MAGIC_LEN (sizeof MAGIC - 1)
/* An example needs a few hundred bytes. A limit is needed all the same: the file comes from somebody else. */
#define MAX_FILE (1L << 20)

OnebitStatus open_text(OnebitStr path, FILE **out, size_t *n) {
  char name[4096], head[MAGIC_LEN];
  if (!path.ptr || path.len == 0 || path.len >= sizeof name) return FAIL(ONEBIT_INVALID_ARGUMENT, "no path");
  memcpy(name, path.ptr, path.len);
  name[path.len] = 0;
  FILE *file = fopen(name, "rb");
  if (!file) return FAIL(ONEBIT_IO, "%s: %s", name, strerror(errno));
  OnebitStatus status = ONEBIT_OK;
  size_t got = fread(head, 1, MAGIC_LEN, file);
  long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  if (ferror(file) || size < 0 || fseek(file, (long)MAGIC_LEN, SEEK_SET) != 0)
    status = FAIL(ONEBIT_IO, "%s cannot be read", name);
  else if (got < MAGIC_LEN || memcmp(head, MAGIC, MAGIC_LEN) != 0)
    status = FAIL(ONEBIT_CORRUPT_MODEL, "%s does not begin with the line ngram1", name);
  else if (size > MAX_FILE)
    status = FAIL(ONEBIT_CORRUPT_MODEL, "%s has %ld bytes, at most %ld are read", name, size, MAX_FILE);
  else if (size == (long)MAGIC_LEN)
    status = FAIL(ONEBIT_CORRUPT_MODEL, "%s holds no text", name);
  if (status != ONEBIT_OK) {
    fclose(file);
    return status;
  }
  *out = file;
  *n = (size_t)size - MAGIC_LEN;
  return ONEBIT_OK;
}

OnebitStatus read_model(OnebitStr path, Model *model) {
  FILE *file;
  size_t n;
  OnebitStatus status = open_text(path, &file, &n);
  if (status != ONEBIT_OK) return status;
  unsigned char *text = (unsigned char *)malloc(n);
  model->tokens = (uint32_t *)malloc(n * sizeof *model->tokens);
  if (!text || !model->tokens)
    status = fail_with(ONEBIT_OUT_OF_HOST_MEMORY, 0, n, "no memory for a text of %zu bytes", n);
  else if (fread(text, 1, n, file) != n)
    status = FAIL(ONEBIT_IO, "the model file became shorter while it was read");
  else if (n < 2 || text[n - 1] != '\n' || text[n - 2] != '\n')
    status = FAIL(ONEBIT_CORRUPT_MODEL, "the model file does not end with an empty line: it was cut off");
  for (size_t i = 0; status == ONEBIT_OK && i < n; i++) {
    int end = text[i] == '\n' && i + 1 < n && text[i + 1] == '\n';
    model->tokens[model->n++] = end ? END : text[i];
    if (end) i++;
  }
  free(text);
  fclose(file);
  return status;
}

/* A token's logit is the logarithm of how often it followed. Counts are whole numbers and exact in a float, so the result depends on
 * neither batches nor threads, which the host relies on and `plugin test` checks. */
void logits(const Model *model, uint32_t before, uint32_t last, float *out) {
  static const uint32_t PAIR = 4, TRIPLE = 64;
  uint32_t counts[VOCABULARY];
  for (uint32_t token = 0; token < VOCABULARY; token++) counts[token] = 1;
  uint32_t a = END, b = END;
  for (size_t i = 0; i < model->n; i++) {
    uint32_t token = model->tokens[i];
    if (b == last) counts[token] += PAIR + (a == before ? TRIPLE : 0);
    a = token == END ? END : b;
    b = token;
  }
  for (uint32_t token = 0; token < VOCABULARY; token++) out[token] = logf((float)counts[token]);
}
