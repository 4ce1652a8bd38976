/*
 * private.pml - the cells a worker keeps to itself, and a thief who goes in.
 *
 * The worker pushes three cells and pops as it likes until all have been
 * taken; two thieves go in up to twice each. The queue is a number: whoever
 * is in reads and writes it as if alone. Steps are named after
 * src/core/private.h and share.c.
 *
 * The barrier is the moment at which nothing of the worker is on its way.
 *
 * Shown: worker and thief are never in together, and when nothing can move
 * any more every cell has been taken, once.
 *
 * NO_BARRIER      the thief does not wait for it
 * NO_ORDER_LEAVE  `busy` falls before the queue is seen
 * NO_ORDER_OUT    `revoked` falls before the queue is seen
 * NO_LOOK         the worker does not look at `revoked`
 * NO_CLAIM        two thieves go in together
 */
#include "memory.pml"

#define CELLS 3
#define TRIES 2

word busy, revoked, queue;
byte inside;  /* how many are in */
byte taken;

inline private_enter()
{
    atomic { quiet(busy) -> put(busy, 1) }
#ifndef NO_LOOK
    do
    :: read(revoked) == 0 -> break
    :: else ->  /* private_wait */
        atomic { quiet(busy) -> put(busy, 0) }
        read(revoked) == 0;
        atomic { quiet(busy) -> put(busy, 1); seen(busy) }
    od;
#endif
    atomic { inside++; assert(inside == 1) }
}

inline private_leave()
{
#ifndef NO_ORDER_LEAVE
    landed(queue);
#endif
    d_step { inside-- }
    atomic { quiet(busy) -> put(busy, 0) }
}

/* Reads and writes the queue; whoever is in. */
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

inline revoke()
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
        private_enter();
        add_one();
        private_leave();
        pushed++
    :: pushed && taken < pushed ->
        private_enter();
        take_one();
        private_leave()
    :: pushed == CELLS && taken == CELLS -> break
    od
}

proctype thief()
{
    byte n, tries;
    bool claimed;
    do
    :: tries < TRIES -> tries++; revoke()
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
