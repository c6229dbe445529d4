/* A source of the numbers from 1 to `rows`, in batches of `batch_rows` (at most 4,096). Incremental by the cursor `n`. */
#include "gauss_connector.h"

enum { MOST_ROWS = 4096, HEAD = 304, END = 8 };

/* An IPC stream up to the values: the schema (n: int64, not null) and the metadata of a batch, as the Rust kit writes
 * them. Four numbers depend on the rows. */
enum { BODY_BYTES = 192, BATCH_ROWS = 224, NODE_ROWS = 248, VALUE_BYTES = 296 };
static const uint8_t HEADER[HEAD] = {
    255, 255, 255, 255, 144, 0, 0, 0, 16, 0, 0, 0, 12, 0, 24, 0, 4, 0, 6, 0, 8, 0, 16, 0, 12, 0, 0, 0, 4, 0, 1, 0,
    24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 12, 0, 4, 0, 8, 0, 8, 0, 0, 0, 0, 0, 0, 0,
    4, 0, 0, 0, 1, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 16, 0, 20, 0, 4, 0, 8, 0, 9, 0, 12, 0, 0, 0, 16, 0,
    16, 0, 0, 0, 16, 0, 0, 0, 0, 2, 0, 0, 28, 0, 0, 0, 36, 0, 0, 0, 1, 0, 0, 0, 110, 0, 0, 0, 0, 0, 0, 0,
    8, 0, 9, 0, 4, 0, 8, 0, 8, 0, 0, 0, 64, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 144, 0, 0, 0,
    16, 0, 0, 0, 12, 0, 24, 0, 4, 0, 6, 0, 8, 0, 16, 0, 12, 0, 0, 0, 4, 0, 3, 0, 32, 0, 0, 0, 0, 0, 0, 0,
    8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 24, 0, 8, 0, 16, 0, 20, 0, 10, 0, 0, 0, 0, 0, 0, 0,
    1, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0};
static struct {
    uint8_t head[HEAD];
    int64_t values[MOST_ROWS + 1];
} batch;

static int64_t rows, batch_rows, checkpoint_rows;
static char id_data[512];
static gauss_text id;

int64_t rb_open(const char *context, uint32_t length) {
    rows = gauss_json_int(gauss_json(context, length, "config.json.rows"), -1);
    batch_rows = gauss_json_int(gauss_json(context, length, "config.json.batch_rows"), 1000);
    checkpoint_rows = gauss_json_int(gauss_json(context, length, "config.json.checkpoint.rows"), 500000);
    if (rows < 0) return gauss_err("config", "BAD_CONFIG", "rows: expected a number that is at least 0; add it");
    if (batch_rows < 1 || batch_rows > MOST_ROWS)
        return gauss_err("config", "BAD_CONFIG", "batch_rows: expected a number from 1 to 4096");
    id = (gauss_text){id_data, 0, sizeof id_data};
    gauss_add_span(&id, gauss_json(context, length, "connector_id"));
    if (id.length > id.capacity) return gauss_err("config", "BAD_CONFIG", "the connector id is too long");
    static const char info[] = "{\"protocol_version\":\"1\",\"features\":[],\"default_max_batch_bytes\":65536}";
    return gauss_ok(info, sizeof info - 1);
}

int64_t rb_validate(const char *config, uint32_t length) {
    (void)config, (void)length;
    static const char result[] = "{\"status\":\"success\",\"message\":\"\"}";
    return gauss_ok(result, sizeof result - 1);
}

int32_t rb_close(void) {
    return 0;
}

GAUSS_EXPORT(rb_discover) int64_t rb_discover(const char *argument, uint32_t length) {
    (void)argument, (void)length;
    static const char catalog[] =
        "{\"streams\":[{\"name\":\"counter\",\"schema\":[{\"name\":\"n\",\"data_type\":\"Int64\",\"nullable\":false}],"
        "\"supported_sync_modes\":[\"full_refresh\",\"incremental\"],\"primary_key\":[\"n\"],"
        "\"cursor_candidates\":[\"n\"]}]}";
    return gauss_ok(catalog, sizeof catalog - 1);
}

static void put(uint32_t place, int64_t value) {
    for (uint32_t byte = 0; byte < 8; byte++) batch.head[place + byte] = (uint8_t)(value >> (8 * byte));
}

static int32_t emit(int64_t first, int64_t count) {
    for (uint32_t place = 0; place < HEAD; place++) batch.head[place] = HEADER[place];
    put(BODY_BYTES, 8 * count), put(BATCH_ROWS, count), put(NODE_ROWS, count), put(VALUE_BYTES, 8 * count);
    for (int64_t place = 0; place < count; place++) batch.values[place] = first + place;
    batch.values[count] = 0xffffffff; /* the end of the stream */
    return rb_host_emit_batch(&batch, (uint32_t)(HEAD + 8 * count + END));
}

static int32_t checkpoint(gauss_span stream, gauss_span field, int64_t batches, int64_t cursor) {
    static char data[16384];
    gauss_text text = {data, 0, sizeof data};
    gauss_add(&text, "{\"protocol_version\":\"1\",\"connector_id\":");
    gauss_add_span(&text, (gauss_span){id.data, id.length});
    gauss_add(&text, ",\"stream_name\":");
    gauss_add_span(&text, stream);
    gauss_add(&text, ",\"checkpoint\":{\"kind\":\"source\",\"stream\":");
    gauss_add_span(&text, stream);
    gauss_add(&text, ",\"id\":");
    gauss_add_int(&text, batches);
    if (field.data) {
        gauss_add(&text, ",\"cursor_field\":");
        gauss_add_span(&text, field);
        gauss_add(&text, ",\"cursor_value\":{\"int64\":");
        gauss_add_int(&text, cursor);
        gauss_add(&text, "}");
    }
    gauss_add(&text, "}}");
    return text.length > text.capacity ? -1 : rb_host_checkpoint(GAUSS_SOURCE, data, text.length);
}

GAUSS_EXPORT(rb_run_read) int64_t rb_run_read(const char *context, uint32_t length) {
    gauss_span stream = gauss_json(context, length, "stream_name");
    gauss_span field = gauss_json(context, length, "cursor_info.cursor_field");
    gauss_span value = gauss_json(context, length, "cursor_info.last_value");
    gauss_span last = gauss_json(context, length, "cursor_info.last_value.int64");
    if (value.data && *value.data == '{' && !last.data)
        return gauss_err("config", "BAD_CURSOR", "the cursor n is an int64");
    int64_t start = gauss_json_int(last, 0), done = start;
    int64_t most = gauss_json_int(gauss_json(context, length, "limits.max_batch_bytes"), 65536) / 8;
    int64_t size = batch_rows < most ? batch_rows : most > 1 ? most : 1, batches = 0, marked = done, checkpoints = 0;
    while (done < rows) {
        int64_t count = rows - done < size ? rows - done : size;
        if (emit(done + 1, count) < 0) return gauss_host_err();
        done += count, batches++;
        rb_host_report_progress(done - start, 8 * (done - start));
        if (done - marked >= checkpoint_rows && done < rows) {
            if (checkpoint(stream, field, batches, done) < 0) return gauss_host_err();
            marked = done, checkpoints++;
        }
    }
    if (checkpoint(stream, field, batches, done) < 0) return gauss_host_err();
    char data[256];
    gauss_text text = {data, 0, sizeof data};
    gauss_add(&text, "{\"records_read\":"), gauss_add_int(&text, done - start);
    gauss_add(&text, ",\"bytes_read\":"), gauss_add_int(&text, 8 * (done - start));
    gauss_add(&text, ",\"batches_emitted\":"), gauss_add_int(&text, batches);
    gauss_add(&text, ",\"checkpoint_count\":"), gauss_add_int(&text, checkpoints + 1);
    gauss_add(&text, "}");
    return gauss_ok(data, text.length);
}
