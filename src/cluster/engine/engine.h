/*
 * engine.h - the contract of an engine: what the nodes of a cluster agree
 * through.
 *
 * An engine is a table from keys to values. It has get, range, a
 * compare-and-swap of one or many keys (CAS), and a hint that something has
 * changed. It has no leases, locks, time limits or clocks, so that memory,
 * SQLite, etcd and PostgreSQL can all be engines.
 *
 * What every engine promises:
 * - Each commit has a revision, higher than those of all commits before it.
 *   The revision of a key is that of the commit which wrote it last. A key
 *   that was deleted and written again has a new revision.
 * - Reads and commits are linearizable: an operation that is submitted after
 *   another was answered sees what that one saw or committed. The rows of one
 *   answer are all of one moment, which `revision` names.
 * - The answer to a CAS is yes, no or unknown. Unknown: the CAS has committed,
 *   will commit, or never will. The caller reads again, and does not build on
 *   the CAS being absent: its next CAS names the revision that it has read, so
 *   at most one of the two commits.
 * - The answer to a read is yes or unknown (the engine was not reached).
 * - A watch is a hint: it may come late or without reason, or be missing.
 *   Whoever watches also reads from time to time.
 *
 * Operations never block the caller. An answer comes on a thread of the
 * engine; it must not block there. Nothing of this needs an actor.
 *
 * Threads: any.
 * Ownership: the caller owns an operation and all that it points to, and keeps
 * them until `done` is called. From then on the engine does not touch it.
 */
#ifndef TRI_CLUSTER_ENGINE_ENGINE_H
#define TRI_CLUSTER_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/world.h"
#include "storage/inbox.h"
#include "troupe/base.h"
#include "troupe/engine.h"

enum {
    TRI_ENGINE_KEY_MAX = 512,          // bytes of a key
    TRI_ENGINE_VALUE_MAX = 64 * 1024,  // bytes of a value
    TRI_ENGINE_CHANGES_MAX = 120,      // in one CAS; etcd takes 128
    TRI_ENGINE_ROWS_MAX = 1 << 17,     // in one answer
    TRI_ENGINE_TEXT_SIZE = 256,
};

/* How often an engine looks whether others have changed something. */
#define TRI_ENGINE_POLL TR_MS(20)

typedef enum tri_engine_call {
    TRI_ENGINE_GET = 1,  // the row of `key`, if there is one
    TRI_ENGINE_RANGE,    // rows whose keys begin with `key`, in order of keys
    TRI_ENGINE_CAS,      // all changes or none
    TRI_ENGINE_WATCH,    // answered when a key that begins with `key` changed
} tri_engine_call;

typedef enum tri_engine_answer {
    TRI_ENGINE_YES = 1,
    TRI_ENGINE_NO,       // of a CAS: an expected revision differs
    TRI_ENGINE_UNKNOWN,  // `err` and `text` say why
} tri_engine_answer;

/* One key of a CAS; a CAS names each key once. */
typedef struct tri_engine_change {
    const char *key;
    uint64_t expected;  // the key's revision; 0: there is no such key
    const void *value;  // NULL: delete the key
    size_t size;
} tri_engine_change;

/* One row of an answer. */
typedef struct tri_engine_row {
    tri_link link;
    uint64_t revision;
    const char *key;
    const void *value;
    size_t size;
} tri_engine_row;

typedef struct tri_engine_op tri_engine_op;

struct tri_engine_op {
    tri_link link;  // the engine's
    tri_engine_call call;
    const char *key;
    uint64_t after;  // range, watch: only keys whose revision is higher
    const tri_engine_change *changes;
    uint32_t change_count;
    void (*done)(tri_engine_op *op);
    void *user;
    _Atomic(bool) cancelled;  // by tri_engine_cancel

    /* The answer. */
    tri_engine_answer answer;
    /* Of the moment of a read, or of the commit. After a no: undefined. */
    uint64_t revision;
    tri_list rows;  // of tri_engine_row; tri_engine_op_fini frees them
    uint32_t row_count;
    tr_err err;
    char text[TRI_ENGINE_TEXT_SIZE];
};

/* Submits an operation; it is answered exactly once. */
void tri_engine_submit(tr_engine *engine, tri_engine_op *op);
/*
 * Ends a watch. Unless it has been answered already, its answer is
 * TRI_ENGINE_UNKNOWN with TR_ESTOPPED.
 */
void tri_engine_cancel(tr_engine *engine, tri_engine_op *op);
/* Frees the rows of an answer. The operation may be submitted again. */
void tri_engine_op_fini(tri_engine_op *op);
/* Returns the only row of an answer, or NULL. */
tri_engine_row *tri_engine_op_row(const tri_engine_op *op);

/* Count the users of an engine, which may not be closed before they drop it. */
void tri_engine_hold(tr_engine *engine);
void tri_engine_drop(tr_engine *engine);

/* ---- for engines ---- */

typedef struct tri_engine_ops {
    const char *name;
    /*
     * Carries out a get, range or CAS on the engine's thread and fills in the
     * answer; may block.
     */
    void (*execute)(tr_engine *engine, tri_engine_op *op);
    /*
     * Returns true if a key with this prefix may have changed after the
     * revision `after`, and sets *now to the revision of this moment.
     */
    bool (*changed)(tr_engine *engine, const char *prefix, uint64_t after,
                    uint64_t *now);
    /* Frees the engine, whose thread has ended or was never started. */
    void (*free)(tr_engine *engine);
} tri_engine_ops;

/* The first member of every engine. */
struct tr_engine {
    uint64_t magic;  // TRI_ENGINE_MAGIC while it is open
    const tri_engine_ops *ops;
    tri_world *world;
    tri_thread *thread;
    tri_inbox inbox;          // of tri_engine_op
    tri_list watches;         // not answered yet; the thread's alone
    _Atomic(uint32_t) users;  // systems that may not lose it
};

#define TRI_ENGINE_MAGIC UINT64_C(0x54524f55656e6769)

/*
 * Copies the options and returns the world that they name; NULL, after a
 * report, if they are invalid.
 */
tri_world *tri_engine_options(tr_engine_options *own,
                              const tr_engine_options *given);
void tri_engine_init(tr_engine *engine, const tri_engine_ops *ops,
                     tri_world *world);
/*
 * Starts the thread of an engine that is ready, gives it to its owner and sets
 * *out. `engine` is NULL after a failure `err`. Takes the engine: on failure it
 * is freed, and the reason (`why`, or the error) reported.
 */
TR_NODISCARD tr_err tri_engine_open(tr_engine **out, tr_engine *engine,
                                    const tr_engine_options *options,
                                    tri_world *world, tr_err err,
                                    const char *what, const char *why);
/* Adds a row to an answer, which becomes unknown if it cannot. */
bool tri_engine_add_row(tri_engine_op *op, const char *key, uint64_t revision,
                        const void *value, size_t size);
/* Makes the answer unknown, with a reason. */
void tri_engine_fail(tri_engine_op *op, tr_err err, const char *format, ...)
    TR_PRINTF(3, 4);

#endif
