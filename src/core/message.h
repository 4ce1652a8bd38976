/*
 * message.h - a message in its envelope: one block, payload inline.
 *
 *   [tr_context]  [tri_ask]  tr_msg  payload  text and bytes of the payload
 *
 * The ask part stands in front and only in requests, the context only where
 * the sender had one. A block begins on a
 * multiple of TRI_BLOCK_ALIGN and so does the tr_msg; the payload is 16 bytes
 * off such a multiple. That tells `m` of a typed handler (the payload) from
 * `m` of a TR_ON_ANY handler (the tr_msg) without asking anybody.
 *
 * Ownership: exactly one owner at each moment: the sender until the push, the
 * mailbox, the turn that handles it, the kept or stashed list.
 */
#ifndef TRI_CORE_MESSAGE_H
#define TRI_CORE_MESSAGE_H

#include <stdatomic.h>
#include <string.h>

#include "core/mem.h"
#include "troupe/message.h"

/* What a node in a mailbox is. */
typedef enum tri_node_kind {
    TRI_NODE_USER = 1,     // an ordinary message, in the user lane
    TRI_NODE_REPLY,        // answers a request; tr_msg
    TRI_NODE_POISON,       // stop when it is reached; user lane; tr_msg
    TRI_NODE_WATCH,        // tri_watch, the target's half
    TRI_NODE_WATCH_FOR,    // tri_watch: please watch, on behalf of another
    TRI_NODE_UNWATCH_FOR,  // tri_watch: and please do not any more
    TRI_NODE_UNWATCH,      // tri_watching, the watcher's half
    TRI_NODE_TERMINATED,   // tri_watch on its way back
    TRI_NODE_FAILURE,      // tri_cell.notice of a failed child
    TRI_NODE_WAKE,         // tri_wait.node: a wait has ended
    TRI_NODE_JOIN,         // tri_join
} tri_node_kind;

/* Flags of a node. */
enum {
    TRI_MSG_ASK = 1,        // a tri_ask stands in front
    TRI_MSG_ANSWERED = 2,   // the asker has its answer
    TRI_MSG_KEPT = 4,       // tr_keep: not freed when the turn ends
    TRI_MSG_BLOBS = 8,      // the payload has parts to release
    TRI_MSG_TIMER = 16,     // belongs to a tri_user_timer
    TRI_MSG_IN_ORDER = 32,  // a tri_watch that is told through the user lane
    TRI_MSG_FOREIGN = 32,   // a tr_msg that came from another node
    TRI_MSG_ERROR = 64,     // a reply that carries tri_error_reply
    TRI_MSG_CONTEXT = 128,  // a tr_context stands in front
};

typedef struct tri_node {
    struct tri_node *next;
    const tr_type *type;  // of a tr_msg
    uint8_t kind;
    uint8_t klass;
    uint8_t flags;
    uint8_t priority;  // 0: ordinary
    bool again;        // of a tr_msg: handed in again after a failure
} tri_node;

struct tr_msg {
    tri_node node;
    uint64_t to_id;  // whom it was sent to: a reused cell must not take it
    tr_ref sender;
    unsigned char payload[];
};

_Static_assert(sizeof(tr_msg) == 48, "payload is 16 off the alignment");

/* In front of a request: where the answer goes and until when. */
enum {
    TRI_WAY_USER_LANE = 1,  // it queues behind the sender's mail
    TRI_WAY_TOLD = 2,       // somebody looks: tri_up.answers
};

typedef struct tri_ask {
    uint64_t correlation;  // with the sender's id, unique for ever
    tr_nanos deadline;
    const char *site;
    uint8_t way;   // TRI_WAY_*, of the answer; 0 is the usual one
    bool is_long;  // until TRI_COARSE from now, or later
} tri_ask;

_Static_assert(sizeof(tri_ask) == TRI_BLOCK_ALIGN, "keeps the alignment");

/* The payload of a reply that is an error. */
typedef struct tri_error_reply {
    tr_err err;
    char *text;  // from malloc, or NULL
} tri_error_reply;

static inline tri_ask *tri_msg_ask(tr_msg *msg)
{
    TRI_CHECK_SLOW(msg->node.flags & TRI_MSG_ASK);
    return (tri_ask *)(void *)((char *)msg - sizeof(tri_ask));
}

_Static_assert(sizeof(tr_context) % TRI_BLOCK_ALIGN == 0,
               "keeps the alignment");

static inline tr_context *tri_msg_context(tr_msg *msg)
{
    TRI_CHECK_SLOW(msg->node.flags & TRI_MSG_CONTEXT);
    size_t ask = msg->node.flags & TRI_MSG_ASK ? sizeof(tri_ask) : 0;
    return (tr_context *)(void *)((char *)msg - ask - sizeof(tr_context));
}

/* From what a handler holds to the envelope. */
static inline tr_msg *tri_msg_of(const void *m)
{
    uintptr_t at = (uintptr_t)m;
    if ((at & (TRI_BLOCK_ALIGN - 1)) == 16) {
        at -= sizeof(tr_msg);
    }
    return (tr_msg *)at;
}

static inline tr_msg *tri_msg_from(tri_node *node)
{
    return (tr_msg *)(void *)node;
}

/*
 * A call of memcpy costs more than the copy of a small payload: two words that
 * may overlap, as wide as they fit, do for any size up to TRI_COPY_SMALL.
 */
#define TRI_COPY_SMALL ((size_t)32)

static inline void tri_copy_small(void *to, const void *from, size_t size)
{
    char *t = to;
    const char *f = from;
    if (TRI_LIKELY(size >= 8)) {
        if (TRI_LIKELY(size <= 16)) {
            memcpy(t, f, 8);
            memcpy(t + size - 8, f + size - 8, 8);
        } else {
            memcpy(t, f, 16);
            memcpy(t + size - 16, f + size - 16, 16);
        }
    } else if (size >= 4) {
        memcpy(t, f, 4);
        memcpy(t + size - 4, f + size - 4, 4);
    } else if (size > 0) {
        t[0] = f[0];
        t[size / 2] = f[size / 2];
        t[size - 1] = f[size - 1];
    }
}

static inline void tri_copy_payload(void *to, const void *from, size_t size)
{
    if (TRI_LIKELY(size <= TRI_COPY_SMALL)) {
        tri_copy_small(to, from, size);
    } else {
        memcpy(to, from, size);
    }
}

/* All the bytes of a node behind its type, at once: the rest are zero. */
static inline void tri_node_mark(tri_node *node, uint8_t kind, uint32_t klass,
                                 uint8_t flags)
{
    _Static_assert(
        __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ &&
            offsetof(tri_node, kind) == 16 && offsetof(tri_node, klass) == 17 &&
            offsetof(tri_node, flags) == 18 && sizeof(tri_node) == 24,
        "the bytes of one word");
    uint64_t bytes = kind | (uint64_t)klass << 8 | (uint64_t)flags << 16;
    memcpy((char *)node + offsetof(tri_node, kind), &bytes, sizeof(bytes));
}

/* Fills a plain message without text; not whom it is for, nor whose it is. */
static inline void tri_msg_init_quick(tr_msg *msg, const tr_type *type,
                                      uint32_t klass, const void *payload,
                                      size_t size)
{
    msg->node.type = type;
    tri_node_mark(&msg->node, TRI_NODE_USER, klass, 0);
    tri_copy_payload(msg->payload, payload, size);
}

/*
 * Makes a message with a copy of *payload; the caller owns it. NULL when
 * there is no memory. `ask` leaves room for the request part.
 */
tr_msg *tri_msg_new(tri_cache *cache, const tr_type *type, const void *payload,
                    bool ask);
/* The same with a copy of *context in front, unless that is NULL. */
tr_msg *tri_msg_new_with(tri_cache *cache, const tr_type *type,
                         const void *payload, bool ask,
                         const tr_context *context);
/* A message whose payload the caller fills in: no text is copied. */
tr_msg *tri_msg_new_raw(tri_cache *cache, const tr_type *type, size_t size,
                        bool ask);
void tri_msg_free_slow(tri_cache *cache, tr_msg *msg);

/* A request, or its answer, which has the same part in front. */
static inline tr_msg *tri_ask_new(tri_cache *cache, const tr_type *type,
                                  const void *payload)
{
    size_t size = type->size;
    if (TRI_UNLIKELY(type->var_count != 0 || size > TRI_CLASS_QUICK -
                                                        sizeof(tr_msg) -
                                                        sizeof(tri_ask))) {
        return tri_msg_new(cache, type, payload, true);
    }
    uint32_t klass = tri_class_quick(sizeof(tri_ask) + sizeof(tr_msg) + size);
    char *block = tri_cache_alloc(cache, klass);
    if (TRI_UNLIKELY(block == NULL)) {
        return NULL;
    }
    tr_msg *msg = (tr_msg *)(void *)(block + sizeof(tri_ask));
    msg->node.type = type;
    tri_node_mark(&msg->node, TRI_NODE_USER, klass, TRI_MSG_ASK);
    tri_copy_payload(msg->payload, payload, size);
    return msg;
}

/* Nothing in front, nothing to release, and a block of its class. */
static inline bool tri_msg_is_plain(const tr_msg *msg)
{
    return TRI_LIKELY(
               (msg->node.flags & (TRI_MSG_ASK | TRI_MSG_BLOBS | TRI_MSG_ERROR |
                                   TRI_MSG_TIMER | TRI_MSG_CONTEXT)) == 0) &&
           TRI_LIKELY(msg->node.klass < TRI_CLASS_COUNT);
}

/* Takes msg. */
static inline void tri_msg_free(tri_cache *cache, tr_msg *msg)
{
    uint8_t flags = msg->node.flags;
    if (TRI_LIKELY((flags & (TRI_MSG_BLOBS | TRI_MSG_ERROR | TRI_MSG_TIMER |
                             TRI_MSG_CONTEXT)) == 0 &&
                   msg->node.klass < TRI_CLASS_COUNT)) {
        size_t front = (flags & TRI_MSG_ASK) * sizeof(tri_ask);
        _Static_assert(TRI_MSG_ASK == 1, "a factor");
        tri_cache_free(cache, msg->node.klass, (char *)msg - front);
    } else {
        tri_msg_free_slow(cache, msg);
    }
}

/* Turns a request into the error that answers it: needs no memory. */
void tri_msg_become_error(tr_msg *msg, tr_err err, char *text_taken);

#endif
