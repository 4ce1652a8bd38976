/*
 * node.h - the address of a node, host:port.
 *
 * The host is a name, an IPv4 address, or an IPv6 address in brackets. A
 * process that is started again at the same address has the same text, so every
 * packet carries the incarnation as well: a number that is larger each time.
 *
 * Threads: any.
 */
#ifndef TRI_CLUSTER_NODE_H
#define TRI_CLUSTER_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "troupe/base.h"

enum {
    TRI_HOST_MAX = 253,                // characters of a name in the DNS
    TRI_NODE_TEXT = TRI_HOST_MAX + 9,  // brackets, colon, port, NUL
};

typedef struct tri_node_id {
    char host[TRI_HOST_MAX + 1];  // without brackets
    uint16_t port;                // never 0
    bool is_v6;
} tri_node_id;

/*
 * Reads an address. On an error *why is a static text. Errors: TR_EINVAL.
 */
TR_NODISCARD tr_err tri_node_parse(tri_node_id *out, const char *text,
                                   const char **why);
/*
 * Writes host:port with a NUL, at most TRI_NODE_TEXT bytes; returns the length
 * without it.
 */
size_t tri_node_write(const tri_node_id *id, char *buf);
bool tri_node_same(const tri_node_id *a, const tri_node_id *b);

#endif
