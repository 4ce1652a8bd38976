/*
 * store_request.h - a request of an actor to its store, and the wait for the
 * answer.
 *
 * A request may outlive the turn that made it, if that is cut short. So it is
 * a record from malloc, and the actor does not end before it is answered
 * (ext->store_requests counts them): whoever takes its name then sees what was
 * written.
 *
 * Threads: a turn of the actor; the store answers from any thread.
 * Ownership: the caller owns a request, except during tri_store_request_ask.
 */
#ifndef TRI_SYSTEM_STORE_REQUEST_H
#define TRI_SYSTEM_STORE_REQUEST_H

#include <stdint.h>

#include "core/types.h"
#include "storage/store_op.h"
#include "troupe/base.h"
#include "troupe/storage.h"

typedef struct tri_store_request {
    tri_store_op op;
    tr_system *sys;
    tri_cell *cell;
    uint64_t cell_id;
    tri_ext *ext;    // valid while its store_requests counts this one
    tri_wait *wait;  // valid unless the turn has left
    _Atomic(uint32_t) state;
    tr_storage *storage;           // asked instead of the actor's own, or NULL
    tri_store_op *ops;             // asked instead of op: tri_store_request_ops
    uint32_t op_count;             // of ops
    _Atomic(uint32_t) unanswered;  // of ops
    void **owned;  // pieces from malloc that the op points to; freed with it
    uint32_t owned_count;
    char name[TRI_STORE_NAME_MAX + 1];
    char key[TRI_STORE_KEY_MAX + 1];  // last: it need not be cleared
} tri_store_request;

/*
 * Writes the key of the actor, `namespace::kind/key`, to out, which has
 * TRI_STORE_KEY_MAX + 1 bytes. The key of a plain actor is its path.
 * Errors: TR_EINVAL, TR_ELIMIT, with tr_error_text.
 */
TR_NODISCARD tr_err tri_store_request_key(tr_ctx *ctx, char *out);
/*
 * Makes a request about the actor's own key, with its epoch and shard, and
 * with room for `pieces` in `owned`. The actor must have an extension.
 * Errors: TR_ENOMEM, TR_EINVAL, TR_ELIMIT.
 */
TR_NODISCARD tr_err tri_store_request_new(tr_ctx *ctx, tr_store_call call,
                                          uint32_t pieces,
                                          tri_store_request **out);
/*
 * As tri_store_request_new, but without a key, and with epoch and shard 0: the
 * caller fills in the op.
 */
TR_NODISCARD tr_err tri_store_request_bare(tr_ctx *ctx, tr_store_call call,
                                           uint32_t pieces,
                                           tri_store_request **out);
/*
 * Gives the request `count` operations, which are sent instead of its op. The
 * caller fills them in, except for done and user. Errors: TR_ENOMEM; the
 * request is unchanged.
 */
TR_NODISCARD tr_err tri_store_request_ops(tri_store_request *request,
                                          uint32_t count);
void tri_store_request_free(tri_store_request *request);

/*
 * Sends the request and parks until it is answered. On TR_OK the caller owns
 * it again and finds the answer in it. A write of a virtual actor whose node
 * has lost its lease is answered with TR_EFENCED and not sent. Otherwise the
 * wait was cut short and the request belongs to the store, or is freed.
 * Errors: any of those that end a wait early (actor.h).
 */
TR_NODISCARD tr_err tri_store_request_ask(tr_ctx *ctx,
                                          tri_store_request *request,
                                          const char *site);

/*
 * Returns the error of an answered write as the handler gets it, and sets the
 * error text; `what` says what was done to the key. After TR_EUNKNOWN the
 * actor is restarted before its next turn, and so loads its state again. A key
 * that was deleted is TR_EFENCED, like one that another writer has changed.
 * After TR_EFENCED a virtual actor is stopped: another activation has won.
 */
tr_err tri_store_request_result(tr_ctx *ctx, const tri_store_request *request,
                                const char *what);

/*
 * Returns TR_OK if the actor may send requests to its store now.
 * Errors: TR_ESTORAGE (it has none), TR_EWOULDBLOCK, or why the turn was cut.
 */
tr_err tri_store_request_may_ask(tr_ctx *ctx, const char *call,
                                 const char *site);

#endif
