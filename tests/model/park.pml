/*
 * park.pml - workers that go to sleep, and threads that schedule cells.
 *
 * The pool has two workers. One cell may only be run by the first worker and
 * comes through its inbox; two cells come through the shared queue. When all
 * have run, the workers are told to leave. Steps have the names of functions
 * in src/core/run/scheduler.c and pick.c. Of the search for work the model has
 * only what other threads see: while a worker searches, tri_pool_wake wakes
 * nobody, so the worker reads the queue again before it sleeps. The model
 * leaves out timers, which end a sleep early, and the rings, whose owner is
 * awake.
 *
 * The model shows that in every state in which no process can move, every cell
 * has run and both workers have left: no cell waits for a sleeping worker.
 *
 * Each variant below breaks this:
 *
 * NO_ORDER_PARK      a worker reads inbox and shared queue before its
 *                    park_word is visible
 * NO_ORDER_SLEEPING  a worker reads the shared queue before `sleeping` is
 *                    visible
 * NO_ORDER_INBOX     a sender reads park_word before its cell in the inbox is
 *                    visible
 * NO_ORDER_SHARED    a sender reads `sleeping` before its cell in the queue is
 *                    visible
 * NO_ORDER_SEARCHING  a worker reads the shared queue before the end of its
 *                    search is visible
 * NO_ORDER_STOP      tri_workers_stop reads park_word before `stopping` is
 *                    visible
 * NO_LAST_LOOK       a worker sleeps without reading the queues again
 * KEEP_PARK_WORD     tri_worker_wake does not clear park_word, so a worker that
 *                    is about to enter the kernel sleeps on
 */
#include "memory.pml"

#define WORKERS 2
#define CELLS   3

#ifdef NO_ORDER_PARK
#define ordered_park(w)
#else
#define ordered_park(w) seen(w)
#endif
#ifdef NO_ORDER_SLEEPING
#define ordered_sleeping(w)
#else
#define ordered_sleeping(w) seen(w)
#endif
#ifdef NO_ORDER_INBOX
#define ordered_inbox(w)
#else
#define ordered_inbox(w) seen(w)
#endif
#ifdef NO_ORDER_SHARED
#define ordered_shared(w)
#else
#define ordered_shared(w) seen(w)
#endif
#ifdef NO_ORDER_SEARCHING
#define ordered_searching(w)
#else
#define ordered_searching(w) seen(w)
#endif
#ifdef NO_ORDER_STOP
#define ordered_stop(w)
#else
#define ordered_stop(w) seen(w)
#endif

word park_word[WORKERS];
word inbox[WORKERS];   /* number of cells in it */
word length;           /* of the shared queue */
word sleeping;
word searching;
word stopping;
bool waiting[WORKERS]; /* in the kernel, waiting on park_word */

byte done, left;       /* cells that have run, workers that have left */

/* ---- scheduling cells ---- */

inline tri_worker_wake(w)
{
    if
    :: read(park_word[w]) == 1 ->
        atomic {
            quiet(park_word[w]) ->
            woke = park_word[w].value == 1;
#ifndef KEEP_PARK_WORD
            park_word[w].value = 0
#endif
        }
        if
        :: woke -> d_step { waiting[w] = false; woke = false }  /* wake */
        :: else
        fi
    :: else
    fi
}

inline tri_pool_wake()
{
    if
    :: read(sleeping) ->
        if
        :: read(searching)
        :: else ->
            if
            :: read(park_word[0]) -> tri_worker_wake(0)
            :: else ->
                if
                :: read(park_word[1]) -> tri_worker_wake(1)
                :: else
                fi
            fi
        fi
    :: else
    fi
}

inline inbox_push(w)
{
    atomic {
        quiet(inbox[w]) ->
        put(inbox[w], inbox[w].value + 1);
        ordered_inbox(inbox[w])
    }
}

inline shared_push()
{
    atomic {
        quiet(length) ->
        put(length, length.value + 1);
        ordered_shared(length)
    }
}

proctype schedule_bound()  /* tri_schedule of a cell whose home is worker 0 */
{
    bool woke;
    inbox_push(0);
    tri_worker_wake(0)
}

proctype schedule_shared()  /* tri_schedule by a thread outside the pool */
{
    bool woke;
    shared_push();
    tri_pool_wake()
}

proctype tri_workers_stop()
{
    bool woke;
    done == CELLS;
    atomic { quiet(stopping) -> put(stopping, 1); ordered_stop(stopping) }
    tri_worker_wake(0);
    tri_worker_wake(1)
}

/* ---- workers ---- */

inline tri_worker_take_inbox(w)
{
    if
    :: read(inbox[w]) ->
        atomic {
            quiet(inbox[w]) ->
            bound = bound + inbox[w].value;
            inbox[w].value = 0
        }
    :: else
    fi
}

inline tri_pool_pop()
{
    if
    :: read(length) ->
        atomic {
            quiet(length) ->  /* the lock */
            if
            :: length.value ->
                length.value = length.value - 1;
                found = true
            :: else
            fi
        }
    :: else
    fi
}

inline set_park_word(w)
{
    atomic {
        quiet(park_word[w]) ->
        put(park_word[w], 1);
        ordered_park(park_word[w])
    }
}

inline count_sleeping()
{
    atomic {
        quiet(sleeping) ->
        put(sleeping, sleeping.value + 1);
        ordered_sleeping(sleeping)
    }
}

inline worker_sleep(w)
{
    set_park_word(w);
    count_sleeping();
#ifndef NO_LAST_LOOK
    if
    :: read(inbox[w]) -> goto awake
    :: else
    fi;
    if
    :: read(length) -> goto awake
    :: else
    fi;
    if
    :: read(stopping) -> goto awake
    :: else
    fi;
#endif
    atomic {  /* park: the kernel compares and waits in one step */
        if
        :: read(park_word[w]) == 1 -> waiting[w] = true
        :: else
        fi
    }
end_asleep:
    !waiting[w];
awake:
    atomic { quiet(sleeping) -> sleeping.value = sleeping.value - 1 };
    atomic { quiet(park_word[w]) -> park_word[w].value = 0 }
}

inline search()
{
    atomic {
        quiet(searching) ->
        put(searching, searching.value + 1);
        seen(searching)
    }
    tri_pool_pop();
    atomic {
        quiet(searching) ->
        put(searching, searching.value - 1);
        ordered_searching(searching)
    }
    if
    :: found ->
        if
        :: read(length) -> tri_pool_wake()
        :: else
        fi
    :: else
    fi
}

proctype worker(byte w)
{
    byte bound;
    bool found, woke;
    if
    :: w == 1 -> done == CELLS  /* busy in a long handler */
    :: true
    fi;
next:                        /* tri_worker_next */
    found = false;
    tri_worker_take_inbox(w);
    if
    :: bound -> bound--; found = true
    :: else -> tri_pool_pop()
    fi;
    if
    :: !found -> search()
    :: else
    fi;
    if
    :: found -> done++; goto next
    :: else
    fi;
    if
    :: read(stopping) -> goto leave
    :: else
    fi;
    worker_sleep(w);
    goto next;
leave:
    left++
}

proctype wire()
{
end:
    do
    :: land(park_word[0])
    :: land(park_word[1])
    :: land(inbox[0])
    :: land(length)
    :: land(sleeping)
    :: land(searching)
    :: land(stopping)
    od
}

proctype judge()
{
    timeout ->
    assert(done == CELLS);
    assert(left == WORKERS);
    assert(sleeping.value == 0)
}

init
{
    atomic {
        run worker(0);
        run worker(1);
        run schedule_bound();
        run schedule_shared();
        run schedule_shared();
        run tri_workers_stop();
        run wire();
        run judge()
    }
}
