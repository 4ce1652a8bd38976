/*
 * sim_stream.h - the streams of random numbers that one seed feeds.
 *
 * There is one stream for each kind of decision and one for each fault class.
 * A class that is switched off therefore changes no draw of another class;
 * shrinking a failing run depends on that.
 */
#ifndef TRI_SIM_SIM_STREAM_H
#define TRI_SIM_SIM_STREAM_H

#include "sim/sim_fault.h"

typedef enum tri_sim_stream {
    TRI_STREAM_SCHEDULE,  // which actor or thread runs next
    TRI_STREAM_PROGRAM,   // numbers that the program draws from its world
    TRI_STREAM_WORKLOAD,  // tr_sim_random
    TRI_STREAM_BUGGIFY,
    TRI_STREAM_CRASH,    // what a disk keeps in a crash
    TRI_STREAM_LATENCY,  // of messages between nodes
    TRI_STREAM_COST,     // virtual time that a step takes
    TRI_STREAM_FAULT,    // + tri_sim_fault
    TRI_STREAM_COUNT = TRI_STREAM_FAULT + TRI_FAULT_COUNT
} tri_sim_stream;

#endif
