/*
 * run_queue.pml - the private run queue of a worker, and thieves that steal
 * from it while the worker is busy.
 *
 * The worker pushes three cells and pops in any order until all have been
 * taken; each of two thieves tries to steal twice. The queue is modelled as a
 * number, read and written without exchanges by the process that has entered
 * it. Steps have the names of functions in src/core/run/run_queue.h and
 * steal.c.
 *
 * The barrier of the thief is the moment at which no write of the worker to
 * `busy` is in flight.
 *
 * The model shows that worker and thief are never in the queue together, and
 * that in every state in which no process can move, every cell has been taken
 * exactly once.
 *
 * Each variant below breaks this:
 *
 * NO_BARRIER      the thief does not wait for the barrier
 * NO_ORDER_LEAVE  `busy` is cleared before the change of the queue is visible
 * NO_ORDER_OUT    `revoked` is cleared before the change of the queue is
 *                 visible
 * NO_LOOK         the worker does not read `revoked`
 * NO_CLAIM        two thieves enter together
 */
#include "memory.pml"

#define CELLS 3
#define TRIES 2

word busy, revoked, queue;
byte inside;  /* number of processes in the queue */
byte taken;

inline tri_run_queue_enter()
{
    atomic { quiet(busy) -> put(busy, 1) }
#ifndef NO_LOOK
    do
    :: read(revoked) == 0 -> break
    :: else ->  /* tri_run_queue_wait */
        atomic { quiet(busy) -> put(busy, 0) }
        read(revoked) == 0;
        atomic { quiet(busy) -> put(busy, 1); seen(busy) }
    od;
#endif
    atomic { inside++; assert(inside == 1) }
}

inline tri_run_queue_leave()
{
#ifndef NO_ORDER_LEAVE
    landed(queue);
#endif
    d_step { inside-- }
    atomic { quiet(busy) -> put(busy, 0) }
}

/* For the process that has entered the queue. */
inline add_one()
{
    n = read(queue);
    atomic { quiet(queue) -> put(queue, n + 1) }
}

inline take_one()
{
    n = read(queue);
    if
    :: n > 0 ->
        atomic { quiet(queue) -> put(queue, n - 1); taken++ }
    :: else
    fi
}

inline take_private()
{
    atomic {
        quiet(revoked) ->
#ifndef NO_CLAIM
        if
        :: revoked.value == 0 -> revoked.value = 1; claimed = true
        :: else -> claimed = false
        fi
#else
        revoked.value = 1;
        claimed = true
#endif
    }
    if
    :: claimed ->
#ifndef NO_BARRIER
        quiet(busy);
#endif
        if
        :: read(busy) == 0 ->
            atomic { inside++; assert(inside == 1) }
            take_one();
#ifndef NO_ORDER_OUT
            landed(queue);
#endif
            d_step { inside-- }
        :: else
        fi;
        atomic { quiet(revoked) -> put(revoked, 0) }
    :: else
    fi
}

proctype worker()
{
    byte n, pushed;
    do
    :: pushed < CELLS ->
        tri_run_queue_enter();
        add_one();
        tri_run_queue_leave();
        pushed++
    :: pushed && taken < pushed ->
        tri_run_queue_enter();
        take_one();
        tri_run_queue_leave()
    :: pushed == CELLS && taken == CELLS -> break
    od
}

proctype thief()
{
    byte n, tries;
    bool claimed;
    do
    :: tries < TRIES -> tries++; take_private()
    :: else -> break
    od
}

proctype wire()
{
end:
    do
    :: land(busy)
    :: land(revoked)
    :: land(queue)
    od
}

proctype judge()
{
    timeout ->
    assert(taken == CELLS && queue.value == 0)
}

init
{
    atomic {
        run worker();
        run thief();
        run thief();
        run wire();
        run judge()
    }
}
