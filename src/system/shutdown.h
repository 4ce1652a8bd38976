/*
 * shutdown.h - the end of a system: its phases and their deadlines.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_SHUTDOWN_H
#define TRI_SYSTEM_SHUTDOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "troupe/base.h"
#include "troupe/system.h"

/* Part of tri_layers. */
typedef struct tri_shutdown {
    _Atomic(uint32_t) forced;        // actors that did not stop in time
    _Atomic(bool) late_counted;      // the closing thread has counted them
    _Atomic(uint64_t) ended_before;  // actors that had ended when it began
    tri_lock lock;                   // a leaf, for the failure
    tr_err failure;                  // that ended the system, or TR_OK
    char failure_text[TR_FAILURE_TEXT_SIZE];
} tri_shutdown;

/*
 * Begins the end: tells the hooks below /user, and stops /user when they are
 * done. Only the first call has an effect.
 */
void tri_shutdown_begin(tr_system *sys);
/* Stops /user, if the end has begun and no hook below /user is left. */
void tri_shutdown_go_on(tr_system *sys);
/*
 * Begins the end because of a failure, which tr_system_run and tr_system_close
 * return. Only the first failure is kept.
 */
void tri_shutdown_fail(tr_system *sys, tr_err err, const char *text);
/*
 * An actor was ended by force. Counts it, unless the system is not closing or
 * the closing thread has counted it among the late ones.
 */
void tri_shutdown_note_forced(tr_system *sys);

#endif
