/*
 * streams.h - two ends of a stream in any world, without actors: the tests of
 * the real and of the simulated streams share it.
 *
 * `stage_pump` lets the world do something: it waits in the poller, or passes
 * virtual time. Every helper that waits gives up after PUMPS_MAX of them.
 */
#ifndef TEST_SUPPORT_STREAMS_H
#define TEST_SUPPORT_STREAMS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/world.h"
#include "troupe/sim.h"

enum { PUMPS_MAX = 100000 };

typedef struct stage {
    tri_world *world;
    const tri_world_ops *ops;
    tri_poller *poller;  // of the listener and what it accepts
    tri_poller *other;   // of what connects; the same in the real world
    tr_sim *sim;         // NULL: the real world
    tri_stream *listener, *client, *server;
    char at[TRI_STREAM_ADDRESS_MAX];
} stage;

/* Counts the calls of a waiter. */
typedef struct bell {
    tri_waiter waiter;
    uint32_t rung;
} bell;

static inline void bell_ring(tri_waiter *waiter)
{
    tri_container_of(waiter, bell, waiter)->rung++;
}

static inline void stage_pump(stage *it)
{
    tri_fd_event events[8];
    if (it->sim != NULL) {
        tr_sim_advance(it->sim, TR_MS(10));
    } else {
        (void)it->ops->poller_wait(it->poller, events, 8, TR_MS(10));
    }
}

/* Waits by a waiter until a call of this direction is worth a try. */
static inline void stage_await(stage *it, tri_stream *stream,
                               uint32_t direction)
{
    bell mine = {.waiter = {.fn = bell_ring}};
    tri_armed armed = it->ops->stream_wait(stream, direction, &mine.waiter);
    assert_int_not_equal(armed, TRI_ARMED_ELSE);
    for (int i = 0; armed == TRI_ARMED && mine.rung == 0; i++) {
        assert_true(i < PUMPS_MAX);
        stage_pump(it);
    }
    assert_true(mine.rung <= 1);
}

static inline tr_err stage_accept(stage *it)
{
    tr_err err;
    while ((err = it->ops->stream_accept(it->listener, &it->server)) ==
           TR_EWOULDBLOCK) {
        stage_await(it, it->listener, TRI_FD_READ);
    }
    return err;
}

static inline tr_err stage_connected(stage *it)
{
    tr_err err;
    while ((err = it->ops->stream_connected(it->client)) == TR_EWOULDBLOCK) {
        stage_await(it, it->client, TRI_FD_WRITE);
    }
    return err;
}

static inline tr_err stage_read(stage *it, tri_stream *stream, void *at,
                                size_t size, size_t *done)
{
    tr_err err;
    while ((err = it->ops->stream_read(stream, at, size, done)) ==
           TR_EWOULDBLOCK) {
        stage_await(it, stream, TRI_FD_READ);
    }
    return err;
}

/* Reads until `size` bytes have come. Ended early: TR_ERESET. */
static inline tr_err stage_read_all(stage *it, tri_stream *stream, void *at,
                                    size_t size)
{
    for (size_t got = 0; got < size;) {
        size_t done;
        tr_err err =
            stage_read(it, stream, (char *)at + got, size - got, &done);
        if (err != TR_OK || done == 0) {
            return err != TR_OK ? err : TR_ERESET;
        }
        got += done;
    }
    return TR_OK;
}

static inline tr_err stage_write_all(stage *it, tri_stream *stream,
                                     const void *at, size_t size)
{
    for (size_t put = 0; put < size;) {
        // Two pieces, so that the border between them is crossed.
        size_t half = (size - put + 1) / 2, done;
        tri_piece pieces[] = {
            {(const char *)at + put, half},
            {(const char *)at + put + half, size - put - half}};
        tr_err err = it->ops->stream_write(stream, pieces, 2, &done);
        if (err == TR_EWOULDBLOCK) {
            stage_await(it, stream, TRI_FD_WRITE);
        } else if (err != TR_OK) {
            return err;
        }
        put += done;
    }
    return TR_OK;
}

/* Listens, connects and accepts. On an error some of the three are NULL. */
static inline tr_err stage_open(stage *it, const char *address,
                                uint32_t backlog)
{
    TR_TRY(it->ops->stream_listen(it->poller, &it->listener, address, backlog));
    it->ops->stream_address(it->listener, false, it->at);
    TR_TRY(it->ops->stream_connect(it->other, &it->client, it->at));
    TR_TRY(stage_connected(it));
    return stage_accept(it);
}

static inline void stage_shut(stage *it)
{
    it->ops->stream_close(it->client);
    it->ops->stream_close(it->server);
    it->ops->stream_close(it->listener);
    it->client = it->server = it->listener = NULL;
}

/* ---- what both worlds are held to ---- */

static inline void check_bytes_both_ways(stage *it)
{
    char text[32] = "";
    size_t done;

    assert_int_equal(stage_write_all(it, it->client, "hello, there", 12),
                     TR_OK);
    assert_int_equal(stage_read_all(it, it->server, text, 12), TR_OK);
    assert_string_equal(text, "hello, there");
    assert_int_equal(stage_write_all(it, it->server, "and back", 8), TR_OK);
    assert_int_equal(it->ops->stream_shutdown(it->server), TR_OK);
    memset(text, 0, sizeof(text));
    assert_int_equal(stage_read_all(it, it->client, text, 8), TR_OK);
    assert_string_equal(text, "and back");
    for (int i = 0; i < 2; i++) {  // the end stays the end
        assert_int_equal(stage_read(it, it->client, text, sizeof(text), &done),
                         TR_OK);
        assert_int_equal(done, 0);
    }
    // The other direction is still open.
    assert_int_equal(stage_write_all(it, it->client, "more", 4), TR_OK);
    assert_int_equal(stage_read_all(it, it->server, text, 4), TR_OK);
}

static inline void check_addresses(stage *it)
{
    char mine[TRI_STREAM_ADDRESS_MAX], theirs[TRI_STREAM_ADDRESS_MAX];

    it->ops->stream_address(it->client, false, mine);
    it->ops->stream_address(it->server, true, theirs);
    assert_string_equal(mine, theirs);
    it->ops->stream_address(it->client, true, theirs);
    assert_string_equal(theirs, it->at);
    it->ops->stream_address(it->server, false, mine);
    assert_string_equal(mine, it->at);
}

/* A full stream gives TR_EWOULDBLOCK until the other end reads. */
static inline void check_back_pressure(stage *it)
{
    static char block[32 * 1024], seen[32 * 1024];
    size_t sent = 0, got = 0, done;
    tri_piece piece = {block, sizeof(block)};
    bell room = {.waiter = {.fn = bell_ring}};

    for (size_t i = 0; i < sizeof(block); i++) {
        block[i] = (char)i;
    }
    while (it->ops->stream_write(it->client, &piece, 1, &done) == TR_OK) {
        sent += done;
        assert_true(sent < (size_t)1 << 30);
        piece = (tri_piece){block + sent % sizeof(block),
                            sizeof(block) - sent % sizeof(block)};
    }
    assert_int_equal(
        it->ops->stream_wait(it->client, TRI_FD_WRITE, &room.waiter),
        TRI_ARMED);
    while (got < sent) {
        size_t most = sizeof(block) - got % sizeof(block);
        assert_int_equal(stage_read(it, it->server, seen, most, &done), TR_OK);
        assert_memory_equal(seen, block + got % sizeof(block), done);
        got += done;
    }
    for (int i = 0; room.rung == 0; i++) {
        assert_true(i < PUMPS_MAX);
        stage_pump(it);
    }
    assert_int_equal(stage_write_all(it, it->client, "x", 1), TR_OK);
}

/* A waiter is called once, can be taken back, and is alone in its direction. */
static inline void check_waiters(stage *it)
{
    bell one = {.waiter = {.fn = bell_ring}}, two = one, write = one;
    char text[4];
    size_t done;

    while (it->ops->stream_read(it->server, text, 4, &done) == TR_OK) {
        assert_int_equal(done, 0);
    }
    assert_int_equal(it->ops->stream_wait(it->server, TRI_FD_READ, &one.waiter),
                     TRI_ARMED);
    assert_int_equal(it->ops->stream_wait(it->server, TRI_FD_READ, &two.waiter),
                     TRI_ARMED_ELSE);
    assert_int_equal(
        it->ops->stream_wait(it->server, TRI_FD_WRITE, &write.waiter),
        TRI_READY_NOW);
    assert_false(it->ops->stream_cancel(it->server, TRI_FD_READ, &two.waiter));
    assert_true(it->ops->stream_cancel(it->server, TRI_FD_READ, &one.waiter));
    assert_false(it->ops->stream_cancel(it->server, TRI_FD_READ, &one.waiter));
    assert_int_equal(it->ops->stream_wait(it->server, TRI_FD_READ, &two.waiter),
                     TRI_ARMED);
    assert_int_equal(stage_write_all(it, it->client, "now", 3), TR_OK);
    for (int i = 0; two.rung == 0; i++) {
        assert_true(i < PUMPS_MAX);
        stage_pump(it);
    }
    assert_int_equal(two.rung, 1);
    assert_int_equal(one.rung + write.rung, 0);
    // Its bytes are there: no wait is armed for them.
    assert_int_equal(it->ops->stream_wait(it->server, TRI_FD_READ, &one.waiter),
                     TRI_READY_NOW);
    assert_int_equal(stage_read_all(it, it->server, text, 3), TR_OK);
}

/* An end that is closed with unread bytes resets the connection. */
static inline void check_reset(stage *it)
{
    char text[4];
    size_t done;

    assert_int_equal(stage_write_all(it, it->client, "lost", 4), TR_OK);
    stage_await(it, it->server, TRI_FD_READ);
    it->ops->stream_close(it->server);
    it->server = NULL;
    assert_int_equal(stage_read(it, it->client, text, 4, &done), TR_ERESET);
    assert_int_equal(stage_write_all(it, it->client, "text", 4), TR_ERESET);
}

static inline void check_refused(stage *it)
{
    it->ops->stream_close(it->listener);
    it->listener = NULL;
    it->ops->stream_close(it->client);
    it->client = NULL;
    tr_err err = it->ops->stream_connect(it->other, &it->client, it->at);
    if (err == TR_OK) {  // a Unix socket is refused at once
        err = stage_connected(it);
    }
    assert_int_equal(err, TR_EUNREACHABLE);
}

#endif
