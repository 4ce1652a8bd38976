/*
 * message.h - a message: one block, with the payload inline.
 *
 *   [tr_context]  [tri_ask]  tr_msg  payload  text and bytes of the payload
 *
 * Only requests have a tri_ask in front, and only messages of a sender with a
 * context have a tr_context. A block begins on a multiple of TRI_BLOCK_ALIGN
 * and so does the tr_msg; the payload begins 16 bytes after such a multiple.
 * So an address tells `m` of a typed handler (the payload) from `m` of a
 * TR_ON_ANY handler (the tr_msg).
 *
 * Ownership: a message has one owner: the sender until the push, then the
 * mailbox, then the turn that handles it, or the list of kept or stashed
 * messages.
 *
 * Threads: the owner.
 */
#ifndef TRI_CORE_CELL_MESSAGE_H
#define TRI_CORE_CELL_MESSAGE_H

#include <string.h>

#include "base/check.h"
#include "core/cell/cache.h"
#include "core/cell/mem.h"
#include "core/types.h"  // IWYU pragma: keep

/* tri_item.kind: what the item in a mailbox is, and in which struct it is. */
typedef enum tri_item_kind {
    TRI_ITEM_USER = 1,     // an ordinary message, in the user lane
    TRI_ITEM_REPLY,        // answers a request; tr_msg
    TRI_ITEM_POISON,       // stops the actor, in the user lane; tr_msg
    TRI_ITEM_WATCH,        // tri_watch, the target's half
    TRI_ITEM_WATCH_FOR,    // tri_watch: asks the actor to begin a watch
    TRI_ITEM_UNWATCH_FOR,  // tri_watch: asks the actor to end it
    TRI_ITEM_UNWATCH,      // tri_watching, the watcher's half
    TRI_ITEM_TERMINATED,   // tri_watch: the target has ended
    TRI_ITEM_FAILURE,      // tri_cell.notice of a failed child
    TRI_ITEM_WAKE,         // tri_wait.item: a wait has ended
    TRI_ITEM_JOIN,         // tri_join
    TRI_ITEM_CHILD_ENDED,  // tri_child_end
} tri_item_kind;

/* tri_item.flags. */
enum {
    TRI_MSG_ASK = 1,        // a tri_ask is in front
    TRI_MSG_ANSWERED = 2,   // the answer has been sent
    TRI_MSG_KEPT = 4,       // in the list of tr_keep
    TRI_MSG_BLOBS = 8,      // the payload may hold blobs to release
    TRI_MSG_TIMER = 16,     // belongs to a tri_user_timer
    TRI_MSG_FOREIGN = 32,   // a tr_msg that came from another node
    TRI_MSG_ERROR = 64,     // a reply that carries tri_error_reply
    TRI_MSG_CONTEXT = 128,  // a tr_context is in front
};

/* A link in a mail queue. */
typedef struct tri_item {
    struct tri_item *next;
    const tr_type *type;  // of a tr_msg
    uint8_t kind;         // tri_item_kind
    uint8_t klass;        // size class of the block: mem.h
    uint8_t flags;        // TRI_MSG_*
    uint8_t priority;     // 0: ordinary; below TRI_PRIORITIES
    bool again;           // of a tr_msg: handled again after a failure
} tri_item;

struct tr_msg {
    tri_item item;
    uint64_t to_id;  // id of the target: a later actor must not handle it
    tr_ref sender;
    unsigned char payload[];
};

_Static_assert(sizeof(tr_msg) == 48,
               "the payload begins 16 bytes after a multiple");

/* tri_ask.answer_flags: how the answer is sent. */
enum {
    TRI_ANSWER_IN_ORDER = 1,  // through the user lane, behind the asker's mail
    TRI_ANSWER_OBSERVED = 2,  // tri_up.answers is called
};

/* In front of a request: who waits for the answer, and until when. */
typedef struct tri_ask {
    uint64_t correlation;  // of the wait; unique with the sender's id
    tr_nanos deadline;
    const char *site;      // file:line of the ask
    uint8_t answer_flags;  // TRI_ANSWER_*; mostly 0
    bool is_long;          // the span was TRI_LONG_SPAN or longer
    tr_err refused;        // without memory for the answer; else TR_OK
} tri_ask;

_Static_assert(sizeof(tri_ask) == TRI_BLOCK_ALIGN, "keeps the alignment");

/* The payload of a reply that is an error. */
typedef struct tri_error_reply {
    tr_err err;
    uint32_t reason_at;  // where in text the plain reason begins, behind the
                         // zero of the whole text; 0: there is only one text
    char *text;          // from malloc, or NULL
} tri_error_reply;

/* Returns the tri_ask of a request. */
static inline tri_ask *tri_msg_ask(tr_msg *msg)
{
    TRI_CHECK_SLOW(msg->item.flags & TRI_MSG_ASK);
    return (tri_ask *)(void *)((char *)msg - sizeof(tri_ask));
}

_Static_assert(sizeof(tr_context) % TRI_BLOCK_ALIGN == 0,
               "keeps the alignment");

/* Returns the context of a message that has one. */
static inline tr_context *tri_msg_context(tr_msg *msg)
{
    TRI_CHECK_SLOW(msg->item.flags & TRI_MSG_CONTEXT);
    size_t ask = msg->item.flags & TRI_MSG_ASK ? sizeof(tri_ask) : 0;
    return (tr_context *)(void *)((char *)msg - ask - sizeof(tr_context));
}

/* Returns the message of `m` as a handler got it: payload or tr_msg. */
static inline tr_msg *tri_msg_of(const void *m)
{
    uintptr_t at = (uintptr_t)m;
    if ((at & (TRI_BLOCK_ALIGN - 1)) == 16) {
        at -= sizeof(tr_msg);
    }
    return (tr_msg *)at;
}

/* Returns the message in which `item` is the first member. */
static inline tr_msg *tri_msg_from(tri_item *item)
{
    return (tr_msg *)(void *)item;
}

/*
 * Copies up to TRI_COPY_SMALL bytes by two moves that may overlap; a call of
 * memcpy would cost more than the copy.
 */
#define TRI_COPY_SMALL ((size_t)32)

static inline void tri_copy_small(void *to, const void *from, size_t size)
{
    TRI_CHECK_SLOW(size <= TRI_COPY_SMALL);
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

/* Sets all fields of an item after `type` in one store; the others are 0. */
static inline void tri_item_mark(tri_item *item, uint8_t kind, uint32_t klass,
                                 uint8_t flags)
{
    _Static_assert(
        __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ &&
            offsetof(tri_item, kind) == 16 && offsetof(tri_item, klass) == 17 &&
            offsetof(tri_item, flags) == 18 && sizeof(tri_item) == 24,
        "the fields are one word");
    uint64_t bytes = kind | (uint64_t)klass << 8 | (uint64_t)flags << 16;
    memcpy((char *)item + offsetof(tri_item, kind), &bytes, sizeof(bytes));
}

/* Fills a message without texts, except next, to_id and sender. */
static inline void tri_msg_init_plain(tr_msg *msg, const tr_type *type,
                                      uint32_t klass, const void *payload,
                                      size_t size)
{
    msg->item.type = type;
    tri_item_mark(&msg->item, TRI_ITEM_USER, klass, 0);
    tri_copy_payload(msg->payload, payload, size);
}

/*
 * Makes a message with a copy of *payload; the caller owns it. NULL without
 * memory. `ask` leaves room for a tri_ask in front.
 */
tr_msg *tri_msg_new(tri_cache *cache, const tr_type *type, const void *payload,
                    bool ask);
/* As tri_msg_new, with a copy of *context in front unless it is NULL. */
tr_msg *tri_msg_new_with(tri_cache *cache, const tr_type *type,
                         const void *payload, bool ask,
                         const tr_context *context);
/* Makes a message whose payload of `size` bytes the caller fills. */
tr_msg *tri_msg_new_raw(tri_cache *cache, const tr_type *type, size_t size,
                        bool ask);
/* Out-of-line part of tri_msg_free. */
void tri_msg_free_slow(tri_cache *cache, tr_msg *msg);

/* Makes a request or an answer: a message with a tri_ask in front. */
static inline __attribute__((always_inline)) tr_msg *tri_ask_new(
    tri_cache *cache, const tr_type *type, const void *payload)
{
    size_t size = type->size;
    if (TRI_UNLIKELY(type->var_count != 0 || size > TRI_CLASS_TABLE_MAX -
                                                        sizeof(tr_msg) -
                                                        sizeof(tri_ask))) {
        return tri_msg_new(cache, type, payload, true);
    }
    uint32_t klass =
        tri_class_by_table(sizeof(tri_ask) + sizeof(tr_msg) + size);
    char *block = tri_cache_alloc(cache, klass);
    if (TRI_UNLIKELY(block == NULL)) {
        return NULL;
    }
    tr_msg *msg = (tr_msg *)(void *)(block + sizeof(tri_ask));
    msg->item.type = type;
    tri_item_mark(&msg->item, TRI_ITEM_USER, klass, TRI_MSG_ASK);
    tri_copy_payload(msg->payload, payload, size);
    return msg;
}

/* True if the message is its whole block and has nothing to release. */
static inline bool tri_msg_is_plain(const tr_msg *msg)
{
    return TRI_LIKELY(
               (msg->item.flags & (TRI_MSG_ASK | TRI_MSG_BLOBS | TRI_MSG_ERROR |
                                   TRI_MSG_TIMER | TRI_MSG_CONTEXT)) == 0) &&
           TRI_LIKELY(msg->item.klass < TRI_CLASS_COUNT);
}

/* Frees a message. */
static inline void tri_msg_free(tri_cache *cache, tr_msg *msg)
{
    TRI_CHECK_SLOW(msg != NULL);
    uint8_t flags = msg->item.flags;
    if (TRI_LIKELY((flags & (TRI_MSG_BLOBS | TRI_MSG_ERROR | TRI_MSG_TIMER |
                             TRI_MSG_CONTEXT)) == 0 &&
                   msg->item.klass < TRI_CLASS_COUNT)) {
        size_t front = (flags & TRI_MSG_ASK) * sizeof(tri_ask);
        _Static_assert(TRI_MSG_ASK == 1, "used as a factor");
        tri_cache_free(cache, msg->item.klass, (char *)msg - front);
    } else {
        tri_msg_free_slow(cache, msg);
    }
}

/*
 * Turns a request into the error that answers it, so that refusing needs no
 * memory. Takes the text, which may be NULL.
 */
void tri_msg_become_error(tr_msg *msg, tr_err err, char *text_taken);

#endif
