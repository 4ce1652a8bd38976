/*
 * observe.h - looking at a running system: log, actors, tree, metrics.
 *
 * Looking never stops the system. Each actor is read on its own, so a list of
 * actors does not show all of them at the same moment. Counters only grow.
 *
 * Threads: any.
 * Ownership: everything is copied into memory of the caller, whose structs
 * carry their own size. Names of kinds and types are constants of the program.
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

/* One line of the log; borrowed by tr_system_options.log. */
struct tr_log_record {
    size_t size;
    int level;
    tr_nanos at;       // tr_now
    const char *site;  // "bank.c:42"
    const char *path;  // path of the actor, or NULL outside
    const char *text;  // without a newline
};

/* Bytes for a path and its NUL; a longer path is cut. */
enum { TR_PATH_SIZE = 256 };
/* How many of the last states of an actor are kept. */
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
    const char *running;  // type of the message being handled, or NULL;
                          //   also of a handler that waits
    tr_nanos since;       // tr_now when its handler began, or began to wait
    char path[TR_PATH_SIZE];
    tr_state history[TR_HISTORY];  // newest first; 0: no older one
    /* What its oldest handler that waits is waiting for. */
    const char *waits_in;    // the call: "tr_ask"; NULL: no handler waits
    const char *waits_with;  // type of the request, or NULL
    tr_ref waits_for;        // the actor that must answer, end or have room
    const char *waits_at;    // "bank.c:42", or NULL if that is not known
    tr_nanos waits_since;    // tr_now
} tr_actor_info;

/* Bytes for the name of a type and its NUL; a longer name is cut. */
enum { TR_TYPE_NAME_SIZE = 33 };

/* Bytes for the printed content of a dead letter and its NUL; cut to them. */
enum { TR_DEAD_CONTENT_SIZE = 128 };

/* One of the newest dead letters. */
typedef struct tr_dead_info {
    size_t size;
    tr_ref to;
    tr_ref sender;
    uint32_t reason;  // tr_dead_reason
    tr_nanos at;      // tr_now
    char type[TR_TYPE_NAME_SIZE];
    char content[TR_DEAD_CONTENT_SIZE];  // the message, printed; or ""
} tr_dead_info;

/*
 * Counters since the system was opened; actors, parked, virtual_names,
 * virtual_active and zombies are the numbers at this moment.
 */
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
    uint64_t dropped;         // mail dropped at an end by TR_DRAIN_DROP
    uint64_t given_up;        // actors stopped after too many restarts
    uint64_t bus_turns;       // of the bus to the other nodes of a cluster
    uint64_t bus_turn_max;    // most CPU time of one, in nanoseconds
} tr_metrics_snapshot;

enum {
    TR_KINDS_MAX = 256,     // kinds that are counted separately
    TR_TIME_BUCKETS = 122,  // buckets of tr_kind_metrics.times
    TR_DEPTH_BUCKETS = 23,
};

/*
 * Counters of one kind of actor, since the system was opened. Actors whose
 * definitions have the same name are one kind.
 *
 * Times and depths are samples: about one in 256 batches of a busy worker is
 * timed, most batches of an idle one, and all handlers of a simulated or polled
 * system. A time goes from the call of a handler to its return, including its
 * waits, by tr_now. A depth is the number of messages that waited behind the
 * one that was handled. The last bucket of each has no upper bound.
 */
typedef struct tr_kind_metrics {
    size_t size;
    const char *kind;  // tr_actor_def.name; "(others)": all the rest
    uint64_t actors;   // alive
    uint64_t spawned;
    uint64_t messages;  // handler calls
    uint64_t failures;
    uint64_t restarts;
    uint64_t samples;   // handler calls that were timed
    uint64_t time_sum;  // sum of all samples, in nanoseconds
    uint64_t depth_sum;
    uint64_t times[TR_TIME_BUCKETS];    // samples per bucket: tr_time_bound
    uint64_t depths[TR_DEPTH_BUCKETS];  // samples per bucket: tr_depth_bound
} tr_kind_metrics;

TR_BEGIN_DECLS

/*
 * Logs one line with the actor's path. A line below the log level costs little.
 */
TR_API void tr_log(tr_from from, int level, const char *site,
                   const char *format, ...) TR_PRINTF(4, 5);

/*
 * Changes the lowest level that is logged (tr_system_options.log_level), also
 * while other threads log. Returns the level before. A level above TR_LOG_ERROR
 * logs nothing.
 */
TR_API int tr_log_level_set(tr_system *sys, int level);

/*
 * Writes up to max actors: parents before children, siblings in the order in
 * which they were spawned. Returns how many actors there are. The caller sets
 * size in the first element.
 */
TR_API size_t tr_actors(tr_system *sys, tr_actor_info *out, size_t max);
/*
 * Fills in what tr_actors shows, for one actor. The caller sets out->size.
 * Errors: TR_ENOENT, TR_EFOREIGN.
 */
TR_API TR_NODISCARD tr_err tr_actor_info_of(tr_from from, tr_ref ref,
                                            tr_actor_info *out);
/*
 * Writes the tree of actors as indented text, cut to size. Returns the length
 * of the whole text without its NUL.
 */
TR_API size_t tr_tree(tr_system *sys, char *buf, size_t size);

/*
 * Writes up to max of the newest dead letters, the newest first. Returns how
 * many are kept: at most tr_system_options.dead_letters. The caller sets size in the first element.
 */
TR_API size_t tr_dead_letters(tr_system *sys, tr_dead_info *out, size_t max);

/* Fills in the counters as they are now. The caller sets out->size. */
TR_API void tr_metrics(tr_system *sys, tr_metrics_snapshot *out);
/*
 * Writes up to max kinds of actor, in the order in which the system met them.
 * Returns how many there are: at most TR_KINDS_MAX. The caller sets size in the
 * first element. An actor counts for the kind it was spawned as; messages and
 * samples count for the kind whose handler ran (tr_become).
 */
TR_API size_t tr_metrics_kinds(tr_system *sys, tr_kind_metrics *out,
                               size_t max);
/*
 * Return the largest value that a bucket counts; for the last bucket TR_FOREVER
 * and UINT64_MAX.
 */
TR_API tr_nanos tr_time_bound(uint32_t bucket);
TR_API uint64_t tr_depth_bound(uint32_t bucket);
/*
 * Return the value that the given share of the samples do not exceed: 0.5 gives
 * the median, 0.99 the value that one sample in a hundred exceeds. 0 if there
 * are no samples.
 */
TR_API tr_nanos tr_time_quantile(const tr_kind_metrics *kind, double share);
TR_API uint64_t tr_depth_quantile(const tr_kind_metrics *kind, double share);
/*
 * Writes the counters, and the histograms of each kind, as Prometheus text, cut
 * to size. Returns the length of the whole text without its NUL.
 */
TR_API size_t tr_metrics_text(tr_system *sys, char *buf, size_t size);

TR_END_DECLS

#ifndef __cplusplus

#define tr_log(from, level, ...)                                               \
    __extension__(tr_log)((from), (level), TR_HERE, __VA_ARGS__)
/* Log one line as tr_log does, at the level in the name. */
#define tr_debug(from, ...) tr_log(from, TR_LOG_DEBUG, __VA_ARGS__)
#define tr_info(from, ...)  tr_log(from, TR_LOG_INFO, __VA_ARGS__)
#define tr_warn(from, ...)  tr_log(from, TR_LOG_WARN, __VA_ARGS__)
#define tr_error(from, ...) tr_log(from, TR_LOG_ERROR, __VA_ARGS__)

#define tr_actor_info_of(from, ref, out)                                       \
    __extension__(tr_actor_info_of)((from), (ref), (out))

#endif /* !__cplusplus */
#endif
