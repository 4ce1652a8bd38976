/* iot.h - what the program and its simulation share. */
#ifndef IOT_H
#define IOT_H

#include <troupe/troupe.h>

typedef struct Iot {
    const char *address;
    char bound[TR_ADDRESS_SIZE];  // where it listens
} Iot;

/* Starts the server; user is an Iot. */
tr_err iot_node(tr_system *sys, uint32_t index, void *user);
/* Runs it in a simulated world, as the command line says (tr_sim_main). */
int iot_simulate(int argc, char **argv);

#endif
