/*
 * serve.c - servers (tr_serve).
 *
 * The connections of a server are actors of the program's kind, with code
 * around it: at the start the actor becomes the owner of its stream, the end of
 * on_run ends it, and a connection that broke is an ordinary end, in on_run and
 * in handlers. A client that does not read is cut off by write_timeout: the write
 * gives TR_ETIMEDOUT, which ends the actor (is_broken). The changed definition is in the server's record, which lives as
 * long as the system, because behaviours are found by the address of their
 * definition.
 *
 * Invariant: a stream is counted in `live` and in `hosts` from its accept
 * until the stream of the world is closed, and is in `open` or `drained` for
 * the same time.
 */
#include "system/serve.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/options.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/cell/behaviour.h"
#include "core/cell/mem.h"
#include "core/run/context.h"
#include "core/system.h"
#include "system/layers.h"
#include "system/net.h"
#include "system/stream.h"
#include "system/system_log.h"
#include "troupe/macros.h"
#include "troupe/net.h"
#include "troupe/observe.h"

#define CONNECTIONS   UINT32_C(10000)  // default, at once
#define WRITE_TIMEOUT TR_SECONDS(30)   // default
#define DRAIN         TR_SECONDS(5)    // default
#define STOP_GRACE    TR_SECONDS(5)    // for the connections after the drain
#define POLL          TR_MS(10)   // how often a full or draining server looks
#define RETRY         TR_MS(100)  // after an accept that failed

typedef struct tri_server {
    tr_actor_def def;  // first: server_of casts it back
    const tr_actor_def *kind;
    struct tri_server *next;
    tr_serve_options options;
    char *dispatcher;
    tri_lock lock;         // for what follows
    tri_list open;         // tr_stream.server_link
    tri_list drained;      // the same, after tri_stream_drain
    uint32_t live;         // streams in both
    tri_map hosts;         // hash of a remote host -> how many of them
    unsigned char init[];  // the first state of each connection
} tri_server;

typedef struct Server {
    tri_server *it;
    tr_stream *listener;
    tr_nanos second;    // when the current second of per_second began
    uint32_t accepted;  // in it
} Server;

/* ---- the actors of connections ---- */

static tri_server *server_of(tr_ctx *ctx)
{
    return (tri_server *)(uintptr_t)tri_def_of(ctx->cell);
}

static tr_err connection_pre_start(tr_ctx *ctx, void *self)
{
    tri_server *it = server_of(ctx);
    tr_stream *stream;
    memcpy(&stream, (char *)self + it->options.stream_at, sizeof(stream));
    TRI_CHECK(stream->magic == TRI_STREAM_MAGIC);
    tr_err err = tri_stream_own(ctx, stream);
    if (err != TR_OK) {
        tri_stream_close(stream);
        return err;
    }
    return it->kind->pre_start != NULL ? it->kind->pre_start(ctx, self) : TR_OK;
}

/* True if the error says that the connection is of no use any more. */
static bool is_broken(tr_err err)
{
    return err == TR_ERESET || err == TR_ETIMEDOUT || err == TR_ECLOSED;
}

/*
 * Runs the program's on_run and ends the actor. After TR_OK, what is in the
 * mailbox is handled first: it may have to be written to the client.
 */
static tr_err connection_on_run(tr_ctx *ctx, void *self)
{
    tr_err err = server_of(ctx)->kind->on_run(ctx, self);
    if (is_broken(err)) {
        tr_stop(ctx, tr_self(ctx));
        return TR_OK;
    }
    if (err == TR_OK) {
        tr_poison(ctx, tr_self(ctx));
    }
    return err;
}

/* Runs a handler of the program; a broken connection ends the actor. */
static tr_err connection_around(tr_ctx *ctx, const tr_msg *msg, tr_call *call,
                                void *user)
{
    (void)user;
    tr_err err = tr_proceed(call);
    if (!is_broken(err)) {
        return err;
    }
    if ((ctx->flags & TRI_CTX_MSG_TAKEN) == 0) {
        (void)tr_refuse(ctx, tr_msg_payload(msg), err, "%s", tr_strerror(err));
    }
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

static const tr_interceptor connection_interceptor = {
    .name = "connection", .around = connection_around};
static const tr_interceptor *const connection_interceptors[] = {
    &connection_interceptor, NULL};

/* ---- counting ---- */

static uint64_t host_key(tr_stream *stream)
{
    char text[TRI_STREAM_ADDRESS_MAX];
    tri_address parts;
    (void)tr_stream_address(stream, true, text, sizeof(text));
    if (tri_address_split(text, &parts) != TR_OK) {
        return 1;  // Unix sockets have one address
    }
    return tri_hash_bytes(parts.host, strlen(parts.host)) | 1;
}

/* Adds `change` to the count of a host. Returns the new one. With the lock. */
static uint32_t host_count(tri_server *it, uint64_t host, int change)
{
    tri_lock_assert_held(&it->lock);
    intptr_t count = (intptr_t)tri_map_remove(&it->hosts, host) + change;
    // Without memory the host is forgotten: its limit is not kept for a while.
    if (count <= 0 || tri_map_put(&it->hosts, host, (void *)count) != TR_OK) {
        return 0;
    }
    return (uint32_t)count;
}

/* Called when a stream of the server is closed. */
static void stream_ended(tr_stream *stream, void *user)
{
    tri_server *it = user;
    uint64_t host = stream->ended_host;
    tri_lock_take(&it->lock);
    tri_list_remove(&stream->server_link);
    it->live--;
    if (it->options.per_address > 0) {
        (void)host_count(it, host, -1);
    }
    tri_lock_drop(&it->lock);
}

/* Counts a new stream. Returns false if its host has too many. */
static bool stream_begins(tri_server *it, tr_stream *stream)
{
    uint32_t same = 0;
    stream->ended_host = it->options.per_address > 0 ? host_key(stream) : 0;
    stream->side[0].timeout = it->options.read_timeout;
    stream->side[1].timeout = it->options.write_timeout;
    stream->ended = stream_ended;
    stream->ended_user = it;
    tri_lock_take(&it->lock);
    it->live++;
    tri_list_push_back(&it->open, &stream->server_link);
    if (it->options.per_address > 0) {
        same = host_count(it, stream->ended_host, 1);
    }
    tri_lock_drop(&it->lock);
    return same <= it->options.per_address;
}

static uint32_t live_of(tri_server *it)
{
    tri_lock_take(&it->lock);
    uint32_t live = it->live;
    tri_lock_drop(&it->lock);
    return live;
}

/* ---- accepting ---- */

/* Waits while there are too many connections, or too many in this second. */
static tr_err await_room(tr_ctx *ctx, Server *self)
{
    const tr_serve_options *o = &self->it->options;
    while (live_of(self->it) >= o->connections) {
        TR_TRY(tr_sleep(ctx, POLL));
    }
    tr_nanos now = tr_now(ctx);
    if (now - self->second >= TR_SECONDS(1)) {
        self->second = now;
        self->accepted = 0;
    }
    if (o->per_second == 0 || self->accepted < o->per_second) {
        return TR_OK;
    }
    TR_TRY(tr_sleep(ctx, self->second + TR_SECONDS(1) - now));
    self->second = tr_now(ctx);
    self->accepted = 0;
    return TR_OK;
}

/* Starts the actor of a connection. Closes the stream if that fails. */
static void begin_connection(tr_ctx *ctx, tri_server *it, tr_stream *stream)
{
    if (!stream_begins(it, stream)) {
        tri_stream_close(stream);
        return;
    }
    // The state on this stack would be too large for some kinds.
    unsigned char *state = malloc(it->kind->state_size);
    tr_ref ref = {0};
    if (state != NULL) {
        memcpy(state, it->init, it->kind->state_size);
        memcpy(state + it->options.stream_at, &stream, sizeof(stream));
        ref = (tr_spawn)(ctx, &it->def,
                         &(tr_spawn_options){
                             .size = sizeof(tr_spawn_options),
                             .init = state,
                             .init_type = it->kind->state,
                             .init_size = it->kind->state_size,
                             .restart = TR_TEMPORARY,
                             .supervision = TR_SUPERVISE(.on_failure = TR_STOP),
                             .interceptors = connection_interceptors,
                             .dispatcher = it->dispatcher});
    }
    free(state);
    if (ref.cell == 0) {
        tri_stream_close(stream);
    }
}

static tr_err accept_all(tr_ctx *ctx, Server *self)
{
    for (;;) {
        tr_stream *stream;
        TR_TRY(await_room(ctx, self));
        tr_err err = tr_accept(ctx, &stream, self->listener, TR_FOREVER);
        if (err == TR_OK) {
            self->accepted++;
            begin_connection(ctx, self->it, stream);
        } else if (ctx->cancel != TR_OK || err == TR_ECLOSED) {
            return err;
        } else {  // no descriptor or no memory is left: some come back
            tri_logf(ctx->sys, TR_LOG_WARN, NULL, NULL,
                     "a server cannot accept: %s", tr_strerror(err));
            TR_TRY(tr_sleep(ctx, RETRY));
        }
    }
}

static tr_err own_listener(tr_ctx *ctx, Server *self)
{
    tr_err err = tri_stream_own(ctx, self->listener);
    if (err != TR_OK) {
        tri_stream_close(self->listener);
    }
    return err;
}

/* ---- stopping ---- */

/* Takes the next stream to be drained; holds it. NULL: none is left. */
static tr_stream *next_to_drain(tri_server *it)
{
    tri_link *link;
    tr_stream *found = NULL;
    tri_lock_take(&it->lock);
    while (found == NULL && (link = tri_list_pop_front(&it->open)) != NULL) {
        tri_list_push_back(&it->drained, link);
        tr_stream *stream = tri_list_item(link, tr_stream, server_link);
        found = tri_stream_try_hold(stream) ? stream : NULL;
    }
    tri_lock_drop(&it->lock);
    return found;
}

static tr_err drain(tr_ctx *ctx, Server *self)
{
    tri_server *it = self->it;
    tr_stream *stream;
    (tr_stream_close)(ctx, self->listener);
    while ((stream = next_to_drain(it)) != NULL) {
        tri_stream_drain(stream);
        tri_stream_drop(stream);
    }
    tr_nanos until = tr_now(ctx) + it->options.drain;
    while (live_of(it) > 0 && tr_now(ctx) < until) {
        if (tr_sleep(ctx, POLL) != TR_OK) {
            break;
        }
    }
    return TR_OK;
}

TR_ACTOR(server, Server, TR_HOOK(pre_start, own_listener),
         TR_HOOK(on_run, accept_all), TR_HOOK(pre_stop, drain));

/* ---- making ---- */

static void server_free(tri_server *it)
{
    tri_map_fini(&it->hosts);
    free(it->dispatcher);
    free(it);
}

void tri_servers_free(tri_servers *servers)
{
    // Relaxed: no other thread is left.
    tri_server *it =
        atomic_load_explicit(&servers->newest, memory_order_relaxed);
    while (it != NULL) {
        tri_server *next = it->next;
        server_free(it);
        it = next;
    }
}

/* Adds the record to those that tri_servers_free frees: behaviours keep the
 * address of its definition. */
static void server_keep(tr_system *sys, tri_server *it)
{
    tri_servers *servers = &tri_layers_of(sys)->servers;
    // Relaxed: a first guess. Release: not needed for order, since
    // tri_servers_free runs after all threads have ended.
    it->next = atomic_load_explicit(&servers->newest, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&servers->newest, &it->next,
                                                  it, memory_order_release,
                                                  memory_order_relaxed)) {
        // Another server came in between: it->next is that one.
    }
}

static void fill_options(tr_serve_options *o)
{
    o->connections = o->connections > 0 ? o->connections : CONNECTIONS;
    o->write_timeout = o->write_timeout > 0 ? o->write_timeout : WRITE_TIMEOUT;
    o->drain = o->drain > 0 ? o->drain : DRAIN;
}

/* Returns what is wrong with the options; NULL: nothing. */
static const char *misfit(const tr_actor_def *kind, const tr_serve_options *o)
{
    TRI_CHECK(kind != NULL);
    return o->init != NULL && o->init_size != kind->state_size
               ? "its TR_INIT is of another kind"
           : o->stream_at + sizeof(tr_stream *) > kind->state_size
               ? "its state has no member `tr_stream *stream`"
           : o->read_timeout < 0 || o->write_timeout < 0 || o->drain < 0
               ? "a time in its options is negative"
               : NULL;
}

/* Makes the record. The caller owns *out. */
static tr_err server_new(tr_system *sys, const tr_actor_def *kind,
                         const tr_serve_options *o, tri_server **out)
{
    TRI_CHECK(misfit(kind, o) == NULL);
    tri_server *it = tri_mem_calloc(&sys->mem, sizeof(*it) + kind->state_size);
    *out = it;
    if (it == NULL) {
        return TR_ENOMEM;
    }
    it->kind = kind;
    it->def = *kind;
    it->def.pre_start = connection_pre_start;
    it->def.on_run = kind->on_run != NULL ? connection_on_run : NULL;
    it->options = *o;
    fill_options(&it->options);
    tri_list_init(&it->open);
    tri_list_init(&it->drained);
    tri_map_init(&it->hosts, NULL, NULL);
    if (o->init != NULL) {
        memcpy(it->init, o->init, o->init_size);
    }
    it->dispatcher = o->dispatcher != NULL ? strdup(o->dispatcher) : NULL;
    if (o->dispatcher != NULL && it->dispatcher == NULL) {
        server_free(it);
        return TR_ENOMEM;
    }
    return TR_OK;
}

static tr_ref nobody(tr_err err)
{
    return (tr_ref){.id = (uint64_t)err};
}

/* Returns nobody, and says why. */
static tr_ref refuse(tr_from from, const tr_actor_def *kind, const char *why)
{
    tri_error_set(tri_from_is_ctx(from) ? from.ctx : NULL,
                  "cannot serve %s: %s", kind->name, why);
    return nobody(TR_EINVAL);
}

/* Spawns the server's actor, which takes the listener. */
static tr_ref server_spawn(tr_from from, tri_server *it, tr_stream *listener)
{
    Server first = {.it = it, .listener = listener};
    tr_ref ref =
        (tr_spawn)(from, &server,
                   &(tr_spawn_options){
                       .size = sizeof(tr_spawn_options),
                       .name = it->options.name,
                       .init = &first,
                       .init_type = server.state,
                       .init_size = sizeof(first),
                       .restart = TR_TEMPORARY,
                       .supervision = TR_SUPERVISE(.on_failure = TR_STOP),
                       .stop_timeout = it->options.drain + STOP_GRACE});
    it->options.name = NULL;  // borrowed for the call
    if (ref.cell == 0) {
        tri_stream_close(listener);
    }
    return ref;
}

/* Listens, without an owner: that will be the server. */
static tr_err listen_for(tr_from from, const char *address,
                         const tr_serve_options *o, tr_stream **out)
{
    TR_TRY(tri_net_listen(from, out, address, o->backlog));
    if (o->bound != NULL) {
        (void)tr_stream_address(*out, false, o->bound, TR_ADDRESS_SIZE);
    }
    return TR_OK;
}

tr_ref(tr_serve)(tr_from from, const char *address, const tr_actor_def *kind,
                 const tr_serve_options *options)
{
    TRI_CHECK(kind != NULL);
    tr_system *sys = tri_from_system(from);
    tr_serve_options o;
    tri_server *it;
    tr_stream *listener;
    if (!tri_options_copy(&o, sizeof(o),
                          TRI_SIZE_THROUGH(tr_serve_options, init_size),
                          options)) {
        return refuse(from, kind,
                      "its options are of another version of Troupe");
    }
    const char *why = misfit(kind, &o);
    if (why != NULL) {
        return refuse(from, kind, why);
    }
    tr_err err = server_new(sys, kind, &o, &it);
    if (err == TR_OK) {
        server_keep(sys, it);
        err = listen_for(from, address, &o, &listener);
    }
    if (err != TR_OK) {
        return nobody(err);
    }
    return server_spawn(from, it, listener);
}
