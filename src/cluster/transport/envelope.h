/*
 * envelope.h - the message of an actor on its way to another node.
 *
 * The envelope has what nodes need to know: who is meant, who asks, how often
 * it was passed on. Its payload is the message in the schema's binary form,
 * which only the node of the receiver reads.
 *
 * Times on the wire are what is left, in milliseconds: nodes never compare
 * their clocks.
 *
 * Threads: any.
 */
#ifndef TRI_CLUSTER_ENVELOPE_H
#define TRI_CLUSTER_ENVELOPE_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/membership/view.h"
#include "cluster/transport/wire.h"
#include "cluster/virtual/actor_id.h"
#include "troupe/base.h"
#include "troupe/message.h"

enum {
    TRI_FORWARDS_MAX = 8,  // nodes that may pass a message on
};

typedef enum tri_direction {
    TRI_REQUEST = 1,  // is answered, with the same correlation
    TRI_RESPONSE,     // the answer
    TRI_ONE_WAY,      // is not answered
} tri_direction;

/* Properties of the handler; those of TR_ON_READ, TR_ON_INTERLEAVE, ... */
enum {
    TRI_FLAG_READ_ONLY = 1,
    TRI_FLAG_ALWAYS_INTERLEAVE = 2,  // implies TRI_FLAG_READ_ONLY
    TRI_FLAG_IS_LOCAL_ONLY = 4,      // must not leave its node
    TRI_FLAG_SUPPRESS_KEEP_ALIVE = 8,
    TRI_FLAGS_ALL = 15,
};

typedef struct tri_envelope {
    uint8_t direction;
    uint8_t forwards;  // nodes that have passed it on
    uint16_t flags;
    uint32_t target_node, sender_node;
    uint64_t correlation;  // 0 in a one-way message
    uint32_t ttl_ms;       // what is left of a request's time
    uint32_t type;         // number of a TRI_FRAME_TYPE on this stream
    uint32_t err;          // of a response: tr_err
    tri_node path[TRI_FORWARDS_MAX];  // those that have passed it on
    char target[TRI_ACTOR_ID_MAX + 1];
    char sender[TRI_ACTOR_ID_MAX + 1];  // empty: no virtual actor
    tr_bytes payload;                   // borrowed; of an error its text
} tri_envelope;

/*
 * Checks whether the envelope may be sent. On an error *why is a static text.
 * Errors: TR_EINVAL, TR_ELIMIT (passed on too often).
 */
TR_NODISCARD tr_err tri_envelope_check(const tri_envelope *e, const char **why);
void tri_envelope_write(tri_writer *w, const tri_envelope *e);
/*
 * Returns false if the bytes are not an envelope. The payload of *out points
 * into them.
 */
bool tri_envelope_read(tri_reader *r, tri_envelope *out);
/* Returns the envelope of an answer: target and sender are exchanged. */
tri_envelope tri_envelope_answer(const tri_envelope *request);

#endif
