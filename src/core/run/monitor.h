/*
 * monitor.h - the thread that observes the workers of a system from outside.
 */
#ifndef TRI_CORE_RUN_MONITOR_H
#define TRI_CORE_RUN_MONITOR_H

/* Runs the monitor until sys->monitor_word is 1. The entry of its thread. */
void tri_monitor_main(void *sys);

#endif
