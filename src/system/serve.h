/*
 * serve.h - servers: an actor that accepts connections and starts an actor for
 * each of them (tr_serve).
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_SERVE_H
#define TRI_SYSTEM_SERVE_H

/* The records of all servers of a system; freed with it. */
typedef struct tri_servers {
    _Atomic(struct tri_server *) newest;
} tri_servers;

void tri_servers_free(tri_servers *servers);

#endif
