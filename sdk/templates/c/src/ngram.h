/* A small plugin for onebit-host in C: a byte-level trigram model. Run it, read it, then put your own library in its place.
 *
 * What the host does: HTTP, chat templates, batching, sampling, streaming, stop strings. What a plugin does: it turns tokens at
 * positions of sequences into logits, and keeps the state of each sequence, so that the host can copy, cut, move and save it.
 *
 *   plugin.c    the entry, the devices, loading a model         (start here)
 *   model.c     the model file, and logits from it              (your library goes here)
 *   session.c   onebit.forward/1: sequences and batches
 *   tokenize.c  onebit.tokenize/1: the vocabulary
 *   support.c   what all of them need
 *
 * Compiles as C11 and as C++17, without warnings, on gcc and clang. Functions are static where they can be; those declared here are hidden
 * by -fvisibility=hidden (see the Makefile), because a name that a library exports without need can collide with another library's.
 *
 * The contract is onebit_plugin.h. Three of its rules are met in every function:
 *   - Arguments are checked. A mistake of the caller is ONEBIT_INVALID_ARGUMENT, never undefined behaviour.
 *   - Before a status other than ONEBIT_OK is returned, the host hears why (FAIL).
 *   - The host may be older or newer: arguments are read (REACHES) and outputs written (put) only as far as their struct_size says. */
#ifndef NGRAM_H
#define NGRAM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onebit_plugin.h"

/* The Makefile takes both from plugin.toml, so that the library cannot say anything else than that file. */
#ifndef PLUGIN_ID
#error "compile with -DPLUGIN_ID='\"my-plugin\"', as the Makefile does"
#endif
#ifndef PLUGIN_VERSION
#error "compile with -DPLUGIN_VERSION='\"0.1.0\"', as the Makefile does"
#endif

/* Tokens: the 256 bytes, and one that ends an answer. */
#define END 256u
#define VOCABULARY 257u
#define END_TEXT "<|end|>"
#define END_TEXT_LEN (sizeof END_TEXT - 1)

#define MAX_BATCH 512u
#define MAX_SEQUENCES 64u
#define CONTEXT_TRAINED 4096u

/* ---- support.c ---- */

/* Given once, to the entry; lives until the process ends. */
extern const OnebitHost *the_host;

/* Whether a struct of the host's is there, and long enough for a field and those before it. Fields that the first version of the contract
 * did not have are asked for where they are used, because an older host does not give them. */
#define REACHES(pointer, type, field) ((pointer) && ONEBIT_HAS_FIELD(pointer, type, field))

#define ZERO(object) memset(&(object), 0, sizeof(object))

OnebitStr str(const char *text);
int same(OnebitStr a, const char *b);

/* Tells the host why the call in progress fails, and gives the status back. `have` and `need` are numbers that belong to the status, for
 * programs; the message is for people. */
__attribute__((format(printf, 4, 5))) OnebitStatus fail_with(OnebitStatus code, uint64_t have, uint64_t need, const char *format, ...);
#define FAIL(code, ...) fail_with(code, 0, 0, __VA_ARGS__)

/* Copies a filled struct into the host's, as far as the host's reaches. Both begin with a struct_size, and the host's own stays. */
OnebitStatus put(void *out, const void *value, size_t size);

/* Another thread of the host sets the flag. Look at it at least every 50 ms of work. */
int cancelled(const uint32_t *flag);

/* A whole number from the options of a manifest, 0 if it is not given. Options are declared in plugin.toml; the host passes no others. */
OnebitStatus option(const OnebitKeyValue *options, size_t n, const char *name, long *out);

void sleep_us(long us);

/* ---- model.c ---- */

/* Never changed after open, so sessions on several threads may read it at once. The host holds it as OnebitModel. */
typedef struct {
  uint32_t *tokens; /* the text */
  size_t n;
  long row_us;               /* pretend that each row takes this long */
  char texts[VOCABULARY][8]; /* how each token is written */
} Model;

/* Opens a model file, checks its head, and says how many bytes of text follow. Reads nothing else, so it is fit for judging a file. */
OnebitStatus open_text(OnebitStr path, FILE **out, size_t *n);

/* Reads the text of a model file into a model of zeros. */
OnebitStatus read_model(OnebitStr path, Model *model);

/* What follows the tokens `before`, `last`: VOCABULARY logits. */
void logits(const Model *model, uint32_t before, uint32_t last, float *out);

/* ---- session.c, tokenize.c: the tables of the two capabilities ---- */

/* Bytes of state that one position costs. */
#define STATE_PER_TOKEN 8u

extern const OnebitForward forward_table;
extern const OnebitTokenize tokenize_table;

#endif
