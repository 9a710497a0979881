
/* ---- capability ids ---- */

@CAPABILITIES@

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
