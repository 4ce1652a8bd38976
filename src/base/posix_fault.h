/*
 * posix_fault.h - calls back when a thread is about to die of SIGSEGV or
 * SIGBUS, with the address that it could not access.
 *
 * The callback runs in a signal handler, on a stack of its own, so it works
 * even if the thread has used up its stack. It must not allocate, lock or
 * wait; it may call tri_log_part and tri_log_line. When it returns, the
 * process ends as it would have without it. Handlers of the program or of a
 * sanitizer stay as they are.
 *
 * Threads: the calling thread.
 */
#ifndef TRI_BASE_POSIX_FAULT_H
#define TRI_BASE_POSIX_FAULT_H

/* Reports faults of this thread to fn(user, address). */
void tri_posix_fault_begin(void (*fn)(void *user, const void *address),
                           void *user);
/* Ends what tri_posix_fault_begin began, if it did; before the thread ends. */
void tri_posix_fault_end(void);

#endif
