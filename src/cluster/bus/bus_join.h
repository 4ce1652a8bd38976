/*
 * bus_join.h - makes a system a node of a namespace.
 */
#ifndef TRI_CLUSTER_BUS_JOIN_H
#define TRI_CLUSTER_BUS_JOIN_H

#include "cluster/bus/bus.h"
#include "cluster/membership/view.h"
#include "cluster/transport/transport.h"
#include "troupe/base.h"

typedef struct tri_bus_options {
    tri_transport *transport;  // borrowed until the system is closed
    const tri_bus_up *up;      // borrowed
    void *up_user;             // borrowed until the system is closed
    tri_node node;             // this one
    const char *address;       // host:port; NULL: none
} tri_bus_options;

/*
 * Makes the system a node, before its first activation. It owns no shard until
 * tri_bus_set_view says so. Any thread, not from a handler. Errors: TR_EINVAL
 * (with a text), TR_EEXIST, TR_ENOMEM, TR_ECLOSED.
 */
TR_NODISCARD tr_err tri_bus_join(tr_system *sys,
                                 const tri_bus_options *options);

#endif
