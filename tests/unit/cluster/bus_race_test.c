/*
 * bus_race_test.c - on threads: shards change their owner while all send.
 *
 * Senders look at the state of a hand-over from threads of their own, and the
 * bus writes it; the thread sanitizer sees whether they agree on a lock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/mesh.h"

enum { NODES = 3, ROUNDS = 100, FRESH = 10, TRIES = 50, SHARD = 5 };

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

/* The next key whose actor is of the shard. */
static void next_key(uint32_t shard, uint32_t *number, char *out, size_t size)
{
    char text[64];
    do {
        snprintf(out, size, "k%u", ++*number);
        snprintf(text, sizeof(text), "shop::target/%s", out);
    } while (tri_shard_of(text, strlen(text)) != shard);
}

/* Names that nobody knows: whether they begin here, the sender looks. */
static void test_DI6_X8_senders_look_while_a_shard_moves(void **state)
{
    mesh cloud;
    uint32_t number = 0;
    char key[32];
    (void)state;
    mesh_open(&cloud, 0, NODES, false);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(tr_host(cloud.systems[i], target), TR_OK);
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t owner = round % NODES;
        for (uint32_t i = 0; i < NODES; i++) {
            tri_bus_shard(cloud.systems[i], SHARD, owner, round + 2);
        }
        for (uint32_t i = 0; i < FRESH; i++) {
            next_key(SHARD, &number, key, sizeof(key));
            tr_tell_virtual(cloud.systems[owner], "target", key, Poke);
        }
    }
    // However it went, it is found by all.
    for (uint32_t i = 0; i < NODES; i++) {
        tr_system *sys = cloud.systems[i];
        tr_err err = TR_ETIMEDOUT;
        for (uint32_t t = 0; t < TRIES && err != TR_OK; t++) {
            err = tr_ask(sys, tr_virtual(sys, "target", key), NULL,
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
