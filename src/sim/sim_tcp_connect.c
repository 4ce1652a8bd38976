/*
 * sim_tcp_connect.c - simulated streams: listening and connecting.
 *
 * A client sends a request, which takes the time of a segment; the listener's
 * side answers it with a connection in its queue, or with a refusal, and the
 * answer takes its time, too. A request that finds no way, or a full queue, is
 * sent again every second.
 */
#include <string.h>

#include "base/address.h"
#include "base/check.h"
#include "base/list.h"
#include "base/world.h"
#include "sim/sim_address.h"
#include "sim/sim_event.h"
#include "sim/sim_fault.h"
#include "sim/sim_net.h"
#include "sim/sim_node.h"
#include "sim/sim_pipe.h"
#include "sim/sim_tcp.h"
#include "sim/sim_tcp_end.h"
#include "troupe/base.h"

#define SYN_RETRY TR_SECONDS(1)
#define SYN_TRIES UINT32_C(127)  // seconds, about what Linux tries

/* True if a connection or a datagram to `to` reaches it. */
static bool is_reached(const tri_stream *it, const tri_address *to)
{
    tri_address own;
    uint32_t index;
    tri_sim_stream_state state = to->is_udp ? TRI_SIM_UDP : TRI_SIM_LISTENING;

    if (it->state != state || it->killed ||
        tri_address_split(it->local, &own) != TR_OK ||
        own.is_unix != to->is_unix || own.port != to->port) {
        return false;
    }
    return strcmp(own.host, to->host) == 0 ||
           (!to->is_unix && tri_sim_host_node(to->host, &index) &&
            index == it->node->index);
}

tri_stream *tri_sim_end_find(tri_sim_tcp *tcp, const tri_address *to)
{
    TRI_LIST_EACH_ITEM (it, &tcp->streams, tri_stream, all) {
        if (is_reached(it, to)) {
            return it;
        }
    }
    return NULL;
}

/* ---- listening ---- */

/* Chooses a port that is not in use. Returns false if all are taken. */
static bool choose_port(tri_sim_tcp *tcp, tri_address *at)
{
    for (uint32_t i = 0; i < UINT16_MAX - TRI_SIM_PORT_FIRST; i++) {
        at->port = tcp->next_port;
        tcp->next_port =
            at->port < UINT16_MAX ? at->port + 1 : TRI_SIM_PORT_FIRST;
        if (tri_sim_end_find(tcp, at) == NULL) {
            return true;
        }
    }
    return false;
}

tr_err tri_sim_end_bind(tri_sim_tcp *tcp, const tri_sim_node *node,
                        tri_address *at)
{
    uint32_t index;

    if (!at->is_unix && tri_sim_host_node(at->host, &index) &&
        index != node->index) {
        return TR_EINVAL;
    }
    bool is_free = !at->is_unix && at->port == 0
                       ? choose_port(tcp, at)
                       : tri_sim_end_find(tcp, at) == NULL;
    return is_free ? TR_OK : TR_EEXIST;
}

tr_err tri_sim_stream_listen(tri_poller *poller, tri_stream **out,
                             const char *address, uint32_t backlog)
{
    tri_sim_node *node = tri_sim_poller_node(poller);
    tri_sim_tcp *tcp = tri_sim_tcp_need(node->sim);
    tri_address at;

    *out = NULL;
    TR_TRY(tri_sim_address_split(address, &at));
    if (at.is_udp) {
        return TR_EINVAL;
    }
    if (tcp == NULL) {
        return TR_ENOMEM;
    }
    TR_TRY(tri_sim_end_bind(tcp, node, &at));
    tri_stream *stream = tri_sim_end_new(tcp, node, TRI_SIM_LISTENING);
    if (stream == NULL) {
        return TR_ENOMEM;
    }
    stream->backlog = backlog > 0 ? backlog : 1;
    tri_address_join(&at, stream->local);
    *out = stream;
    return TR_OK;
}

tr_err tri_sim_stream_accept(tri_stream *listener, tri_stream **out)
{
    TRI_CHECK(listener->state == TRI_SIM_LISTENING);
    *out = NULL;
    if (listener->broken != TR_OK) {
        return listener->broken;
    }
    if (listener->queued == 0) {
        return TR_EWOULDBLOCK;
    }
    tri_stream *stream = tri_container_of(tri_list_first(&listener->queue),
                                          tri_stream, queue_link);
    tri_list_remove(&stream->queue_link);
    listener->queued--;
    stream->listener = NULL;
    *out = stream;
    return TR_OK;
}

/* ---- connecting ---- */

static uint32_t node_index_of(const tri_stream *listener)
{
    return listener != NULL ? listener->node->index : TRI_SIM_NO_NODE;
}

/* Arms the next step of the handshake; `back`: an answer to the client. */
static void handshake_after(tri_stream *client, const tri_stream *listener,
                            bool back)
{
    uint32_t here = client->node->index, there = node_index_of(listener);

    tri_sim_event_arm(client->tcp->sim, &client->handshake,
                      tri_sim_net_draw(client->tcp->net, back ? there : here,
                                       back ? here : there));
}

/* The answer of the other side has come. */
static void on_answer(tr_sim *sim, tri_sim_event *event)
{
    tri_stream *client = tri_container_of(event, tri_stream, handshake);

    (void)sim;
    if (client->refused) {
        tri_sim_stream_break(client, TR_EUNREACHABLE);
        return;
    }
    client->state = TRI_SIM_OPEN;
    tri_sim_end_notify(client);
}

/* Makes the other end of a connection. Returns false without memory. */
static bool accept_later(tri_stream *listener, tri_stream *client)
{
    tri_sim_tcp *tcp = listener->tcp;
    tri_stream *server = tri_sim_end_new(tcp, listener->node, TRI_SIM_OPEN);

    if (server == NULL) {
        return false;
    }
    server->in =
        tri_sim_pipe_new(tcp, client, client->node, server, listener->node);
    server->out =
        tri_sim_pipe_new(tcp, server, listener->node, client, client->node);
    if (server->in == NULL || server->out == NULL) {
        if (server->in != NULL) {
            tri_sim_pipe_free(server->in);
        }
        if (server->out != NULL) {
            tri_sim_pipe_free(server->out);
        }
        tri_sim_end_free(server);
        return false;
    }
    client->out = server->in;
    client->in = server->out;
    memcpy(server->local, client->remote, sizeof(server->local));
    memcpy(server->remote, client->local, sizeof(server->remote));
    server->listener = listener;
    tri_list_push_back(&listener->queue, &server->queue_link);
    listener->queued++;
    return true;
}

/* No way to the listener, or its queue is full: tries again later. */
static void connect_again(tri_stream *client)
{
    if (++client->tries >= SYN_TRIES) {
        tri_sim_stream_break(client, TR_ETIMEDOUT);
        return;
    }
    tri_sim_event_arm(client->tcp->sim, &client->handshake, SYN_RETRY);
}

/* The request to connect has arrived. */
static void on_request(tr_sim *sim, tri_sim_event *event)
{
    tri_stream *client = tri_container_of(event, tri_stream, handshake);
    tri_sim_tcp *tcp = client->tcp;
    tri_address to;

    if (tri_sim_address_split(client->remote, &to) != TR_OK) {
        tri_sim_stream_break(client, TR_EINVAL);
        return;
    }
    tri_stream *listener = tri_sim_end_find(tcp, &to);
    if (listener != NULL && (!tri_sim_net_is_open(tcp->net, client->node->index,
                                                  listener->node->index) ||
                             listener->queued >= listener->backlog)) {
        connect_again(client);
        return;
    }
    client->refused =
        listener == NULL ||
        tri_sim_strikes(sim, TRI_FAULT_refuse, client->node->index) ||
        !accept_later(listener, client);
    client->handshake.fn = on_answer;
    handshake_after(client, listener, true);
    if (!client->refused) {
        tri_sim_end_notify(listener);
    }
}

tr_err tri_sim_stream_connect(tri_poller *poller, tri_stream **out,
                              const char *address)
{
    tri_sim_node *node = tri_sim_poller_node(poller);
    tri_sim_tcp *tcp = tri_sim_tcp_need(node->sim);
    tri_address to, own = {.host = "127.0.0.1"};

    *out = NULL;
    TR_TRY(tri_sim_address_split(address, &to));
    if (to.is_udp) {
        return TR_EINVAL;
    }
    tri_stream *stream =
        tcp != NULL ? tri_sim_end_new(tcp, node, TRI_SIM_CONNECTING) : NULL;
    if (stream == NULL) {
        return TR_ENOMEM;
    }
    tri_address_join(&to, stream->remote);
    if (!to.is_unix && choose_port(tcp, &own)) {
        tri_address_join(&own, stream->local);
    }
    stream->handshake.fn = on_request;
    handshake_after(stream, tri_sim_end_find(tcp, &to), false);
    *out = stream;
    return TR_OK;
}

tr_err tri_sim_stream_connected(tri_stream *stream)
{
    if (stream->broken != TR_OK) {
        return stream->broken;
    }
    return stream->state == TRI_SIM_CONNECTING ? TR_EWOULDBLOCK : TR_OK;
}
