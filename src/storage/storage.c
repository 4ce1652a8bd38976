/*
 * storage.c - what all stores share: questions, answers, rows, keys.
 *
 * An answer's rows lie behind each other in one block, each as a head with
 * its number and three sizes, and then the bytes of key, name and content.
 */
#include "storage/storage.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/options.h"
#include "troupe/system.h"

/* Bytes of a reason why a store cannot be opened. */
enum { TEXT_MAX = 1024, PLACE_MAX = 32 };

typedef struct row_head {
    uint64_t number;
    uint32_t key_size, name_size;
    uint64_t size;
} row_head;

/* ---- using a store ---- */

void tri_storage_submit(tr_storage *storage, tri_store_op *op)
{
    tri_list ops;

    tri_list_init(&ops);
    tri_list_push_back(&ops, &op->link);
    tri_storage_submit_all(storage, &ops);
}

static void answer_begin(tri_store_op *op)
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

void tri_storage_submit_all(tr_storage *storage, tri_list *ops)
{
    TRI_CHECK(storage->magic == TRI_STORAGE_MAGIC);
    TRI_LIST_EACH_SAFE (link, ops) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        TRI_CHECK(op->done != NULL);
        answer_begin(op);
        if (!tri_store_op_is_valid(op)) {
            tri_list_remove(link);
            tri_store_done(op);
        }
    }
    if (!tri_list_is_empty(ops)) {
        storage->ops->submit(storage, ops);
    }
    TRI_CHECK(tri_list_is_empty(ops));
}

void tri_storage_hold(tr_storage *storage)
{
    TRI_CHECK(storage->magic == TRI_STORAGE_MAGIC);
    // Relaxed: the holder came by the store through other means.
    atomic_fetch_add_explicit(&storage->users, 1, memory_order_relaxed);
}

void tri_storage_drop(tr_storage *storage)
{
    TRI_CHECK(storage->magic == TRI_STORAGE_MAGIC);
    // Release: pairs with tr_storage_close, which then frees what we used.
    uint32_t before =
        atomic_fetch_sub_explicit(&storage->users, 1, memory_order_release);
    TRI_CHECK(before > 0);
}

void tri_storage_leave(tr_storage *storage)
{
    // Release: pairs with tr_storage_close.
    atomic_store_explicit(&storage->left, true, memory_order_release);
}

void tr_storage_close(tr_storage *storage)
{
    if (storage == NULL) {
        return;
    }
    TRI_CHECK(storage->magic == TRI_STORAGE_MAGIC);
    // Acquire: pairs with tri_storage_leave.
    if (atomic_load_explicit(&storage->left, memory_order_acquire)) {
        return;  // an actor that never returned may still save in it
    }
    // Acquire: pairs with tri_storage_drop.
    if (atomic_load_explicit(&storage->users, memory_order_acquire) != 0) {
        tr_abort("tr_storage_close", "a system, or a store in front of this "
                                     "one, still uses it: close that first");
    }
    storage->magic = 0;
    storage->ops->close(storage);
}

void tri_store_op_fini(tri_store_op *op)
{
    free(op->out);
    op->out = NULL;
    op->out_size = 0;
}

static bool is_plain(const char *text)
{
    return text[0] != '\0' && strpbrk(text, ":/") == NULL;
}

tr_err tri_store_key(char out[TRI_STORE_KEY_MAX + 1], const char *space,
                     const char *type, const char *key)
{
    out[0] = '\0';
    if (!is_plain(space) || !is_plain(type) || key[0] == '\0') {
        return TR_EINVAL;
    }
    const char *const parts[] = {space, "::", type, "/", key};
    size_t length = 0;
    // By hand: each call of a store writes one.
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

/* ---- questions ---- */

static bool is_text(tri_store_bytes text, size_t max)
{
    return text.size > 0 && text.size <= max &&
           memchr(text.at, '\0', text.size) == NULL;
}

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
    for (uint32_t i = 0; i < op->event_count; i++) {
        if (op->events[i].size > TRI_STORE_BYTES_MAX) {
            return refuse(op, TR_ELIMIT, "too many bytes in an event");
        }
    }
    return true;
}

bool tri_store_op_is_valid(tri_store_op *op)
{
    TRI_CHECK(op->call >= TR_STORE_LOAD);
    TRI_CHECK(op->call <= TR_STORE_REMINDERS);
    if (op->shard >= TRI_STORE_SHARDS_MAX) {
        return refuse(op, TR_EINVAL, "no such shard");
    }
    if (op->epoch > TRI_STORE_NUMBER_MAX ||
        op->number >= TRI_STORE_NUMBER_MAX - TRI_STORE_EVENTS_MAX ||
        op->after > TRI_STORE_NUMBER_MAX) {
        return refuse(op, TR_EINVAL, "a number beyond 63 bits");
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
    // A long text loses its end, not its closing bracket.
    const char *name = fault_name(fault);
    int room = (int)(sizeof(op->text) - strlen(name) - sizeof("()"));
    (void)snprintf(op->text, sizeof(op->text), "%s(%.*s)", name, room, text);
}

void tri_store_done(tri_store_op *op)
{
    TRI_CHECK(!tri_link_is_linked(&op->link));
    TRI_CHECK((op->err == TR_OK) == (op->fault == TRI_STORE_FAULT_NONE));
    op->done(op);
}

bool tri_store_passes(tri_store_op *op, uint64_t fence)
{
    if (op->epoch >= fence) {
        return true;
    }
    tri_store_fail(op, TR_EFENCED, TRI_STORE_FAULT_OPERATION_FAILED,
                   "shard %u belongs to epoch %llu, this is %llu", op->shard,
                   (unsigned long long)fence, (unsigned long long)op->epoch);
    return false;
}

bool tri_store_matches(tri_store_op *op, uint64_t stored)
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

static bool no_memory(tri_store_op *op)
{
    tri_store_fail(op, TR_ENOMEM, TRI_STORE_FAULT_UNAVAILABLE, "out of memory");
    return false;
}

bool tri_store_give(tri_store_op *op, const void *bytes, size_t size,
                    uint64_t version)
{
    TRI_CHECK(op->out == NULL);
    op->out = malloc(size + 1);  // never NULL for an empty state
    if (op->out == NULL) {
        return no_memory(op);
    }
    if (size > 0) {
        memcpy(op->out, bytes, size);
    }
    op->out_size = size;
    op->version = version;
    op->found = true;
    return true;
}

/* Makes room for `size` more bytes. */
static bool make_room(tri_store_op *op, size_t size)
{
    // The block's size is not kept: it is a power of two, or there is none.
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
        return no_memory(op);
    }
    op->out = grown;
    return true;
}

static void put(tri_store_op *op, const void *bytes, size_t size)
{
    if (size > 0) {
        memcpy((char *)op->out + op->out_size, bytes, size);
        op->out_size += size;
    }
}

bool tri_store_add_row(tri_store_op *op, const tri_store_row *row)
{
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
    put(op, &head, sizeof(head));
    put(op, row->key.at, row->key.size);
    put(op, row->name.at, row->name.size);
    put(op, row->bytes.at, row->bytes.size);
    op->found = true;
    return true;
}

static tri_store_bytes cut(const tri_store_op *op, size_t *at, size_t size)
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
    memcpy(&head, cut(op, at, sizeof(head)).at, sizeof(head));
    row->number = head.number;
    row->key = cut(op, at, head.key_size);
    row->name = cut(op, at, head.name_size);
    row->bytes = cut(op, at, (size_t)head.size);
    return true;
}

uint32_t tri_store_limit(const tri_store_op *op)
{
    return op->limit == 0 || op->limit > TRI_STORE_ROWS_MAX ? TRI_STORE_ROWS_MAX
                                                            : op->limit;
}

/* ---- making a store ---- */

static void tell(const tr_storage_options *options, tri_world *world,
                 const char *what, const char *why)
{
    char text[TEXT_MAX], place[PLACE_MAX] = "";

    if (options->text_size == 0 && world->ops->place != NULL) {
        world->ops->place(world, place, sizeof(place));
    }
    (void)snprintf(text, sizeof(text), "%s%s%s%s%s", place,
                   place[0] != '\0' ? ", " : "", what != NULL ? what : "",
                   what != NULL ? ": " : "", why);
    if (options->text_size > 0) {
        (void)snprintf(options->text, options->text_size, "%s", text);
    } else {
        tri_log_write(TRI_LOG_ERROR, world->ops->wall(world), NULL, NULL, text);
    }
}

tri_world *tri_storage_options(tr_storage_options *own,
                               const tr_storage_options *given)
{
    if (!tri_options_copy(own, sizeof(*own),
                          TRI_SIZE_THROUGH(tr_storage_options, text_size),
                          given)) {
        tell(own, tri_world_posix(), "tr_storage_options",
             ".size is not sizeof(tr_storage_options), or of a newer version");
        return NULL;
    }
    if (own->system != NULL && own->world == NULL) {
        own->world = tr_system_world(own->system);
    }
    return tri_world_given(own->world, "tr_storage_options");
}

static void close_with_system(void *arg)
{
    tr_storage_close(arg);
}

static tr_err give(tr_storage **out, tr_system *sys)
{
    tr_err err = tr_system_on_closed(sys, close_with_system, *out);

    if (err != TR_OK) {
        tr_storage_close(*out);
        *out = NULL;
    }
    return err;
}

tr_err tri_storage_opened(tr_storage **out, const tr_storage_options *options,
                          tri_world *world, tr_err err, const char *what,
                          const char *why)
{
    if (err == TR_OK && options->system != NULL) {
        err = give(out, options->system);
    }
    if (err != TR_OK) {
        tell(options, world, what, why[0] != '\0' ? why : tr_strerror(err));
    } else if (options->text_size > 0) {
        options->text[0] = '\0';
    }
    return err == TR_EIO ? TR_ESTORAGE : err;
}

void tri_storage_init(tr_storage *storage, const tri_storage_ops *ops)
{
    TRI_CHECK(ops->submit != NULL);
    TRI_CHECK(ops->close != NULL);
    storage->magic = TRI_STORAGE_MAGIC;
    storage->ops = ops;
    // Relaxed: whoever hands the store to other threads publishes this.
    atomic_store_explicit(&storage->users, 0, memory_order_relaxed);
    atomic_store_explicit(&storage->left, false, memory_order_relaxed);
}
