/*
 * bus_race_test.c - on threads: shards change their owner while all send.
 *
 * Senders look at the state of a hand-over from threads of their own, and the
 * bus writes it; the thread sanitizer sees whether they agree on a lock.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/mesh.h"

enum { NODES = 3, ROUNDS = 200, TRIES = 50 };

#define TEXT "shop::target/k"

TR_MESSAGE(Nothing);
TR_REQUEST(Ask, Nothing);
TR_MESSAGE(Poke);

static tr_err on_ask(tr_ctx *ctx, void *self, const Ask *q)
{
    (void)self;
    return tr_reply(ctx, q);
}

static tr_err on_poke(tr_ctx *ctx, void *self, const Poke *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}

TR_ACTOR(target, void, TR_ON(Ask, on_ask), TR_ON(Poke, on_poke));

static void test_DI6_X8_senders_look_while_a_shard_moves(void **state)
{
    mesh cloud;
    uint32_t shard = tri_shard_of(TEXT, strlen(TEXT));
    (void)state;
    mesh_open(&cloud, 0, NODES, false);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(tr_host(cloud.systems[i], target), TR_OK);
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < NODES; i++) {
            tri_bus_shard(cloud.systems[i], shard, round % NODES, round + 2);
        }
        for (uint32_t i = 0; i < NODES; i++) {
            tr_system *sys = cloud.systems[i];
            tr_ref ref = tr_virtual(sys, "target", "k");
            tr_tell(sys, ref, Poke);
            if (round % 8 == i) {
                tr_stop(sys, ref);
            }
        }
    }
    // However it went, it is found by all.
    for (uint32_t i = 0; i < NODES; i++) {
        tr_system *sys = cloud.systems[i];
        tr_err err = TR_ETIMEDOUT;
        for (uint32_t t = 0; t < TRIES && err != TR_OK; t++) {
            err = tr_ask(sys, tr_virtual(sys, "target", "k"), NULL,
                         TR_SECONDS(5), Ask);
        }
        assert_int_equal(err, TR_OK);
    }
    mesh_close(&cloud);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_DI6_X8_senders_look_while_a_shard_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
