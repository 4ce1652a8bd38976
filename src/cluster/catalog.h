/*
 * catalog.h - the virtual actors of a system: names, kinds, activations.
 *
 * A tri_virtual is the record of a name. It begins with the actor's cell, so
 * a ref points into it. The cell is lived in again and again, always with the
 * same id: while an activation lasts, sends go straight into its mailbox;
 * between two of them the mailbox is closed and a send ends here.
 *
 * A name that somebody has a ref of is kept: the record is its own for the
 * system's life (rule 33). One that was only sent to by name passes: when
 * nothing is left of it, no activation, no mail, no sender on its way, the
 * record is given to another name of its shard, with another id.
 *
 * Locks: the shard's lock guards names, pending mail and the steps into and
 * out of an activation. Inside it may be taken: a guardian's family lock, the
 * kinds' lock, the directory's, the arena's, and those of scheduling.
 */
#ifndef TRI_CLUSTER_CATALOG_H
#define TRI_CLUSTER_CATALOG_H

#include "cluster/directory.h"
#include "cluster/id.h"
#include "core/lifecycle.h"

enum {
    TRI_NAMES_DEFAULT = 1 << 24,
    TRI_LOADING_SHARE = 4,     // of max_parked, for states that are loaded
    TRI_STATELESS_MAX = 1024,  // activations of one stateless worker
};

#define TRI_IDLE_DEFAULT TR_MINUTES(10)

/* The states of an activation (AC1). */
typedef enum tri_activation {
    TRI_ACTIVATION_NONE,  // there was never one
    TRI_ACTIVATION_CREATING,
    TRI_ACTIVATION_ACTIVATING,
    TRI_ACTIVATION_VALID,
    TRI_ACTIVATION_DEACTIVATING,
    TRI_ACTIVATION_INVALID,  // it is over
} tri_activation;

/* What stands behind a name. */
typedef enum tri_form {
    TRI_FORM_UNKNOWN,  // the kind was not hosted so far
    TRI_FORM_PLAIN,
    TRI_FORM_FRONT,   // several stateless workers, in turns
    TRI_FORM_WORKER,  // one of them; its name is the front's
} tri_form;

typedef struct tri_kind {
    char *name;
    const tr_actor_def *def;
    const tri_behaviour *behaviour;
    tri_props *props;  // shared by all activations
    uint32_t group;    // bits of tri_cell.flags
    uint32_t soft_limit;
    tr_nanos idle;
    uint32_t max_active;  // 0: no limit
    uint32_t workers;     // activations of a stateless one, else 0
    _Atomic(uint32_t) active;
    _Atomic(bool) crowded;  // the sweeper has been told
    uint64_t told;          // nodes that hear of it: the bus's own
    struct tri_kind *next;  // in the cluster's list
} tri_kind;

typedef struct tri_virtual tri_virtual;

/* What a record needs only while it is active. */
typedef struct tri_active {
    struct tri_active *next, *prev;  // in the shard's list
    tri_virtual *v;
    uint64_t order;           // of this activation, in the system
    tr_nanos since;           // the sweeper last saw it at work
    uint64_t seen;            // messages it had handled by then
    _Atomic(uint64_t) quiet;  // messages that do not keep it active
    bool loads;               // counts in tri_line.loading; its owner's
} tri_active;

/*
 * Who waits for its state has a stack (max_parked of them): names whose turn
 * has not come stand in line, with their mail pending.
 */
typedef struct tri_line {
    tri_lock lock;  // inside a shard's
    uint32_t loading, max;
    tri_virtual *first, *last;
} tri_line;

/* The stateless workers behind a name. */
typedef struct tri_front {
    _Atomic(uint64_t) turn;
    tri_virtual *workers[];
} tri_front;

struct tri_virtual {
    tri_cell cell;  // first: refs point to it

    /* ---- under the shard's lock ---- */
    tri_kind *kind;          // known since the first activation
    char *text;              // never freed: a late look at it is harmless
    uint64_t hash;           // of the text
    tri_node *pending_last;  // for the next activation; its next is the first
    tri_active *active;      // NULL: not active
    union {
        tri_front *front;         // of a front: those behind it
        struct tri_route *route;  // of others: bus.h; NULL: none yet
        tri_virtual *spare_next;  // of nobody's: in the shard's list
        tri_virtual *line_next;   // of one that waits
    };
    uint32_t holds : 31;    // senders that go by the name, on their way
    uint32_t waits : 1;     // in line for an activation
    uint16_t shard;         // for the record's life
    uint16_t key_at, size;  // of the text
    uint16_t room;          // for the text, with its NUL

    _Atomic(uint8_t) state;  // tri_activation; or the owner writes
    _Atomic(uint8_t) form;   // tri_form, once it is known
    bool handed;             // the bus has mail of it, or will
    _Atomic(bool) kept;      // somebody has its ref: never goes back
};

_Static_assert(sizeof(tri_virtual) == 256, "ten million of them: bench/");

typedef struct tri_shard {
    tri_lock lock;
    tri_map names;
    tri_virtual *spare;        // records without a name
    tri_active *first, *last;  // in order of activation
    _Atomic(uint32_t) active;  // length of that list; read without the lock
} tri_shard;

typedef struct tri_arena {
    struct tri_arena *next;
    size_t used, size;
} tri_arena;

typedef struct tri_cluster {
    tri_virtuals base;  // first: tr_system.virtuals
    tr_system *sys;
    const char *ns;
    tr_ref guardian;                // /virtual
    uint32_t here;                  // number of this node
    _Atomic(struct tri_bus *) bus;  // NULL: there are no other nodes
    _Atomic(bool) closing;          // nothing is activated any more
    uint32_t names_max;
    _Atomic(uint64_t) names, active, activations;

    tri_lock kinds_lock;  // kinds, and the three below
    tri_map kinds;
    tri_kind *first_kind;
    tr_ref sweeper;
    tr_nanos sweep_every;

    tri_lock arena_lock;
    tri_arena *arena;  // records
    tri_arena *texts;

    tri_line line;
    tri_directory directory;
    tri_shard shards[TRI_SHARDS];
} tri_cluster;

static inline tri_cluster *tri_cluster_of(tr_system *sys)
{
    // Acquire: pairs with tri_cluster_get.
    return (tri_cluster *)(void *)atomic_load_explicit(&sys->virtuals,
                                                       memory_order_acquire);
}

static inline tri_virtual *tri_virtual_of(tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_cell_is_virtual(cell));
    return (tri_virtual *)(void *)cell;
}

/* ---- names.c ---- */

/*
 * The record of a name, made if need be, and kept from now on.
 * Errors: TR_ENOMEM, TR_ELIMIT.
 */
TR_NODISCARD tr_err tri_virtual_get(tri_cluster *cluster, tr_from from,
                                    const tri_actor_id *id, tri_virtual **out);
/* The same, not kept: it stays this name's until it is let go. */
TR_NODISCARD tr_err tri_virtual_hold(tri_cluster *cluster, tr_from from,
                                     const tri_actor_id *id, tri_virtual **out);
void tri_virtual_let_go(tri_cluster *cluster, tri_virtual *v);
/* It is not active any more: forgets the name, if it may. With the lock. */
void tri_virtual_rest(tri_cluster *cluster, tri_virtual *v);
/* Writes the name of what the ref means; false: it is gone. */
bool tri_virtual_name(tr_system *sys, tri_cell *cell, uint64_t id, char *buf,
                      size_t size);
/* A record beside the table, for a worker of a front; NULL: no memory. */
tri_virtual *tri_virtual_beside(tri_cluster *cluster, tri_virtual *front,
                                uint64_t id);
/* Memory for the system's life; NULL: none. */
void *tri_names_alloc(tri_cluster *cluster, size_t size);
void tri_names_init(tri_cluster *cluster);
void tri_names_free(tri_cluster *cluster);

/* ---- line.c ---- */

/* One more that loads its state. */
void tri_line_count(tri_line *line);
/* With the shard's lock. True: it stands in line, and waits. */
bool tri_line_join(tri_line *line, tri_virtual *v);
/* One that has counted loads no more. True: others stand in line. */
bool tri_line_leave(tri_line *line);
/* Whose turn it is, taken out; it still waits. NULL: nobody's. */
tri_virtual *tri_line_next(tri_line *line);

/* ---- cluster.c ---- */

/*
 * The system's, made now if need be.
 * Errors: TR_EINVAL (its namespace), TR_ENOMEM, TR_ECLOSED.
 */
TR_NODISCARD tr_err tri_cluster_get(tri_actor_from *who, tri_cluster **out);
/* NULL: not hosted here. */
tri_kind *tri_kind_find(tri_cluster *cluster, const char *name, size_t size);
void tri_kind_free(tri_kind *kind);
/* The record's kind, if it is hosted here. With the shard's lock. */
tri_kind *tri_kind_of(tri_cluster *cluster, tri_virtual *v);

/* ---- catalog.c ---- */

/* Whether an activation of it is in the catalog. With the shard's lock. */
bool tri_virtual_is_active(tri_virtual *v);
/*
 * To the activation that is here, or is ending here. Takes msg on TR_OK.
 * Errors: TR_ENOENT (there is none).
 */
TR_NODISCARD tr_err tri_catalog_push(tri_cluster *cluster, tri_worker *worker,
                                     tri_virtual *v, tr_msg *msg);
/*
 * What waits for the bus, oldest first, which owns it then; NULL: nothing,
 * and the record is not the bus's any more. Mail of an activation that has
 * begun meanwhile is given to it. busy: the bus has older mail of it.
 */
tri_node *tri_catalog_take(tri_cluster *cluster, tri_worker *worker,
                           tri_virtual *v, bool busy);
/*
 * Begins an activation whose place is registered, with the mail and what
 * waits behind it. Takes mail on TR_OK. Errors: as a send.
 */
TR_NODISCARD tr_err tri_catalog_begin(tri_cluster *cluster, tri_worker *worker,
                                      tri_virtual *v, tri_node *mail);

/* ---- activation.c: the states and the ways between them ---- */

bool tri_activation_legal(tri_activation from, tri_activation to);
const char *tri_activation_name(tri_activation state);
tri_activation tri_activation_of(tri_virtual *v);
/* A check if that is not allowed. */
void tri_activation_set(tri_virtual *v, tri_activation state);
/* The actor has reached a state of its life; its activation follows. */
void tri_activation_follow(tri_virtual *v, tr_state life);

/* ---- sweep.c ---- */

/* The sweeper looks at least four times in each idle time of this kind. */
TR_NODISCARD tr_err tri_sweep_for(tri_cluster *cluster, tri_actor_from *who,
                                  const tri_kind *kind);
/* More of a kind are active than it allows. */
void tri_sweep_crowded(tri_cluster *cluster, tri_worker *worker,
                       tri_kind *kind);

#endif
