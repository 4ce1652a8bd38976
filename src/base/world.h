/*
 * world.h - the interface between Troupe and everything that is not
 * deterministic: time, random numbers, threads, waiting, descriptors, streams,
 * datagrams, signals, processes, files.
 *
 * The library gets these from a world and never calls the system directly.
 * world_posix.c is the real world, sim/world_sim.c the simulated one.
 * tools/check_layers.py reports calls that go around this interface.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef TRI_BASE_WORLD_H
#define TRI_BASE_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shared.h"
#include "troupe/base.h"

typedef struct tri_world tri_world;
typedef struct tri_thread tri_thread;  // owned by the world until joined
typedef struct tri_poller tri_poller;
typedef struct tri_file tri_file;
typedef struct tri_stream
    tri_stream;  // a connection, a listener, or a socket of datagrams

/* Readiness of a descriptor. */
enum {
    TRI_FD_READ = 1,
    TRI_FD_WRITE = 2,
    TRI_FD_ERROR = 4,  // hang-up or error; always reported
};

/* mono_coarse is at most this late: two ticks of a kernel with 100 Hz. */
#define TRI_CLOCK_LAG ((tr_nanos)20000000)

typedef struct tri_fd_event {
    uint64_t token;   // as given to poller_add
    uint32_t events;  // TRI_FD_*
} tri_fd_event;

enum {
    /* Bytes of an address with its zero; a Unix path has up to 107. */
    TRI_STREAM_ADDRESS_MAX = 128,
    TRI_PIECES_MAX = 64,  // of which one stream_write takes bytes
    TRI_UDP_MAX = 65507,  // bytes of a datagram: 64 KiB less the IPv4 headers
};

/* Bytes to write; borrowed for the call. The layout of struct iovec. */
typedef struct tri_piece {
    const void *at;
    size_t size;
} tri_piece;

/*
 * Waits once for a stream. fn runs in the thread that is in poller_wait, or as
 * an event of the simulated world. It must not block; it may read, write, wait
 * again and close the stream. The waiter belongs to its owner again when fn is
 * called; what else fn needs is beside the waiter (tri_container_of).
 */
typedef struct tri_waiter tri_waiter;
struct tri_waiter {
    void (*fn)(tri_waiter *waiter);
};

/* What stream_wait found. */
typedef enum tri_armed {
    TRI_ARMED,       // fn will be called, unless stream_cancel returns true
    TRI_READY_NOW,   // nothing was armed: try again now
    TRI_ARMED_ELSE,  // another waiter waits for this direction
} tri_armed;

/* A process that process_start makes; borrowed for the call. */
typedef struct tri_process_plan {
    const char *const *arguments;    // the first names the program; then NULL
    const char *const *environment;  // then NULL; NULL: that of this process
    const char *folder;              // where it runs; NULL: where this one does
    bool has_pipe[3];  // its descriptors 0, 1 and 2 are pipes to this process
    bool is_merged;    // 2 is the same as 1
    bool is_quiet;     // 1 and 2 without a pipe go nowhere, not to this one's
} tri_process_plan;

/* How a process has ended. */
typedef struct tri_process_status {
    int code;    // its exit status
    int signal;  // that ended it; 0: it has exited
} tri_process_status;

/* How a file is opened. */
enum {
    TRI_FILE_READ = 1,
    TRI_FILE_WRITE = 2,
    TRI_FILE_CREATE = 4,     // create the file if it does not exist
    TRI_FILE_EXCLUSIVE = 8,  // with CREATE: fail if the file exists
    TRI_FILE_DELETE = 16,    // remove the file when it is closed
};

/* Byte-range locks, as SQLite needs them between processes. */
enum { TRI_LOCK_NONE, TRI_LOCK_SHARED, TRI_LOCK_EXCLUSIVE };

/*
 * A system as a world without threads sees it: the world steps the system,
 * which starts no workers (see sim/world_sim.c). All calls come from the one
 * thread that runs the world.
 */
typedef struct tri_driven {
    void *system;
    uint32_t (*runnable)(void *system);          // count of runnable actors
    void (*step)(void *system, uint32_t index);  // runs one of them
    tr_nanos (*next_due)(void *system);          // TR_FOREVER: no timer
    void (*fire)(void *system, tr_nanos now);    // fires the timers due
    void *world_data;                            // for the world's own use
} tri_driven;

typedef struct tri_world_ops {
    const char *name;
    bool has_threads;  // false: a system attaches and the world steps it

    tr_nanos (*mono)(tri_world *world);  // monotonic time
    /* Cheaper than mono and at most TRI_CLOCK_LAG behind. NULL: use mono. */
    tr_nanos (*mono_coarse)(tri_world *world);
    tr_nanos (*wall)(tri_world *world);      // since 1970
    tr_nanos (*boottime)(tri_world *world);  // monotonic, counts suspend too
    uint64_t (*random)(tri_world *world);
    uint32_t (*cpus)(tri_world *world);

    /*
     * Starts a thread that runs fn(arg). Names of library threads begin with
     * "tr-": when a simulated process dies, the simulator lets these threads
     * run to their end after the run, on a disk that fails, so that they free
     * their memory. Errors: TR_ENOMEM, TR_ELIMIT.
     */
    tr_err (*thread_start)(tri_world *world, tri_thread **out, const char *name,
                           void (*fn)(void *arg), void *arg);
    /* Waits for the thread's end and frees it. */
    void (*thread_join)(tri_world *world, tri_thread *thread);
    /*
     * thread_ran returns the CPU time of a thread; thread_is_runnable returns
     * true if the thread runs or waits only for a CPU, and false if that is
     * not known. Both are NULL in a world that cannot observe threads.
     */
    tr_nanos (*thread_ran)(tri_world *world, tri_thread *thread);
    bool (*thread_is_runnable)(tri_world *world, tri_thread *thread);
    /*
     * Calls fn(user, address), in a signal handler, if the calling thread is
     * about to die because it cannot access that address: posix_fault.h. Ends
     * with a thread of the world, or if fn is NULL. NULL in a world that cannot.
     */
    void (*watch_faults)(tri_world *world,
                         void (*fn)(void *user, const void *address),
                         void *user);
    /*
     * Waits while *word is `expected`, at most `timeout` (TR_FOREVER allowed);
     * may return early. Returns false if the time is over.
     */
    bool (*park)(tri_world *world, _Atomic(uint32_t) *word, uint32_t expected,
                 tr_nanos timeout);
    /* Wakes at most `count` threads that are parked on the word. */
    void (*wake)(tri_world *world, _Atomic(uint32_t) *word, uint32_t count);
    void (*pause)(tri_world *world);  // for each round of a spin loop
    void (*yield)(tri_world *world);  // gives the CPU to another thread
    /*
     * Returns when every thread of the process has passed a full fence since
     * the call began. Must not be called if it is NULL or if can_barrier
     * returns false.
     */
    void (*barrier)(tri_world *world);
    bool (*can_barrier)(tri_world *world);

    /*
     * Blocks until SIGINT or SIGTERM arrives or *word is not `expected`.
     * NULL: this world has no signals.
     */
    void (*wait_signal)(tri_world *world, _Atomic(uint32_t) *word,
                        uint32_t expected);

    /* Called by a system when it opens and closes, if has_threads is false. */
    void (*attach)(tri_world *world, tri_driven *driven);
    void (*detach)(tri_world *world, tri_driven *driven);

    /* Descriptors. An event disarms its descriptor (one-shot). */
    tr_err (*poller_new)(tri_world *world, tri_poller **out);
    void (*poller_free)(tri_poller *poller);
    tr_err (*poller_add)(tri_poller *poller, int fd, uint32_t events,
                         uint64_t token);
    void (*poller_remove)(tri_poller *poller, int fd);
    /*
     * Returns how many events were stored; 0 on time-out or poller_wake. Calls
     * the waiters of streams that became ready. One thread at a time.
     */
    uint32_t (*poller_wait)(tri_poller *poller, tri_fd_event *events,
                            uint32_t max, tr_nanos timeout);
    void (*poller_wake)(tri_poller *poller);
    int (*poller_fd)(tri_poller *poller);  // readable if wait would return
    /* Makes poller_fd readable at the time `due`; TR_FOREVER: never. */
    void (*poller_alarm)(tri_poller *poller, tr_nanos due);

    /*
     * Streams: connections and listeners. No call blocks, except resolve. A
     * stream remembers whether it is ready: stream_wait is called only after
     * a call gave TR_EWOULDBLOCK. One thread may read and another may write a
     * stream at the same time; two may not read, nor two write.
     *
     * Addresses are texts: "tcp://127.0.0.1:7000", "tcp://[::1]:7000",
     * "unix:/path". Port 0 is a free port. In a simulation they name listeners
     * of all its nodes, and "tcp://node-2:7000" one of node 2.
     *
     * Errors of all: TR_EINVAL (address), TR_ENOMEM, TR_ELIMIT (descriptors),
     * TR_ERESET (the connection broke), TR_EUNREACHABLE (nobody listens there,
     * or no way), TR_ETIMEDOUT (the other side is silent), TR_EIO.
     */

    /*
     * Stores the numeric addresses of an address with a name, at most `max`.
     * Blocks. Errors: TR_EINVAL, TR_ENOENT (no such name), TR_EIO.
     */
    tr_err (*resolve)(tri_world *world, const char *address,
                      char (*out)[TRI_STREAM_ADDRESS_MAX], uint32_t max,
                      uint32_t *count);
    /* Listens. Errors: TR_EEXIST (the address is in use). */
    tr_err (*stream_listen)(tri_poller *poller, tri_stream **out,
                            const char *address, uint32_t backlog);
    /* Takes a connection. Errors: TR_EWOULDBLOCK (wait for TRI_FD_READ). */
    tr_err (*stream_accept)(tri_stream *listener, tri_stream **out);
    /* Begins to connect; stream_connected says how it ends. */
    tr_err (*stream_connect)(tri_poller *poller, tri_stream **out,
                             const char *address);
    /* Errors: TR_EWOULDBLOCK (not decided yet; wait for TRI_FD_WRITE). */
    tr_err (*stream_connected)(tri_stream *stream);
    /*
     * Reads up to `size` bytes, size > 0. TR_OK with *done 0 is the end of the
     * stream. Errors: TR_EWOULDBLOCK (wait for TRI_FD_READ).
     */
    tr_err (*stream_read)(tri_stream *stream, void *at, size_t size,
                          size_t *done);
    /*
     * Writes some bytes of the pieces, at least one; how many is in *done.
     * Errors: TR_EWOULDBLOCK (wait for TRI_FD_WRITE).
     */
    tr_err (*stream_write)(tri_stream *stream, const tri_piece *pieces,
                           uint32_t count, size_t *done);
    /* Ends writing: the other side reads the end after all bytes. */
    tr_err (*stream_shutdown)(tri_stream *stream);
    /* Closes and frees. No waiter may be armed. NULL is allowed. */
    void (*stream_close)(tri_stream *stream);
    /* Stores the stream's own address or the other side's; "" if unknown. */
    void (*stream_address)(tri_stream *stream, bool remote,
                           char out[TRI_STREAM_ADDRESS_MAX]);
    /* Arms the waiter for one direction: TRI_FD_READ or TRI_FD_WRITE. */
    tri_armed (*stream_wait)(tri_stream *stream, uint32_t direction,
                             tri_waiter *waiter);
    /* Disarms the waiter. False: its fn has been, or is about to be, called. */
    bool (*stream_cancel)(tri_stream *stream, uint32_t direction,
                          tri_waiter *waiter);

    /*
     * Datagrams. A socket of them is a stream for stream_wait, stream_cancel,
     * stream_address and stream_close, and for none of the other calls.
     * Addresses are "udp://127.0.0.1:7000" or "udp://[::1]:7000".
     */

    /* Opens a socket. Errors: TR_EEXIST (the address is in use). */
    tr_err (*udp_open)(tri_poller *poller, tri_stream **out,
                       const char *address);
    /*
     * Sends one datagram, which may be lost. Errors: TR_EWOULDBLOCK (wait for
     * TRI_FD_WRITE), TR_EINVAL (also: more than TRI_UDP_MAX bytes, or than
     * TRI_PIECES_MAX pieces), TR_EUNREACHABLE (no way).
     */
    tr_err (*udp_send)(tri_stream *socket, const char *to,
                       const tri_piece *pieces, uint32_t count);
    /*
     * Takes one datagram and the address of its sender. Errors: TR_EWOULDBLOCK
     * (wait for TRI_FD_READ), TR_ELIMIT (it has more than `size` bytes; those
     * after *done are lost).
     */
    tr_err (*udp_receive)(tri_stream *socket, void *at, size_t size,
                          size_t *done, char from[TRI_STREAM_ADDRESS_MAX]);

    /*
     * Signals of the process, and processes. Both are streams for stream_wait
     * with TRI_FD_READ, stream_cancel and stream_close, and for none of the
     * other calls.
     */

    /*
     * Takes over signals until the stream is closed; bit n - 1 of `set` is
     * signal n. Errors: TR_EINVAL (a signal that cannot be waited for),
     * TR_ELIMIT.
     */
    tr_err (*signals_open)(tri_poller *poller, tri_stream **out, uint64_t set);
    /* Takes one that has come. Errors: TR_EWOULDBLOCK. */
    tr_err (*signals_take)(tri_stream *signals, int *number);

    /*
     * Starts a process in a process group of its own. Stores a stream for each
     * pipe, NULL for the others. stream_close of the process kills the group,
     * if the process has not ended. Blocks until the program has been loaded.
     * Errors: TR_ENOENT (no such program or folder), TR_EINVAL (not a program),
     * TR_ELIMIT. NULL: this world has no processes.
     */
    tr_err (*process_start)(tri_poller *poller, tri_stream **out,
                            const tri_process_plan *plan, tri_stream *pipes[3]);
    /* Errors: TR_EWOULDBLOCK (it runs), TR_EIO (somebody else has it). */
    tr_err (*process_status)(tri_stream *child, tri_process_status *out);
    /* Sends a signal to its group. Errors: TR_EINVAL, TR_ESTOPPED (ended). */
    tr_err (*process_signal)(tri_stream *child, int number);

    /* Files. A read stores fewer bytes only at the end of the file. */
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
    /* Locks a range of bytes. Errors: TR_EFULL (locked by another open). */
    tr_err (*file_lock)(tri_file *file, uint64_t offset, uint64_t size,
                        int lock);
    /* Maps part of the file, shared between processes (SQLite's WAL index). */
    tr_err (*file_map)(tri_file *file, uint64_t offset, size_t size,
                       void **out);
    void (*file_unmap)(tri_file *file, void *at, size_t size);
    tr_err (*file_remove)(tri_world *world, const char *path, bool sync_dir);
    /*
     * Gives a file another name in the same folder, in place of the file that
     * has it, durably. After an error the name is the old one, unless the last
     * step has failed, which makes it durable.
     */
    tr_err (*file_rename)(tri_world *world, const char *path,
                          const char *new_path);
    tr_err (*file_exists)(tri_world *world, const char *path, bool *out);

    /*
     * Writes where the caller is, such as the simulated node, for messages to
     * people. NULL: this world has only one place.
     */
    void (*place)(tri_world *world, char *out, size_t size);

    /*
     * Returns a variable of the environment, or NULL; valid until the program
     * changes it. NULL: this world has none.
     */
    const char *(*environment)(tri_world *world, const char *name);

    /*
     * Returns the table of objects that all systems of this world share; in a
     * simulation one table for all nodes.
     */
    tri_shared *(*shared)(tri_world *world);

    /*
     * Returns true with probability p, to inject a rare event at `site`. NULL:
     * this world injects none.
     */
    bool (*buggify)(tri_world *world, double p, const char *site);
} tri_world_ops;

struct tri_world {
    uint64_t magic;  // TRI_WORLD_MAGIC
    const tri_world_ops *ops;
};

/*
 * True if the simulation injects a rare event here: TR_BUGGIFY for the library
 * itself. Not for the path of a message: in the real world it costs two loads.
 */
#define TRI_BUGGIFY(world, p)                                                  \
    ((world)->ops->buggify != NULL &&                                          \
     (world)->ops->buggify((world), (p), TR_HERE))

#define TRI_WORLD_MAGIC UINT64_C(0x54524f5550574f52)

/*
 * Returns the real world (world_posix.c). The process has one, and it is never
 * freed.
 */
tri_world *tri_world_posix(void);

/*
 * Returns the world that an option `world` stands for: the real one for NULL.
 * Aborts with a message that names `site` if the option is not a world.
 */
tri_world *tri_world_given(const void *option, const char *site);

#endif
