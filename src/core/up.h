/*
 * up.h - what the core calls in the layers above it.
 *
 * The core includes nothing of theirs. They hand down a table each: the
 * system layer tri_up when a system is opened, src/cluster tri_virtual_ops
 * with the first virtual actor.
 *
 * Threads: whoever may use the worker that a function is given; any, where it
 * is given none or says so.
 *
 * Invariant: this is the only way up. No function is missing, but where it
 * says that it may be NULL.
 */
#ifndef TRI_CORE_UP_H
#define TRI_CORE_UP_H

#include "core/cell.h"
#include "troupe/system.h"

/* A write that a store has answered. */
typedef struct tri_written {
    const void *store;
    const char *key;  // no zero behind it
    size_t key_size;
    uint32_t shard;
    bool is_event;
    uint64_t epoch;
    uint64_t before, version;  // it makes the versions behind `before`
    tr_err err;                // the answer; may be changed to TR_EUNKNOWN
} tri_written;

/* What the core tells the layers above. `worker` is never NULL. */
typedef struct tri_up {
    /* Takes msg. */
    void (*dead_letter)(tri_worker *worker, tr_ref to, tr_msg *msg,
                        uint32_t reason);
    /* No record could be made. */
    void (*dead_letter_lost)(tr_system *sys, tr_ref to, const tr_type *type,
                             uint32_t reason);
    void (*lifecycle)(tri_worker *worker, tri_cell *cell, tr_state state);
    void (*unhandled)(tri_worker *worker, tri_cell *cell, tr_msg *msg);
    void (*supervision)(tri_worker *worker, tri_cell *child,
                        const tri_failure *failure, tr_directive directive);
    /* From the monitor's thread: the worker's handler does not return. */
    void (*stuck)(tri_worker *worker, tr_nanos since, tr_nanos lasts);
    void (*overload)(tri_worker *worker, tri_cell *cell, uint32_t depth);
    /* It ends now, although a turn of it has not returned. */
    void (*forced)(tri_worker *worker, tri_cell *cell, const char *path);
    void (*ended)(tri_worker *worker, tri_cell *cell);     // before it is told
    void (*released)(tri_worker *worker, tri_cell *cell);  // restart or end
    tr_err (*load_state)(tr_ctx *ctx, void *self);
    /* Before the actor hears of it; on any thread. NULL: nobody looks. */
    void (*stored)(tr_system *sys, tri_written *written);
    /*
     * The answer to a request with TRI_WAY_TOLD goes to its asker now. It is
     * borrowed; one with TRI_MSG_ERROR has no sender. NULL: nobody looks.
     */
    void (*answers)(tri_worker *worker, tr_ref to, const tr_msg *answer);
} tri_up;

struct tr_metrics_snapshot;

/*
 * What src/cluster does for cells that are TRI_CELL_VIRTUAL. A system has
 * none before its first virtual actor.
 */
typedef struct tri_virtuals {
    const struct tri_virtual_ops *ops;
} tri_virtuals;

typedef struct tri_virtual_ops {
    /*
     * The cell's mailbox is closed. Takes msg on TR_OK.
     * Errors: TR_ENOENT (nobody hosts the kind), TR_ECLOSED, TR_ENOMEM.
     */
    tr_err (*send)(tri_worker *worker, tri_cell *cell, tr_msg *msg);
    void (*life)(tri_worker *worker, tri_cell *cell, tr_state state);
    /* Its stored state is there, or could not be had. */
    void (*loaded)(tri_worker *worker, tri_cell *cell);
    /* A message was handled that does not keep the actor active. */
    void (*quiet)(tri_cell *cell);
    uint32_t (*shard)(tri_cell *cell);  // whose fence its saves pass
    /* Writes the name of an actor; false: that one is gone. Any thread. */
    bool (*name)(tr_system *sys, tri_cell *cell, uint64_t id, char *buf,
                 size_t size);
    uint32_t shards;  // how many there are
    /* A life has ended. Takes what is left in cell->queue. */
    void (*ended)(tri_worker *worker, tri_cell *cell);
    /*
     * Four calls for actors that may be on another node. Each says whether
     * it has taken care; if not, the actor is here or nowhere.
     */
    bool (*signal)(tri_worker *worker, tri_cell *cell, uint32_t signal);
    bool (*poison)(tri_worker *worker, tri_cell *cell, tr_msg *msg);  // takes
    bool (*watch)(tri_worker *worker, tri_cell *cell, tri_watch *watch);
    bool (*unwatch)(tri_worker *worker, tri_cell *cell, tri_watching *watching);
    /* A reply that nobody waits for; takes it if it was for another node. */
    bool (*reply)(tri_worker *worker, tri_cell *cell, tr_msg *reply);
    /* From now on nothing is activated. The guardian of what is active. */
    tr_ref (*close)(tr_system *sys);
    void (*count)(tr_system *sys, struct tr_metrics_snapshot *out);
    /* Writes "; hosted here: a, b" as far as there is room. */
    void (*hosted)(tr_system *sys, char *out, size_t size);
    void (*free)(tr_system *sys);
} tri_virtual_ops;

#endif
