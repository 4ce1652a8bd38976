/*
 * sim_signal.c - signals that a simulation sends to its nodes.
 *
 * Invariant: a signal that was sent is pending, once, until it is taken.
 */
#include "sim/sim_signal.h"

#include "base/check.h"
#include "base/list.h"
#include "sim/sim.h"
#include "sim/sim_event.h"
#include "sim/sim_node.h"
#include "sim/sim_tcp.h"
#include "sim/sim_tcp_end.h"

enum { NUMBERS_MAX = 64 };  // the greatest number of a signal

tr_err tri_sim_signals_open(tri_poller *poller, tri_stream **out, uint64_t set)
{
    tri_sim_node *node = tri_sim_poller_node(poller);
    tri_sim_tcp *tcp = tri_sim_tcp_need(node->sim);

    *out = NULL;
    if (set == 0) {
        return TR_EINVAL;
    }
    tri_stream *stream =
        tcp != NULL ? tri_sim_end_new(tcp, node, TRI_SIM_SIGNALS) : NULL;
    if (stream == NULL) {
        return TR_ENOMEM;
    }
    stream->signal_set = set;
    *out = stream;
    return TR_OK;
}

tr_err tri_sim_signals_take(tri_stream *signals, int *number)
{
    TRI_CHECK(signals->state == TRI_SIM_SIGNALS);
    *number = 0;
    if (signals->broken != TR_OK) {
        return signals->broken;
    }
    if (signals->signals_pending == 0) {
        return TR_EWOULDBLOCK;
    }
    while (!(signals->signals_pending >> *number & 1)) {
        ++*number;
    }
    signals->signals_pending &= signals->signals_pending - 1;
    ++*number;
    return TR_OK;
}

static void on_signal(tr_sim *sim, tri_sim_event *event)
{
    (void)sim;
    tri_sim_end_notify(tri_container_of(event, tri_stream, handshake));
}

void tr_sim_signal(tr_sim *sim, uint32_t index, int number)
{
    if (number < 1 || number > NUMBERS_MAX) {
        tr_abort("tr_sim_signal", "there is no such signal");
    }
    if (sim->tcp == NULL) {
        return;
    }
    uint64_t bit = UINT64_C(1) << (number - 1);
    TRI_LIST_EACH_ITEM (it, &sim->tcp->streams, tri_stream, all) {
        if (it->state == TRI_SIM_SIGNALS && it->node->index == index &&
            !it->killed && (it->signal_set & bit)) {
            it->signals_pending |= bit;
            it->handshake.fn = on_signal;
            tri_sim_event_arm(sim, &it->handshake, 0);
        }
    }
}
