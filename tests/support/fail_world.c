/*
 * fail_world.c - forwards all, fails one.
 *
 * What belongs to a world from its creation on (pollers, threads) is the inner
 * world's own object and goes there directly. Files are wrapped, because each
 * of their operations must find the counter.
 */
#include "support/fail_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

struct fail_world {
    tri_world base;
    tri_world_ops ops;
    tri_world *inner;
    _Atomic(uint64_t) count;
    _Atomic(uint64_t) chosen;  // 0: none
    _Atomic(fail_kind) kind;
};

/* This world's files; `inner` is another world's, of which we know nothing. */
struct tri_file {
    fail_world *world;
    tri_file *inner;
};

static fail_world *fail_of(tri_world *world)
{
    return tri_container_of(world, fail_world, base);
}

/* Counts an operation; true: this one fails. */
static bool fails(fail_world *it, bool is_sync)
{
    // Relaxed, here and below: the counters publish no other memory.
    if (atomic_load_explicit(&it->kind, memory_order_relaxed) == FAIL_CALL) {
        return false;
    }
    uint64_t chosen = atomic_load_explicit(&it->chosen, memory_order_relaxed);
    uint64_t n =
        atomic_fetch_add_explicit(&it->count, 1, memory_order_relaxed) + 1;

    if (chosen == 0 || n < chosen) {
        return false;
    }
    switch (atomic_load_explicit(&it->kind, memory_order_relaxed)) {
    case FAIL_ONCE:
        return n == chosen;
    case FAIL_SYNC:
        return is_sync;
    default:
        return true;
    }
}

/* The same for threads and pollers. */
static bool call_fails(fail_world *it)
{
    if (atomic_load_explicit(&it->kind, memory_order_relaxed) != FAIL_CALL) {
        return false;
    }
    return atomic_fetch_add_explicit(&it->count, 1, memory_order_relaxed) + 1 ==
           atomic_load_explicit(&it->chosen, memory_order_relaxed);
}

/* ---- what is only forwarded ---- */

static tr_nanos fail_mono(tri_world *world)
{
    tri_world *inner = fail_of(world)->inner;

    return inner->ops->mono(inner);
}

static tr_nanos fail_wall(tri_world *world)
{
    tri_world *inner = fail_of(world)->inner;

    return inner->ops->wall(inner);
}

static uint64_t fail_random(tri_world *world)
{
    tri_world *inner = fail_of(world)->inner;

    return inner->ops->random(inner);
}

static uint32_t fail_cpus(tri_world *world)
{
    tri_world *inner = fail_of(world)->inner;

    return inner->ops->cpus(inner);
}

static tr_err fail_thread_start(tri_world *world, tri_thread **out,
                                const char *name, void (*fn)(void *arg),
                                void *arg)
{
    fail_world *it = fail_of(world);

    *out = NULL;
    return call_fails(it)
               ? TR_ENOMEM
               : it->inner->ops->thread_start(it->inner, out, name, fn, arg);
}

static void fail_thread_join(tri_world *world, tri_thread *thread)
{
    tri_world *inner = fail_of(world)->inner;

    inner->ops->thread_join(inner, thread);
}

static bool fail_park(tri_world *world, _Atomic(uint32_t) *word,
                      uint32_t expected, tr_nanos timeout)
{
    tri_world *inner = fail_of(world)->inner;

    return inner->ops->park(inner, word, expected, timeout);
}

static void fail_wake(tri_world *world, _Atomic(uint32_t) *word, uint32_t count)
{
    tri_world *inner = fail_of(world)->inner;

    inner->ops->wake(inner, word, count);
}

static void fail_pause(tri_world *world)
{
    tri_world *inner = fail_of(world)->inner;

    inner->ops->pause(inner);
}

static void fail_yield(tri_world *world)
{
    tri_world *inner = fail_of(world)->inner;

    inner->ops->yield(inner);
}

static void fail_attach(tri_world *world, tri_driven *driven)
{
    tri_world *inner = fail_of(world)->inner;

    inner->ops->attach(inner, driven);
}

static void fail_detach(tri_world *world, tri_driven *driven)
{
    tri_world *inner = fail_of(world)->inner;

    inner->ops->detach(inner, driven);
}

static tr_err fail_poller_new(tri_world *world, tri_poller **out)
{
    fail_world *it = fail_of(world);

    *out = NULL;
    return call_fails(it) ? TR_ENOMEM
                          : it->inner->ops->poller_new(it->inner, out);
}

/* ---- files ---- */

static const tri_world_ops *inner_ops(const tri_file *file)
{
    return file->world->inner->ops;
}

static tr_err fail_file_open(tri_world *world, tri_file **out, const char *path,
                             uint32_t flags)
{
    fail_world *it = fail_of(world);

    *out = NULL;
    if (fails(it, false)) {
        return TR_EIO;
    }
    tri_file *file = calloc(1, sizeof(*file));
    TRI_CHECK(file != NULL);
    file->world = it;
    tr_err err =
        it->inner->ops->file_open(it->inner, &file->inner, path, flags);
    if (err != TR_OK) {
        free(file);
        return err;
    }
    *out = file;
    return TR_OK;
}

static void fail_file_close(tri_file *file)
{
    if (file != NULL) {
        inner_ops(file)->file_close(file->inner);
        free(file);
    }
}

static tr_err fail_file_read(tri_file *file, void *at, size_t size,
                             uint64_t offset, size_t *done)
{
    *done = 0;
    if (fails(file->world, false)) {
        return TR_EIO;
    }
    return inner_ops(file)->file_read(file->inner, at, size, offset, done);
}

static tr_err fail_file_write(tri_file *file, const void *at, size_t size,
                              uint64_t offset)
{
    if (fails(file->world, false)) {
        (void)inner_ops(file)->file_write(file->inner, at, size / 2, offset);
        return TR_EIO;
    }
    return inner_ops(file)->file_write(file->inner, at, size, offset);
}

static tr_err fail_file_sync(tri_file *file)
{
    return fails(file->world, true) ? TR_EIO : TR_OK;
}

static tr_err fail_file_truncate(tri_file *file, uint64_t size)
{
    return fails(file->world, false)
               ? TR_EIO
               : inner_ops(file)->file_truncate(file->inner, size);
}

static tr_err fail_file_size(tri_file *file, uint64_t *out)
{
    *out = 0;
    return fails(file->world, false)
               ? TR_EIO
               : inner_ops(file)->file_size(file->inner, out);
}

static tr_err fail_file_lock(tri_file *file, uint64_t offset, uint64_t size,
                             int lock)
{
    if (fails(file->world, false)) {
        return TR_EIO;
    }
    return inner_ops(file)->file_lock(file->inner, offset, size, lock);
}

static tr_err fail_file_map(tri_file *file, uint64_t offset, size_t size,
                            void **out)
{
    *out = NULL;
    if (fails(file->world, false)) {
        return TR_EIO;
    }
    return inner_ops(file)->file_map(file->inner, offset, size, out);
}

static void fail_file_unmap(tri_file *file, void *at, size_t size)
{
    inner_ops(file)->file_unmap(file->inner, at, size);
}

static tr_err fail_file_remove(tri_world *world, const char *path,
                               bool sync_dir)
{
    fail_world *it = fail_of(world);

    if (fails(it, false)) {
        return TR_EIO;
    }
    (void)sync_dir;  // as file_sync: no test cuts the power
    return it->inner->ops->file_remove(it->inner, path, false);
}

static tr_err fail_file_exists(tri_world *world, const char *path, bool *out)
{
    fail_world *it = fail_of(world);

    *out = false;
    if (fails(it, false)) {
        return TR_EIO;
    }
    return it->inner->ops->file_exists(it->inner, path, out);
}

/* ---- the world ---- */

fail_world *fail_world_new(tri_world *inner)
{
    fail_world *it = calloc(1, sizeof(*it));

    TRI_CHECK(it != NULL);
    TRI_CHECK(inner->magic == TRI_WORLD_MAGIC);
    it->inner = inner;
    it->ops = *inner->ops;  // the rest of the poller's functions stays
    it->ops.name = "fail";
    it->ops.mono = fail_mono;
    it->ops.wall = fail_wall;
    it->ops.random = fail_random;
    it->ops.cpus = fail_cpus;
    it->ops.thread_start = fail_thread_start;
    it->ops.thread_join = fail_thread_join;
    it->ops.park = fail_park;
    it->ops.wake = fail_wake;
    it->ops.pause = fail_pause;
    it->ops.yield = fail_yield;
    it->ops.attach = fail_attach;
    it->ops.detach = fail_detach;
    it->ops.poller_new = fail_poller_new;
    it->ops.file_open = fail_file_open;
    it->ops.file_close = fail_file_close;
    it->ops.file_read = fail_file_read;
    it->ops.file_write = fail_file_write;
    it->ops.file_sync = fail_file_sync;
    it->ops.file_truncate = fail_file_truncate;
    it->ops.file_size = fail_file_size;
    it->ops.file_lock = fail_file_lock;
    it->ops.file_map = fail_file_map;
    it->ops.file_unmap = fail_file_unmap;
    it->ops.file_remove = fail_file_remove;
    it->ops.file_exists = fail_file_exists;
    it->base = (tri_world){.magic = TRI_WORLD_MAGIC, .ops = &it->ops};
    return it;
}

void fail_world_free(fail_world *it)
{
    free(it);
}

tri_world *fail_world_of(fail_world *it)
{
    return &it->base;
}

void fail_world_arm(fail_world *it, uint64_t n, fail_kind kind)
{
    atomic_store_explicit(&it->count, 0, memory_order_relaxed);
    atomic_store_explicit(&it->kind, kind, memory_order_relaxed);
    atomic_store_explicit(&it->chosen, n, memory_order_relaxed);
}

bool fail_world_has_failed(fail_world *it)
{
    uint64_t chosen = atomic_load_explicit(&it->chosen, memory_order_relaxed);

    return chosen != 0 && fail_world_count(it) >= chosen;
}

uint64_t fail_world_count(fail_world *it)
{
    return atomic_load_explicit(&it->count, memory_order_relaxed);
}
