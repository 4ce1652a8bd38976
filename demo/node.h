/*
 * node.h - the bank's node as a process of its own.
 *
 * The parent reads the node's records from one pipe. It holds the other end of
 * a second one, says nothing, and closes it when the node shall close: which
 * is what the node sees, too, when its parent is gone.
 */
#ifndef DEMO_NODE_H
#define DEMO_NODE_H

#include <sys/types.h>

#include "bank.h"
#include "store.h"

typedef struct Node {
    pid_t pid;
    int records;  // to read from
    int control;  // to close, or -1
} Node;

/* Forks. `bank` says what to do; its functions and user are set here. */
bool node_start(Node *node, const Bank *bank, const Store *store, bool verbose);

#endif
