/*
 * fresh.pml - the deque of spawned cells: its owner and two thieves.
 *
 * The deque has room for two. The owner pushes three cells and pops in between
 * as it likes, then pops until nothing is left; each thief tries twice.
 * Steps are named after src/core/scheduler.c.
 *
 * Shown: no cell is taken twice, no slot is read before it was written, and
 * when nothing can move any more every cell has been taken.
 *
 * NO_ORDER_POP    the owner reads top before its claim to bottom is seen
 * NO_ORDER_PUSH   bottom is seen before the cell in its slot
 * NO_LAST_RACE    the owner takes the last cell without moving top
 * BOTTOM_FIRST    a thief reads bottom before top
 */
#include "memory.pml"

#define ROOM   2
#define CELLS  3
#define TRIES  2

#ifdef NO_ORDER_POP
#define ordered_pop(w)
#else
#define ordered_pop(w) seen(w)
#endif

word top, bottom;
word slot[ROOM];     /* 0: never written; else a cell, counted from 1 */
bool taken[CELLS + 1];
byte count;          /* cells taken */

inline take(cell)
{
    d_step {
        assert(cell != 0);
        assert(!taken[cell]);
        taken[cell] = true;
        count++;
        cell = 0
    }
}

inline fresh_push()
{
    b = read(bottom);
    if
    :: b - read(top) < ROOM ->
        atomic {
            quiet(slot[b % ROOM]) ->
            pushed++;
            put(slot[b % ROOM], pushed)
        }
#ifndef NO_ORDER_PUSH
        landed(slot[b % ROOM]);
#endif
        atomic { quiet(bottom) -> put(bottom, b + 1) }
    :: else
    fi
}

inline fresh_pop()
{
    b = read(bottom);
    if
    :: b != read(top) ->
        b--;
        atomic { quiet(bottom) -> put(bottom, b); ordered_pop(bottom) }
        t = read(top);
        if
        :: b > t ->
            cell = read(slot[b % ROOM]);
            take(cell)
        :: b == t ->  /* the last one */
            cell = read(slot[b % ROOM]);
#ifdef NO_LAST_RACE
            take(cell);
#else
            atomic {
                quiet(top) ->
                if
                :: top.value == t -> top.value = t + 1
                :: else -> cell = 0
                fi
            }
            if
            :: cell -> take(cell)
            :: else
            fi;
#endif
            atomic { quiet(bottom) -> put(bottom, b + 1) }
        :: b < t ->
            atomic { quiet(bottom) -> put(bottom, b + 1) }
        fi
    :: else
    fi
}

inline fresh_steal()
{
#ifdef BOTTOM_FIRST
    b = read(bottom);
    t = read(top);
#else
    t = read(top);
    b = read(bottom);
#endif
    if
    :: b > t ->
        cell = read(slot[t % ROOM]);
        atomic {
            quiet(top) ->
            if
            :: top.value == t -> top.value = t + 1
            :: else -> cell = 0
            fi
        }
        if
        :: cell -> take(cell)
        :: else
        fi
    :: else
    fi
}

proctype owner()
{
    byte b, t, cell, pushed;
    do
    :: pushed < CELLS -> fresh_push()
    :: pushed == CELLS && count == CELLS -> break
    :: pushed && count < pushed -> fresh_pop()
    od
}

proctype thief()
{
    byte b, t, cell, tries;
    do
    :: tries < TRIES -> tries++; fresh_steal()
    :: else -> break
    od
}

proctype wire()
{
end:
    do
    :: land(bottom)
    :: land(slot[0])
    :: land(slot[1])
    od
}

proctype judge()
{
    timeout ->
    assert(count == CELLS)
}

init
{
    atomic {
        run owner();
        run thief();
        run thief();
        run wire();
        run judge()
    }
}
