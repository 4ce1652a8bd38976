/* queue.h - what the program and its simulation share. */
#ifndef QUEUE_H
#define QUEUE_H

#include <troupe/troupe.h>

typedef struct Queue {
    const char *address;
    const char *file;             // of the jobs
    char bound[TR_ADDRESS_SIZE];  // where it listens
} Queue;

/* Starts the queue; user is a Queue. */
tr_err queue_node(tr_system *sys, uint32_t index, void *user);
/* Runs it in a simulated world, as the command line says (tr_sim_main). */
int queue_simulate(int argc, char **argv);

#endif
