/*
 * sim_pipe.c - one direction of a simulated connection.
 *
 * Invariant: bytes arrive complete and in order, as TCP gives them: a segment
 * whose link is cut or clogged is sent again every RETRY, and those behind it
 * wait. `arrival` is armed exactly while something flies and the pipe has an
 * end that can notice it.
 */
#include "sim/sim_pipe.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/sim.h"

#define RETRY     TR_MS(200)
#define TRIES_MAX UINT32_C(4500)  // 15 minutes, as Linux tries (tcp_retries2)

typedef enum segment_kind { DATA, END, RESET } segment_kind;

typedef struct segment {
    tri_link link;
    segment_kind kind;
    tr_nanos due;
    size_t size, taken;  // bytes; how many of them were read
    char bytes[];
} segment;

static void segments_free(tri_list *list)
{
    TRI_LIST_EACH_SAFE (link, list) {
        segment *it = tri_container_of(link, segment, link);
        tri_list_remove(&it->link);
        free(it);
    }
}

static segment *first_of(const tri_list *list)
{
    return tri_list_item(tri_list_first(list), segment, link);
}

/* ---- answers to the writer ---- */

static void on_answer(tr_sim *sim, tri_sim_event *event)
{
    tri_sim_pipe *pipe = tri_container_of(event, tri_sim_pipe, answer);

    (void)sim;
    if (pipe->writer == NULL) {
        return;
    }
    if (pipe->bounced) {
        tri_sim_stream_break(pipe->writer, TR_ERESET);
    } else {
        tri_sim_stream_has_room(pipe->writer);
    }
}

/* Tells the writer after the time that a segment takes back to it. */
static void answer_later(tri_sim_pipe *pipe)
{
    if (pipe->writer != NULL) {
        tri_sim_event_arm(pipe->tcp->sim, &pipe->answer,
                          tri_sim_net_draw(pipe->tcp->net, pipe->to->index,
                                           pipe->from->index));
    }
}

/* ---- arriving ---- */

static void arm_arrival(tri_sim_pipe *pipe)
{
    tr_sim *sim = pipe->tcp->sim;
    const segment *first = first_of(&pipe->flying);

    if (first != NULL) {
        tri_sim_event_arm(sim, &pipe->arrival, first->due - sim->now);
    }
}

/* Nobody reads any more: everything is lost, and the writer is told. */
static void bounce(tri_sim_pipe *pipe)
{
    segments_free(&pipe->flying);
    segments_free(&pipe->arrived);
    pipe->held = 0;
    pipe->bounced = true;
    answer_later(pipe);
}

/* Gives all segments that are due to the reader. Takes none after a reset. */
static void deliver_due(tri_sim_pipe *pipe)
{
    segment *it;

    while ((it = first_of(&pipe->flying)) != NULL &&
           it->due <= pipe->tcp->sim->now) {
        tri_list_remove(&it->link);
        if (it->kind == RESET) {
            free(it);
            tri_sim_stream_break(pipe->reader, TR_ERESET);
            return;  // the pipe may be gone
        }
        pipe->ended = pipe->ended || it->kind == END;
        if (it->kind == END) {
            free(it);
        } else {
            tri_list_push_back(&pipe->arrived, &it->link);
        }
    }
    arm_arrival(pipe);
    tri_sim_stream_arrived(pipe->reader);
}

/* True if the host of a killed reader has not come back. */
static bool is_dark(const tri_sim_pipe *pipe)
{
    return pipe->dark && pipe->to->sys == NULL;
}

/* No way now: tries again, or gives up after TRIES_MAX. */
static void retry(tri_sim_pipe *pipe)
{
    if (++pipe->tries < TRIES_MAX) {
        tri_sim_event_arm(pipe->tcp->sim, &pipe->arrival, RETRY);
    } else if (pipe->writer != NULL) {
        tri_sim_stream_break(pipe->writer, TR_ETIMEDOUT);
    }
}

static void on_arrival(tr_sim *sim, tri_sim_event *event)
{
    tri_sim_pipe *pipe = tri_container_of(event, tri_sim_pipe, arrival);

    (void)sim;
    if (is_dark(pipe) || !tri_sim_net_is_open(pipe->tcp->net, pipe->from->index,
                                              pipe->to->index)) {
        retry(pipe);
        return;
    }
    pipe->tries = 0;
    if (pipe->reader == NULL) {
        bounce(pipe);
    } else {
        deliver_due(pipe);
    }
}

/* ---- sending ---- */

/* Makes a segment fly. Takes it. */
static void launch(tri_sim_pipe *pipe, segment *it)
{
    tr_sim *sim = pipe->tcp->sim;
    tr_nanos due = tri_sim_later(
        sim->now,
        tri_sim_net_draw(pipe->tcp->net, pipe->from->index, pipe->to->index));

    it->due = due > pipe->last_due ? due : pipe->last_due;
    pipe->last_due = it->due;
    pipe->held += it->size;
    bool first = tri_list_is_empty(&pipe->flying);
    tri_list_push_back(&pipe->flying, &it->link);
    if (first) {
        arm_arrival(pipe);
    }
}

static tr_err send_mark(tri_sim_pipe *pipe, segment_kind kind)
{
    segment *it = calloc(1, sizeof(*it));

    if (it == NULL) {
        return TR_ENOMEM;
    }
    it->kind = kind;
    launch(pipe, it);
    return TR_OK;
}

tr_err tri_sim_pipe_send_end(tri_sim_pipe *pipe)
{
    return send_mark(pipe, END);
}

tr_err tri_sim_pipe_send(tri_sim_pipe *pipe, const tri_piece *pieces,
                         size_t size)
{
    TRI_CHECK(size > 0);
    TRI_CHECK(size <= tri_sim_pipe_room(pipe));
    segment *it = calloc(1, sizeof(*it) + size);

    if (it == NULL) {
        return TR_ENOMEM;
    }
    it->size = size;
    for (size_t at = 0; at < size; pieces++) {
        size_t part = pieces->size < size - at ? pieces->size : size - at;
        if (part > 0) {
            memcpy(it->bytes + at, pieces->at, part);
        }
        at += part;
    }
    launch(pipe, it);
    return TR_OK;
}

size_t tri_sim_pipe_room(const tri_sim_pipe *pipe)
{
    return TRI_SIM_WINDOW_BYTES - pipe->held;
}

size_t tri_sim_pipe_take(tri_sim_pipe *pipe, void *at, size_t size)
{
    size_t done = 0;
    bool was_full = tri_sim_pipe_room(pipe) == 0;
    segment *it;

    while (done < size && (it = first_of(&pipe->arrived)) != NULL) {
        size_t left = it->size - it->taken;
        size_t part = left < size - done ? left : size - done;
        memcpy((char *)at + done, it->bytes + it->taken, part);
        it->taken += part;
        done += part;
        if (it->taken == it->size) {
            tri_list_remove(&it->link);
            free(it);
        }
    }
    TRI_CHECK(pipe->held >= done);
    pipe->held -= done;
    if (was_full && done > 0) {
        answer_later(pipe);
    }
    return done;
}

/* ---- making and leaving ---- */

tri_sim_pipe *tri_sim_pipe_new(tri_sim_tcp *tcp, tri_stream *writer,
                               tri_sim_node *from, tri_stream *reader,
                               tri_sim_node *to)
{
    tri_sim_pipe *pipe = calloc(1, sizeof(*pipe));

    if (pipe == NULL) {
        return NULL;
    }
    pipe->tcp = tcp;
    pipe->writer = writer;
    pipe->from = from;
    pipe->reader = reader;
    pipe->to = to;
    pipe->arrival.fn = on_arrival;
    pipe->answer.fn = on_answer;
    tri_list_init(&pipe->flying);
    tri_list_init(&pipe->arrived);
    tri_list_push_back(&tcp->pipes, &pipe->link);
    return pipe;
}

void tri_sim_pipe_free(tri_sim_pipe *pipe)
{
    tri_sim_event_cancel(pipe->tcp->sim, &pipe->arrival);
    tri_sim_event_cancel(pipe->tcp->sim, &pipe->answer);
    segments_free(&pipe->flying);
    segments_free(&pipe->arrived);
    tri_list_remove(&pipe->link);
    free(pipe);
}

static void free_if_left(tri_sim_pipe *pipe)
{
    if (pipe->writer == NULL && pipe->reader == NULL) {
        tri_sim_pipe_free(pipe);
    }
}

void tri_sim_pipe_leave_writer(tri_sim_pipe *pipe, bool reset, bool silent)
{
    TRI_CHECK(pipe->writer != NULL);
    pipe->writer = NULL;
    tri_sim_event_cancel(pipe->tcp->sim, &pipe->answer);
    if (reset) {
        segments_free(&pipe->flying);
        tri_sim_event_cancel(pipe->tcp->sim, &pipe->arrival);
        // Without memory for the reset the other side hears nothing, as if the
        // segment were lost.
        if (!silent && pipe->reader != NULL) {
            (void)send_mark(pipe, RESET);
        }
    }
    free_if_left(pipe);
}

void tri_sim_pipe_leave_reader(tri_sim_pipe *pipe, bool dark)
{
    TRI_CHECK(pipe->reader != NULL);
    pipe->reader = NULL;
    pipe->dark = dark;
    segments_free(&pipe->arrived);
    free_if_left(pipe);
}
