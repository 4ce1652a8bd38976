/*
 * frame.h - what goes over a link: packets, and the envelopes in them.
 *
 * A packet is the session's (session.h): who sends, to which life of whom,
 * which number in the stream, what has been received; a sum over all of it
 * finds bytes that changed on the way. What it carries is an item: one kind,
 * then the fields of that kind. The message of an actor travels in an
 * envelope (MS1, MS14), which is apart from the message: its payload is the
 * schema's binary form and only its receiver, who knows the type, reads it.
 *
 * Time on the wire is what is left, in milliseconds, and an activation is a
 * number that only grows: no clock is compared between nodes (X32).
 *
 * Threads: any.
 */
#ifndef TRI_CLUSTER_FRAME_H
#define TRI_CLUSTER_FRAME_H

#include "cluster/id.h"
#include "cluster/wire.h"

enum {
    TRI_WIRE_VERSION = 3,               // 3: places have the life of their node
    TRI_PACKET_HEAD = 56,               // bytes in front of the item
    TRI_PACKET_MAX = 16 * 1024 * 1024,  // an item may have so many bytes
    TRI_FORWARDS_MAX = 2,               // MS7
    TRI_RETURNS_MAX = 2,                // to its origin, which sends it anew
};

typedef enum tri_packet_kind {
    TRI_PACKET_SYN = 1,  // which life is yours? answered with an ACK
    TRI_PACKET_DATA,     // carries an item
    TRI_PACKET_ACK,
    TRI_PACKET_BYE,  // the node leaves: it will not answer any more
} tri_packet_kind;

typedef struct tri_packet {
    tri_packet_kind kind;
    uint32_t from, to;       // numbers of nodes
    uint64_t life, to_life;  // incarnations; to_life 0: not known
    uint32_t stream;         // the sender's, of this item
    uint32_t ack_stream;     // the receiver's, of the number below
    uint64_t number;         // in the stream, from 1
    uint64_t ack;            // all up to this one have been received
    tr_bytes item;           // borrowed
} tri_packet;

void tri_packet_write(tri_writer *w, const tri_packet *packet);
/* False: no packet, or damaged. item is inside bytes. */
bool tri_packet_read(tri_packet *out, const void *bytes, size_t size);

/* ---- items ---- */

typedef enum tri_item {
    TRI_ITEM_HELLO = 1,  // namespace, node, kinds: the first of a stream
    TRI_ITEM_KIND,       // one kind more is hosted
    TRI_ITEM_TYPE,       // a type of messages, before its first use
    TRI_ITEM_MESSAGE,    // an envelope
    TRI_ITEM_PLACE,      // where is, or should be, this actor?
    TRI_ITEM_PLACED,
    TRI_ITEM_CLAIM,    // it is active here: register it
    TRI_ITEM_CLAIMED,  // all of a shard has been claimed
    TRI_ITEM_GONE,     // it is not active here any more
    TRI_ITEM_MOVED,    // your cache is wrong: it is there
    TRI_ITEM_FLUSH,    // follows messages on their way
    TRI_ITEM_FLUSHED,
    TRI_ITEM_CONTROL,  // stop, poison or kill the activation
    TRI_ITEM_WATCH,
    TRI_ITEM_UNWATCH,
    TRI_ITEM_ENDED,  // to those who watch
} tri_item;

/* ---- envelopes ---- */

typedef enum tri_direction {
    TRI_REQUEST = 1,  // is answered, with the same correlation
    TRI_RESPONSE,     // completes the callback
    TRI_ONE_WAY,      // neither
} tri_direction;

/* `through` of one that was in a mailbox already: it may have been anywhere. */
#define TRI_THROUGH_ALL UINT64_MAX

/* MS8; the first, second and fourth are those of TR_ON_READ and so on. */
enum {
    TRI_FLAG_READ_ONLY = 1,
    TRI_FLAG_ALWAYS_INTERLEAVE = 2,  // implies the first (MS9)
    TRI_FLAG_IS_LOCAL_ONLY = 4,      // is not forwarded (MS10)
    TRI_FLAG_SUPPRESS_KEEP_ALIVE = 8,
    TRI_FLAGS_ALL = 15,
};

typedef struct tri_envelope {
    uint8_t direction;
    uint8_t forwards;  // nodes that have passed it on
    uint8_t returns;   // times its origin has sent it anew
    uint16_t flags;
    uint32_t target_node, sender_node;
    uint64_t correlation;  // 0 in a one-way message
    uint32_t ttl_ms;       // what is left of a request's time
    uint32_t type;         // number of a TRI_ITEM_TYPE on this stream
    uint32_t err;          // of a response: tr_err
    uint64_t place;        // which activation is meant; 0: whichever
    uint64_t place_life;   // of the target's node, that it was given to
    uint64_t through;      // nodes it has been on: a bit for each
    uint64_t moved;        // of a response: the place is now this one,
    uint32_t moved_node;   // ... on this node; moved 0: as you thought
    char target[TRI_ID_MAX + 1];
    char sender[TRI_ID_MAX + 1];  // empty: no virtual actor
    tr_bytes payload;             // borrowed; of an error its text
} tri_envelope;

/*
 * Whether it may be sent; if not, *why, a static text (MS5 to MS13).
 * Errors: TR_EINVAL, TR_ELIMIT (too many forwards).
 */
TR_NODISCARD tr_err tri_envelope_check(const tri_envelope *e, const char **why);
void tri_envelope_write(tri_writer *w, const tri_envelope *e);
/* False: none. The payload is inside what is read. */
bool tri_envelope_read(tri_reader *r, tri_envelope *out);
/* The way back (MS6): target and sender change places. */
tri_envelope tri_envelope_answer(const tri_envelope *request);

#endif
