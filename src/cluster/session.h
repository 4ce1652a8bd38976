/*
 * session.h - a stream of items to one node, over links that lose them.
 *
 * Each pair of lives of two nodes has a stream in either direction: items
 * have numbers, are kept until they are acknowledged, sent again if that
 * takes too long, and taken by the receiver once each and in order (X53). A
 * stream begins when the sender knows which life of the receiver it talks to,
 * so no item is taken by two of its lives. It ends when the receiver is
 * another life, has said goodbye, or has not answered for long: then the
 * owner is told of every item that is left, whether it was ever sent
 * (perhaps taken) or not (certainly not). What is queued next begins another.
 *
 * Threads: one owner. Ownership: owns the bytes of items; `tag` is the
 * owner's.
 */
#ifndef TRI_CLUSTER_SESSION_H
#define TRI_CLUSTER_SESSION_H

#include "cluster/frame.h"

enum {
    TRI_SESSION_WINDOW = 256,     // items under way
    TRI_SESSION_QUEUE = 1 << 16,  // items kept, sent or not
    /*
     * The last of them are not for mail. What is taken may have to be
     * answered: of two nodes that both take nothing, for their queues are
     * full, neither would ever have room again. More than both windows.
     */
    TRI_SESSION_RESERVE = 1 << 14,
};

#define TRI_SESSION_RESEND  TR_MS(20)  // then twice that, and so on
#define TRI_SESSION_SLOWEST TR_SECONDS(1)
#define TRI_SESSION_LOST    TR_SECONDS(10)  // without an answer

typedef struct tri_out {
    struct tri_out *next;
    void *tag;
    uint64_t number;
    uint32_t size;
    bool sent;
    unsigned char bytes[];
} tri_out;

typedef struct tri_session tri_session;

typedef struct tri_session_ops {
    void (*send)(tri_session *s, const tri_packet *packet);
    /* An item has come; borrowed. False: not now, it is sent again. */
    bool (*take)(tri_session *s, tr_bytes item);
    /* The item of tag was received, or the stream has ended before. */
    void (*done)(tri_session *s, void *tag, bool received, bool sent);
    /* The stream has ended; before its items are given back. */
    void (*lost)(tri_session *s, bool goodbye);
    /* The first of a stream is to be queued now. False: no memory for it. */
    bool (*begin)(tri_session *s);
    /* That life has received an item, or sent one that was taken. Or NULL. */
    void (*heard)(tri_session *s, uint64_t life);
} tri_session_ops;

struct tri_session {
    const tri_session_ops *ops;
    tri_mem *mem;
    uint32_t here, there;  // numbers of nodes
    uint64_t life;         // our incarnation
    tr_nanos lost_after;

    /* ---- out ---- */
    tri_out *first, *last;  // oldest first
    tri_out *unsent;        // the first that was not sent yet
    uint32_t count, under_way;
    uint64_t peer;    // incarnation; 0: not known
    uint32_t stream;  // 0: none has begun
    uint64_t next_number;
    tr_nanos pause;          // until the oldest is sent again
    tr_nanos resend_at;      // TR_FOREVER: nothing to wait for
    tr_nanos waiting_since;  // for any answer; TR_FOREVER: not

    /* ---- in ---- */
    uint64_t in_life;
    uint32_t in_stream;
    uint64_t in_number;  // received so far
    uint64_t left;       // the last life that has said goodbye; 0: none
    bool ack_due;
};

void tri_session_init(tri_session *s, const tri_session_ops *ops, tri_mem *mem,
                      uint32_t here, uint64_t life, uint32_t there);
/* Gives every item back as not received. */
void tri_session_fini(tri_session *s);
/* The other side is gone for good: its next life is sent nothing of this. */
void tri_session_leave(tri_session *s);
/*
 * Queues a copy. On TR_OK `done` is called for tag, once.
 * Errors: TR_ENOMEM, TR_ELIMIT.
 */
TR_NODISCARD tr_err tri_session_put(tri_session *s, const void *bytes,
                                    size_t size, void *tag, tr_nanos now);
/* Only the reserve is left: no room for what nobody has asked for. */
bool tri_session_is_full(const tri_session *s);
void tri_session_packet(tri_session *s, const tri_packet *packet, tr_nanos now);
/* Sends what may be sent, again where it is time, and acknowledgements. */
void tri_session_pump(tri_session *s, tr_nanos now);
/* When to pump again; TR_FOREVER: when there is something new. */
tr_nanos tri_session_next(const tri_session *s);
void tri_session_bye(tri_session *s);

#endif
