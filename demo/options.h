/*
 * options.h - what the demo was asked to do.
 */
#ifndef DEMO_OPTIONS_H
#define DEMO_OPTIONS_H

#include "bank.h"

typedef struct Options {
    Bank bank;
    tr_nanos duration;  // TR_FOREVER: until Ctrl-C
    bool simulated;
    uint32_t seeds;  // runs of the simulation, from bank.seed on
    bool postgres;
    bool verbose;
} Options;

/* Run the bank and return an exit status: 0 if every promise was kept. */
int bank_on_processes(const Options *options);  // parent.c
int bank_simulated(const Options *options);     // simulated.c

#endif
