/*
 * observe.h - looking at a running system: log, actors, tree, metrics.
 *
 * Looking never stops the system: each actor is read by itself, so a list of
 * them is no picture of one moment. Counters only grow.
 *
 * Threads: any.
 * Ownership: everything is copied into the caller's memory, whose structs
 * carry their own size; names of kinds and types are the program's constants.
 */
#ifndef TROUPE_OBSERVE_H
#define TROUPE_OBSERVE_H

#include <troupe/base.h>
#include <troupe/supervise.h>

typedef enum tr_log_level {
    TR_LOG_DEBUG,
    TR_LOG_INFO,
    TR_LOG_WARN,
    TR_LOG_ERROR,
} tr_log_level;

/* One line of the log; borrowed by the sink (tr_system_options.log). */
struct tr_log_record {
    size_t size;
    int level;
    tr_nanos at;       // tr_now
    const char *site;  // "bank.c:42"
    const char *path;  // of the actor, or NULL outside
    const char *text;  // without a line end
};

/* Bytes for a path with its NUL; a longer one is cut. */
enum { TR_PATH_SIZE = 256 };
/* How many of an actor's last states are kept. */
enum { TR_HISTORY = 8 };

/* One actor. */
typedef struct tr_actor_info {
    size_t size;
    tr_ref ref;
    tr_ref parent;
    tr_state state;
    uint32_t depth;     // messages waiting
    uint64_t messages;  // handled, over all incarnations
    uint32_t restarts;
    const char *kind;     // tr_actor_def.name
    const char *running;  // type of the message being handled, or NULL
    tr_nanos since;       // tr_now when that began
    char path[TR_PATH_SIZE];
    tr_state history[TR_HISTORY];  // newest first; 0: there were no more
} tr_actor_info;

/* Bytes for the name of a type with its NUL; a longer one is cut. */
enum { TR_TYPE_NAME_SIZE = 33 };

/* One of the newest dead letters. */
typedef struct tr_dead_info {
    size_t size;
    tr_ref to;
    tr_ref sender;
    uint32_t reason;  // tr_dead_reason
    tr_nanos at;      // tr_now
    char type[TR_TYPE_NAME_SIZE];
} tr_dead_info;

/* Sums since the system was opened; actors and parked are of this moment. */
typedef struct tr_metrics_snapshot {
    size_t size;
    uint64_t actors;  // alive
    uint64_t parked;  // handlers that wait
    uint64_t spawned;
    uint64_t ended;
    uint64_t messages;  // handled
    uint64_t asks;
    uint64_t dead_letters;
    uint64_t unhandled;
    uint64_t failures;
    uint64_t restarts;
    uint64_t escalations;
    uint64_t timers;          // fired
    uint64_t events_lost;     // published, but dropped under overload
    uint64_t overloads;       // mailboxes that passed their soft limit
    uint64_t deadlocks;       // waits refused with TR_EDEADLOCK
    uint64_t steals;          // actors taken over by an idle worker
    uint64_t parks;           // times a worker went to sleep
    uint64_t virtual_names;   // names of virtual actors in use
    uint64_t virtual_active;  // of these, active now
    uint64_t activations;     // of virtual actors
    uint64_t zombies;         // ended by force, still in a handler
    uint64_t dropped;         // left at an end, for TR_DRAIN_DROP; no letters
} tr_metrics_snapshot;

enum {
    TR_KINDS_MAX = 256,     // kinds with numbers of their own
    TR_TIME_BUCKETS = 122,  // of a tr_kind_metrics
    TR_DEPTH_BUCKETS = 23,
};

/*
 * One kind of actor: all whose definitions have this name. Sums since the
 * system was opened.
 *
 * Handlers are timed by samples: about one in 256 activations of a busy
 * worker, most of an idle one, all under a simulated or polled system. A time
 * is that from the call of a handler to its return, with all its waits, by
 * tr_now; a depth is the number of messages that waited behind the one it was
 * called with. The last bucket of each has no bound.
 */
typedef struct tr_kind_metrics {
    size_t size;
    const char *kind;  // tr_actor_def.name; "(others)" beyond TR_KINDS_MAX
    uint64_t actors;   // alive
    uint64_t spawned;
    uint64_t messages;  // calls of handlers
    uint64_t failures;
    uint64_t restarts;
    uint64_t samples;   // calls that were timed
    uint64_t time_sum;  // of all samples, in nanoseconds
    uint64_t depth_sum;
    uint64_t times[TR_TIME_BUCKETS];    // samples, by tr_time_bound
    uint64_t depths[TR_DEPTH_BUCKETS];  // and by tr_depth_bound
} tr_kind_metrics;

TR_BEGIN_DECLS

/* Logs one line, with the actor's path. Costs little below the log level. */
TR_API void tr_log(tr_from from, int level, const char *site,
                   const char *format, ...) TR_PRINTF(4, 5);

/*
 * Writes up to max actors, parents before children, siblings in order of
 * spawning; returns how many there are. The caller sets size in the first.
 */
TR_API size_t tr_actors(tr_system *sys, tr_actor_info *out, size_t max);
/*
 * What tr_actors tells, of one; the caller sets out->size.
 * Errors: TR_ENOENT, TR_EFOREIGN.
 */
TR_API TR_NODISCARD tr_err tr_actor_info_of(tr_from from, tr_ref ref,
                                            tr_actor_info *out);
/* The tree as indented text; returns the length it needs, without the NUL. */
TR_API size_t tr_tree(tr_system *sys, char *buf, size_t size);

/*
 * Writes up to max of the newest dead letters, the newest first; returns how
 * many are kept: 1,024 at most. The caller sets size in the first.
 */
TR_API size_t tr_dead_letters(tr_system *sys, tr_dead_info *out, size_t max);

/* The counters as they are now; the caller sets out->size. */
TR_API void tr_metrics(tr_system *sys, tr_metrics_snapshot *out);
/*
 * Writes up to max kinds that have had an actor, in the order in which the
 * system met them; returns how many there are: TR_KINDS_MAX at most. The
 * caller sets size in the first. Actors count for the kind they were spawned
 * as, messages and samples for the one whose handler it was (tr_become).
 */
TR_API size_t tr_metrics_kinds(tr_system *sys, tr_kind_metrics *out,
                               size_t max);
/* The greatest value of a bucket; of the last TR_FOREVER, or UINT64_MAX. */
TR_API tr_nanos tr_time_bound(uint32_t bucket);
TR_API uint64_t tr_depth_bound(uint32_t bucket);
/*
 * The bound under which `share` of the samples are: 0.5 for the median, 0.99
 * for all but the slowest hundredth. 0 without samples.
 */
TR_API tr_nanos tr_time_quantile(const tr_kind_metrics *kind, double share);
TR_API uint64_t tr_depth_quantile(const tr_kind_metrics *kind, double share);
/* The counters, and the histograms of each kind, as Prometheus text; returns the length it needs, without NUL. */
TR_API size_t tr_metrics_text(tr_system *sys, char *buf, size_t size);

TR_END_DECLS

#ifndef __cplusplus

#define tr_log(from, level, ...)                                               \
    __extension__(tr_log)((from), (level), TR_HERE, __VA_ARGS__)
/* tr_log with its level in the name. */
#define tr_debug(from, ...) tr_log(from, TR_LOG_DEBUG, __VA_ARGS__)
#define tr_info(from, ...)  tr_log(from, TR_LOG_INFO, __VA_ARGS__)
#define tr_warn(from, ...)  tr_log(from, TR_LOG_WARN, __VA_ARGS__)
#define tr_error(from, ...) tr_log(from, TR_LOG_ERROR, __VA_ARGS__)

#define tr_actor_info_of(from, ref, out)                                       \
    __extension__(tr_actor_info_of)((from), (ref), (out))

#endif /* !__cplusplus */
#endif
