/*
 * up.h - what the core calls in the layers above it.
 *
 * The core includes nothing of those layers. Each gives the core a table of
 * functions: the system layer tri_up when a system is opened, src/cluster
 * tri_virtual_ops with the first virtual actor.
 *
 * Threads: a function that is given a worker runs on a thread that may use
 * that worker. The others may run on any thread.
 *
 * Invariant: the core calls upward through these tables only. No function of
 * a table is NULL, unless its comment allows it.
 */
#ifndef TRI_CORE_UP_H
#define TRI_CORE_UP_H

#include "core/types.h"
#include "troupe/observe.h"

/* A write that a store has answered. */
typedef struct tri_written {
    const void *store;
    const char *key;  // not terminated by a zero
    size_t key_size;
    uint32_t shard;
    bool is_event;
    uint64_t epoch;
    uint64_t before, version;  // the write made the versions after `before`
    tr_err err;                // the answer; may be changed to TR_EUNKNOWN
} tri_written;

/* The functions of the system layer. `worker` is never NULL. */
typedef struct tri_up {
    /* Records a message that was not delivered. Takes msg. */
    void (*dead_letter)(tri_worker *worker, tr_ref to, tr_msg *msg,
                        uint32_t reason);
    /* Counts one for which there was no memory to make a message. */
    void (*dead_letter_lost)(tr_system *sys, tr_ref to, const tr_type *type,
                             uint32_t reason);
    /* Publishes a change of state. Called only if it has a subscriber. */
    void (*lifecycle)(tri_worker *worker, tri_cell *cell, tr_state state);
    /* Handles a message that the actor has no handler for. Takes msg. */
    void (*unhandled)(tri_worker *worker, tri_cell *cell, tr_msg *msg);
    /*
     * Logs and publishes a failure and what was decided; failure may be NULL.
     * past_limit: the child had too many restarts, or cannot be restarted.
     */
    void (*supervision)(tri_worker *worker, tri_cell *child,
                        const tri_failure *failure, tr_directive directive,
                        bool past_limit);
    /* Reports, on the monitor's thread, a handler that does not return. */
    void (*stuck)(tri_worker *worker, tr_nanos since, tr_nanos lasts);
    /* Reports a mailbox above its soft limit. */
    void (*overload)(tri_worker *worker, tri_cell *cell, uint32_t depth);
    /* Reports an actor that is ended by force, with its path. */
    void (*forced)(tri_worker *worker, tri_cell *cell, const char *path);
    /* Removes an actor that ends, before its watchers are notified. */
    void (*ended)(tri_worker *worker, tri_cell *cell);
    /* Releases what an incarnation held; at a restart or end. */
    void (*released)(tri_worker *worker, tri_cell *cell);
    /* Loads the stored state into self. May park the turn. */
    tr_err (*load_state)(tr_ctx *ctx, void *self);
    /* Sees a write before its actor does; on any thread. May be NULL. */
    void (*stored)(tr_system *sys, tri_written *written);
    /*
     * Sees the answer to a request with TRI_ANSWER_OBSERVED when it is sent. Borrows
     * the answer, which has no sender if TRI_MSG_ERROR is set. May be NULL.
     */
    void (*answers)(tri_worker *worker, tr_ref to, const tr_msg *answer);
    /*
     * Sees a message before its handler, with the flags of the handler. Called
     * on the slow path only, which a driven worker always takes. May set
     * TRI_ANSWER_OBSERVED. May be NULL.
     */
    void (*handles)(tr_ctx *ctx, tr_msg *msg, uint32_t flags);
    /* As tr_ref_path and tr_log. Any thread. */
    const char *(*ref_path)(tr_from from, tr_ref ref, char *buf, size_t size);
    void (*log)(tr_from from, int level, const char *site, const char *format,
                ...) __attribute__((format(printf, 4, 5)));
    /* Makes the descriptor of tr_poll_fd readable. Any thread. */
    void (*poll_ready)(tr_system *sys);
    /*
     * Waits while *word is `expected`. If the calling thread polls the system,
     * it runs the system meanwhile. May return early.
     */
    void (*wait)(tr_system *sys, _Atomic(uint32_t) *word, uint32_t expected,
                 tr_nanos timeout);
} tri_up;

struct tr_metrics_snapshot;

/*
 * Returns the virtual actor that `namespace::kind/key` names, or nobody with
 * the error inside: tr_virtual_named. Works before tri_virtual_ops is there.
 */
typedef tr_ref tri_virtual_named(tr_from from, const char *text);

/* The part of src/cluster that the core sees: tr_system.virtuals. */
typedef struct tri_virtuals {
    const struct tri_virtual_ops *ops;
} tri_virtuals;

/* The functions of src/cluster for cells with TRI_CELL_VIRTUAL. */
typedef struct tri_virtual_ops {
    /*
     * Sends to a cell whose mailbox is closed. Takes msg on TR_OK.
     * Errors: TR_ENOENT (no node hosts the kind), TR_ECLOSED, TR_ENOMEM.
     */
    tr_err (*send)(tri_worker *worker, tri_cell *cell, tr_msg *msg);
    /* Follows the states of an activation. */
    void (*life)(tri_worker *worker, tri_cell *cell, tr_state state);
    /* Called when the stored state is loaded, or could not be. */
    void (*loaded)(tri_worker *worker, tri_cell *cell);
    /* Called after a message that does not keep the actor active. */
    void (*quiet)(tri_cell *cell);
    /* Returns the shard whose fence checks the actor's saves. */
    uint32_t (*shard)(tri_cell *cell);
    /* Returns the fence of the running activation: tr_epoch. */
    uint64_t (*epoch)(tr_ctx *ctx);
    /*
     * Returns the epoch whose fence must be in the store before the running
     * activation loads its state; 0: there are no other nodes.
     */
    uint64_t (*load_fence)(tr_ctx *ctx);
    /*
     * True while this node may act for its actors: before each message to a
     * cell with TRI_ATTENTION_LEASE, and before each write. Any thread.
     */
    bool (*has_lease)(tr_system *sys);
    /*
     * Writes the name of the actor; returns false if the cell belongs to
     * another actor now. Any thread.
     */
    bool (*name)(tr_system *sys, tri_cell *cell, uint64_t id, char *buf,
                 size_t size);
    uint32_t shards;  // number of shards
    /*
     * Returns the epoch of a shard if this node delivers the reminders of its
     * actors of that kind (NULL: of any kind): it is the owner, or takes the
     * place of an owner that does not host the kind. 0: another node does. Any
     * thread.
     */
    uint64_t (*reminds)(tr_system *sys, uint32_t shard, const char *kind,
                        size_t size);
    /*
     * Tells the owner of the shard, another node, that a reminder of one of its
     * actors was changed here.
     */
    void (*reminder_changed)(tri_worker *worker, uint32_t shard);
    /* Ends an activation. Takes the mail that is left in cell->queue. */
    void (*ended)(tri_worker *worker, tri_cell *cell);
    /*
     * Four calls for actors that may be on another node. Each returns true if
     * it has handled the call; then poison has taken msg, watch has taken
     * watch and unwatch has taken watching. If false, the actor is on this
     * node or on none.
     */
    bool (*signal)(tri_worker *worker, tri_cell *cell, uint32_t signal);
    bool (*poison)(tri_worker *worker, tri_cell *cell, tr_msg *msg);
    bool (*watch)(tri_worker *worker, tri_cell *cell, tri_watch *watch);
    bool (*unwatch)(tri_worker *worker, tri_cell *cell, tri_watching *watching);
    /*
     * Handles a reply that no wait of the cell expects. Returns true, and
     * takes the reply, if it answers a request from another node.
     */
    bool (*reply)(tri_worker *worker, tri_cell *cell, tr_msg *reply);
    /*
     * Gives the actors of this node to other nodes, as far as the time allows;
     * the actors of the program have ended.
     */
    void (*hand_over)(tr_system *sys, tr_nanos deadline);
    /* Leaves the cluster, after the virtual actors of this node have ended. */
    void (*leave)(tr_system *sys, tr_nanos deadline);
    /* Prevents further activations; returns the guardian of the active ones. */
    tr_ref (*close)(tr_system *sys);
    /* Adds the numbers of virtual actors. */
    void (*count)(tr_system *sys, struct tr_metrics_snapshot *out);
    /* Writes "; hosted here: a, b" as far as there is room. */
    void (*hosted)(tr_system *sys, char *out, size_t size);
    /*
     * Checks the invariants of the records, activations and lanes of `count`
     * shards from `first` on, and aborts if one does not hold. For an observer
     * that no other thread disturbs, between two steps of a simulation.
     */
    void (*check)(tr_system *sys, uint32_t first, uint32_t count);
    void (*free)(tr_system *sys);
} tri_virtual_ops;

#endif
