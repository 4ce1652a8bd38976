/*
 * storage.c - what all stores share: submitting, users, opening and closing.
 */
#include "storage/storage.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "base/options.h"
#include "base/owner.h"

/* Bytes of the reason why a store cannot be opened. */
enum { TEXT_MAX = 1024, PLACE_MAX = 32 };

/* ---- using a store ---- */

void tri_storage_submit(tr_storage *storage, tri_store_op *op)
{
    tri_list ops;

    TRI_CHECK(op != NULL);
    tri_list_init(&ops);
    tri_list_push_back(&ops, &op->link);
    tri_storage_submit_all(storage, &ops);
}

void tri_storage_submit_all(tr_storage *storage, tri_list *ops)
{
    TRI_CHECK(storage->magic == TRI_STORAGE_MAGIC);
    TRI_LIST_EACH_SAFE (link, ops) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        TRI_CHECK(op->done != NULL);
        tri_store_op_begin(op);
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
    // Relaxed: the caller already has a valid pointer to the store.
    atomic_fetch_add_explicit(&storage->users, 1, memory_order_relaxed);
}

void tri_storage_drop(tr_storage *storage)
{
    TRI_CHECK(storage->magic == TRI_STORAGE_MAGIC);
    // Release: pairs with the acquire in tr_storage_close, which frees the
    // store: all of our uses come before that.
    uint32_t before =
        atomic_fetch_sub_explicit(&storage->users, 1, memory_order_release);
    TRI_CHECK(before > 0);
}

void tri_storage_leave(tr_storage *storage)
{
    TRI_CHECK(storage->magic == TRI_STORAGE_MAGIC);
    // Release: pairs with the acquire in tr_storage_close.
    atomic_store_explicit(&storage->left_open, true, memory_order_release);
}

void tr_storage_close(tr_storage *storage)
{
    if (storage == NULL) {
        return;
    }
    TRI_CHECK(storage->magic == TRI_STORAGE_MAGIC);
    // Acquire: pairs with tri_storage_leave.
    if (atomic_load_explicit(&storage->left_open, memory_order_acquire)) {
        return;  // an actor that never returned may still use it
    }
    // Acquire: pairs with tri_storage_drop.
    if (atomic_load_explicit(&storage->users, memory_order_acquire) != 0) {
        tr_abort("tr_storage_close", "a system, or a store in front of this "
                                     "one, still uses it: close that first");
    }
    storage->magic = 0;
    storage->ops->close(storage);
}

/* ---- opening ---- */

/* Reports why a store cannot be opened: to options->text, else to the log. */
static void report_failure(const tr_storage_options *options, tri_world *world,
                           const char *what, const char *why)
{
    char text[TEXT_MAX], place[PLACE_MAX] = "";  // which simulated process

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
    TRI_CHECK(own != NULL);
    if (!tri_options_copy(own, sizeof(*own),
                          TRI_SIZE_THROUGH(tr_storage_options, text_size),
                          given)) {
        report_failure(
            own, tri_world_posix(), "tr_storage_options",
            ".size is not sizeof(tr_storage_options), or of a newer version");
        return NULL;
    }
    if (own->system != NULL && own->world == NULL) {
        tri_owner *owner = tri_owner_of(own->system);
        own->world = owner->ops->world(owner);
    }
    return tri_world_given(own->world, "tr_storage_options");
}

static void close_with_owner(void *arg)
{
    tr_storage_close(arg);
}

/* Makes the store close with its owner. On failure it is closed at once. */
static tr_err give_to_owner(tr_storage **out, tri_owner *owner)
{
    tr_err err = owner->ops->on_closed(owner, close_with_owner, *out);

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
    TRI_CHECK(out != NULL);
    TRI_CHECK((err == TR_OK) == (*out != NULL));
    if (err == TR_OK && options->system != NULL) {
        err = give_to_owner(out, tri_owner_of(options->system));
    }
    if (err != TR_OK) {
        report_failure(options, world, what,
                       why[0] != '\0' ? why : tr_strerror(err));
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
    // Relaxed: no other thread knows the store yet. Passing it to
    // another thread publishes these values.
    atomic_store_explicit(&storage->users, 0, memory_order_relaxed);
    atomic_store_explicit(&storage->left_open, false, memory_order_relaxed);
}
