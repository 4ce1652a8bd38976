/*
 * cluster.h - virtual actors: named by kind and key, present when needed.
 *
 * A virtual actor is never spawned. The first message activates it, on a node
 * that hosts its kind; an idle one is deactivated, with its state stored. Its
 * ref can be made, kept and sent at any time.
 *
 * Threads: any.
 * Ownership: definitions and stores are borrowed for as long as the system is
 * open; options are copied.
 */
#ifndef TROUPE_CLUSTER_H
#define TROUPE_CLUSTER_H

#include <troupe/actor.h>
#include <troupe/base.h>
#include <troupe/macros.h>

typedef struct tr_host_options {
    size_t size;
    tr_storage *storage;
    tr_nanos idle;  // deactivate after; default 10 min
    const tr_spawn_options *spawn;
} tr_host_options;

TR_BEGIN_DECLS

/*
 * Lets this node activate virtual actors of the kind.
 * Errors: TR_EINVAL, TR_EEXIST, TR_ENOMEM, TR_ECLOSED.
 */
TR_API TR_NODISCARD tr_err tr_host(tr_system *sys, const tr_actor_def *def,
                                   const tr_host_options *options);
/*
 * The ref of a virtual actor; activates nothing. Invalid names give nobody
 * with TR_EINVAL, too many names nobody with TR_ELIMIT (tr_ref_err).
 */
TR_API tr_ref tr_virtual(tr_from from, const char *kind, const char *key);

TR_END_DECLS

#ifndef __cplusplus

#define tr_host(sys, ...) TR_HOST_(sys, __VA_ARGS__, )
#define TR_HOST_(sys, A, ...)                                                  \
    (tr_host)((sys), TR_DEF(A), TR_OPTIONS(tr_host_options, __VA_ARGS__))
#define tr_virtual(from, kind, key)                                            \
    __extension__(tr_virtual)((from), (kind), (key))

#endif /* !__cplusplus */
#endif
