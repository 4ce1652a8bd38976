/* chat.h - what the program and its simulation share. */
#ifndef CHAT_H
#define CHAT_H

#include <troupe/troupe.h>

typedef struct Chat {
    const char *address;
    char bound[TR_ADDRESS_SIZE];  // where it listens
} Chat;

/* Starts the server; user is a Chat. */
tr_err chat_node(tr_system *sys, uint32_t index, void *user);
/* Runs it in a simulated world, as the command line says (tr_sim_main). */
int chat_simulate(int argc, char **argv);

#endif
