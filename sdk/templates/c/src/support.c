/* What every part of the plugin needs: texts, failures, outputs, the flag of cancellation, options. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#endif
#include <stdarg.h>
#include <time.h>

#include "ngram.h"

const OnebitHost *the_host;

OnebitStr str(const char *text) {
  OnebitStr out = {text, strlen(text)};
  return out;
}

int same(OnebitStr a, const char *b) { return a.len == strlen(b) && (a.len == 0 || memcmp(a.ptr, b, a.len) == 0); }

OnebitStatus fail_with(OnebitStatus code, uint64_t have, uint64_t need, const char *format, ...) {
  char message[512];
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  OnebitError error;
  ZERO(error);
  error.struct_size = sizeof error;
  error.code = code;
  error.have = have;
  error.need = need;
  error.message = str(message);
  /* A function of the host's table may be missing (an older host) or null (not offered): ask before the call. */
  if (the_host && ONEBIT_HAS_FIELD(the_host, OnebitHost, report_error) && the_host->report_error)
    the_host->report_error(the_host->ctx, &error);
  return code;
}

OnebitStatus put(void *out, const void *value, size_t size) {
  size_t theirs;
  if (!out) return FAIL(ONEBIT_INVALID_ARGUMENT, "an output is null");
  memcpy(&theirs, out, sizeof theirs);
  if (theirs < sizeof theirs || theirs > 4096) return FAIL(ONEBIT_INVALID_ARGUMENT, "struct_size %zu is no size", theirs);
  if (size > theirs) size = theirs;
  memcpy((char *)out + sizeof theirs, (const char *)value + sizeof theirs, size - sizeof theirs);
  return ONEBIT_OK;
}

int cancelled(const uint32_t *flag) { return flag && __atomic_load_n(flag, __ATOMIC_RELAXED) != 0; }

void sleep_us(long us) {
  struct timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

OnebitStatus option(const OnebitKeyValue *options, size_t n, const char *name, long *out) {
  *out = 0;
  for (size_t i = 0; options && i < n; i++) {
    if (!same(options[i].key, name)) continue;
    char digits[16] = {0}, *end = digits;
    if (options[i].value.len < sizeof digits) memcpy(digits, options[i].value.ptr, options[i].value.len);
    *out = strtol(digits, &end, 10);
    if (end == digits || *end || *out < 0 || *out > 3600000)
      return FAIL(ONEBIT_INVALID_ARGUMENT, "option %s: %s is no number of 0 to 3600000", name, digits);
  }
  return ONEBIT_OK;
}
