/*
 * leave_sim.c - nodes end in good order, at any moment, under load.
 *
 * The nodes and actors of takeover.h: three nodes, virtual actors with stored
 * state, calls and notes from everywhere, over a network that loses, doubles,
 * delays and cuts, with wrong clocks and paused nodes. Meanwhile one node, or
 * two at a time, shut down, with their shards given away before, or only after
 * they are gone. In half of the runs nodes are killed as well, also while they
 * shut down. Each boots again as another incarnation.
 *   - every call ends, with a reply or an error, within its time, also those of
 *     actors that end with their node;
 *   - no shutdown takes longer than its time-out or forces an actor; after it
 *     no activation is left on that node;
 *   - the nodes that stay soon have every actor, with its state: no number
 *     that was acknowledged is lost;
 *   - every note was handled, once, or is a dead letter of some node, unless
 *     that node was killed;
 *   - every watch is notified of an end.
 *
 * Covers SH9, AC7, AC12, X8 and X30.
 */
#include "takeover.h"

#define CLOSE_TIME TR_SECONDS(20)

enum { TAKEN_TRIES = 30 };

/* Takes a closed system out of the mesh: packets to it are lost. */
static void gone(void *arg)
{
    board *b = &the_board;

    for (uint32_t n = 0; n < NODES; n++) {
        if (b->mesh.systems[n] == arg) {
            mesh_leave(&b->mesh, n);
        }
    }
}

/* ---- notes that become dead letters ---- */

static const tri_up *up;  // of every system

static void on_dead(tri_worker *worker, tr_ref to, tr_msg *msg, uint32_t reason)
{
    the_board.dead += msg->item.type == &Note_tr_type;
    up->dead_letter(worker, to, msg, reason);
}

static void on_dead_lost(tr_system *sys, tr_ref to, const tr_type *type,
                         uint32_t reason)
{
    the_board.dead += strcmp(type->name, Note_tr_type.name) == 0;
    up->dead_letter_lost(sys, to, type, reason);
}

static void listen(tr_system *sys)
{
    static tri_up heard;

    up = sys->up;
    heard = *up;
    heard.dead_letter = on_dead;
    heard.dead_letter_lost = on_dead_lost;
    sys->up = &heard;
}

static tr_err leaving_node(tr_system *sys, uint32_t index, void *user)
{
    listen(sys);
    TR_TRY(tr_system_on_closed(sys, gone, sys));
    return node(sys, index, user);
}

static void begin_leaving(tr_sim *sim, void *user)
{
    begin(sim, user);
    the_board.notes = 2;
}

/* ---- the end of a node ---- */

static tr_err judge(tr_sim *sim, board *b, uint32_t n, tr_err err,
                    const tr_close_report *report)
{
    if (err != TR_OK) {
        return tr_sim_fail(sim, "node %u: closed with %s, %u forced", n,
                           tr_errname(err), report->forced);
    }
    if (b->asking[n] != 0) {
        return tr_sim_fail(sim, "node %u: %u calls have not ended", n,
                           b->asking[n]);
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        if (b->active[i][n] != 0) {
            return tr_sim_fail(sim, "node %u: %s was not ended", n, keys[i]);
        }
    }
    return TR_OK;
}

/* Returns false while the node is still closing. */
static bool has_ended(tr_sim *sim, board *b, uint32_t n, tr_err *result)
{
    tr_close_report report = {.size = sizeof(report)};
    tr_err err = tr_sim_shutdown_report(sim, n, &report);

    if (err == TR_EWOULDBLOCK) {
        return false;
    }
    if (err == TR_ESTOPPED) {
        unplug(b, n);
        was_killed(b, n);
    } else {
        *result = judge(sim, b, n, err, &report);
    }
    if (*result == TR_OK) {
        tell_of_end(sim, b, n);
    }
    return true;
}

/* Waits until the nodes (bits) are down, while the others work. */
static tr_err await(tr_sim *sim, board *b, uint32_t nodes)
{
    tr_nanos until = tr_sim_now(sim) + CLOSE_TIME + SLACK;
    tr_err err = TR_OK;

    while (nodes != 0 && err == TR_OK) {
        for (uint32_t n = 0; n < NODES && err == TR_OK; n++) {
            if ((nodes >> n & 1) && has_ended(sim, b, n, &err)) {
                nodes &= ~(UINT32_C(1) << n);
            }
        }
        if (err == TR_OK && tr_sim_now(sim) > until) {
            return tr_sim_fail(sim, "the nodes of %x do not end", nodes);
        }
        if (tr_sim_random(sim, 4) == 0) {
            load(sim, b);
        }
        pass(sim, TR_MS(10));
    }
    return err;
}

/* Checks that the actor soon replies, with all acknowledged numbers. */
static tr_err taken_over(tr_sim *sim, board *b, uint32_t key)
{
    tr_system *sys = b->mesh.systems[HOME];
    uint64_t counted = b->counted[key];
    tr_err err = TR_ETIMEDOUT;
    Answer answer;

    for (uint32_t i = 0; i < TAKEN_TRIES; i++) {
        err = tr_ask(sys, tr_virtual(sys, "target", keys[key]), &answer,
                     TR_SECONDS(2), Who);
        if (err == TR_OK) {
            return answer.count > counted
                       ? TR_OK
                       : tr_sim_fail(
                             sim, "%s: %" PRIu64 " was answered, now %" PRIu64,
                             keys[key], counted, answer.count);
        }
        pass(sim, TR_MS(200));
    }
    return tr_sim_fail(sim, "%s: nobody has taken over: %s", keys[key],
                       tr_errname(err));
}

static void give_all_away(tr_sim *sim, board *b, uint32_t n)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        if (b->mesh.shards[b->shards[i]].node.slot == n) {
            give_away(sim, b, i, HOME);
        }
    }
}

/* Shuts a node down; returns false if it is not up. */
static bool shut_down(tr_sim *sim, uint32_t n)
{
    if (tr_sim_node(sim, n) == NULL) {
        return false;
    }
    tr_sim_shutdown(sim, n, CLOSE_TIME, any_while(sim));
    return true;
}

static tr_err leave(tr_sim *sim, board *b, bool deadly)
{
    uint32_t one = 1 + (uint32_t)tr_sim_random(sim, NODES - 1);
    uint32_t other = NODES - one;  // HOME stays
    uint32_t nodes = UINT32_C(1) << one;

    load(sim, b);
    pass(sim, TR_MS(5));
    if (tr_sim_random(sim, 2) == 0) {
        give_all_away(sim, b, one);
    }
    if (!shut_down(sim, one)) {
        return TR_OK;
    }
    load(sim, b);
    if (tr_sim_random(sim, 3) == 0) {
        pass(sim, TR_MS(20));
        nodes |= (uint32_t)shut_down(sim, other) << other;
    }
    if (deadly && tr_sim_random(sim, 4) == 0) {
        pass(sim, TR_MS(1) / 5);
        if (tr_sim_shutdown_report(sim, one, NULL) == TR_EWOULDBLOCK) {
            tr_sim_kill(sim, one, any_while(sim));
        }
    }
    TR_TRY(await(sim, b, nodes));
    return taken_over(sim, b, (uint32_t)tr_sim_random(sim, KEYS));
}

/* ---- the run ---- */

static tr_err leaving(tr_sim *sim, void *user)
{
    board *b = user;
    bool deadly = tr_sim_random(sim, 2) == 0;

    tr_sim_advance(sim, TR_SECONDS(1));
    for (int round = 0; round < ROUNDS && b->broken == NULL; round++) {
        uint32_t key = (uint32_t)tr_sim_random(sim, KEYS);
        uint32_t n = (uint32_t)tr_sim_random(sim, NODES);
        uint64_t what = tr_sim_random(sim, 20);
        usual(sim, b, what, 2, key, n);
        if (what >= USUAL && what < 19) {
            TR_TRY(leave(sim, b, deadly));
        } else if (what == 19 && deadly && n != HOME &&
                   tr_sim_node(sim, n) != NULL) {
            kill_one(sim, b, n);
        }
        load(sim, b);
        pass(sim, TR_MS(400));
        mesh_tell(&b->mesh, (uint32_t)tr_sim_random(sim, NODES));
    }
    settle(sim, b);
    return TR_OK;
}

static tr_err accounted(tr_sim *sim, board *b)
{
    for (uint32_t n = 0; n < NODES; n++) {
        if (b->asking[n] != 0) {
            return tr_sim_fail(sim, "node %u: %u calls never end", n,
                               b->asking[n]);
        }
    }
    // A note in flight to a node that left may have been handled, and be a
    // dead letter of its sender as well.
    return b->handled <= b->noted &&
                   (b->kills > 0 || b->handled + b->dead >= b->noted)
               ? TR_OK
               : tr_sim_fail(sim,
                             "%" PRIu64 " notes, %" PRIu64 " handled, %" PRIu64
                             " dead letters",
                             b->noted, b->handled, b->dead);
}

static tr_err all_left(tr_sim *sim, void *user)
{
    board *b = user;
    tr_err err = b->broken == NULL ? accounted(sim, b) : TR_OK;
    tr_err told = all_told(sim, user);

    return err != TR_OK ? err : told;
}

int main(int argc, char **argv)
{
    the_board.cut = true;
    return few_seeds(
        argc, argv, "20",
        TR_OPTIONS(tr_sim_options, .seed = 1, .nodes = NODES,
                   .begin = begin_leaving, .node = leaving_node,
                   .workload = leaving, .invariant = holds, .at_end = all_left,
                   .user = &the_board,
                   .faults = TR_OPTIONS(
                       tr_faults, .drop = 0.02, .delay = 0.03, .reorder = 0.03,
                       .duplicate = 0.03, .bit_flip = 0.01, .partition = 0.05,
                       .half_open = 0.05, .one_way = 0.05, .swizzle = 0.05,
                       .slow_link = 0.05, .clog = 0.05, .early_wake = 0.01,
                       .clock_skew = 0.0001, .clock_jump = 0.0001,
                       .node_pause = 0.00005, .delay_max = TR_MS(200),
                       .pause_max = TR_SECONDS(2))));
}
