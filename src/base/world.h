/*
 * world.h - the seam between Troupe and everything that is not deterministic.
 *
 * Time, random numbers, threads, waiting, descriptors, files: the library asks
 * a world for them and calls nothing else. world_posix.c is the real one,
 * sim/world_sim.c the simulated one; a test greps the sources for calls that
 * go around the seam.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef TRI_BASE_WORLD_H
#define TRI_BASE_WORLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "troupe/base.h"

typedef struct tri_world tri_world;
typedef struct tri_thread tri_thread;  // owned by the world until joined
typedef struct tri_poller tri_poller;
typedef struct tri_file tri_file;

/* Readiness of a descriptor. */
enum {
    TRI_FD_READ = 1,
    TRI_FD_WRITE = 2,
    TRI_FD_ERROR = 4,  // hang-up or error; always reported
};

#define TRI_CLOCK_LAG ((tr_nanos)20000000)  // two ticks of the slowest kernel

typedef struct tri_fd_event {
    uint64_t token;   // as given to poller_add
    uint32_t events;  // TRI_FD_*
} tri_fd_event;

/* How a file is opened. */
enum {
    TRI_FILE_READ = 1,
    TRI_FILE_WRITE = 2,
    TRI_FILE_CREATE = 4,     // make it if it is not there
    TRI_FILE_EXCLUSIVE = 8,  // with CREATE: it must not be there
    TRI_FILE_DELETE = 16,    // gone when closed
};

/* Byte-range locks, as SQLite needs them between processes. */
enum { TRI_LOCK_NONE, TRI_LOCK_SHARED, TRI_LOCK_EXCLUSIVE };

/*
 * What a world without threads of its own drives: it steps the system instead
 * of starting workers for it (see sim/world_sim.c). All calls come from the
 * one thread that runs the world.
 */
typedef struct tri_driven {
    void *system;
    uint32_t (*runnable)(void *system);          // actors that could run now
    void (*step)(void *system, uint32_t index);  // runs one of them
    tr_nanos (*next_due)(void *system);          // TR_FOREVER: no timer
    void (*fire)(void *system, tr_nanos now);    // runs what is due
    void *world_data;                            // the world's own
} tri_driven;

typedef struct tri_world_ops {
    const char *name;
    bool has_threads;  // false: `attach` is called and the world steps us

    tr_nanos (*mono)(tri_world *world);  // never falls
    /* At most TRI_CLOCK_LAG behind mono, for less; NULL: use mono. */
    tr_nanos (*mono_coarse)(tri_world *world);
    tr_nanos (*wall)(tri_world *world);  // since 1970
    uint64_t (*random)(tri_world *world);
    uint32_t (*cpus)(tri_world *world);

    /*
     * Starts fn(arg). The library's own threads are named "tr-...": when a
     * simulated process dies they are let go on after the run, with a disk
     * that fails, to free what they hold. Errors: TR_ENOMEM, TR_ELIMIT.
     */
    tr_err (*thread_start)(tri_world *world, tri_thread **out, const char *name,
                           void (*fn)(void *arg), void *arg);
    void (*thread_join)(tri_world *world, tri_thread *thread);
    /*
     * The processor time that a thread has had, and whether it would go on if
     * it had a processor; false also where that is not known. NULL, both:
     * nothing is known of threads.
     */
    tr_nanos (*thread_ran)(tri_world *world, tri_thread *thread);
    bool (*thread_is_runnable)(tri_world *world, tri_thread *thread);
    /*
     * Waits while *word is `expected`, at most `timeout` (TR_FOREVER allowed);
     * may return early. False when the time is over.
     */
    bool (*park)(tri_world *world, _Atomic(uint32_t) *word, uint32_t expected,
                 tr_nanos timeout);
    void (*wake)(tri_world *world, _Atomic(uint32_t) *word, uint32_t count);
    void (*pause)(tri_world *world);  // one turn of a spin loop
    void (*yield)(tri_world *world);
    /*
     * Returns when every thread of the process has passed a full fence since
     * the call began. NULL, or false from can_barrier: there is no such thing.
     */
    void (*barrier)(tri_world *world);
    bool (*can_barrier)(tri_world *world);

    /*
     * Blocks until SIGINT or SIGTERM has come or *word is not `expected`.
     * NULL: there are no signals in this world.
     */
    void (*wait_signal)(tri_world *world, _Atomic(uint32_t) *word,
                        uint32_t expected);

    /* Only where has_threads is false. */
    void (*attach)(tri_world *world, tri_driven *driven);
    void (*detach)(tri_world *world, tri_driven *driven);

    /* Descriptors. One-shot: an event disarms its descriptor. */
    tr_err (*poller_new)(tri_world *world, tri_poller **out);
    void (*poller_free)(tri_poller *poller);
    tr_err (*poller_add)(tri_poller *poller, int fd, uint32_t events,
                         uint64_t token);
    void (*poller_remove)(tri_poller *poller, int fd);
    /* Returns how many events were stored; 0 on time-out or poller_wake. */
    uint32_t (*poller_wait)(tri_poller *poller, tri_fd_event *events,
                            uint32_t max, tr_nanos timeout);
    void (*poller_wake)(tri_poller *poller);
    int (*poller_fd)(tri_poller *poller);  // readable when wait would return
    /* Makes poller_fd readable at `due`; TR_FOREVER: not any more. */
    void (*poller_alarm)(tri_poller *poller, tr_nanos due);

    /* Files. `done` may be less than size at the end of a file (read). */
    tr_err (*file_open)(tri_world *world, tri_file **out, const char *path,
                        uint32_t flags);
    void (*file_close)(tri_file *file);
    tr_err (*file_read)(tri_file *file, void *at, size_t size, uint64_t offset,
                        size_t *done);
    tr_err (*file_write)(tri_file *file, const void *at, size_t size,
                         uint64_t offset);
    tr_err (*file_sync)(tri_file *file);
    tr_err (*file_truncate)(tri_file *file, uint64_t size);
    tr_err (*file_size)(tri_file *file, uint64_t *out);
    /* Byte-range lock; TR_EFULL: another process holds it. */
    tr_err (*file_lock)(tri_file *file, uint64_t offset, uint64_t size,
                        int lock);
    /* Maps part of the file, shared between processes (SQLite's WAL index). */
    tr_err (*file_map)(tri_file *file, uint64_t offset, size_t size,
                       void **out);
    void (*file_unmap)(tri_file *file, void *at, size_t size);
    tr_err (*file_remove)(tri_world *world, const char *path, bool sync_dir);
    tr_err (*file_exists)(tri_world *world, const char *path, bool *out);

    /* Which of several worlds it is, for a person. NULL: there is but one. */
    void (*place)(tri_world *world, char *out, size_t size);

    /* Whether the unlikely happens here. NULL: it never does in this world. */
    bool (*buggify)(tri_world *world, double p, const char *site);
} tri_world_ops;

struct tri_world {
    uint64_t magic;  // TRI_WORLD_MAGIC
    const tri_world_ops *ops;
};

/*
 * A place where a simulation may do the unlikely: TR_BUGGIFY of the library's
 * own code. Not on paths that a message takes: it costs two loads there, too.
 */
#define TRI_BUGGIFY(world, p)                                                  \
    ((world)->ops->buggify != NULL &&                                          \
     (world)->ops->buggify((world), (p), TR_HERE))

#define TRI_WORLD_MAGIC UINT64_C(0x54524f5550574f52)

/* The operating system's world. One for the process; never released. */
tri_world *tri_world_posix(void);
/* What an option `world` means, NULL being the real one; site: whose it is. */
tri_world *tri_world_given(const void *option, const char *site);

#endif
