/*
 * net.h - listening without an owner, for servers.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_NET_H
#define TRI_SYSTEM_NET_H

#include <stdint.h>

#include "troupe/base.h"
#include "troupe/net.h"

/* As tr_listen, but the stream has no owner yet. */
TR_NODISCARD tr_err tri_net_listen(tr_from from, tr_stream **out,
                                   const char *address, uint32_t backlog);

#endif
