/*
 * sim_pipe.h - one direction of a simulated connection: segments that fly, and
 * bytes that have arrived and were not read yet.
 *
 * Threads: the one that runs the world.
 * Ownership: a pipe belongs to its two ends together; it is freed when both
 * have left it.
 */
#ifndef TRI_SIM_SIM_PIPE_H
#define TRI_SIM_SIM_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/world.h"
#include "sim/sim_event.h"
#include "sim/sim_node.h"
#include "sim/sim_tcp.h"
#include "troupe/base.h"

enum { TRI_SIM_WINDOW_BYTES = 64 * 1024 };  // in flight or unread, at most

typedef struct tri_sim_pipe {
    tri_link link;  // in tcp->pipes
    tri_sim_tcp *tcp;
    tri_sim_node *from, *to;
    tri_stream *writer, *reader;  // NULL: has left
    tri_list flying, arrived;     // segments
    size_t held;                  // bytes of both
    tr_nanos last_due;            // of the newest segment
    tri_sim_event arrival;        // armed while something flies
    tri_sim_event answer;         // news for the writer: room, or a reset
    uint32_t tries;               // of the first flying segment
    bool bounced;  // the answer is a reset: nobody reads any more
    bool ended;    // the end has arrived
    bool dark;     // the reader was killed and its host answers nothing
} tri_sim_pipe;

/* Makes a pipe between two ends. NULL: no memory. */
tri_sim_pipe *tri_sim_pipe_new(tri_sim_tcp *tcp, tri_stream *writer,
                               tri_sim_node *from, tri_stream *reader,
                               tri_sim_node *to);
/* Sends up to `size` bytes of the pieces, which have that many. */
tr_err tri_sim_pipe_send(tri_sim_pipe *pipe, const tri_piece *pieces,
                         size_t size);
/* Sends the end after all bytes. */
tr_err tri_sim_pipe_send_end(tri_sim_pipe *pipe);
/* Returns how many bytes may be sent now. */
size_t tri_sim_pipe_room(const tri_sim_pipe *pipe);
/* Copies bytes that have arrived. Returns how many. */
size_t tri_sim_pipe_take(tri_sim_pipe *pipe, void *at, size_t size);
/* The writer leaves. `reset`: what flies is lost, and a reset follows. */
void tri_sim_pipe_leave_writer(tri_sim_pipe *pipe, bool reset, bool silent);
/* The reader leaves: what arrives from now on is answered with a reset. */
void tri_sim_pipe_leave_reader(tri_sim_pipe *pipe, bool dark);
/* Frees the pipe whatever is in it; at the end of the world. */
void tri_sim_pipe_free(tri_sim_pipe *pipe);

/* In sim_tcp.c: what a pipe tells its ends. */
void tri_sim_stream_arrived(tri_stream *stream);  // bytes, or the end
void tri_sim_stream_has_room(tri_stream *stream);
void tri_sim_stream_break(tri_stream *stream, tr_err err);

#endif
