/*
 * call_test.c - requests that a node has sent: what the bus holds of them while
 * they are under way, and their numbers.
 *
 * A transport in front of the simulated network reads each packet of node 0
 * before it leaves, so that a test sees the call at the moment of sending.
 */
#include "unit/cluster/pair.h"

#include "cluster/bus/call.h"
#include "cluster/bus/request.h"
#include "cluster/transport/packet.h"
#include "core/cell/message.h"

enum { SEEDS = 4, AT_ONCE = 8, ROUNDS = 5, SEEN_MAX = 2 * AT_ONCE * ROUNDS };

#define PATIENCE TR_SECONDS(15)

/* A request when it left node 0 for the first time. */
typedef struct sighting {
    uint64_t correlation;
    uint32_t ttl_ms;
    tr_nanos at;
    bool has_call;
    tri_call call;  // a copy
    bool is_armed;
    tr_nanos due;
    const tr_type *type;
    char target[64];  // of the call
} sighting;

static struct {
    const tri_transport_ops *below;
    uint32_t count;
    sighting seen[SEEN_MAX];
} spied;

static bool was_seen(uint64_t correlation)
{
    for (uint32_t i = 0; i < spied.count; i++) {
        if (spied.seen[i].correlation == correlation) {
            return true;
        }
    }
    return false;
}

static void note_request(const tri_envelope *e)
{
    if (was_seen(e->correlation) || spied.count == SEEN_MAX) {
        return;  // it is sent again
    }
    sighting *s = &spied.seen[spied.count++];
    const tri_call *call = tri_map_get(&bus_of(0)->calls, e->correlation);
    *s = (sighting){.correlation = e->correlation,
                    .ttl_ms = e->ttl_ms,
                    .at = tr_now(cloud.systems[0]),
                    .has_call = call != NULL};
    if (call != NULL) {
        s->call = *call;
        s->is_armed = tri_timer_is_armed(&call->timer);
        s->due = tri_timer_due(&call->timer);
        s->type = call->msg->item.type;
        snprintf(s->target, sizeof(s->target), "%s", call->v->text);
    }
}

static void spy_send(tri_transport *transport, uint32_t from, uint32_t to,
                     const void *bytes, size_t size)
{
    static tri_envelope e;  // large; there is one thread
    tri_packet packet;
    if (from == 0 && tri_packet_read(&packet, bytes, size) &&
        packet.kind == TRI_PACKET_DATA) {
        tri_reader r = {.at = packet.frame.at,
                        .end = (const unsigned char *)packet.frame.at +
                               packet.frame.size};
        if (tri_read_u8(&r) == TRI_FRAME_MESSAGE && tri_envelope_read(&r, &e) &&
            e.direction == TRI_REQUEST) {
            note_request(&e);
        }
    }
    spied.below->send(transport, from, to, bytes, size);
}

/* ---- actors ---- */

TR_REQUEST(AskAll, Sum, (uint32_t, rounds));
TR_REQUEST(Peek, Sum);

typedef struct Asker {
    int unused;
} Asker;

/* Sends AT_ONCE requests before it awaits the first; the last comes first. */
static tr_err ask_at_once(tr_ctx *ctx, int64_t *right)
{
    tr_future futures[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) {
        futures[i] = tr_async(ctx, actor(0, "one", 1, i), PATIENCE, Get);
    }
    for (int i = AT_ONCE; i-- > 0;) {
        Sum sum;
        TR_TRY(tr_await(ctx, futures[i], Get, &sum));
        *right += sum.value == i;
    }
    return TR_OK;
}

static tr_err on_ask_all(tr_ctx *ctx, Asker *self, const AskAll *m)
{
    int64_t right = 0;
    (void)self;
    for (uint32_t i = 0; i < m->rounds; i++) {
        TR_OR_REFUSE(ctx, m, ask_at_once(ctx, &right));
    }
    return tr_reply(ctx, m, .value = right);
}

TR_ACTOR(asker, Asker, TR_ON(AskAll, on_ask_all));

/* What the buses hold while a request of node 0 is handled on node 1. */
static struct {
    uint32_t calls, calls_there, requests, requests_there;
} held;

static tr_err on_peek(tr_ctx *ctx, Asker *self, const Peek *m)
{
    (void)self;
    held.calls = tri_map_count(&bus_of(0)->calls);
    held.calls_there = tri_map_count(&bus_of(1)->calls);
    held.requests = tri_map_count(&bus_of(0)->requests);
    held.requests_there = tri_map_count(&bus_of(1)->requests);
    return tr_reply(ctx, m, .value = 1);
}

TR_ACTOR(two, Asker, TR_ON(Peek, on_peek));

/* ---- the stage ---- */

static void set_up_spied(uint64_t seed)
{
    static tri_transport_ops ops;
    set_up(seed);
    memset(&spied, 0, sizeof(spied));
    spied.below = cloud.base.ops;
    ops = *cloud.base.ops;
    ops.send = spy_send;
    cloud.base.ops = &ops;
}

/* Lets the nth counter of node 1 count to n. */
static void number_counters(void)
{
    for (int i = 0; i < AT_ONCE; i++) {
        for (int n = 0; n < i; n++) {
            tr_tell(cloud.systems[0], actor(0, "one", 1, i), Add);
        }
    }
}

static void ask_all(tr_ref ref)
{
    Sum right;
    assert_int_equal(tr_ask(cloud.systems[0], ref, &right, 2 * PATIENCE, AskAll,
                            .rounds = ROUNDS),
                     TR_OK);
    assert_int_equal(right.value, AT_ONCE * ROUNDS);
}

static void expect_growing(uint32_t count)
{
    assert_int_equal(spied.count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(spied.seen[i].correlation >
                    (i > 0 ? spied.seen[i - 1].correlation : 0));
    }
}

/* ---- tests ---- */

/* Also of the next incarnation: a late answer finds no call of another. */
static void test_VA13_correlations_grow_and_are_not_used_again(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        set_up_spied(seed);
        number_counters();
        tr_ref ref = tr_spawn(cloud.systems[0], asker);
        ask_all(ref);
        expect_growing(AT_ONCE * ROUNDS);
        mesh_rejoin(&cloud, 0);
        tr_sim_advance(cloud.sim, TR_SECONDS(5));
        ask_all(ref);
        expect_growing(2 * AT_ONCE * ROUNDS);
        mesh_close(&cloud);
    }
}

static void test_BU2_a_call_is_noted_before_its_request_is_sent(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        set_up_spied(seed);
        number_counters();
        ask_all(tr_spawn(cloud.systems[0], asker));
        assert_int_equal(spied.count, AT_ONCE * ROUNDS);
        for (uint32_t i = 0; i < spied.count; i++) {
            assert_true(spied.seen[i].has_call);
        }
        assert_int_equal(tri_bus_count(cloud.systems[0]).unknown, 0);
        mesh_close(&cloud);
    }
}

static void test_BU5_what_a_call_holds(void **state)
{
    char target[64];
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        int64_t count;
        set_up_spied(seed);
        name("one", 1, 0, target, sizeof(target));
        tr_nanos asked = tr_now(cloud.systems[0]);
        assert_int_equal(get(0, actor(0, "one", 1, 0), &count), TR_OK);
        assert_int_equal(spied.count, 1);
        const sighting *s = &spied.seen[0];
        assert_true(s->has_call);
        assert_int_equal(s->call.correlation, s->correlation);
        assert_ptr_equal(s->type, &Get_tr_type);  // the asker's message
        assert_string_equal(s->target, target);
        assert_int_equal(s->call.node.slot, 1);
        assert_int_equal(s->call.node.incarnation, cloud.incarnations[1]);
        assert_false(s->call.lost);
        assert_in_range(s->call.started, asked, s->at);
        assert_int_equal(s->call.deadline,
                         s->call.started + TR_MS((tr_nanos)s->ttl_ms));
        assert_in_range(s->call.deadline, asked + PATIENCE,
                        asked + PATIENCE + TR_MS(1));
        assert_true(s->is_armed);
        assert_in_range(s->due, s->call.deadline,
                        s->call.deadline + TRI_TIMER_KIND_MASK);
        // The answer completes it: nothing is left, and no timer.
        assert_int_equal(tri_map_count(&bus_of(0)->calls), 0);
        assert_int_equal(tri_wheel_count(&bus_of(0)->wheel), 0);
        mesh_close(&cloud);
    }
}

static void expect_bus(uint32_t node)
{
    const tri_bus *bus = bus_of(node);
    assert_ptr_equal(bus->sys, cloud.systems[node]);
    assert_ptr_equal(bus->transport, &cloud.base);
    assert_int_equal(bus->node.slot, node);
    assert_int_equal(bus->node.incarnation, cloud.incarnations[node]);
    assert_string_equal(bus->address, "localhost:7000");
    for (uint32_t i = 0; i < TRI_NODES_MAX; i++) {  // of other members only
        assert_true((bus->peers[i] != NULL) == (i < 2 && i != node));
    }
    assert_int_equal(tri_map_count(&bus->calls), 0);
    assert_int_equal(tri_map_count(&bus->requests), 0);
}

static void test_BU1_what_the_bus_holds(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        Sum sum;
        set_up(seed);
        assert_int_equal(tr_host(cloud.systems[1], two), TR_OK);
        tr_sim_advance(cloud.sim, TR_SECONDS(1));
        expect_bus(0);
        expect_bus(1);
        uint64_t before = bus_of(0)->next_number;
        assert_int_equal(tr_ask(cloud.systems[0], actor(0, "two", 1, 0), &sum,
                                PATIENCE, Peek),
                         TR_OK);
        assert_int_equal(held.calls, 1);
        assert_int_equal(held.requests_there, 1);
        assert_int_equal(held.calls_there + held.requests, 0);
        assert_int_equal(bus_of(0)->next_number, before + 1);
        tr_sim_advance(cloud.sim, TR_SECONDS(1));
        expect_bus(0);
        expect_bus(1);
        mesh_close(&cloud);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_VA13_correlations_grow_and_are_not_used_again),
        cmocka_unit_test(test_BU2_a_call_is_noted_before_its_request_is_sent),
        cmocka_unit_test(test_BU5_what_a_call_holds),
        cmocka_unit_test(test_BU1_what_the_bus_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
