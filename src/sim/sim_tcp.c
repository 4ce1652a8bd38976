/*
 * sim_tcp.c - the streams of a simulated world: waiting, reading, writing and
 * ending, and what the seed does to them. sim_tcp_connect.c makes them.
 *
 * Faults: a connection is refused (`refuse`); it breaks when it is written to
 * (`reset`), of which the other side hears, or not; reads and writes move
 * fewer bytes (`short_io`); segments are late, links are slow, cut or clogged
 * (sim_net.h). A killed node's streams end in a reset or in silence.
 *
 * Invariant: waiters are called by events of the world alone, never by a call
 * of another node; so no system is entered from a step of another.
 */
#include "sim/sim_tcp.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rand.h"
#include "sim/sim.h"
#include "sim/sim_fault.h"
#include "sim/sim_pipe.h"
#include "sim/sim_stream.h"
#include "sim/sim_tcp_end.h"
#include "sim/sim_udp.h"

/* ---- all streams of a world ---- */

tri_sim_tcp *tri_sim_tcp_need(tr_sim *sim)
{
    if (sim->tcp != NULL) {
        return sim->tcp;
    }
    tri_sim_tcp *tcp = calloc(1, sizeof(*tcp));
    if (tcp == NULL) {
        return NULL;
    }
    // Its messages are datagrams; streams use tri_sim_net_draw.
    if (tri_sim_net_new(&tcp->net, sim, sim->node_count, tri_sim_udp_arrived,
                        tcp) != TR_OK) {
        free(tcp);
        return NULL;
    }
    tcp->sim = sim;
    tcp->next_port = TRI_SIM_PORT_FIRST;
    tri_list_init(&tcp->streams);
    tri_list_init(&tcp->pipes);
    sim->tcp = tcp;
    return tcp;
}

void tri_sim_tcp_trouble(tr_sim *sim)
{
    if (sim->tcp != NULL) {
        tri_sim_net_trouble(sim->tcp->net);
    }
}

void tri_sim_tcp_heal(tr_sim *sim)
{
    if (sim->tcp != NULL) {
        tri_sim_net_heal(sim->tcp->net);
    }
}

/* ---- waiting ---- */

static bool is_ready(const tri_stream *stream, uint32_t direction)
{
    if (stream->broken != TR_OK) {
        return true;
    }
    if (stream->state == TRI_SIM_LISTENING) {
        return direction == TRI_FD_READ && stream->queued > 0;
    }
    if (stream->state == TRI_SIM_CONNECTING) {
        return false;
    }
    if (stream->state == TRI_SIM_SIGNALS) {
        return direction == TRI_FD_READ && stream->signals_pending != 0;
    }
    if (stream->state == TRI_SIM_UDP) {
        return direction == TRI_FD_WRITE ||
               !tri_list_is_empty(&stream->datagrams);
    }
    if (direction == TRI_FD_READ) {
        return !tri_list_is_empty(&stream->in->arrived) || stream->in->ended;
    }
    return tri_sim_pipe_room(stream->out) > 0;
}

static tri_waiter **slot_of(tri_stream *stream, uint32_t direction)
{
    TRI_CHECK(direction == TRI_FD_READ || direction == TRI_FD_WRITE);
    return &stream->waiter[direction == TRI_FD_WRITE];
}

tri_armed tri_sim_stream_wait(tri_stream *stream, uint32_t direction,
                              tri_waiter *waiter)
{
    TRI_CHECK(waiter->fn != NULL);
    tri_waiter **slot = slot_of(stream, direction);

    if (*slot != NULL) {
        return TRI_ARMED_ELSE;
    }
    if (is_ready(stream, direction)) {
        return TRI_READY_NOW;
    }
    *slot = waiter;
    return TRI_ARMED;
}

bool tri_sim_stream_cancel(tri_stream *stream, uint32_t direction,
                           tri_waiter *waiter)
{
    tri_waiter **slot = slot_of(stream, direction);

    if (*slot != waiter) {
        return false;
    }
    *slot = NULL;
    return true;
}

/* Takes the waiter of a direction that is ready, or NULL. */
static tri_waiter *take_waiter(tri_stream *stream, uint32_t direction)
{
    tri_waiter **slot = slot_of(stream, direction);
    tri_waiter *waiter = *slot;

    if (waiter == NULL || stream->killed || !is_ready(stream, direction)) {
        return NULL;
    }
    *slot = NULL;
    return waiter;
}

void tri_sim_end_notify(tri_stream *stream)
{
    tri_waiter *reader = take_waiter(stream, TRI_FD_READ);
    tri_waiter *writer = take_waiter(stream, TRI_FD_WRITE);

    if (reader != NULL) {
        reader->fn(reader);
    }
    if (writer != NULL) {
        writer->fn(writer);
    }
}

void tri_sim_stream_has_room(tri_stream *stream)
{
    tri_sim_end_notify(stream);
}

void tri_sim_stream_arrived(tri_stream *stream)
{
    if (stream->state ==
        TRI_SIM_CONNECTING) {  // these bytes overtook the answer
        tri_sim_event_cancel(stream->tcp->sim, &stream->handshake);
        stream->state = TRI_SIM_OPEN;
    }
    tri_sim_end_notify(stream);
}

/* ---- making and ending ---- */

tri_stream *tri_sim_end_new(tri_sim_tcp *tcp, tri_sim_node *node,
                            tri_sim_stream_state state)
{
    tri_stream *stream = calloc(1, sizeof(*stream));

    if (stream == NULL) {
        return NULL;
    }
    stream->tcp = tcp;
    stream->node = node;
    stream->state = state;
    tri_list_init(&stream->queue);
    tri_list_init(&stream->datagrams);
    tri_list_push_back(&tcp->streams, &stream->all);
    return stream;
}

void tri_sim_end_leave(tri_stream *stream, bool reset, bool silent)
{
    tri_sim_pipe *in = stream->in, *out = stream->out;

    stream->in = NULL;
    stream->out = NULL;
    tri_sim_event_cancel(stream->tcp->sim, &stream->handshake);
    if (in != NULL) {
        tri_sim_pipe_leave_reader(in, stream->killed && silent);
    }
    if (out != NULL) {
        tri_sim_pipe_leave_writer(out, reset, silent);
    }
}

/* Every call of this end gives err from now on. Tells nobody. */
static void set_broken(tri_stream *stream, tr_err err)
{
    if (stream->broken == TR_OK) {
        stream->broken = err;
    }
}

void tri_sim_stream_break(tri_stream *stream, tr_err err)
{
    set_broken(stream, err);
    tri_sim_end_leave(stream, true, true);
    tri_sim_end_notify(stream);
}

void tri_sim_end_free(tri_stream *stream)
{
    if (stream->listener != NULL) {
        tri_list_remove(&stream->queue_link);
        stream->listener->queued--;
    }
    tri_sim_event_cancel(stream->tcp->sim, &stream->handshake);
    tri_sim_udp_forget(stream);
    tri_list_remove(&stream->all);
    free(stream);
}

/* Resets the connections that nobody has accepted. */
static void queue_close(tri_stream *listener)
{
    TRI_LIST_EACH_SAFE (link, &listener->queue) {
        tri_stream *it = tri_container_of(link, tri_stream, queue_link);
        tri_sim_end_leave(it, true, false);
        tri_sim_end_free(it);
    }
}

void tri_sim_stream_close(tri_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    TRI_CHECK(stream->waiter[0] == NULL && stream->waiter[1] == NULL);
    queue_close(stream);
    // A TCP that has bytes nobody will read answers with a reset.
    bool reset =
        stream->state == TRI_SIM_CONNECTING ||
        (stream->in != NULL && !tri_list_is_empty(&stream->in->arrived));
    if (!reset && stream->out != NULL && !stream->ended) {
        reset = tri_sim_pipe_send_end(stream->out) != TR_OK;
    }
    tri_sim_end_leave(stream, reset, false);
    tri_sim_end_free(stream);
}

void tri_sim_tcp_kill(tri_sim_node *node)
{
    tri_sim_tcp *tcp = node->sim->tcp;

    if (tcp == NULL) {
        return;
    }
    TRI_LIST_EACH_ITEM (it, &tcp->streams, tri_stream, all) {
        if (it->node == node && !it->killed) {
            bool silent = tri_rand_below(
                              tri_sim_rand(tcp->sim, TRI_STREAM_CRASH), 2) == 0;
            it->killed = true;
            set_broken(it, TR_ECLOSED);
            tri_sim_end_leave(it, true, silent);
        }
    }
}

void tri_sim_tcp_free(tr_sim *sim)
{
    tri_sim_tcp *tcp = sim->tcp;

    if (tcp == NULL) {
        return;
    }
    TRI_LIST_EACH_SAFE (link, &tcp->pipes) {
        tri_sim_pipe_free(tri_container_of(link, tri_sim_pipe, link));
    }
    TRI_LIST_EACH_SAFE (link, &tcp->streams) {
        tri_stream *it = tri_container_of(link, tri_stream, all);
        it->listener = NULL;
        tri_sim_end_free(it);
    }
    tri_sim_net_free(tcp->net);
    free(tcp);
    sim->tcp = NULL;
}

/* ---- bytes ---- */

/* Draws how many of `size` bytes a call moves. */
static size_t draw_size(tri_stream *stream, size_t size)
{
    tr_sim *sim = stream->tcp->sim;

    if (size > 1 &&
        tri_sim_strikes(sim, TRI_FAULT_short_io, stream->node->index)) {
        return 1 +
               (size_t)tri_sim_fault_below(sim, TRI_FAULT_short_io, size - 1);
    }
    return size;
}

tr_err tri_sim_stream_read(tri_stream *stream, void *at, size_t size,
                           size_t *done)
{
    TRI_CHECK(size > 0);
    *done = 0;
    if (stream->broken != TR_OK) {
        return stream->broken;
    }
    if (!is_ready(stream, TRI_FD_READ)) {
        return TR_EWOULDBLOCK;
    }
    *done = tri_sim_pipe_take(stream->in, at, draw_size(stream, size));
    return TR_OK;
}

/* Wakes a turn that reads a stream which broke while another wrote to it. */
static void on_broken(tr_sim *sim, tri_sim_event *event)
{
    (void)sim;
    tri_sim_end_notify(tri_container_of(event, tri_stream, handshake));
}

/* Breaks the connection at this end; the other one hears of it, or not. */
static tr_err strike_reset(tri_stream *stream)
{
    bool silent =
        tri_sim_fault_below(stream->tcp->sim, TRI_FAULT_reset, 2) == 0;

    set_broken(stream, TR_ERESET);
    tri_sim_end_leave(stream, true, silent);
    stream->handshake.fn = on_broken;
    tri_sim_event_arm(stream->tcp->sim, &stream->handshake, 0);
    return TR_ERESET;
}

static size_t pieces_size(const tri_piece *pieces, uint32_t count)
{
    size_t size = 0;
    for (uint32_t i = 0; i < count; i++) {
        size += pieces[i].size;
    }
    return size;
}

tr_err tri_sim_stream_write(tri_stream *stream, const tri_piece *pieces,
                            uint32_t count, size_t *done)
{
    *done = 0;
    if (stream->broken != TR_OK) {
        return stream->broken;
    }
    if (stream->ended) {
        return TR_ERESET;
    }
    size_t size =
        pieces_size(pieces, count < TRI_PIECES_MAX ? count : TRI_PIECES_MAX);
    if (size == 0) {
        return TR_OK;
    }
    if (!is_ready(stream, TRI_FD_WRITE)) {
        return TR_EWOULDBLOCK;
    }
    if (tri_sim_strikes(stream->tcp->sim, TRI_FAULT_reset,
                        stream->node->index)) {
        return strike_reset(stream);
    }
    size_t room = tri_sim_pipe_room(stream->out);
    size = draw_size(stream, size < room ? size : room);
    TR_TRY(tri_sim_pipe_send(stream->out, pieces, size));
    *done = size;
    return TR_OK;
}

tr_err tri_sim_stream_shutdown(tri_stream *stream)
{
    if (stream->broken != TR_OK) {
        return stream->broken;
    }
    if (stream->state != TRI_SIM_OPEN) {
        return TR_ERESET;
    }
    if (!stream->ended) {
        TR_TRY(tri_sim_pipe_send_end(stream->out));
        stream->ended = true;
    }
    return TR_OK;
}

void tri_sim_stream_address(tri_stream *stream, bool remote,
                            char out[TRI_STREAM_ADDRESS_MAX])
{
    memcpy(out, remote ? stream->remote : stream->local,
           TRI_STREAM_ADDRESS_MAX);
}
