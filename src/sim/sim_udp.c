/*
 * sim_udp.c - the datagrams of a simulated world.
 *
 * A datagram is one message of the net, with the addresses of its sender and
 * its receiver before its bytes. A bit that the net has flipped is found by a
 * sum, as UDP finds it, and the datagram is lost.
 *
 * Invariant: a socket receives whole datagrams only, as they were sent.
 */
#include "sim/sim_udp.h"

#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/list.h"
#include "sim/sim_address.h"
#include "sim/sim_net.h"
#include "sim/sim_node.h"
#include "sim/sim_tcp.h"
#include "sim/sim_tcp_end.h"

/* What the net carries; the bytes of the datagram follow. */
typedef struct header {
    uint64_t sum;  // of everything after it
    char from[TRI_STREAM_ADDRESS_MAX], to[TRI_STREAM_ADDRESS_MAX];
} header;

/* What has arrived; in tri_stream.datagrams. */
typedef struct datagram {
    tri_link link;
    char from[TRI_STREAM_ADDRESS_MAX];
    size_t size;
    char bytes[];
} datagram;

static uint64_t sum_of(const void *bytes, size_t size)
{
    TRI_CHECK(size >= sizeof(header));
    return tri_hash_bytes((const char *)bytes + sizeof(uint64_t),
                          size - sizeof(uint64_t));
}

static tr_err read_address(const char *text, tri_address *out)
{
    TR_TRY(tri_sim_address_split(text, out));
    return out->is_udp ? TR_OK : TR_EINVAL;
}

tr_err tri_sim_udp_open(tri_poller *poller, tri_stream **out,
                        const char *address)
{
    tri_sim_node *node = tri_sim_poller_node(poller);
    tri_sim_tcp *tcp = tri_sim_tcp_need(node->sim);
    tri_address at;

    *out = NULL;
    TR_TRY(read_address(address, &at));
    if (tcp == NULL) {
        return TR_ENOMEM;
    }
    TR_TRY(tri_sim_end_bind(tcp, node, &at));
    tri_stream *socket = tri_sim_end_new(tcp, node, TRI_SIM_UDP);
    if (socket == NULL) {
        return TR_ENOMEM;
    }
    tri_address_join(&at, socket->local);
    *out = socket;
    return TR_OK;
}

/* ---- sending ---- */

/* Sums up the pieces. Errors: TR_EINVAL (too many bytes or pieces). */
static tr_err pieces_size(const tri_piece *pieces, uint32_t count, size_t *out)
{
    *out = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (count > TRI_PIECES_MAX || pieces[i].size > TRI_UDP_MAX - *out) {
            return TR_EINVAL;
        }
        *out += pieces[i].size;
    }
    return TR_OK;
}

/* Makes the message of the net. The caller frees it; NULL: no memory. */
static char *pack(const tri_stream *socket, const tri_address *to,
                  const tri_piece *pieces, uint32_t count, size_t size)
{
    char *bytes = calloc(1, sizeof(header) + size);
    if (bytes == NULL) {
        return NULL;
    }
    header *head = (header *)(void *)bytes;
    char *at = bytes + sizeof(header);
    memcpy(head->from, socket->local, sizeof(head->from));
    tri_address_join(to, head->to);
    for (uint32_t i = 0; i < count; i++) {
        if (pieces[i].size > 0) {
            memcpy(at, pieces[i].at, pieces[i].size);
            at += pieces[i].size;
        }
    }
    head->sum = sum_of(bytes, sizeof(header) + size);
    return bytes;
}

tr_err tri_sim_udp_send(tri_stream *socket, const char *to,
                        const tri_piece *pieces, uint32_t count)
{
    TRI_CHECK(socket->state == TRI_SIM_UDP);
    tri_sim_tcp *tcp = socket->tcp;
    tri_address at;
    size_t size;

    if (socket->broken != TR_OK) {
        return socket->broken;
    }
    TR_TRY(read_address(to, &at));
    TR_TRY(pieces_size(pieces, count, &size));
    const tri_stream *receiver = tri_sim_end_find(tcp, &at);
    if (receiver == NULL) {
        return TR_OK;  // lost: the sender does not learn of it
    }
    char *bytes = pack(socket, &at, pieces, count, size);
    if (bytes == NULL) {
        return TR_ENOMEM;
    }
    tr_err err =
        tri_sim_net_send(tcp->net, socket->node->index, receiver->node->index,
                         bytes, sizeof(header) + size);
    free(bytes);
    return err;
}

/* ---- receiving ---- */

/* Adds a datagram to the socket, unless too much is unread. */
static void keep(tri_stream *socket, const header *head, const char *bytes,
                 size_t size)
{
    datagram *it = socket->datagram_bytes + size <= TRI_SIM_UDP_UNREAD_MAX
                       ? malloc(sizeof(*it) + size)
                       : NULL;
    if (it == NULL) {
        return;
    }
    *it = (datagram){.size = size};
    memcpy(it->from, head->from, sizeof(it->from));
    if (size > 0) {
        memcpy(it->bytes, bytes, size);
    }
    tri_list_push_back(&socket->datagrams, &it->link);
    socket->datagram_bytes += size;
    tri_sim_end_notify(socket);
}

void tri_sim_udp_arrived(void *user, uint32_t from, uint32_t to,
                         const void *bytes, size_t size)
{
    TRI_CHECK(size >= sizeof(header));
    header head;
    tri_address at;

    (void)from;
    (void)to;
    memcpy(&head, bytes, sizeof(head));
    if (head.sum != sum_of(bytes, size) ||
        read_address(head.to, &at) != TR_OK) {
        return;
    }
    tri_stream *socket = tri_sim_end_find(user, &at);
    if (socket != NULL) {
        keep(socket, &head, (const char *)bytes + sizeof(head),
             size - sizeof(head));
    }
}

static void drop_first(tri_stream *socket)
{
    tri_link *link = tri_list_pop_front(&socket->datagrams);
    datagram *it = tri_container_of(link, datagram, link);

    socket->datagram_bytes -= it->size;
    free(it);
}

tr_err tri_sim_udp_receive(tri_stream *socket, void *at, size_t size,
                           size_t *done, char from[TRI_STREAM_ADDRESS_MAX])
{
    TRI_CHECK(socket->state == TRI_SIM_UDP);
    *done = 0;
    from[0] = '\0';
    if (socket->broken != TR_OK) {
        return socket->broken;
    }
    tri_link *link = tri_list_first(&socket->datagrams);
    if (link == NULL) {
        return TR_EWOULDBLOCK;
    }
    const datagram *it = tri_container_of(link, datagram, link);
    bool is_cut = it->size > size;
    *done = is_cut ? size : it->size;
    if (*done > 0) {
        memcpy(at, it->bytes, *done);
    }
    memcpy(from, it->from, TRI_STREAM_ADDRESS_MAX);
    drop_first(socket);
    return is_cut ? TR_ELIMIT : TR_OK;
}

void tri_sim_udp_forget(tri_stream *socket)
{
    while (!tri_list_is_empty(&socket->datagrams)) {
        drop_first(socket);
    }
}
