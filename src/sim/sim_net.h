/*
 * sim_net.h - links between nodes that behave like a bad network.
 *
 * A net carries byte strings between the nodes of one world. Between two nodes
 * they keep their order, as on a stream, unless a fault says otherwise. What
 * arrives is given to one function, as an event of the world. A sender does
 * not learn that a message was lost.
 *
 * Threads: the one that runs the world.
 * Ownership: bytes are copied by the send and borrowed by the delivery.
 */
#ifndef TRI_SIM_SIM_NET_H
#define TRI_SIM_SIM_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "troupe/base.h"

#define TRI_SIM_MESSAGE_MAX ((size_t)64 * 1024 * 1024)

typedef struct tri_sim_net tri_sim_net;

typedef void (*tri_sim_deliver_fn)(void *user, uint32_t from, uint32_t to,
                                   const void *bytes, size_t size);

/* How long a message takes without faults; drawn for each message. */
typedef struct tri_sim_latency {
    tr_nanos least, most;  // uniform between the two
    uint32_t tail;         // one in this many takes ten times as long; 0: none
} tri_sim_latency;

/*
 * Makes a net between `nodes` nodes. The world must outlive it.
 * Errors: TR_EINVAL (more than TRI_SIM_NODES_MAX), TR_ENOMEM.
 */
tr_err tri_sim_net_new(tri_sim_net **out, tr_sim *sim, uint32_t nodes,
                       tri_sim_deliver_fn deliver, void *user);
/* Drops the messages in flight. NULL is allowed. */
void tri_sim_net_free(tri_sim_net *net);

/* Sets it for all links; the default is 100 us to 1 ms, a tail of 1 in 100. */
void tri_sim_net_latency(tri_sim_net *net, const tri_sim_latency *latency);

/*
 * Sends a copy. TR_OK says nothing about its arrival. TRI_SIM_NO_NODE, the
 * workload, may be an end, too: of what it sends or gets, only the time varies.
 * Errors: TR_EINVAL (size beyond TRI_SIM_MESSAGE_MAX), TR_ENOMEM.
 */
tr_err tri_sim_net_send(tri_sim_net *net, uint32_t from, uint32_t to,
                        const void *bytes, size_t size);

/*
 * For streams (sim_tcp.c), which carry their bytes themselves: whether a
 * segment that arrives now gets through, and how long one takes, with the
 * fault `delay`. The workload has links that are never disturbed.
 */
bool tri_sim_net_is_open(tri_sim_net *net, uint32_t from, uint32_t to);
tr_nanos tri_sim_net_draw(tri_sim_net *net, uint32_t from, uint32_t to);

/*
 * Disturbs one direction of one link for a span from now (TR_FOREVER allowed;
 * 0 ends it). Cut: messages that are sent or arrive meanwhile are lost.
 * Clogged: they wait and arrive in a burst, in order. Slow: each message takes
 * `factor` times as long.
 */
void tri_sim_net_cut(tri_sim_net *net, uint32_t from, uint32_t to,
                     tr_nanos span);
void tri_sim_net_clog(tri_sim_net *net, uint32_t from, uint32_t to,
                      tr_nanos span);
void tri_sim_net_slow(tri_sim_net *net, uint32_t from, uint32_t to,
                      tr_nanos span, uint32_t factor);

/* Cuts both directions between the nodes of the set (bits) and all others. */
void tri_sim_net_partition(tri_sim_net *net, uint64_t set, tr_nanos span);

/* Ends cuts, clogs and slowness of all links. */
void tri_sim_net_heal(tri_sim_net *net);

/* Drops the messages in flight to a node whose process has ended. */
void tri_sim_net_forget(tri_sim_net *net, uint32_t node);

/* Disturbs links with the world's probabilities; called once per step. */
void tri_sim_net_trouble(tri_sim_net *net);

/* Returns the number of messages in flight. */
uint64_t tri_sim_net_in_flight(const tri_sim_net *net);

#endif
