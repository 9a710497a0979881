/* onebit.tokenize/1: the vocabulary that comes with the model. Here every byte is a token, and one more ends an answer. */
#include "ngram.h"

static OnebitStatus vocabulary(OnebitModel *raw, OnebitVocabulary *out) {
  OnebitVocabulary value;
  if (!raw) return FAIL(ONEBIT_INVALID_ARGUMENT, "model is null");
  ZERO(value);
  value.size = VOCABULARY;
  value.bos = ONEBIT_NO_TOKEN;
  value.eos = value.eot = END;
  value.chat_template = str("{% for message in messages %}{{ message.content }}{% endfor %}");
  value.kind = str("bytes");
  return put(out, &value, sizeof value);
}

static OnebitStatus token_info(OnebitModel *raw, uint32_t token, OnebitTokenInfo *out) {
  const Model *model = (const Model *)(const void *)raw;
  OnebitTokenInfo value;
  if (!model || token >= VOCABULARY) return FAIL(ONEBIT_INVALID_ARGUMENT, "token %u of a vocabulary of %u", token, VOCABULARY);
  ZERO(value);
  value.flags = token == END ? ONEBIT_TOKEN_CONTROL | ONEBIT_TOKEN_END : ONEBIT_TOKEN_BYTE;
  value.text = str(model->texts[token]);
  if (token == 0) value.text.len = 1; /* the text of byte 0 is that byte */
  return put(out, &value, sizeof value);
}

/* Without ONEBIT_ENCODE_PARSE_CONTROL the text is a user's, and "<|end|>" in it is seven bytes, never the token. */
static OnebitStatus encode(OnebitModel *raw, const OnebitEncodeArgs *args, uint32_t *out_n) {
  if (!raw || !REACHES(args, OnebitEncodeArgs, tokens) || !out_n || (args->text.len && !args->text.ptr))
    return FAIL(ONEBIT_INVALID_ARGUMENT, "an argument is null or too short");
  int parse = (args->flags & ONEBIT_ENCODE_PARSE_CONTROL) != 0;
  uint32_t n = 0;
  for (size_t i = 0; i < args->text.len; n++) {
    int control = parse && args->text.len - i >= END_TEXT_LEN && memcmp(args->text.ptr + i, END_TEXT, END_TEXT_LEN) == 0;
    if (n < args->capacity && args->tokens) args->tokens[n] = control ? END : (unsigned char)args->text.ptr[i];
    i += control ? END_TEXT_LEN : 1;
  }
  *out_n = n; /* also when it is more than there is room for: then the host comes again with more */
  if (n > args->capacity) return fail_with(ONEBIT_BUFFER_TOO_SMALL, args->capacity, n, "%u tokens", n);
  return ONEBIT_OK;
}

static OnebitStatus decode(OnebitModel *raw, const OnebitDecodeArgs *args, size_t *out_n) {
  if (!raw || !REACHES(args, OnebitDecodeArgs, bytes) || !out_n || (args->n && !args->tokens))
    return FAIL(ONEBIT_INVALID_ARGUMENT, "an argument is null or too short");
  size_t n = 0;
  for (uint32_t i = 0; i < args->n; i++) {
    if (args->tokens[i] >= VOCABULARY) return FAIL(ONEBIT_INVALID_ARGUMENT, "token %u of a vocabulary of %u", args->tokens[i], VOCABULARY);
    char byte = (char)args->tokens[i];
    const char *text = args->tokens[i] == END ? END_TEXT : &byte;
    size_t len = args->tokens[i] != END ? 1 : args->control ? END_TEXT_LEN : 0;
    for (size_t k = 0; k < len; k++, n++)
      if (n < args->capacity && args->bytes) args->bytes[n] = text[k];
  }
  *out_n = n;
  if (n > args->capacity) return fail_with(ONEBIT_BUFFER_TOO_SMALL, args->capacity, n, "%zu bytes", n);
  return ONEBIT_OK;
}

const OnebitTokenize tokenize_table = {sizeof tokenize_table, vocabulary, token_info, encode, decode};
