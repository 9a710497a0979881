/* The plugin as the host sees it: a note, one exported function, and what a load of a model does. */
#include "ngram.h"

/* The host reads this note from the file, without running anything of it, and compares it with plugin.toml. */
ONEBIT_PLUGIN_NOTE("id=" PLUGIN_ID "\nversion=" PLUGIN_VERSION "\ncapabilities=" ONEBIT_FORWARD_1 "," ONEBIT_TOKENIZE_1 "\n"
                   "licence=MIT OR Apache-2.0\nabi_min_minor=0\npanic=none\ndoors=c\n");

static OnebitStatus info(OnebitInfo *out) {
  static const OnebitKeyValue facts[] = {{{"language", 8}, {"C", 1}}};
  OnebitInfo value;
  ZERO(value);
  value.id = str(PLUGIN_ID);
  value.version = str(PLUGIN_VERSION);
  value.computes_with = str("counting");
  value.facts = facts;
  value.n_facts = sizeof facts / sizeof *facts;
  return put(out, &value, sizeof value);
}

/* Which of the host's devices can be used? Runs in a process of its own, so a driver that crashes here harms nobody. */
static OnebitStatus probe(const OnebitProbeArgs *args, OnebitProbeOut *out) {
  enum { MOST = 64 };
  static OnebitProbeReport reports[MOST]; /* calls of probe never overlap, and its reports live until the next one */
  static const OnebitProbeReport *pointers[MOST];
  if (!REACHES(args, OnebitProbeArgs, n_devices) || !out || args->n_devices > MOST || (args->n_devices && !args->devices))
    return FAIL(ONEBIT_INVALID_ARGUMENT, "no devices, or too many");
  for (size_t i = 0; i < args->n_devices; i++) {
    if (!REACHES(args->devices[i], OnebitDevice, kind)) return FAIL(ONEBIT_INVALID_ARGUMENT, "device %zu says nothing", i);
    int cpu = args->devices[i]->kind == ONEBIT_DEVICE_CPU;
    OnebitProbeReport *report = &reports[i];
    ZERO(*report);
    report->struct_size = sizeof *report;
    report->usable = cpu ? 1 : 0;
    report->score = cpu ? 10 : 0;
    report->reason_code = cpu ? ONEBIT_REASON_NONE : ONEBIT_REASON_WRONG_KIND;
    report->memory_kinds = cpu ? ONEBIT_MEMORY_HOST : 0;
    report->reason = str(cpu ? "" : PLUGIN_ID " computes on the CPU");
    pointers[i] = report;
  }
  OnebitProbeOut value;
  ZERO(value);
  value.reports = pointers;
  value.n_reports = args->n_devices;
  return put(out, &value, sizeof value);
}

/* Could this file be served on that device, and what would it take? An estimate from the file's head; a file that cannot be served is an
 * answer, not a failure. */
static OnebitStatus fit(const OnebitFitArgs *args, OnebitFitOut *out) {
  if (!REACHES(args, OnebitFitArgs, n_options) || !out || !REACHES(args->device, OnebitDevice, kind))
    return FAIL(ONEBIT_INVALID_ARGUMENT, "an argument is null or too short");
  FILE *file = NULL;
  size_t n = 0;
  OnebitStatus status = open_text(args->path, &file, &n);
  if (status == ONEBIT_INVALID_ARGUMENT) return status;
  if (file) fclose(file);
  OnebitFitOut value;
  ZERO(value);
  value.architecture = str("ngram");
  value.quantisation = str("counts");
  if (status != ONEBIT_OK) {
    value.reason_code = ONEBIT_REASON_CORRUPT_MODEL;
    value.reason = str("it is no file of " PLUGIN_ID);
  } else if (args->device->kind != ONEBIT_DEVICE_CPU) {
    value.reason_code = ONEBIT_REASON_WRONG_KIND;
    value.reason = str(PLUGIN_ID " computes on the CPU");
  } else {
    value.usable = 1;
    value.weights_host = n * sizeof(uint32_t);
    value.state = (args->context ? args->context : CONTEXT_TRAINED) * (uint64_t)STATE_PER_TOKEN;
    value.state_per_token = STATE_PER_TOKEN;
    value.scratch_host = (uint64_t)MAX_BATCH * VOCABULARY * sizeof(float);
    value.context_trained = CONTEXT_TRAINED;
    value.parameters = n;
  }
  return put(out, &value, sizeof value);
}

static void close_model(OnebitModel *raw) {
  Model *model = (Model *)raw;
  if (model) free(model->tokens);
  free(model);
}

/* A load that takes long says how far it is and looks at the flag. This one is over at once, so the option open_ms pretends: with it you
 * see both at work. */
static OnebitStatus load_slowly(const OnebitOpenArgs *args, long open_ms) {
  long steps = (open_ms + 9) / 10;
  for (long i = 0; i < steps; i++) {
    if (cancelled(args->cancel)) return FAIL(ONEBIT_CANCELLED, "cancelled");
    if (args->progress) args->progress(args->progress_ctx, (float)i / (float)steps);
    sleep_us(10000);
  }
  if (cancelled(args->cancel)) return FAIL(ONEBIT_CANCELLED, "cancelled");
  if (args->progress) args->progress(args->progress_ctx, 1.0f);
  return ONEBIT_OK;
}

static OnebitStatus open_model(const OnebitOpenArgs *args, OnebitOpenOut *out) {
  if (!REACHES(args, OnebitOpenArgs, progress_ctx) || !REACHES(out, OnebitOpenOut, model) || !REACHES(args->device, OnebitDevice, kind))
    return FAIL(ONEBIT_INVALID_ARGUMENT, "an argument is null or too short");
  /* The device that was asked for, or a failure: never quietly another one. */
  if (args->device->kind != ONEBIT_DEVICE_CPU) return FAIL(ONEBIT_DEVICE_UNAVAILABLE, PLUGIN_ID " computes on the CPU");
  long open_ms = 0;
  Model *model = (Model *)calloc(1, sizeof *model);
  if (!model) return FAIL(ONEBIT_OUT_OF_HOST_MEMORY, "no memory for a model");
  OnebitStatus status = option(args->options, args->n_options, "open_ms", &open_ms);
  if (status == ONEBIT_OK) status = option(args->options, args->n_options, "row_us", &model->row_us);
  if (status == ONEBIT_OK) status = read_model(args->path, model);
  if (status == ONEBIT_OK) status = load_slowly(args, open_ms);
  if (status != ONEBIT_OK) {
    close_model((OnebitModel *)model);
    return status;
  }
  for (uint32_t token = 0; token < VOCABULARY; token++) {
    if (token == END)
      memcpy(model->texts[token], END_TEXT, sizeof END_TEXT);
    else if (token < 128)
      model->texts[token][0] = (char)token;
    else
      snprintf(model->texts[token], sizeof model->texts[token], "<0x%02X>", token & 0xffu);
  }
  OnebitOpenOut value;
  ZERO(value);
  value.model = (OnebitModel *)model;
  value.computes_on = str("CPU");
  value.architecture = str("ngram");
  value.quantisation = str("counts");
  return put(out, &value, sizeof value);
}

/* What a model can do. May depend on the model; null is "not offered". */
static const void *extension(OnebitModel *model, OnebitStr id) {
  if (!model || !id.ptr) return NULL;
  if (same(id, ONEBIT_FORWARD_1)) return &forward_table;
  if (same(id, ONEBIT_TOKENIZE_1)) return &tokenize_table;
  return NULL;
}

static const OnebitPlugin plugin_table = {sizeof plugin_table, ONEBIT_ABI_MAJOR, ONEBIT_ABI_MINOR, info,     probe,
                                          fit,                 open_model,       close_model,      extension};

/* The one function that the library exports; the header declares it so. */
const OnebitPlugin *onebit_plugin_v1(const OnebitHost *host) {
  if (!host) return NULL;
  the_host = host;
  if (host->abi_major != ONEBIT_ABI_MAJOR) {
    FAIL(ONEBIT_UNSUPPORTED, "this plugin speaks ABI %d, the host %u", ONEBIT_ABI_MAJOR, host->abi_major);
    return NULL;
  }
  return &plugin_table;
}
