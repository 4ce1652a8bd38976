/*
 * transport.h - carries byte strings between numbered nodes.
 *
 * A transport promises nothing: packets may be lost, doubled, late or out of
 * order. The session (session.h) makes a stream of them. The receiving end of
 * a transport calls tri_bus_receive. In one process the transport is link.h,
 * in simulation the simulated network; over sockets it frames a stream.
 *
 * Threads: `send` is called by the bus of each node, so by several threads.
 */
#ifndef TRI_CLUSTER_TRANSPORT_H
#define TRI_CLUSTER_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

typedef struct tri_transport tri_transport;

typedef struct tri_transport_ops {
    /* Borrows the bytes. Never waits; drops what cannot be sent. */
    void (*send)(tri_transport *transport, uint32_t from, uint32_t to,
                 const void *bytes, size_t size);
} tri_transport_ops;

struct tri_transport {
    const tri_transport_ops *ops;
};

#endif
