/*
 * cluster.h - virtual actors: named by kind and key, activated when needed;
 * and clusters, whose nodes share them.
 *
 * A virtual actor is never spawned. The first message activates it on a node
 * that hosts its kind. When it has been idle for some time it is deactivated;
 * its state stays in the store. Its ref can be made, kept and sent at any time;
 * tr_self returns the same ref. A message is handled by the current activation
 * or, if that ends before, by the next one.
 *
 * Calls that act on an actor act on its current activation: tr_stop, tr_poison
 * and tr_kill deactivate it, tr_watch tells when it has ended (TR_IDLE,
 * TR_STOPPED, TR_FAILED, ...), tr_join waits for its end. If there is no
 * activation, stopping does nothing, a watch tells TR_NO_SUCH_ACTOR at once,
 * joining returns TR_ENOENT, and tr_state_of returns TR_STATE_CREATED.
 *
 * Names. A ref from tr_virtual is valid for as long as the system is open, so
 * the system keeps its name as long. If a program uses an unlimited number of
 * keys, it sends by name instead: tr_tell_virtual, tr_ask_virtual. Such a name
 * is forgotten when the activation ends. The ref that tr_self and tr_sender
 * return for such an actor is valid only during the activation; what is sent to
 * it later may become a dead letter. tr_virtual with the same name makes a ref
 * that stays valid. Names of both sorts are counted;
 * tr_system_options.virtual_names is their limit.
 *
 * Nodes. A system that has joined a cluster (tr_cluster_join) is a node of it.
 * The nodes of a namespace share its virtual actors: each actor is active on
 * one node, and a message finds it from every node. They agree through an
 * engine (engine.h), which they all reach. A node that is killed, or does not
 * reach the engine for `lease`, loses its actors to the others; at most one
 * activation of an actor can store its state (rule 70 (clusters)). Refs of
 * virtual actors may be sent to other nodes; other refs arrive as nobody.
 * tr_sender is nobody for a request of another node: reply to it, or put the
 * ref of its sender into the request.
 *
 * Threads: any.
 * Ownership: definitions and stores are borrowed for as long as the system is
 * open. Options and names are copied.
 */
#ifndef TROUPE_CLUSTER_H
#define TROUPE_CLUSTER_H

#include <troupe/actor.h>
#include <troupe/base.h>
#include <troupe/macros.h>
#include <troupe/message.h>

/* On which node the actors of a kind are activated. */
typedef enum tr_placement {
    TR_PLACE_OWNER,         // on the one that owns the actor's shard: fastest
    TR_PLACE_LOCAL,         // on that of the sender of the first message
    TR_PLACE_RANDOM,        // on any that hosts the kind
    TR_PLACE_LEAST_LOADED,  // on that with the fewest actors placed this way
} tr_placement;

/* A field that is zero takes the default named beside it. */
typedef struct tr_host_options {
    size_t size;
    tr_storage *storage;            // where *self is stored; default: nowhere
    tr_nanos idle;                  // deactivated after so long; default 10 min
    const tr_spawn_options *spawn;  // options of each activation; see tr_host
    uint32_t max_active;            // most activations; default: no limit
    uint32_t workers;               // activations that share a name; default 1
    tr_placement placement;         // which node; default TR_PLACE_OWNER
} tr_host_options;

/* One incarnation of a node. A node that joins again is another one. */
typedef struct tr_node {
    uint32_t slot;         // its number; of a node that is gone, free again
    uint64_t incarnation;  // unique in the cluster, and increasing; 0: none
} tr_node;

/* A field that is zero takes the default named beside it. */
typedef struct tr_cluster_options {
    size_t size;
    tr_engine *engine;      // default: TROUPE_ENGINE; see tr_cluster_join
    const char *listen;     // default: TROUPE_LISTEN, or "127.0.0.1:0"
    const char *advertise;  // address for other nodes; default: that of listen
    bool client;            // never owns actors of others; default false
    tr_nanos lease;         // default 6 s, at least 60 ms
    tr_nanos timeout;       // of the call; default 30 s
} tr_cluster_options;

/* A member of the cluster, as this node sees it. */
typedef struct tr_member {
    tr_node node;
    char address[300];  // host:port
    bool is_self;
    bool is_leaving;
    bool is_client;
    uint32_t shards;  // how many of the 4,096 shards it owns
} tr_member;

/* What has happened to a member: tr_member_event.what. */
typedef enum tr_member_change {
    TR_MEMBER_UP,       // it has joined
    TR_MEMBER_LEAVING,  // it gives its actors to others
    TR_MEMBER_GONE,     // it has left, or is dead
    TR_MEMBER_LOST,     // this node has lost its lease, and joins again
} tr_member_change;

TR_BEGIN_DECLS

/*
 * Makes the system a node of the cluster of its namespace
 * (tr_system_options.ns; "local" if there is none), and returns when it may own
 * actors. Call it outside of handlers, before virtual actors are active; kinds
 * may be hosted before and after. All nodes use the same engine and stores.
 *
 * Without .engine the environment variable TROUPE_ENGINE names one:
 * "sqlite:/path/to/file" (component troupe-sqlite) or "memory:name"; without
 * that, a file of this user and namespace, so that all programs of a user on
 * one machine find each other: troupe-NAMESPACE.engine in $XDG_RUNTIME_DIR, or
 * in $HOME with a dot before it. In a simulation the default is an engine of
 * the simulated world. An engine that is opened here is closed with the system.
 *
 * .listen is "host:port", a port of 0 a free one. Until connections are
 * encrypted only addresses of this machine (loopback) are allowed.
 *
 * tr_system_close leaves the cluster: the node gives its actors to others and
 * removes its record. That takes as long as the actors need to stop and save.
 *
 * Errors, each with a text (tr_error_text): TR_EINVAL (options, address, an
 * engine of another version), TR_EEXIST (joined already; the port is in use),
 * TR_EWOULDBLOCK (inside a handler), TR_ETIMEDOUT (the engine was not reached),
 * TR_ESTORAGE (the engine cannot be opened), TR_ENOENT (no engine),
 * TR_EUNREACHABLE, TR_ENOMEM, TR_ELIMIT, TR_ECLOSED.
 */
TR_API TR_NODISCARD tr_err tr_cluster_join(tr_system *sys,
                                           const tr_cluster_options *options);
/*
 * Stores the members of the cluster, at most `max`, in the order of their
 * slots. Returns how many there are; 0 if the system has not joined.
 */
TR_API size_t tr_cluster_members(tr_system *sys, tr_member *out, size_t max);
/*
 * Returns which node this system is; incarnation 0 if it is none, or has lost
 * its lease and is joining again.
 */
TR_API tr_node tr_cluster_self(tr_system *sys);

/*
 * Lets this node activate virtual actors of a kind, whose name is that of the
 * definition. An idle actor is deactivated after `idle`, at the latest after
 * one and a half times that. Above max_active the least recently used
 * activations are deactivated. With workers, that many activations without
 * stored state share a name. A failure that would be escalated ends the
 * activation instead. These spawn options are refused: name, mailbox_limit,
 * drain, storage, watch, joinable, auto_stop and pinned dispatchers.
 * Errors: TR_EINVAL (tr_error_text says why), TR_EEXIST (hosted already),
 * TR_ENOMEM, TR_ECLOSED.
 */
TR_API TR_NODISCARD tr_err tr_host(tr_system *sys, const tr_actor_def *def,
                                   const tr_host_options *options);
/*
 * Returns the ref of a virtual actor; the same names give the same ref. Nothing
 * is activated. Kind and key consist of letters, digits, '-' and '_', and have,
 * with the namespace, at most 256 characters. Returns nobody if the names are
 * invalid (TR_EINVAL) or there are too many names (TR_ELIMIT); see tr_ref_err
 * and tr_error_text. Messages to a kind that no node hosts become dead letters;
 * requests get TR_ENOENT.
 */
TR_API tr_ref tr_virtual(tr_from from, const char *kind, const char *key);
/*
 * Returns the ref of the virtual actor with the text that tr_ref_path writes,
 * namespace::kind/key. Returns nobody if the text is not of that form
 * (TR_EINVAL) or has another namespace (TR_EFOREIGN).
 */
TR_API tr_ref tr_virtual_named(tr_from from, const char *text);

/*
 * Sends as tr_tell does, to a virtual actor by its name, which is forgotten
 * after the activation: for an unlimited number of keys. Messages of one sender
 * arrive in order, also if it uses refs of the same actor in between. A message
 * that cannot be sent becomes a dead letter. The name is kept after all if the
 * kind has stateless workers.
 */
TR_API void tr_tell_virtual(tr_from from, const char *kind, const char *key,
                            const tr_type *type, const void *payload);
/*
 * Sends as tr_tell_virtual does, but returns an error instead of making a dead
 * letter.
 * Errors: those of tr_try_tell; TR_EINVAL (not a name), TR_ELIMIT (too many
 * names), TR_ENOENT (no node hosts the kind).
 */
TR_API TR_NODISCARD tr_err tr_try_tell_virtual(tr_from from, const char *kind,
                                               const char *key,
                                               const tr_type *type,
                                               const void *payload);
/*
 * Asks as tr_ask does, by name like tr_tell_virtual. The name is kept at least
 * until the answer is there.
 * Errors: those of tr_ask and tr_try_tell_virtual.
 */
TR_API TR_NODISCARD tr_err tr_ask_virtual(tr_from from, const char *kind,
                                          const char *key, void *out,
                                          tr_nanos timeout, const tr_type *type,
                                          const void *payload,
                                          const char *site);
/* Forwards as tr_forward does, to a virtual actor by its name. */
TR_API void tr_forward_virtual(tr_ctx *ctx, const char *kind, const char *key,
                               const void *m);

TR_END_DECLS

/*
 * Published when the members have changed, as this node sees it; what is a
 * tr_member_change, at the time by tr_now.
 */
TR_MESSAGE(tr_member_event, (uint32_t, what), (uint32_t, slot),
           (uint64_t, incarnation), (const char *, address), (int64_t, at));

#ifndef __cplusplus

#define tr_cluster_join(sys, ...)                                              \
    (tr_cluster_join)((sys), TR_OPTIONS(tr_cluster_options, __VA_ARGS__))
#define tr_host(sys, ...) TR_HOST_(sys, __VA_ARGS__, )
#define TR_HOST_(sys, A, ...)                                                  \
    (tr_host)((sys), TR_DEF(A), TR_OPTIONS(tr_host_options, __VA_ARGS__))
#define tr_virtual(from, kind, key)                                            \
    __extension__(tr_virtual)((from), (kind), (key))
#define tr_virtual_named(from, text)                                           \
    __extension__(tr_virtual_named)((from), (text))
#define tr_tell_virtual(from, kind, key, ...)                                  \
    TR_SEND_VIRTUAL_(tr_tell_virtual, from, kind, key, __VA_ARGS__, )
#define tr_try_tell_virtual(from, kind, key, ...)                              \
    TR_SEND_VIRTUAL_(tr_try_tell_virtual, from, kind, key, __VA_ARGS__, )
#define TR_SEND_VIRTUAL_(verb, from, kind, key, T, ...)                        \
    __extension__(verb)((from), (kind), (key), &T##_tr_type,                   \
                        &(const T){__VA_ARGS__})
#define tr_ask_virtual(from, kind, key, out, timeout, ...)                     \
    TR_ASK_VIRTUAL_(from, kind, key, out, timeout, __VA_ARGS__, )
#define TR_ASK_VIRTUAL_(from, kind, key, out, timeout, T, ...)                 \
    __extension__(tr_ask_virtual)((from), (kind), (key), TR_OUT_(T, out),      \
                                  (timeout), &T##_tr_type,                     \
                                  &(const T){__VA_ARGS__}, TR_HERE)

#endif /* !__cplusplus */
#endif
