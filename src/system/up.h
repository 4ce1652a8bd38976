/*
 * up.h - what the system layer does when the core calls it: the functions
 * behind sys->up (core/up.h).
 */
#ifndef TRI_SYSTEM_UP_H
#define TRI_SYSTEM_UP_H

#include <stdint.h>

#include "core/up.h"
#include "troupe/base.h"

enum {
    TRI_STUCK_LOGGED = 3,  // lines per second about handlers that last long
    TRI_ALARMS = 64,       // actors whose latest overload alarm is remembered
};

/* The latest overload alarm about an actor. */
typedef struct tri_alarm {
    _Atomic(uint64_t) id;     // of the actor
    _Atomic(tr_nanos) after;  // when the next alarm is allowed
} tri_alarm;

/* Part of tri_layers. */
typedef struct tri_up_state {
    /* Statistics. */
    _Atomic(uint64_t) unhandled, escalations, given_up, overloads;
    tri_alarm alarms[TRI_ALARMS];  // by actor id
    /* Limits the log of stuck handlers. Used by the monitor's thread only. */
    tr_nanos stuck_window;      // start of the second that stuck_logged counts
    uint32_t stuck_logged;      // lines written in this window
    uint32_t stuck_suppressed;  // handlers since the last line that got none
} tri_up_state;

extern const tri_up tri_system_up;

#endif
