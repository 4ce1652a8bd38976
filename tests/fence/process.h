/*
 * process.h - a child process of the fence test: started, paused, killed.
 *
 * Signals go only to children that this process has started and not waited for.
 *
 * Threads: one.
 */
#ifndef TEST_FENCE_PROCESS_H
#define TEST_FENCE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fence.h"

typedef struct process {
    pid_t pid;             // 0: none
    int64_t paused_until;  // 0: not paused
    int64_t start_at;      // without a process: when to start one
} process;

/* Starts this program as `role` with number `index`. Exits if that fails. */
void process_start(process *it, const settings *s, const char *role,
                   uint32_t index);
/* True if there is a process and it is not paused. */
bool process_is_running(const process *it);
void process_pause(process *it, int64_t until);
/* Continues a paused process; nothing if it is not paused. */
void process_continue(process *it);
/* Kills the process and waits for its end; the next starts at `start_at`. */
void process_kill(process *it, int64_t start_at);
/* Sends SIGTERM, if there is a process. */
void process_terminate(process *it);
/* True if the process has ended by itself; sets its status. */
bool process_has_ended(process *it, int *status);
/* Waits for the end; after `until` it kills the process and returns false. */
bool process_wait(process *it, int64_t until, int *status);

#endif
