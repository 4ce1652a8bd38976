/*
 * sim_thread.h - the threads of a simulated world, and how they and main wait.
 *
 * A thread is a fiber of the thread that runs the world.
 *
 * Ownership: a handle belongs to the world until it is joined.
 */
#ifndef TRI_SIM_SIM_THREAD_H
#define TRI_SIM_SIM_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fiber.h"
#include "base/list.h"
#include "base/world.h"
#include "sim/sim_event.h"
#include "sim/sim_node.h"
#include "troupe/base.h"

typedef enum tri_thread_state {
    TRI_THREAD_READY = 1,
    TRI_THREAD_RUNNING,
    TRI_THREAD_PARKED,
    TRI_THREAD_FROZEN,  // its process was killed: tri_sim_threads_freeze
    TRI_THREAD_DONE,
} tri_thread_state;

struct tri_thread {
    tri_link all, queue;  // in sim->threads; in sim->ready, parked or frozen
    tri_sim_node *node;   // whose process it belongs to
    uint32_t id;
    tri_thread_state state;
    bool is_library;  // named "tr-...": see tri_world_ops.thread_start
    bool killed;
    bool timed_out;
    bool begun;
    _Atomic(uint32_t) done;   // 1 after its end; joiners park on it
    _Atomic(uint32_t) sleep;  // always 0; tri_sim_sleep parks on it
    _Atomic(uint32_t) *word;  // that it is parked on
    tri_sim_event deadline;   // of the park
    tri_fiber *fiber;         // NULL after its end
    tri_jump_buf jump;        // back to the fiber's loop
    void (*fn)(void *arg);
    void *arg;
    char name[24];
};

/* For the world's table: see base/world.h. */
tr_err tri_sim_thread_start(tri_world *world, tri_thread **out,
                            const char *name, void (*fn)(void *arg), void *arg);
void tri_sim_thread_join(tri_world *world, tri_thread *thread);
bool tri_sim_park(tri_world *world, _Atomic(uint32_t) *word, uint32_t expected,
                  tr_nanos timeout);
void tri_sim_wake(tri_world *world, _Atomic(uint32_t) *word, uint32_t count);
void tri_sim_yield(tri_world *world);

/* Wakes everything that is parked on the word. */
void tri_sim_wake_all(tr_sim *sim, _Atomic(uint32_t) *word);
/* Sleeps in the running thread. Returns false at once if none is running. */
bool tri_sim_sleep(tr_sim *sim, tr_nanos span);

/* Runs a thread that is in no queue until it waits or ends. */
void tri_sim_thread_enter(tr_sim *sim, tri_thread *thread);
/* The entry of every fiber: runs one thread after another. */
void tri_sim_thread_loop(void *sim);
/* Frees the handles; all threads must have ended (a check). */
void tri_sim_threads_free(tr_sim *sim);

/* Ends the threads of a node wherever they are: each jumps out of its work. */
void tri_sim_threads_kill(tri_sim_node *node);
/*
 * Freezes the threads of a node whose process has died. A join of one returns,
 * but their stacks stay: other nodes write the answers to asks on them, and
 * what a thread of the library holds (an SQLite connection in the middle of a
 * write) cannot be released from outside.
 */
void tri_sim_threads_freeze(tri_sim_node *node);
/*
 * Lets the frozen threads of the library go on, so that they end by
 * themselves; their disk fails every call. Those of the program stay frozen.
 */
void tri_sim_threads_unfreeze(tr_sim *sim);

#endif
