/*
 * question.h - what an actor asks its store, and waits for.
 *
 * A question outlives a turn that is cut short (rule 28): it is a record from
 * malloc, and the actor does not end before it is answered (ext->stores).
 *
 * Threads: on the actor's turn; the store answers from any thread.
 * Ownership: the caller owns a question, except while it is asked.
 */
#ifndef TRI_SYSTEM_QUESTION_H
#define TRI_SYSTEM_QUESTION_H

#include "schema/allocator.h"
#include "storage/storage.h"
#include "system/layers.h"

typedef struct tri_question {
    tri_store_op op;
    tr_system *sys;
    tri_cell *cell;
    uint64_t cell_id;
    tri_ext *ext;    // valid while its `stores` counts us
    tri_wait *wait;  // valid unless the turn has left
    _Atomic(uint32_t) state;
    tr_storage *storage;  // asked instead of the actor's own, or NULL
    tri_store_op *ops;    // asked instead of op: tri_question_ops
    uint32_t op_count;
    _Atomic(uint32_t) left;  // of them, not answered
    void **owned;  // pieces from malloc that the op points to; freed with us
    uint32_t owned_count;
    char name[TRI_STORE_NAME_MAX + 1];
    char key[TRI_STORE_KEY_MAX + 1];  // last: it need not be cleared
} tri_question;

/*
 * Writes the key of the actor: `namespace::kind/key`, where the key of a
 * plain actor is its path. Errors: TR_EINVAL, TR_ELIMIT; tr_error_text.
 */
TR_NODISCARD tr_err tri_question_key(tr_ctx *ctx, char *out);
/*
 * A question about the actor's own key, with its epoch and shard, and room
 * for so many pieces. Errors: TR_ENOMEM, TR_EINVAL, TR_ELIMIT.
 */
TR_NODISCARD tr_err tri_question_new(tr_ctx *ctx, tr_store_call call,
                                     uint32_t pieces, tri_question **out);
/*
 * Turns it into a question of many operations, which are filled by the caller
 * except for done and user. Errors: TR_ENOMEM; the question stays.
 */
TR_NODISCARD tr_err tri_question_ops(tri_question *question, uint32_t count);
void tri_question_free(tri_question *question);

/*
 * Asks and parks. TR_OK: it is answered, and the caller's again. Otherwise the
 * wait was cut short and the question is not the caller's any more.
 * Errors: ended (actor.h).
 */
TR_NODISCARD tr_err tri_question_ask(tr_ctx *ctx, tri_question *question,
                                     const char *site);

/*
 * What a write was answered with, as the handler gets to see it. The text says
 * what was done to which key. After TR_EUNKNOWN the actor is restarted, and
 * so loads again, before its next turn (rule 28).
 */
tr_err tri_question_result(tr_ctx *ctx, const tri_question *question,
                           const char *what);

/* Whether the actor may ask its store now; if not, the text says why. */
tr_err tri_question_may_ask(tr_ctx *ctx, const char *call, const char *site);

/* ---- text and blobs of the state; see persist.c ---- */

typedef struct tri_texts {
    tr_ctx *ctx;
    tri_heap_block *first;
    tri_holding *holding;
} tri_texts;

/* An allocator over the actor's heap that chains what it gives. */
tri_allocator tri_texts_allocator(tri_texts *texts);
/*
 * Takes the blobs of *made, whose other pieces are these texts; they are
 * dropped with them, or with the incarnation. Errors: TR_ENOMEM, they are
 * dropped already.
 */
TR_NODISCARD tr_err tri_texts_hold(tri_texts *texts, const tr_type *type,
                                   void *made);
/* Frees all of it; what was held is dropped. */
void tri_texts_free(tri_texts *texts);
/* The state is `made` now, with these texts; the old ones go. */
void tri_state_take(tri_texts *texts, const tr_type *type, void *self,
                    const void *made);
/* The schema of what the actor stores, or NULL. */
const tr_type *tri_state_type(tr_ctx *ctx);
/* How the actor's values are written. */
const tr_serializer *tri_state_serializer(tr_ctx *ctx);

#endif
