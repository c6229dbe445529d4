/* The helpers of gauss_connector.h, with the allocator of a module. */
#include "gauss_connector.h"

extern unsigned char __heap_base;
static uint32_t gauss_next, gauss_blocks;

/* Blocks follow each other; when the last one is freed, the memory starts over. */
void *rb_allocate(uint32_t size) {
    if (!gauss_blocks++) gauss_next = (uint32_t)(uintptr_t)&__heap_base;
    uint32_t block = (gauss_next + 7) & ~7u;
    uint64_t end = (uint64_t)block + size, have = (uint64_t)__builtin_wasm_memory_size(0) << 16;
    if (end > have && __builtin_wasm_memory_grow(0, (uint32_t)((end - have + 65535) >> 16)) == (uintptr_t)-1)
        __builtin_trap();
    gauss_next = (uint32_t)end;
    return (void *)(uintptr_t)block;
}

void rb_deallocate(void *block, uint32_t size) {
    (void)block, (void)size;
    gauss_blocks--;
}

static const char *gauss_space(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
    return at;
}

/* Behind a string that starts at its quote. */
static const char *gauss_skip_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : end;
}

/* Behind a value; the host's JSON is well-formed. */
static const char *gauss_skip(const char *at, const char *end) {
    uint32_t depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = gauss_skip_string(at, end);
            if (!depth) return at;
            continue;
        }
        if (*at == '{' || *at == '[') depth++;
        if (*at == '}' || *at == ']') {
            if (!depth) return at;
            if (!--depth) return at + 1;
        }
        if (*at == ',' && !depth) return at;
        at++;
    }
    return end;
}

static int gauss_same(const char *key, uint32_t length, const char *text, uint32_t size) {
    if (length != size) return 0;
    while (length && *key++ == *text++) length--;
    return !length;
}

gauss_span gauss_json(const char *json, uint32_t length, const char *path) {
    const gauss_span absent = {0, 0};
    const char *at = json, *end = json + length;
    while (*path) {
        uint32_t size = 0;
        while (path[size] && path[size] != '.') size++;
        at = gauss_space(at, end);
        if (at == end || *at != '{') return absent;
        for (at = gauss_space(at + 1, end);; at = gauss_space(at + 1, end)) {
            if (at >= end || *at != '"') return absent;
            const char *key = at + 1;
            at = gauss_skip_string(at, end);
            int found = gauss_same(key, (uint32_t)(at - 1 - key), path, size);
            at = gauss_space(gauss_space(at, end) + 1, end);
            if (found) break;
            at = gauss_space(gauss_skip(at, end), end);
            if (at >= end || *at != ',') return absent;
        }
        path += size + (path[size] == '.');
    }
    gauss_span found = {at, (uint32_t)(gauss_skip(at, end) - at)};
    while (found.length && (uint8_t)found.data[found.length - 1] <= ' ') found.length--;
    return found;
}

int64_t gauss_json_int(gauss_span value, int64_t absent) {
    uint32_t at = value.length && value.data[0] == '-';
    uint64_t number = 0;
    if (at == value.length) return absent;
    for (uint32_t place = at; place < value.length; place++) {
        if (value.data[place] < '0' || value.data[place] > '9') return absent;
        number = number * 10 + (uint64_t)(value.data[place] - '0');
    }
    return (int64_t)(at ? 0 - number : number);
}

void gauss_add_span(gauss_text *text, gauss_span span) {
    for (uint32_t place = 0; place < span.length; place++, text->length++)
        if (text->length < text->capacity) text->data[text->length] = span.data[place];
}

void gauss_add(gauss_text *text, const char *string) {
    gauss_span span = {string, 0};
    while (string[span.length]) span.length++;
    gauss_add_span(text, span);
}

void gauss_add_int(gauss_text *text, int64_t value) {
    char digits[20];
    uint32_t count = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do digits[count++] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) gauss_add(text, "-");
    while (count) gauss_add_span(text, (gauss_span){&digits[--count], 1});
}

static int64_t gauss_result(const char *key, gauss_span value) {
    gauss_text text = {0, 0, value.length + 16};
    text.data = rb_allocate(text.capacity);
    gauss_add(&text, key);
    gauss_add_span(&text, value);
    gauss_add(&text, "}");
    return (int64_t)((uint64_t)(uintptr_t)text.data << 32 | text.length);
}

int64_t gauss_ok(const char *json, uint32_t length) {
    return gauss_result("{\"ok\":", (gauss_span){json, length});
}

int64_t gauss_err(const char *category, const char *code, const char *message) {
    char data[1024];
    gauss_text text = {data, 0, sizeof data};
    gauss_add(&text, "{\"category\":\"");
    gauss_add(&text, category);
    gauss_add(&text, "\",\"scope\":\"stream\",\"retryable\":false,\"code\":\"");
    gauss_add(&text, code);
    gauss_add(&text, "\",\"message\":\"");
    gauss_add(&text, message);
    gauss_add(&text, "\"}");
    if (text.length > text.capacity) return gauss_err("internal", "LONG_MESSAGE", "the message of an error is too long");
    return gauss_result("{\"err\":", (gauss_span){data, text.length});
}

int64_t gauss_host_err(void) {
    static char data[16384];
    int32_t size = rb_host_last_error(data, sizeof data);
    if (size <= 0) return gauss_err("internal", "HOST_ERROR", "a call of the host failed, its reason can not be read");
    return gauss_result("{\"err\":", (gauss_span){data, (uint32_t)size});
}
