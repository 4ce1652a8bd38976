/*
 * store_op.c - the request and the answer of a store operation, and its rows.
 *
 * The rows of an answer are one block of memory, one row after the other. Each
 * is a row_head with its number and three sizes, followed by the bytes of key,
 * name and content.
 */
#include "storage/store_op.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"

/* How a row begins in the block of an answer. */
typedef struct row_head {
    uint64_t number;
    uint32_t key_size, name_size;
    uint64_t size;
} row_head;

/* ---- requests ---- */

bool tri_store_op_is_read(const tri_store_op *op)
{
    return op->call == TR_STORE_LOAD || op->call == TR_STORE_READ ||
           op->call == TR_STORE_REMINDERS || op->call == TR_STORE_SCAN;
}

bool tri_store_op_is_unfenced(const tri_store_op *op)
{
    return op->epoch == 0 && op->call != TR_STORE_FENCE;
}

/* Returns whether the text may be a space or a type in a key. */
static bool is_plain(const char *text)
{
    return text[0] != '\0' && strpbrk(text, ":/") == NULL;
}

tr_err tri_store_key(char out[TRI_STORE_KEY_MAX + 1], const char *space,
                     const char *type, const char *key)
{
    TRI_CHECK(out != NULL);
    out[0] = '\0';
    if (!is_plain(space) || !is_plain(type) || key[0] == '\0') {
        return TR_EINVAL;
    }
    const char *const parts[] = {space, "::", type, "/", key};
    size_t length = 0;
    // Without snprintf, because every call of a store writes a key.
    for (size_t i = 0; i < TRI_COUNT_OF(parts); i++) {
        size_t size = strlen(parts[i]);
        if (size > TRI_STORE_KEY_MAX - length) {
            out[0] = '\0';
            return TR_ELIMIT;
        }
        memcpy(out + length, parts[i], size);
        length += size;
    }
    out[length] = '\0';
    return TR_OK;
}

/* Returns whether the bytes are 1 to `max` bytes without a zero. */
static bool is_text(tri_store_bytes text, size_t max)
{
    return text.size > 0 && text.size <= max &&
           memchr(text.at, '\0', text.size) == NULL;
}

/* Fails the op; returns false for the caller to return. */
static bool refuse(tri_store_op *op, tr_err err, const char *why)
{
    tri_store_fail(op, err, TRI_STORE_FAULT_OPERATION_FAILED, "%s", why);
    return false;
}

static bool sizes_are_valid(tri_store_op *op)
{
    if (op->bytes.size > TRI_STORE_BYTES_MAX ||
        op->event_count > TRI_STORE_EVENTS_MAX) {
        return refuse(op, TR_ELIMIT, "too many bytes or events");
    }
    TRI_CHECK(op->event_count == 0 || op->events != NULL);
    for (uint32_t i = 0; i < op->event_count; i++) {
        if (op->events[i].size > TRI_STORE_BYTES_MAX) {
            return refuse(op, TR_ELIMIT, "too many bytes in an event");
        }
    }
    return true;
}

/* A first byte 0xff would leave no text after the prefix. */
static bool scan_is_valid(tri_store_op *op)
{
    if (!is_text(op->bytes, TRI_STORE_KEY_MAX) ||
        *(const unsigned char *)op->bytes.at == UINT8_MAX) {
        return refuse(op, TR_EINVAL, "a prefix has 1 to 512 bytes of text");
    }
    if (op->key.size > 0 && !is_text(op->key, TRI_STORE_KEY_MAX)) {
        return refuse(op, TR_EINVAL, "a key has 1 to 512 bytes and no zero");
    }
    return true;
}

bool tri_store_op_is_valid(tri_store_op *op)
{
    TRI_CHECK(op->call >= TR_STORE_LOAD);
    TRI_CHECK(op->call <= TR_STORE_SCAN);
    if (op->shard >= TRI_STORE_SHARDS_MAX) {
        return refuse(op, TR_EINVAL, "no such shard");
    }
    if (op->epoch > TRI_STORE_NUMBER_MAX ||
        op->number >= TRI_STORE_NUMBER_MAX - TRI_STORE_EVENTS_MAX ||
        op->after > TRI_STORE_NUMBER_MAX) {
        return refuse(op, TR_EINVAL, "a number has more than 63 bits");
    }
    if (op->call == TR_STORE_SCAN) {
        return scan_is_valid(op);
    }
    if (op->call != TR_STORE_FENCE && op->call != TR_STORE_REMINDERS &&
        !is_text(op->key, TRI_STORE_KEY_MAX)) {
        return refuse(op, TR_EINVAL, "a key has 1 to 512 bytes and no zero");
    }
    if ((op->call == TR_STORE_REMIND || op->call == TR_STORE_FORGET) &&
        !is_text(op->name, TRI_STORE_NAME_MAX)) {
        return refuse(op, TR_EINVAL, "a name has 1 to 128 bytes and no zero");
    }
    return sizes_are_valid(op);
}

/* ---- answers ---- */

void tri_store_op_begin(tri_store_op *op)
{
    op->err = TR_OK;
    op->fault = TRI_STORE_FAULT_NONE;
    op->found = false;
    op->more = false;
    op->version = 0;
    op->chain = 0;
    op->out = NULL;
    op->out_size = 0;
    op->text[0] = '\0';
}

void tri_store_op_fini(tri_store_op *op)
{
    free(op->out);
    op->out = NULL;
    op->out_size = 0;
}

static const char *fault_name(tri_store_fault fault)
{
    static const char *const names[] = {
        [TRI_STORE_FAULT_NONE] = "None",
        [TRI_STORE_FAULT_SERIALIZATION] = "Serialization",
        [TRI_STORE_FAULT_IO] = "Io",
        [TRI_STORE_FAULT_UNAVAILABLE] = "Unavailable",
        [TRI_STORE_FAULT_NOT_FOUND] = "NotFound",
        [TRI_STORE_FAULT_OPERATION_FAILED] = "OperationFailed",
    };

    TRI_CHECK((size_t)fault < TRI_COUNT_OF(names));
    return names[fault];
}

void tri_store_fail(tri_store_op *op, tr_err err, tri_store_fault fault,
                    const char *format, ...)
{
    char text[TRI_STORE_TEXT_SIZE];
    va_list args;

    TRI_CHECK(err != TR_OK);
    TRI_CHECK(fault != TRI_STORE_FAULT_NONE);
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tri_store_op_fini(op);
    op->err = err;
    op->fault = fault;
    op->found = false;
    op->more = false;
    op->version = 0;
    op->chain = 0;
    // A text that is too long is cut before the closing bracket.
    const char *name = fault_name(fault);
    int room = (int)(sizeof(op->text) - strlen(name) - sizeof("()"));
    (void)snprintf(op->text, sizeof(op->text), "%s(%.*s)", name, room, text);
}

void tri_store_done(tri_store_op *op)
{
    TRI_CHECK(!tri_link_is_linked(&op->link));
    TRI_CHECK(op->done != NULL);
    TRI_CHECK((op->err == TR_OK) == (op->fault == TRI_STORE_FAULT_NONE));
    op->done(op);
}

/* Returns the length of the key's namespace; 0: the key has none. */
static size_t space_size(tri_store_bytes key)
{
    const char *text = key.at;
    const char *colon = key.size > 1 ? memchr(text, ':', key.size - 1) : NULL;
    return colon != NULL && colon[1] == ':' ? (size_t)(colon - text) : 0;
}

uint64_t tri_store_fence_of(const tri_store_op *op)
{
    TRI_CHECK(op->shard < TRI_STORE_SHARDS_MAX);
    size_t size = space_size(op->key);
    // Without a namespace the number of the fence is that of the shard.
    uint64_t space = size > 0 ? tri_hash_bytes(op->key.at, size) : 0;
    return (space * TRI_STORE_SHARDS_MAX & TRI_STORE_NUMBER_MAX) + op->shard;
}

bool tri_store_check_epoch(tri_store_op *op, uint64_t fence)
{
    if (op->epoch >= fence || tri_store_op_is_unfenced(op)) {
        return true;
    }
    tri_store_fail(op, TR_EFENCED, TRI_STORE_FAULT_OPERATION_FAILED,
                   "shard %u belongs to epoch %llu, this is %llu", op->shard,
                   (unsigned long long)fence, (unsigned long long)op->epoch);
    return false;
}

bool tri_store_check_version(tri_store_op *op, uint64_t stored)
{
    if (op->number == stored) {
        return true;
    }
    if (stored == 0) {
        tri_store_fail(op, TR_ENOENT, TRI_STORE_FAULT_NOT_FOUND, "%.*s",
                       (int)op->key.size, (const char *)op->key.at);
        return false;
    }
    tri_store_fail(op, TR_EFENCED, TRI_STORE_FAULT_OPERATION_FAILED,
                   "version %llu is stored, %llu was expected",
                   (unsigned long long)stored, (unsigned long long)op->number);
    return false;
}

bool tri_store_check_last(tri_store_op *op, uint64_t stored)
{
    TRI_CHECK(op->call == TR_STORE_DELETE);
    if (op->after == stored) {
        return true;
    }
    tri_store_fail(op, TR_EFENCED, TRI_STORE_FAULT_OPERATION_FAILED,
                   "event %llu is the last, %llu was expected",
                   (unsigned long long)stored, (unsigned long long)op->after);
    return false;
}

size_t tri_store_scan_end(const tri_store_op *op, char out[TRI_STORE_KEY_MAX])
{
    TRI_CHECK(op->call == TR_STORE_SCAN);
    size_t size = op->bytes.size;

    memcpy(out, op->bytes.at, size);
    while (size > 0 && (unsigned char)out[size - 1] == UINT8_MAX) {
        size--;
    }
    TRI_CHECK(size > 0);  // tri_store_op_is_valid
    out[size - 1] = (char)((unsigned char)out[size - 1] + 1);
    return size;
}

void tri_store_fail_no_memory(tri_store_op *op)
{
    tri_store_fail(op, TR_ENOMEM, TRI_STORE_FAULT_UNAVAILABLE, "out of memory");
}

bool tri_store_set_state(tri_store_op *op, const void *bytes, size_t size,
                         uint64_t version)
{
    TRI_CHECK(op->out == NULL);
    TRI_CHECK(size == 0 || bytes != NULL);
    op->out = malloc(size + 1);  // + 1: not NULL for an empty state
    if (op->out == NULL) {
        tri_store_fail_no_memory(op);
        return false;
    }
    if (size > 0) {
        memcpy(op->out, bytes, size);
    }
    op->out_size = size;
    op->version = version;
    op->found = true;
    return true;
}

/*
 * Grows the block by at least `size` bytes of room. Returns false if there is
 * no memory; the op has failed then.
 */
static bool make_room(tri_store_op *op, size_t size)
{
    // The capacity is not stored: it is the next power of two from 64 on.
    size_t need = op->out_size + size;
    size_t have = 64;

    while (have < op->out_size) {
        have *= 2;
    }
    if (op->out != NULL && need <= have) {
        return true;
    }
    while (have < need) {
        have *= 2;
    }
    void *grown = realloc(op->out, have);
    if (grown == NULL) {
        tri_store_fail_no_memory(op);
        return false;
    }
    op->out = grown;
    return true;
}

/* Copies bytes to the end of the block, which has room for them. */
static void append(tri_store_op *op, const void *bytes, size_t size)
{
    if (size > 0) {
        memcpy((char *)op->out + op->out_size, bytes, size);
        op->out_size += size;
    }
}

bool tri_store_add_row(tri_store_op *op, const tri_store_row *row)
{
    TRI_CHECK(op->err == TR_OK);
    row_head head = {
        .number = row->number,
        .key_size = (uint32_t)row->key.size,
        .name_size = (uint32_t)row->name.size,
        .size = row->bytes.size,
    };
    size_t size =
        sizeof(head) + row->key.size + row->name.size + row->bytes.size;

    if (op->out_size > 0 && op->out_size + size > TRI_STORE_ROWS_SIZE) {
        op->more = true;
        return false;
    }
    if (!make_room(op, size)) {
        return false;
    }
    append(op, &head, sizeof(head));
    append(op, row->key.at, row->key.size);
    append(op, row->name.at, row->name.size);
    append(op, row->bytes.at, row->bytes.size);
    op->found = true;
    return true;
}

int tri_store_compare(tri_store_bytes a, tri_store_bytes b)
{
    size_t common = TRI_MIN(a.size, b.size);
    int order = common == 0 ? 0 : memcmp(a.at, b.at, common);

    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

int tri_store_compare_rows(const tri_store_row *a, const tri_store_row *b)
{
    if (a->number != b->number) {
        return a->number < b->number ? -1 : 1;
    }
    int order = tri_store_compare(a->key, b->key);
    return order != 0 ? order : tri_store_compare(a->name, b->name);
}

static int compare_for_sort(const void *a, const void *b)
{
    return tri_store_compare_rows(a, b);
}

void tri_store_add_sorted(tri_store_op *op, tri_store_row *rows, size_t count)
{
    TRI_CHECK(count == 0 || rows != NULL);
    qsort(rows, count, sizeof(*rows), compare_for_sort);
    for (size_t i = 0; i < count; i++) {
        if (i == tri_store_row_limit(op)) {
            op->more = true;
            break;
        }
        if (!tri_store_add_row(op, &rows[i])) {
            break;
        }
    }
}

/* Returns the next `size` bytes of the block and moves *at behind them. */
static tri_store_bytes take_bytes(const tri_store_op *op, size_t *at,
                                  size_t size)
{
    tri_store_bytes part = {(const char *)op->out + *at, size};

    TRI_CHECK(size <= op->out_size - *at);
    *at += size;
    return part;
}

bool tri_store_row_next(const tri_store_op *op, size_t *at, tri_store_row *row)
{
    row_head head;

    TRI_CHECK(*at <= op->out_size);
    if (*at == op->out_size) {
        return false;
    }
    memcpy(&head, take_bytes(op, at, sizeof(head)).at, sizeof(head));
    row->number = head.number;
    row->key = take_bytes(op, at, head.key_size);
    row->name = take_bytes(op, at, head.name_size);
    row->bytes = take_bytes(op, at, (size_t)head.size);
    return true;
}

uint32_t tri_store_row_limit(const tri_store_op *op)
{
    return op->limit == 0 || op->limit > TRI_STORE_ROWS_MAX ? TRI_STORE_ROWS_MAX
                                                            : op->limit;
}
