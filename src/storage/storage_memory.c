/*
 * storage_memory.c - a store in memory, which lasts until it is closed.
 *
 * It has a map from keys to records (state and events), a map of reminders and
 * one fence per shard, all under one lock. An operation is carried out, and
 * `done` called, before submit returns. States are copied in and out, so no
 * caller shares memory with the store.
 *
 * Invariant: the lock is held during a whole operation, so that check and
 * write are one step. It is not held while `done` runs.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "storage/storage.h"
#include "storage/store_op.h"
#include "troupe/base.h"
#include "troupe/storage.h"

typedef struct buffer {
    void *at;  // malloc'ed
    size_t size;
} buffer;

/* The state and the events of one key. */
typedef struct record {
    uint64_t version;  // of the state; 0: no state
    buffer state;
    buffer *events;  // numbered from first_event
    uint32_t event_count, event_capacity;
    uint64_t first_event;
    size_t key_size;
    char key[];
} record;

typedef struct reminder {
    uint32_t shard;
    uint64_t due;
    buffer bytes;
    size_t key_size, name_size;
    char text[];  // the key, a zero, the name: its key in the map
} reminder;

typedef struct memory_store {
    tr_storage base;
    tri_lock lock;  // over all fields below
    tri_map records;
    tri_map reminders;
    tri_map fences;  // tri_store_fence_of -> epoch, as a pointer
} memory_store;

static bool record_is(const void *value, const void *key, size_t size)
{
    const record *it = value;

    return it->key_size == size && memcmp(it->key, key, size) == 0;
}

static bool reminder_is(const void *value, const void *key, size_t size)
{
    const reminder *it = value;

    return it->key_size + 1 + it->name_size == size &&
           memcmp(it->text, key, size) == 0;
}

/* Copies the bytes into new memory. Returns false if there is none. */
static bool buffer_copy(buffer *out, tri_store_bytes from)
{
    out->at = malloc(from.size + 1);
    out->size = from.size;
    if (out->at == NULL) {
        return false;
    }
    if (from.size > 0) {
        memcpy(out->at, from.at, from.size);
    }
    return true;
}

static tri_store_bytes bytes_of(const buffer *from)
{
    return (tri_store_bytes){from->at, from->size};
}

/* ---- states ---- */

/* Returns the record of the op's key, or NULL. */
static record *find(memory_store *store, const tri_store_op *op)
{
    tri_lock_assert_held(&store->lock);
    return tri_map_get_bytes(&store->records, op->key.at, op->key.size);
}

/* Returns the record of the op's key. Makes it if needed; NULL: no memory. */
static record *find_or_make(memory_store *store, const tri_store_op *op)
{
    record *it = find(store, op);

    if (it != NULL) {
        return it;
    }
    it = calloc(1, sizeof(*it) + op->key.size);
    if (it == NULL) {
        return NULL;
    }
    it->first_event = 1;
    it->key_size = op->key.size;
    memcpy(it->key, op->key.at, op->key.size);
    if (tri_map_put_bytes(&store->records, it->key, it->key_size, it) !=
        TR_OK) {
        free(it);
        return NULL;
    }
    return it;
}

/* Removes a record that has neither a state nor events. */
static void drop_if_empty(memory_store *store, record *it)
{
    if (it->version == 0 && it->event_count == 0) {
        (void)tri_map_remove_bytes(&store->records, it->key, it->key_size);
        free(it->events);
        free(it);
    }
}

static void load(memory_store *store, tri_store_op *op)
{
    const record *it = find(store, op);

    if (it != NULL && it->version > 0) {
        (void)tri_store_set_state(op, it->state.at, it->state.size,
                                  it->version);
    }
}

static void save(memory_store *store, tri_store_op *op)
{
    record *it = find(store, op);
    buffer copy;

    if (!tri_store_check_version(op, it == NULL ? 0 : it->version)) {
        return;
    }
    if (!buffer_copy(&copy, op->bytes)) {
        tri_store_fail_no_memory(op);
        return;
    }
    it = find_or_make(store, op);
    if (it == NULL) {
        free(copy.at);
        tri_store_fail_no_memory(op);
        return;
    }
    free(it->state.at);
    it->state = copy;
    it->version++;
    op->version = it->version;
    op->found = true;
}

/* Returns the number of the last event. */
static uint64_t last_event(const record *it)
{
    return it->first_event + it->event_count - 1;
}

static void record_free(record *it)
{
    for (uint32_t i = 0; i < it->event_count; i++) {
        free(it->events[i].at);
    }
    free(it->events);
    free(it->state.at);
    free(it);
}

/* Removes the state and the events, which is all that the record has. */
static void delete_all(memory_store *store, tri_store_op *op)
{
    record *it = find(store, op);

    if (!tri_store_check_version(op, it == NULL ? 0 : it->version) ||
        !tri_store_check_last(op, it == NULL ? 0 : last_event(it))) {
        return;
    }
    if (it != NULL) {
        (void)tri_map_remove_bytes(&store->records, it->key, it->key_size);
        record_free(it);
        op->found = true;
    }
}

/* ---- events ---- */

/* Makes room for `count` events in all. Returns false without memory. */
static bool reserve_events(record *it, uint32_t count)
{
    uint32_t capacity = it->event_capacity < 8 ? 8 : it->event_capacity;

    while (capacity < count) {
        capacity *= 2;
    }
    if (capacity == it->event_capacity) {
        return true;
    }
    buffer *events = realloc(it->events, capacity * sizeof(*events));
    if (events == NULL) {
        return false;
    }
    it->events = events;
    it->event_capacity = capacity;
    return true;
}

/* Adds all events of the op, or none and returns false without memory. */
static bool add_events(record *it, const tri_store_op *op)
{
    if (!reserve_events(it, it->event_count + op->event_count)) {
        return false;
    }
    buffer *at = it->events + it->event_count;
    for (uint32_t i = 0; i < op->event_count; i++) {
        if (!buffer_copy(&at[i], op->events[i])) {
            while (i > 0) {
                free(at[--i].at);
            }
            return false;
        }
    }
    it->event_count += op->event_count;
    return true;
}

static void append(memory_store *store, tri_store_op *op)
{
    record *it = find(store, op);

    if (!tri_store_check_version(op, it == NULL ? 0 : last_event(it))) {
        return;
    }
    op->version = op->number + op->event_count;
    if (op->event_count == 0) {
        return;
    }
    it = find_or_make(store, op);
    if (it == NULL || !add_events(it, op)) {
        tri_store_fail_no_memory(op);
        if (it != NULL) {
            drop_if_empty(store, it);
        }
        return;
    }
    op->found = true;
}

static void read_events(memory_store *store, tri_store_op *op)
{
    const record *it = find(store, op);

    if (it == NULL) {
        return;
    }
    uint64_t number = TRI_MAX(op->number, it->first_event);
    uint64_t last = last_event(it);
    for (uint32_t left = tri_store_row_limit(op); number <= last;
         number++, left--) {
        tri_store_row row = {
            .number = number,
            .bytes = bytes_of(&it->events[number - it->first_event]),
        };
        if (left == 0) {
            op->more = true;
            break;
        }
        if (!tri_store_add_row(op, &row)) {
            break;
        }
    }
    if (op->err == TR_OK) {
        op->version = last;
    }
}

/* Keeps the last event: its number says where the next append goes. */
static void trim(memory_store *store, tri_store_op *op)
{
    record *it = find(store, op);

    if (it == NULL || it->event_count == 0 || op->number < it->first_event) {
        return;
    }
    uint64_t upto = TRI_MIN(op->number, last_event(it) - 1);
    TRI_CHECK(upto + 1 >= it->first_event);
    uint32_t count = (uint32_t)(upto + 1 - it->first_event);
    for (uint32_t i = 0; i < count; i++) {
        free(it->events[i].at);
    }
    it->event_count -= count;
    it->first_event += count;
    memmove(it->events, it->events + count,
            it->event_count * sizeof(*it->events));
    op->version = last_event(it);
    op->found = true;
}

/* ---- reminders ---- */

/* Writes the key, a zero and the name. Returns the size. */
static size_t reminder_text(char *out, const tri_store_op *op)
{
    TRI_CHECK(op->key.size <= TRI_STORE_KEY_MAX);
    TRI_CHECK(op->name.size <= TRI_STORE_NAME_MAX);
    memcpy(out, op->key.at, op->key.size);
    out[op->key.size] = '\0';
    memcpy(out + op->key.size + 1, op->name.at, op->name.size);
    return op->key.size + 1 + op->name.size;
}

/* Returns NULL if there is no memory. */
static reminder *reminder_new(const tri_store_op *op)
{
    size_t size = op->key.size + 1 + op->name.size;
    reminder *it = calloc(1, sizeof(*it) + size);

    if (it == NULL) {
        return NULL;
    }
    if (!buffer_copy(&it->bytes, op->bytes)) {
        free(it);
        return NULL;
    }
    it->shard = op->shard;
    it->due = op->number;
    it->key_size = op->key.size;
    it->name_size = op->name.size;
    (void)reminder_text(it->text, op);
    return it;
}

static void reminder_free(reminder *it)
{
    if (it != NULL) {
        free(it->bytes.at);
        free(it);
    }
}

static void forget(memory_store *store, tri_store_op *op)
{
    char text[TRI_STORE_KEY_MAX + 1 + TRI_STORE_NAME_MAX];
    size_t size = reminder_text(text, op);
    const reminder *held = tri_map_get_bytes(&store->reminders, text, size);

    op->found = held != NULL && (op->after == 0 || held->due == op->after);
    if (op->found) {
        reminder_free(tri_map_remove_bytes(&store->reminders, text, size));
    }
}

static void remind(memory_store *store, tri_store_op *op)
{
    reminder *it = reminder_new(op);

    // Reserve first: then replacing the old reminder cannot fail.
    if (it == NULL ||
        tri_map_reserve(&store->reminders,
                        tri_map_count(&store->reminders) + 1) != TR_OK) {
        reminder_free(it);
        tri_store_fail_no_memory(op);
        return;
    }
    forget(store, op);
    if (op->after != 0 && !op->found) {
        reminder_free(it);
        return;
    }
    TRI_CHECK(tri_map_put_bytes(&store->reminders, it->text,
                                it->key_size + 1 + it->name_size, it) == TR_OK);
    op->found = true;
}

static tri_store_row row_of(const reminder *it)
{
    return (tri_store_row){
        .number = it->due,
        .key = {it->text, it->key_size},
        .name = {it->text + it->key_size + 1, it->name_size},
        .bytes = bytes_of(&it->bytes),
    };
}

/* Collects the reminders that the op asks for, unsorted. Returns how many. */
static size_t select_reminders(memory_store *store, const tri_store_op *op,
                               tri_store_row *rows)
{
    tri_store_row after = {op->after, op->key, op->name, {NULL, 0}};
    size_t count = 0;
    const reminder *it;

    for (tri_map_iter i = tri_map_iter_begin(&store->reminders);
         (it = tri_map_iter_next(&store->reminders, &i)) != NULL;) {
        tri_store_row row = row_of(it);
        if (it->shard == op->shard && it->due <= op->number &&
            tri_store_compare_rows(&row, &after) > 0) {
            rows[count++] = row;
        }
    }
    return count;
}

static void list_reminders(memory_store *store, tri_store_op *op)
{
    size_t all = tri_map_count(&store->reminders);
    tri_store_row *rows = malloc((all + 1) * sizeof(*rows));

    if (rows == NULL) {
        tri_store_fail_no_memory(op);
        return;
    }
    tri_store_add_sorted(op, rows, select_reminders(store, op, rows));
    free(rows);
}

/* ---- keys ---- */

/* Returns whether a scan lists the key. */
static bool is_scanned(const tri_store_op *op, const record *it)
{
    return it->key_size >= op->bytes.size &&
           memcmp(it->key, op->bytes.at, op->bytes.size) == 0 &&
           tri_store_compare((tri_store_bytes){it->key, it->key_size},
                             op->key) > 0;
}

static void scan(memory_store *store, tri_store_op *op)
{
    size_t all = tri_map_count(&store->records), count = 0;
    tri_store_row *rows = malloc((all + 1) * sizeof(*rows));
    const record *it;

    if (rows == NULL) {
        tri_store_fail_no_memory(op);
        return;
    }
    for (tri_map_iter i = tri_map_iter_begin(&store->records);
         (it = tri_map_iter_next(&store->records, &i)) != NULL;) {
        if (is_scanned(op, it)) {
            rows[count++] = (tri_store_row){.key = {it->key, it->key_size}};
        }
    }
    tri_store_add_sorted(op, rows, count);
    free(rows);
}

/* ---- the store ---- */

/* Sets a fence; 0: there is none. Returns false without memory. */
static bool set_fence(memory_store *store, uint64_t fence, uint64_t epoch)
{
    (void)tri_map_remove(&store->fences, fence);
    return epoch == 0 || tri_map_put(&store->fences, fence,
                                     (void *)(uintptr_t)epoch) == TR_OK;
}

static void write_one(memory_store *store, tri_store_op *op)
{
    uint64_t fence = tri_store_fence_of(op);
    uint64_t before = (uintptr_t)tri_map_get(&store->fences, fence);

    if (!tri_store_check_epoch(op, before)) {
        return;
    }
    if (op->epoch > before && !set_fence(store, fence, op->epoch)) {
        tri_store_fail_no_memory(op);
        return;
    }
    switch (op->call) {
    case TR_STORE_SAVE:
        save(store, op);
        break;
    case TR_STORE_DELETE:
        delete_all(store, op);
        break;
    case TR_STORE_APPEND:
        append(store, op);
        break;
    case TR_STORE_TRIM:
        trim(store, op);
        break;
    case TR_STORE_REMIND:
        remind(store, op);
        break;
    case TR_STORE_FORGET:
        forget(store, op);
        break;
    default:
        TRI_CHECK(op->call == TR_STORE_FENCE);
        op->version = op->epoch;
        break;
    }
    if (op->err != TR_OK && op->epoch > before) {
        // A refused write changes nothing. A put after a remove has room.
        (void)set_fence(store, fence, before);
    }
}

static void run_op(memory_store *store, tri_store_op *op)
{
    switch (op->call) {
    case TR_STORE_LOAD:
        load(store, op);
        break;
    case TR_STORE_READ:
        read_events(store, op);
        break;
    case TR_STORE_REMINDERS:
        list_reminders(store, op);
        break;
    case TR_STORE_SCAN:
        scan(store, op);
        break;
    default:
        write_one(store, op);
        break;
    }
}

static memory_store *store_of(tr_storage *storage)
{
    return tri_container_of(storage, memory_store, base);
}

static void memory_submit(tr_storage *storage, tri_list *ops)
{
    memory_store *store = store_of(storage);
    tri_link *link;
    while ((link = tri_list_pop_front(ops)) != NULL) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        tri_lock_take(&store->lock);
        run_op(store, op);
        tri_lock_drop(&store->lock);
        tri_store_done(op);
    }
}

static void free_records(memory_store *store)
{
    record *it;

    for (tri_map_iter i = tri_map_iter_begin(&store->records);
         (it = tri_map_iter_next(&store->records, &i)) != NULL;) {
        record_free(it);
    }
    tri_map_fini(&store->records);
}

static void memory_close(tr_storage *storage)
{
    memory_store *store = store_of(storage);
    reminder *it;
    free_records(store);
    for (tri_map_iter i = tri_map_iter_begin(&store->reminders);
         (it = tri_map_iter_next(&store->reminders, &i)) != NULL;) {
        reminder_free(it);
    }
    tri_map_fini(&store->reminders);
    tri_map_fini(&store->fences);
    free(store);
}

tr_err tr_storage_memory(tr_storage **out)
{
    static const tri_storage_ops ops = {
        .name = "memory",
        .submit = memory_submit,
        .close = memory_close,
    };

    TRI_CHECK(out != NULL);
    *out = NULL;
    memory_store *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return TR_ENOMEM;
    }
    tri_storage_init(&store->base, &ops);
    tri_lock_init(&store->lock);
    tri_map_init(&store->fences, NULL, NULL);
    tri_map_init(&store->records, record_is, NULL);
    tri_map_init(&store->reminders, reminder_is, NULL);
    *out = &store->base;
    return TR_OK;
}
