/*
 * mailbox.pml - one cell, its senders, and the workers that run it.
 *
 * There are two user senders, a sender of a system item, a sender of a signal,
 * and two workers. The first message parks its turn until the system item
 * comes. The turn is parked on the stack of the worker that runs it, so from
 * then on `home` names the only worker that may run the cell. Steps have the
 * names of functions in src/core/mail and src/core/run.
 *
 * The model shows:
 * - a cell that is owned or queued is not scheduled again (owners, queued);
 * - a worker that runs a cell is its only owner and is allowed to run it
 *   (running, home);
 * - what was written before a step is visible after it (body, home);
 * - in every state in which no process can move, all mail has been handled and
 *   the cell is IDLE (judge).
 *
 * Each variant below breaks one of these:
 *
 * NO_ORDER_POKE     poke reads mail before its write to sys_mail is visible
 * NO_ORDER_RECHECK  the owner reads sys_mail before IDLE or PARKED is visible
 * NO_ORDER_SLEEP    IDLE or PARKED is visible before what the owner wrote
 * NO_ORDER_PUSH     a message or item is visible before its contents
 * NO_ORDER_SIGNAL   SIGNAL is visible before `signals`
 * NO_RECHECK        the owner does not read sys_mail after giving up the cell
 * KEEP_IN_RECHECK   the owner goes on with a cell that it takes back, although
 *                   another worker may have run it and given it up in between
 */
#include "memory.pml"

#define IDLE         1
#define PARKED       2
#define OWNERLESS    (IDLE | PARKED)
#define MESSAGE(i)   (4 << (i))
#define MESSAGES(m)  ((m) & 12)

#define SIGNAL       1
#define ITEM         2

#ifdef NO_ORDER_POKE
#define ordered_poke(w)
#else
#define ordered_poke(w) seen(w)
#endif
#ifdef NO_ORDER_RECHECK
#define ordered_recheck(w)
#else
#define ordered_recheck(w) seen(w)
#endif
#ifdef NO_ORDER_PUSH
#define ordered_push(w)
#else
#define ordered_push(w) seen(w)
#endif
#ifdef NO_ORDER_SIGNAL
#define ordered_signal(w)
#else
#define ordered_signal(w) seen(w)
#endif

word mail, sys_mail, signals;
word home;          /* 0: any worker; else ME of the only one */
word body[3];       /* contents of both messages and of the item */

/* Fields that only the owner of the cell reads and writes. */
bool interleaves;   /* the second message may run beside the parked turn */
byte queue;
bool turn_parked, woken;

/* The cell is in a run queue, and for which worker (0: any). */
bool queued;
byte queued_for;

/* Counted by the model alone; the code has no such variables. */
byte owners, running, handled;
bool signal_seen;

/* All own writes are visible: a release before another worker gets the cell. */
#define all_landed \
    (landed(home) && landed(mail) && landed(sys_mail) && landed(signals))

inline take_ownership()
{
    assert(owners == 0);
    owners = 1
}

inline tri_schedule()
{
    all_landed;
    d_step {
        assert(!queued);
        assert(running == 0 || running == ME);
        running = 0;
        queued = true;
        queued_for = read(home)
    }
}

inline tri_mail_push(i)
{
    atomic { quiet(body[i]) -> put(body[i], 1); ordered_push(body[i]) }
    atomic {
        quiet(mail) ->
        old = mail.value;
        put(mail, (old & PARKED) | MESSAGES(old) | MESSAGE(i));
        if
        :: old & IDLE -> take_ownership()
        :: else
        fi
    }
    if
    :: old & IDLE -> tri_schedule()
    :: else
    fi
}

inline poke()
{
    old = read(mail);
    if
    :: old & OWNERLESS ->
        atomic {
            quiet(mail) ->
            old = mail.value & OWNERLESS;
            if
            :: old ->
                put(mail, MESSAGES(mail.value));
                take_ownership()
            :: else
            fi
        }
        if
        :: old -> tri_schedule()
        :: else
        fi
    :: else
    fi
}

inline tri_push_system()
{
    atomic { quiet(body[2]) -> put(body[2], 1); ordered_push(body[2]) }
    atomic {
        quiet(sys_mail) ->
        put(sys_mail, sys_mail.value | ITEM);
        ordered_poke(sys_mail)
    }
    poke()
}

inline tri_signal()
{
    atomic { quiet(signals) -> put(signals, 1); ordered_signal(signals) }
    atomic {
        quiet(sys_mail) ->
        put(sys_mail, sys_mail.value | SIGNAL);
        ordered_poke(sys_mail)
    }
    poke()
}

inline system_mail()
{
    atomic {  /* tri_system_take */
        quiet(sys_mail) ->
        old = sys_mail.value;
        put(sys_mail, 0)
    }
    if
    :: old & ITEM ->
        assert(read(body[2]) == 1);
        woken = true
    :: else
    fi;
    if
    :: old & SIGNAL ->
        d_step {  /* tri_signals_take; a write on its way counts as later */
            signal_seen = signal_seen || signals.value;
            signals.value = 0
        }
    :: else
    fi
}

inline tri_detach()
{
    if
    :: MESSAGES(read(mail)) ->
        atomic {
            quiet(mail) ->
            assert(!(mail.value & OWNERLESS));
            queue = queue | MESSAGES(mail.value);
            put(mail, 0)
        }
    :: else
    fi
}

inline handle(i)
{
    assert(read(body[i]) == 1);
    assert(!(handled & MESSAGE(i)));
    d_step {
        queue = queue & ~MESSAGE(i);
        handled = handled | MESSAGE(i)
    }
}

inline recheck(how)
{
#if defined(NO_RECHECK)
    skip
#elif defined(KEEP_IN_RECHECK)
    if
    :: read(sys_mail) ->
        atomic {
            quiet(mail) ->
            if
            :: mail.value & how ->
                put(mail, mail.value & ~how);
                take_ownership();
                running = ME;
                goto again
            :: else
            fi
        }
    :: else
    fi
#else
    if
    :: read(sys_mail) -> poke()
    :: else
    fi
#endif
}

/* Jumps to `again` if there is mail; else gives up the cell. */
inline tri_sleep(how)
{
#ifndef NO_ORDER_SLEEP
    all_landed;
#endif
    atomic {
        quiet(mail) ->
        if
        :: how == IDLE && MESSAGES(mail.value) -> goto again
        :: else ->
            assert(!(mail.value & OWNERLESS));
            put(mail, mail.value | how);
            ordered_recheck(mail);
            owners = 0;
            running = 0
        fi
    }
    recheck(how)
}

proctype user_sender(byte i)
{
    byte old;
    tri_mail_push(i)
}

proctype system_sender()
{
    byte old;
    tri_push_system()
}

proctype signaller()
{
    byte old;
    tri_signal()
}

proctype worker()
{
    byte old;
end:
    atomic {
        queued && (queued_for == 0 || queued_for == ME) ->
        queued = false;
        queued_for = 0;
        assert(owners == 1);
        assert(running == 0);
        running = ME
    }
again:
    old = 0;
    assert(running == ME);
    assert(read(home) == 0 || read(home) == ME);
    assert(!turn_parked || read(home) == ME);
    if
    :: read(sys_mail) -> system_mail()
    :: else
    fi;
    if
    :: turn_parked && woken ->      /* resume */
        turn_parked = false;
        atomic { quiet(home) -> put(home, 0) };
        goto again
    :: turn_parked && !woken && interleaves ->
        tri_detach();
        if
        :: queue & MESSAGE(1) -> handle(1); goto again
        :: else -> tri_sleep(IDLE)
        fi
    :: turn_parked && !woken && !interleaves ->
        tri_sleep(PARKED)
    :: !turn_parked && queue == 0 ->
        tri_detach();
        if
        :: queue -> goto again
        :: else -> tri_sleep(IDLE)
        fi
    :: !turn_parked && queue ->
        if
        :: queue & MESSAGE(0) ->
            handle(0);
            if
            :: !woken ->            /* leave */
                turn_parked = true;
                atomic { quiet(home) -> put(home, ME) }
            :: else
            fi
        :: queue & MESSAGE(1) -> handle(1)
        fi;
        if
        :: true -> goto again
        :: true -> tri_schedule()   /* spent */
        fi
    fi;
    old = 0;
    goto end
}

proctype wire()
{
end:
    do
    :: land(mail)
    :: land(sys_mail)
    :: land(signals)
    :: land(home)
    :: land(body[0])
    :: land(body[1])
    :: land(body[2])
    od
}

proctype judge()
{
    timeout ->
    assert(handled == (MESSAGE(0) | MESSAGE(1)));
    assert(woken && signal_seen && !turn_parked);
    assert(owners == 0 && mail.value == IDLE && sys_mail.value == 0)
}

init
{
    atomic {
        mail.value = IDLE;
        if
        :: interleaves = true
        :: interleaves = false
        fi;
        run worker();
        run worker();
        run user_sender(0);
        run user_sender(1);
        run system_sender();
        run signaller();
        run wire();
        run judge()
    }
}
