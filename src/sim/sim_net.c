/*
 * sim_net.c - links between nodes that behave like a bad network.
 *
 * Every message is an event of the world at its time of arrival. A link is one
 * direction between two nodes.
 *
 * Invariant: without the fault `reorder`, a message never arrives before one
 * that was sent earlier on the same link: its time is at least the last one's,
 * and events of one time happen in the order they were armed.
 */
#include "sim/sim_net.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/rand.h"
#include "sim/sim.h"
#include "sim/sim_event.h"
#include "sim/sim_fault.h"
#include "sim/sim_node.h"
#include "sim/sim_stream.h"

#define TAIL_FACTOR   10
#define SLOW_FACTOR   UINT32_C(20)
#define LATENCY_LEAST INT64_C(100000)
#define LATENCY_MOST  INT64_C(1000000)
#define LATENCY_TAIL  UINT32_C(100)

typedef struct net_link {
    tr_nanos cut_until, slow_until;
    uint32_t slow_factor;
    tr_nanos last_due;  // of the newest message on it
    bool clogged;
    tri_sim_event clog_end;  // armed while clogged
    tri_list held;           // packets that arrived while clogged
} net_link;

typedef struct packet {
    tri_sim_event event;
    tri_link link;  // in net->packets, or held by a clogged link
    tri_sim_net *net;
    uint32_t from, to;
    size_t size;
    char bytes[];
} packet;

struct tri_sim_net {
    tr_sim *sim;
    uint32_t nodes;
    tri_sim_deliver_fn deliver;
    void *user;
    tri_sim_latency latency;
    tri_list packets;
    uint64_t in_flight;
    net_link outside;  // all links of the workload; never disturbed
    net_link links[];  // nodes * nodes
};

static net_link *link_of(tri_sim_net *net, uint32_t from, uint32_t to)
{
    TRI_CHECK(from < net->nodes);
    TRI_CHECK(to < net->nodes);
    return &net->links[(size_t)from * net->nodes + to];
}

/* Returns a link that may end at the workload. */
static net_link *any_link_of(tri_sim_net *net, uint32_t from, uint32_t to)
{
    return from == TRI_SIM_NO_NODE || to == TRI_SIM_NO_NODE
               ? &net->outside
               : link_of(net, from, to);
}

static tr_nanos until(const tri_sim_net *net, tr_nanos span)
{
    return span > TR_FOREVER - net->sim->now ? TR_FOREVER
                                             : net->sim->now + span;
}

/* ---- messages ---- */

/* Takes a packet out of the net; the caller owns it then. */
static void packet_take(packet *it)
{
    TRI_CHECK(it->net->in_flight > 0);
    tri_sim_event_cancel(it->net->sim, &it->event);
    it->net->in_flight--;
    tri_list_remove(&it->link);
}

static void packet_free(packet *it)
{
    packet_take(it);
    free(it);
}

static void deliver_packet(packet *it)
{
    tri_sim_net *net = it->net;

    packet_take(it);  // first: the receiver may call tri_sim_net_forget
    if (any_link_of(net, it->from, it->to)->cut_until <= net->sim->now) {
        net->deliver(net->user, it->from, it->to, it->bytes, it->size);
    }
    free(it);
}

static void on_arrival(tr_sim *sim, tri_sim_event *event)
{
    packet *it = tri_container_of(event, packet, event);
    net_link *link = any_link_of(it->net, it->from, it->to);

    (void)sim;
    if (link->clogged) {
        tri_list_remove(&it->link);
        tri_list_push_back(&link->held, &it->link);
        return;
    }
    deliver_packet(it);
}

static void on_clog_end(tr_sim *sim, tri_sim_event *event)
{
    net_link *link = tri_container_of(event, net_link, clog_end);
    tri_link *first;

    (void)sim;
    link->clogged = false;
    // A receiver may clog the link again; the rest then stays held.
    while (!link->clogged && (first = tri_list_first(&link->held)) != NULL) {
        deliver_packet(tri_container_of(first, packet, link));
    }
}

/* NULL: the link to or from something outside of the nodes. */
static tr_nanos draw_latency(tri_sim_net *net, const net_link *link)
{
    tri_rand *rand = tri_sim_rand(net->sim, TRI_STREAM_LATENCY);
    const tri_sim_latency *latency = &net->latency;
    uint64_t width = (uint64_t)(latency->most - latency->least) + 1;
    tr_nanos span = latency->least + (tr_nanos)tri_rand_below(rand, width);

    bool in_tail =
        latency->tail > 0 && tri_rand_below(rand, latency->tail) == 0;
    tri_sim_count_event(net->sim, TRI_EVENT_latency_tail, in_tail);
    if (in_tail) {
        span *= TAIL_FACTOR;
    }
    if (link != NULL && link->slow_until > net->sim->now) {
        span *= link->slow_factor;
    }
    return span;
}

/* Draws the time that a message takes, with the fault `delay`. */
static tr_nanos draw_span_of(tri_sim_net *net, const net_link *link,
                             uint32_t from)
{
    tr_sim *sim = net->sim;
    tr_nanos span = draw_latency(net, link);

    if (tri_sim_strikes(sim, TRI_FAULT_delay, from)) {
        span += (tr_nanos)tri_sim_fault_below(sim, TRI_FAULT_delay,
                                              (uint64_t)sim->delay_max);
    }
    return span;
}

static void flip_a_bit(packet *it)
{
    if (it->size > 0) {
        uint64_t bit = tri_sim_fault_below(it->net->sim, TRI_FAULT_bit_flip,
                                           (uint64_t)it->size * 8);
        it->bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
}

/* Sends one copy of a message. */
static tr_err launch(tri_sim_net *net, uint32_t from, uint32_t to,
                     const void *bytes, size_t size)
{
    tr_sim *sim = net->sim;
    net_link *link = any_link_of(net, from, to);
    bool disturbed = link != &net->outside;
    packet *it = malloc(sizeof(*it) + size);

    if (it == NULL) {
        return TR_ENOMEM;
    }
    memset(it, 0, sizeof(*it));
    it->event.fn = on_arrival;
    it->net = net;
    it->from = from;
    it->to = to;
    it->size = size;
    if (size > 0) {
        memcpy(it->bytes, bytes, size);
    }
    if (disturbed && tri_sim_strikes(sim, TRI_FAULT_bit_flip, from)) {
        flip_a_bit(it);
    }
    tr_nanos span = draw_span_of(net, link, from);
    tr_nanos due = until(net, span);
    if (!disturbed || !tri_sim_strikes(sim, TRI_FAULT_reorder, from)) {
        due = (tr_nanos)tri_max((uint64_t)due, (uint64_t)link->last_due);
        link->last_due = due;
    }
    tri_list_push_back(&net->packets, &it->link);
    net->in_flight++;
    tri_sim_event_arm(sim, &it->event, due - sim->now);
    return TR_OK;
}

tr_err tri_sim_net_send(tri_sim_net *net, uint32_t from, uint32_t to,
                        const void *bytes, size_t size)
{
    net_link *link = any_link_of(net, from, to);

    if (size > TRI_SIM_MESSAGE_MAX) {
        return TR_EINVAL;
    }
    TRI_CHECK(bytes != NULL || size == 0);
    if (link == &net->outside) {
        return launch(net, from, to, bytes, size);
    }
    if (link->cut_until > net->sim->now ||
        tri_sim_strikes(net->sim, TRI_FAULT_drop, from)) {
        return TR_OK;
    }
    if (tri_sim_strikes(net->sim, TRI_FAULT_duplicate, from)) {
        TR_TRY(launch(net, from, to, bytes, size));
    }
    return launch(net, from, to, bytes, size);
}

/* ---- segments of streams ---- */

/* Returns the link, or NULL if an end of it is not a node. */
static net_link *link_or_none(tri_sim_net *net, uint32_t from, uint32_t to)
{
    if (from == TRI_SIM_NO_NODE || to == TRI_SIM_NO_NODE || from == to) {
        return NULL;
    }
    return link_of(net, from, to);
}

bool tri_sim_net_is_open(tri_sim_net *net, uint32_t from, uint32_t to)
{
    const net_link *link = link_or_none(net, from, to);

    return link == NULL || (link->cut_until <= net->sim->now && !link->clogged);
}

tr_nanos tri_sim_net_draw(tri_sim_net *net, uint32_t from, uint32_t to)
{
    return draw_span_of(net, link_or_none(net, from, to), from);
}

/* ---- links ---- */

void tri_sim_net_cut(tri_sim_net *net, uint32_t from, uint32_t to,
                     tr_nanos span)
{
    link_of(net, from, to)->cut_until = until(net, span);
}

void tri_sim_net_clog(tri_sim_net *net, uint32_t from, uint32_t to,
                      tr_nanos span)
{
    net_link *link = link_of(net, from, to);

    if (span > 0 || link->clogged) {
        link->clogged = true;
        tri_sim_event_arm(net->sim, &link->clog_end, span);
    }
}

void tri_sim_net_slow(tri_sim_net *net, uint32_t from, uint32_t to,
                      tr_nanos span, uint32_t factor)
{
    net_link *link = link_of(net, from, to);

    TRI_CHECK(factor > 0);
    link->slow_until = until(net, span);
    link->slow_factor = factor;
}

void tri_sim_net_partition(tri_sim_net *net, uint64_t set, tr_nanos span)
{
    for (uint32_t from = 0; from < net->nodes; from++) {
        for (uint32_t to = 0; to < net->nodes; to++) {
            if ((set >> from & 1) != (set >> to & 1)) {
                tri_sim_net_cut(net, from, to, span);
            }
        }
    }
}

void tri_sim_net_heal(tri_sim_net *net)
{
    for (uint32_t i = 0; i < net->nodes * net->nodes; i++) {
        net_link *link = &net->links[i];
        link->cut_until = 0;
        link->slow_until = 0;
        if (link->clogged) {
            tri_sim_event_arm(net->sim, &link->clog_end, 0);
        }
    }
}

static void forget_in(tri_list *list, uint32_t node)
{
    TRI_LIST_EACH_SAFE (link, list) {
        packet *p = tri_container_of(link, packet, link);
        if (p->to == node) {
            packet_free(p);
        }
    }
}

void tri_sim_net_forget(tri_sim_net *net, uint32_t node)
{
    TRI_CHECK(node < net->nodes);
    forget_in(&net->packets, node);
    for (uint32_t from = 0; from < net->nodes; from++) {
        forget_in(&link_of(net, from, node)->held, node);
    }
}

/* ---- faults ---- */

static tr_nanos draw_span(tr_sim *sim, tri_sim_fault fault)
{
    return (tr_nanos)tri_sim_fault_below(sim, fault, (uint64_t)sim->pause_max) +
           1;
}

/* Draws two different nodes. */
static void draw_link(tri_sim_net *net, tri_sim_fault fault, uint32_t *from,
                      uint32_t *to)
{
    *from = (uint32_t)tri_sim_fault_below(net->sim, fault, net->nodes);
    *to = (uint32_t)tri_sim_fault_below(net->sim, fault, net->nodes - 1);
    *to += *to >= *from;
}

/* Draws a set of nodes, as bits: at least one, and not all. */
static uint64_t draw_set(tri_sim_net *net, tri_sim_fault fault)
{
    uint64_t all =
        net->nodes == 64 ? UINT64_MAX : (UINT64_C(1) << net->nodes) - 1;

    return tri_sim_fault_below(net->sim, fault, all - 1) + 1;
}

/* Cuts the links from the set to the others, but not those back. */
static void cut_one_way(tri_sim_net *net, uint64_t set, tr_nanos span)
{
    for (uint32_t from = 0; from < net->nodes; from++) {
        for (uint32_t to = 0; to < net->nodes; to++) {
            if ((set >> from & 1) && !(set >> to & 1)) {
                tri_sim_net_cut(net, from, to, span);
            }
        }
    }
}

/*
 * Clogs all links of the set, each for a time of its own: when they open one
 * after the other, every node learns of the past in another order.
 */
static void swizzle(tri_sim_net *net, uint64_t set)
{
    for (uint32_t from = 0; from < net->nodes; from++) {
        for (uint32_t to = 0; to < net->nodes; to++) {
            if (from != to && ((set >> from | set >> to) & 1)) {
                tri_sim_net_clog(net, from, to,
                                 draw_span(net->sim, TRI_FAULT_swizzle));
            }
        }
    }
}

void tri_sim_net_trouble(tri_sim_net *net)
{
    tr_sim *sim = net->sim;
    uint32_t from, to;

    if (net->nodes < 2) {
        return;
    }
    if (tri_sim_strikes(sim, TRI_FAULT_partition, TRI_SIM_NO_NODE)) {
        uint64_t set = draw_set(net, TRI_FAULT_partition);
        tri_sim_net_partition(net, set, draw_span(sim, TRI_FAULT_partition));
    }
    if (tri_sim_strikes(sim, TRI_FAULT_half_open, TRI_SIM_NO_NODE)) {
        draw_link(net, TRI_FAULT_half_open, &from, &to);
        tri_sim_net_cut(net, from, to, draw_span(sim, TRI_FAULT_half_open));
    }
    if (tri_sim_strikes(sim, TRI_FAULT_slow_link, TRI_SIM_NO_NODE)) {
        draw_link(net, TRI_FAULT_slow_link, &from, &to);
        tri_sim_net_slow(net, from, to, draw_span(sim, TRI_FAULT_slow_link),
                         SLOW_FACTOR);
    }
    if (tri_sim_strikes(sim, TRI_FAULT_clog, TRI_SIM_NO_NODE)) {
        draw_link(net, TRI_FAULT_clog, &from, &to);
        tri_sim_net_clog(net, from, to, draw_span(sim, TRI_FAULT_clog));
    }
    if (tri_sim_strikes(sim, TRI_FAULT_one_way, TRI_SIM_NO_NODE)) {
        uint64_t set = draw_set(net, TRI_FAULT_one_way);
        cut_one_way(net, set, draw_span(sim, TRI_FAULT_one_way));
    }
    if (tri_sim_strikes(sim, TRI_FAULT_swizzle, TRI_SIM_NO_NODE)) {
        swizzle(net, draw_set(net, TRI_FAULT_swizzle));
    }
}

/* ---- making and freeing ---- */

tr_err tri_sim_net_new(tri_sim_net **out, tr_sim *sim, uint32_t nodes,
                       tri_sim_deliver_fn deliver, void *user)
{
    TRI_CHECK(out != NULL);
    TRI_CHECK(deliver != NULL);
    *out = NULL;
    if (nodes == 0 || nodes > TRI_SIM_NODES_MAX) {
        return TR_EINVAL;
    }
    size_t links = (size_t)nodes * nodes * sizeof(net_link);
    tri_sim_net *net = calloc(1, sizeof(*net) + links);
    if (net == NULL) {
        return TR_ENOMEM;
    }
    net->sim = sim;
    net->nodes = nodes;
    net->deliver = deliver;
    net->user = user;
    net->latency = (tri_sim_latency){
        .least = LATENCY_LEAST, .most = LATENCY_MOST, .tail = LATENCY_TAIL};
    tri_list_init(&net->packets);
    tri_list_init(&net->outside.held);
    for (uint32_t i = 0; i < nodes * nodes; i++) {
        net->links[i].clog_end.fn = on_clog_end;
        tri_list_init(&net->links[i].held);
    }
    *out = net;
    return TR_OK;
}

void tri_sim_net_free(tri_sim_net *net)
{
    if (net == NULL) {
        return;
    }
    for (uint32_t node = 0; node < net->nodes; node++) {
        tri_sim_net_forget(net, node);
    }
    forget_in(&net->packets, TRI_SIM_NO_NODE);
    for (uint32_t i = 0; i < net->nodes * net->nodes; i++) {
        tri_sim_event_cancel(net->sim, &net->links[i].clog_end);
    }
    free(net);
}

void tri_sim_net_latency(tri_sim_net *net, const tri_sim_latency *latency)
{
    TRI_CHECK(latency->least >= 0);
    TRI_CHECK(latency->most >= latency->least);
    net->latency = *latency;
}

uint64_t tri_sim_net_in_flight(const tri_sim_net *net)
{
    return net->in_flight;
}
