/*
 * poll.h - systems that run on the caller's thread (tr_poll).
 */
#ifndef TRI_SYSTEM_POLL_H
#define TRI_SYSTEM_POLL_H

#include <stdbool.h>
#include <stdint.h>

#include "troupe/base.h"

/*
 * Makes the calling thread the driver of a polled system, and its poller.
 * Does nothing for other systems. Errors: as tri_io_need.
 */
TR_NODISCARD tr_err tri_poll_open(tr_system *sys);
/* Makes the calling thread the driver of a polled system. */
void tri_poll_own(tr_system *sys);

/* Makes tr_poll_fd readable. Any thread. */
void tri_poll_ready(tr_system *sys);

/*
 * Runs the system for up to `budget` if the calling thread is its driver.
 * Returns false if it is not, or if there was nothing to run.
 */
bool tri_drive(tr_system *sys, tr_nanos budget);

/*
 * Waits while *word is `expected`. The driver of a polled system runs it
 * meanwhile. May return early.
 */
void tri_drive_or_park(tr_system *sys, _Atomic(uint32_t) *word,
                       uint32_t expected, tr_nanos timeout);

#endif
