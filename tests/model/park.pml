/*
 * park.pml - workers that go to sleep, and those who bring them work.
 *
 * A group of two workers. One cell may be run by the first worker only and
 * comes through its inbox; two cells come through the shared queue; when all
 * have run, the workers are told to leave. Steps are named after
 * src/core/scheduler.c. Of search only what others see is here: while a
 * worker searches nobody is woken, so it looks at the queue before it sleeps.
 * Timers, which end a sleep early, and the rings, whose owner is awake, are
 * left out.
 *
 * Shown: when nothing can move any more, every cell has run and both workers
 * have left. No cell waits for a worker that sleeps.
 *
 * NO_ORDER_PARK      inbox and shared queue are read before park_word is seen
 * NO_ORDER_SLEEPING  the shared queue is read before `sleeping` is seen
 * NO_ORDER_INBOX     park_word is read before the cell in the inbox is seen
 * NO_ORDER_SHARED    `sleeping` is read before the cell in the queue is seen
 * NO_ORDER_SEARCHING  the shared queue is read before the end of a search is
 *                     seen
 * NO_ORDER_STOP      park_word is read before the order to leave is seen
 * NO_LAST_LOOK       a worker sleeps without looking again
 * KEEP_PARK_WORD     tri_worker_wake does not clear park_word, so a worker on
 *                    its way into the kernel sleeps on
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
word inbox[WORKERS];   /* how many cells lie there */
word length;           /* of the shared queue */
word sleeping;
word searching;
word stopping;
bool waiting[WORKERS]; /* in the kernel, on park_word */

byte done, left;       /* cells that have run, workers that have left */

/* ---- bringing work ---- */

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

inline tri_group_wake()
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

proctype schedule_bound()  /* tri_schedule, the cell's home is worker 0 */
{
    bool woke;
    inbox_push(0);
    tri_worker_wake(0)
}

proctype schedule_shared()  /* tri_schedule, from outside the group */
{
    bool woke;
    shared_push();
    tri_group_wake()
}

proctype tri_workers_stop()
{
    bool woke;
    done == CELLS;
    atomic { quiet(stopping) -> put(stopping, 1); ordered_stop(stopping) }
    tri_worker_wake(0);
    tri_worker_wake(1)
}

/* ---- working ---- */

inline inbox_take(w)
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

inline shared_pop()
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
    shared_pop();
    atomic {
        quiet(searching) ->
        put(searching, searching.value - 1);
        ordered_searching(searching)
    }
    if
    :: found ->
        if
        :: read(length) -> tri_group_wake()
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
    :: w == 1 -> done == CELLS  /* in a handler that does not return */
    :: true
    fi;
next:                        /* tri_worker_next */
    found = false;
    inbox_take(w);
    if
    :: bound -> bound--; found = true
    :: else -> shared_pop()
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
