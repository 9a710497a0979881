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

