/*
 * session.h - a stream of frames to one node, over a transport that may lose
 * them.
 *
 * Two incarnations of two nodes have a stream in each direction. Frames have
 * numbers; the sender keeps them until they are acknowledged, repeats them if
 * that takes too long, and the receiver takes each one once and in order. A
 * stream begins when the sender knows which incarnation of the receiver it
 * talks to, so no frame is taken by two of them. It ends with that incarnation
 * (tri_session_peer_gone), never by time: a link that was cut and works again
 * loses nothing. Then the owner is told of each frame that is left whether it
 * was sent (and perhaps taken) or not (and certainly not taken). The next frame
 * begins another stream.
 *
 * If the transport is a connection (`is_connected_way`), nothing is repeated by
 * time: a frame is sent again only when there is a new connection
 * (tri_session_reconnected).
 *
 * Threads: one owner. Ownership: a session owns the bytes of its frames; `tag`
 * belongs to the owner.
 */
#ifndef TRI_CLUSTER_SESSION_H
#define TRI_CLUSTER_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/transport/packet.h"
#include "core/cell/mem.h"
#include "troupe/base.h"
#include "troupe/message.h"

enum {
    TRI_SESSION_WINDOW = 256,     // frames sent and not acknowledged
    TRI_SESSION_QUEUE = 1 << 16,  // frames kept, sent or not
    /*
     * Part of the queue that mail must leave free. A frame that is taken may
     * have to be answered: two nodes with full queues could take nothing from
     * each other, and never had room again. Larger than both windows.
     */
    TRI_SESSION_RESERVE = 1 << 14,
};

#define TRI_SESSION_REPEAT     TR_MS(20)  // the first time; then it doubles
#define TRI_SESSION_REPEAT_MAX TR_SECONDS(1)

typedef struct tri_session_frame {
    struct tri_session_frame *next;
    void *tag;
    uint64_t number;
    uint32_t size;
    bool sent;
    unsigned char bytes[];
} tri_session_frame;

typedef struct tri_session tri_session;

typedef struct tri_session_ops {
    void (*send)(tri_session *s, const tri_packet *packet);
    /*
     * Takes a frame that has come; borrows it. Returning false leaves it: the
     * other side repeats it later.
     */
    bool (*take)(tri_session *s, tr_bytes frame);
    /* The frame of tag was received, or the stream has ended before that. */
    void (*done)(tri_session *s, void *tag, bool received, bool sent);
    /* The stream has ended. Called before `done` for its frames. */
    void (*lost)(tri_session *s);
    /* A stream begins: put its first frame now. False: no memory. */
    bool (*begin)(tri_session *s);
    /* False: new frames wait until the next pump. NULL: there is room. */
    bool (*has_room)(tri_session *s);
} tri_session_ops;

struct tri_session {
    const tri_session_ops *ops;
    tri_mem *mem;
    uint32_t here, there;   // numbers of nodes
    uint64_t incarnation;   // of this node
    bool is_connected_way;  // frames are repeated by new connections alone

    /* ---- out ---- */
    tri_session_frame *first, *last;  // oldest first
    tri_session_frame *unsent;        // the first that was never sent
    uint32_t count, under_way;
    uint64_t peer;         // incarnation of the other node; 0: not known
    uint32_t stream;       // 0: none has begun
    uint64_t next_number;  // of the next frame; 0: no stream is open
    tr_nanos pause;        // until the unacknowledged frames are repeated
    tr_nanos repeat_at;    // TR_FOREVER: nothing waits for an answer

    /* ---- in ---- */
    uint64_t in_incarnation;  // whose stream is received
    uint32_t in_stream;
    uint64_t in_number;  // frames received so far
    uint64_t left;       // the last incarnation that is known to be dead
    bool ack_due;
};

void tri_session_init(tri_session *s, const tri_session_ops *ops, tri_mem *mem,
                      uint32_t here, uint64_t incarnation, uint32_t there);
/* Gives every frame back as not received. */
void tri_session_fini(tri_session *s);
/*
 * Ends the stream because this incarnation of the other node is dead: nothing
 * of it goes to the next one, and nothing more of it is taken.
 */
void tri_session_peer_gone(tri_session *s, uint64_t incarnation);
/* This node goes on as another incarnation: ends the stream, begins anew. */
void tri_session_restart(tri_session *s, uint32_t here, uint64_t incarnation);
/* There is a new connection: what is not acknowledged is sent again. */
void tri_session_reconnected(tri_session *s, tr_nanos now);
/*
 * Queues a copy of a frame. On TR_OK `done` is called for tag, once.
 * Errors: TR_ENOMEM, TR_ELIMIT.
 */
TR_NODISCARD tr_err tri_session_put(tri_session *s, const void *bytes,
                                    size_t size, void *tag);
/* True if only TRI_SESSION_RESERVE is left: there is no room for mail. */
bool tri_session_is_full(const tri_session *s);
/*
 * Handles a packet that has come for this session. Returns false if its frame
 * was left (see `take`): a connection gives the same packet again later.
 */
bool tri_session_receive(tri_session *s, const tri_packet *packet,
                         tr_nanos now);
/* Sends new frames, repeats old ones if it is time, and acknowledges. */
void tri_session_pump(tri_session *s, tr_nanos now);
/* Returns when to pump again; TR_FOREVER: when there is something new. */
tr_nanos tri_session_due(const tri_session *s);
#endif
