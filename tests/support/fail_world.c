/*
 * fail_world.c - forwards all operations, and lets one fail.
 *
 * Pollers and threads are objects of the inner world, which their operations
 * reach directly. Files are wrapped, because each
 * of their operations must find the counter.
 */
#include "support/fail_world.h"

#include <stdatomic.h>
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

/* A file of this world; `inner` is the file of the inner world. */
struct tri_file {
    fail_world *world;
    tri_file *inner;
};

static fail_world *fail_of(tri_world *world)
{
    return tri_container_of(world, fail_world, base);
}

/* Counts an operation; returns true if it must fail. */
static bool fails(fail_world *it, bool is_sync)
{
    // Relaxed, here and below: the counters publish no other memory.
    if (atomic_load_explicit(&it->kind, memory_order_relaxed) >= FAIL_CALL) {
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

/* The same for threads and pollers, or for streams. */
static bool kind_fails(fail_world *it, fail_kind kind)
{
    if (atomic_load_explicit(&it->kind, memory_order_relaxed) != kind) {
        return false;
    }
    return atomic_fetch_add_explicit(&it->count, 1, memory_order_relaxed) + 1 ==
           atomic_load_explicit(&it->chosen, memory_order_relaxed);
}

static bool call_fails(fail_world *it)
{
    return kind_fails(it, FAIL_CALL);
}

/* ---- forwarded unchanged ---- */

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

/* ---- streams, which belong to a poller and so do not know their world ---- */

static fail_world *streams;  // the one that was armed with FAIL_STREAM

static tr_err fail_stream_listen(tri_poller *poller, tri_stream **out,
                                 const char *address, uint32_t backlog)
{
    *out = NULL;
    return kind_fails(streams, FAIL_STREAM)
               ? TR_ERESET
               : streams->inner->ops->stream_listen(poller, out, address,
                                                    backlog);
}

static tr_err fail_stream_accept(tri_stream *listener, tri_stream **out)
{
    *out = NULL;
    return kind_fails(streams, FAIL_STREAM)
               ? TR_ERESET
               : streams->inner->ops->stream_accept(listener, out);
}

static tr_err fail_stream_connect(tri_poller *poller, tri_stream **out,
                                  const char *address)
{
    *out = NULL;
    return kind_fails(streams, FAIL_STREAM)
               ? TR_ERESET
               : streams->inner->ops->stream_connect(poller, out, address);
}

static tr_err fail_stream_connected(tri_stream *stream)
{
    return kind_fails(streams, FAIL_STREAM)
               ? TR_ERESET
               : streams->inner->ops->stream_connected(stream);
}

static tr_err fail_stream_read(tri_stream *stream, void *at, size_t size,
                               size_t *done)
{
    *done = 0;
    return kind_fails(streams, FAIL_STREAM)
               ? TR_ERESET
               : streams->inner->ops->stream_read(stream, at, size, done);
}

static tr_err fail_stream_write(tri_stream *stream, const tri_piece *pieces,
                                uint32_t count, size_t *done)
{
    *done = 0;
    return kind_fails(streams, FAIL_STREAM)
               ? TR_ERESET
               : streams->inner->ops->stream_write(stream, pieces, count, done);
}

/* Streams of a fail_world that is not armed are those of the inner world. */
static void wrap_streams(fail_world *it)
{
    streams = it;
    it->ops.stream_listen = fail_stream_listen;
    it->ops.stream_accept = fail_stream_accept;
    it->ops.stream_connect = fail_stream_connect;
    it->ops.stream_connected = fail_stream_connected;
    it->ops.stream_read = fail_stream_read;
    it->ops.stream_write = fail_stream_write;
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
    (void)sync_dir;  // as in file_sync: no test cuts the power
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
    it->ops = *inner->ops;  // other functions of pollers stay as they are
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
    if (kind == FAIL_STREAM) {
        wrap_streams(it);
    }
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
