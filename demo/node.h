/*
 * node.h - a member of the bank's cluster as a separate process.
 *
 * The parent reads the member's records from one pipe. A node ends on SIGTERM,
 * and when its parent has died. For the client the parent holds the writing end
 * of a second pipe, writes nothing, and closes it when the client is to close.
 * The client sees the same when its parent has died.
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

/*
 * Forks the member. `bank` says what to do; its functions and user are set
 * here.
 */
bool node_start(Node *node, const Bank *bank, const Store *store, bool verbose);

#endif
