/* Gauss connectors as WebAssembly modules: protocol v1 for C, and its reference for every other language.
 *
 * A module imports functions of the host from module `env` and exports its memory and functions of its own. Addresses and
 * lengths are u32. It has no libc, file, socket or clock: build with
 *
 *     clang --target=wasm32 -O2 -nostdlib -ffreestanding -fno-builtin -Wl,--no-entry -Wl,--export-dynamic -Wl,--strip-all \
 *         -o connector.wasm connector.c gauss_connector.c */
#ifndef GAUSS_CONNECTOR_H
#define GAUSS_CONNECTOR_H

#include <stdint.h>

#define GAUSS_IMPORT(name) __attribute__((import_module("env"), import_name(#name))) extern
#define GAUSS_EXPORT(name) __attribute__((export_name(#name), visibility("default")))

/* --- functions of the host ---
 * Results: > 0 a number of bytes; 0 success, end or absence; -1 an error, which rb_host_last_error returns once; -N
 * (N > 1) the buffer is too small for N bytes, and nothing is lost: call again with a larger one. */

enum { GAUSS_SOURCE = 0, GAUSS_DESTINATION = 1 };                                /* kinds of checkpoints */
enum { GAUSS_PIPELINE = 0, GAUSS_STREAM = 1, GAUSS_CONNECTOR_INSTANCE = 2 };     /* scopes of state */
enum { GAUSS_ERROR = 0, GAUSS_WARN = 1, GAUSS_INFO = 2, GAUSS_DEBUG = 3, GAUSS_TRACE = 4 }; /* log levels */

#define GAUSS_BATCH_OVERHEAD_BYTES (64u << 10) /* what a batch may have beyond max_batch_bytes */
#define GAUSS_STATE_BYTES (16u << 20)          /* maximum size of a state value */
#define GAUSS_KEY_BYTES 1024u                  /* maximum length of a state key */

/* Passes a batch, an Arrow IPC stream with one record batch of at least one row, to the destination. Waits while
 * max_inflight_batches are on their way. */
GAUSS_IMPORT(rb_host_emit_batch) int32_t rb_host_emit_batch(const void *data, uint32_t length);
/* Writes the next batch to a buffer; 0 after the last. */
GAUSS_IMPORT(rb_host_next_batch) int32_t rb_host_next_batch(void *buffer, uint32_t capacity);
/* Writes the error of the last failed call as JSON. */
GAUSS_IMPORT(rb_host_last_error) int32_t rb_host_last_error(void *buffer, uint32_t capacity);
GAUSS_IMPORT(rb_host_state_get)
int32_t rb_host_state_get(int32_t scope, const char *key, uint32_t key_length, void *buffer, uint32_t capacity);
GAUSS_IMPORT(rb_host_state_put)
int32_t rb_host_state_put(int32_t scope, const char *key, uint32_t key_length, const void *value, uint32_t length);
/* Takes {"protocol_version":"1","connector_id":…,"stream_name":…,"checkpoint":{"id":…,"kind":"source"|"dest",
 * "stream":…,"cursor_field":…,"cursor_value":{"int64":5}}}. `id` is the number of batches that a source has emitted, or a
 * destination has durably committed. The last one of a source follows its last batch. */
GAUSS_IMPORT(rb_host_checkpoint) int32_t rb_host_checkpoint(int32_t kind, const char *json, uint32_t length);
GAUSS_IMPORT(rb_host_log) int32_t rb_host_log(int32_t level, const char *message, uint32_t length);
GAUSS_IMPORT(rb_host_metric) int32_t rb_host_metric(const char *json, uint32_t length);
/* Running totals of the run. */
GAUSS_IMPORT(rb_host_report_progress) int32_t rb_host_report_progress(int64_t records, int64_t bytes);

/* --- exports of a module ---
 * Every module: memory, rb_allocate, rb_deallocate (both below), rb_open, rb_validate, rb_close. A source: rb_discover,
 * rb_run_read. A destination: rb_run_write. Arguments are JSON; results are (address << 32 | length) of JSON
 * {"ok": …} or {"err": ConnectorError}. The host frees both by rb_deallocate. */

GAUSS_EXPORT(rb_allocate) void *rb_allocate(uint32_t size);
GAUSS_EXPORT(rb_deallocate) void rb_deallocate(void *block, uint32_t size);
/* OpenContext -> OpenInfo */
GAUSS_EXPORT(rb_open) int64_t rb_open(const char *context, uint32_t length);
/* ConfigBlob -> ValidationResult */
GAUSS_EXPORT(rb_validate) int64_t rb_validate(const char *config, uint32_t length);
/* 0, or another number if it failed */
GAUSS_EXPORT(rb_close) int32_t rb_close(void);

/* --- helpers --- */

typedef struct {
    const char *data; /* 0: absent */
    uint32_t length;
} gauss_span;

/* The value at a path of keys in JSON, such as "config.json.rows", as its text. */
gauss_span gauss_json(const char *json, uint32_t length, const char *path);
/* The integer of such a value; `absent` if there is none. */
int64_t gauss_json_int(gauss_span value, int64_t absent);

/* A text that grows in a buffer; what does not fit is cut, and `length` says so by being above `capacity`. */
typedef struct {
    char *data;
    uint32_t length, capacity;
} gauss_text;

void gauss_add(gauss_text *text, const char *string);
void gauss_add_span(gauss_text *text, gauss_span span);
void gauss_add_int(gauss_text *text, int64_t value);

/* The result {"ok": …} of a call. */
int64_t gauss_ok(const char *json, uint32_t length);
/* The result {"err": …} with a category such as "config" and a message without quotes or backslashes. */
int64_t gauss_err(const char *category, const char *code, const char *message);
/* The result {"err": …} with the error of the host's function that has just failed. */
int64_t gauss_host_err(void);

#endif
