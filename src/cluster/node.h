/*
 * node.h - the name of a node: where it listens, and which of its lives.
 *
 * The text is host:port; the host is a name, an IPv4 address, or an IPv6
 * address in brackets (VA10, VA11). A process that is started anew at the
 * same place has the same text, so every frame carries the incarnation as
 * well: a number that is larger in each life of a node (X34).
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
    TRI_HOST_MAX = 253,                // of a name in the DNS
    TRI_NODE_TEXT = TRI_HOST_MAX + 9,  // brackets, colon, port, NUL
};

typedef struct tri_node_id {
    char host[TRI_HOST_MAX + 1];  // without brackets
    uint16_t port;                // never 0
    bool is_v6;
} tri_node_id;

/* Says in *why, a static text, what is wrong. Errors: TR_EINVAL. */
TR_NODISCARD tr_err tri_node_parse(tri_node_id *out, const char *text,
                                   const char **why);
/* Writes host:port with its NUL, at most TRI_NODE_TEXT bytes; the length. */
size_t tri_node_write(const tri_node_id *id, char *buf);
bool tri_node_same(const tri_node_id *a, const tri_node_id *b);

#endif
