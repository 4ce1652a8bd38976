/*
 * pair.h - two nodes over a simulated network, for tests of cuts between them.
 *
 * Each hosts one kind of counter that the other does not, so a test sees if a
 * node forgets the other, or loses its mail.
 */
#ifndef TEST_UNIT_CLUSTER_PAIR_H
#define TEST_UNIT_CLUSTER_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cluster/bus/peer.h"
#include "support/mesh.h"

TR_MESSAGE(Sum, (int64_t, value));
TR_REQUEST(Get, Sum);
TR_MESSAGE(Add);

typedef struct Counter {
    int64_t count;
} Counter;

static mesh cloud;

static inline tr_err on_get(tr_ctx *ctx, Counter *self, const Get *q)
{
    return tr_reply(ctx, q, .value = self->count);
}

static inline tr_err on_add(tr_ctx *ctx, Counter *self, const Add *m)
{
    (void)ctx;
    (void)m;
    self->count++;
    return TR_OK;
}

TR_ACTOR(zero, Counter, TR_ON(Get, on_get), TR_ON(Add, on_add));
TR_ACTOR(one, Counter, TR_ON(Get, on_get), TR_ON(Add, on_add));

/* ---- the stage ---- */

static inline void set_up(uint64_t seed)
{
    mesh_open(&cloud, seed, 2, true);
    assert_int_equal(tr_host(cloud.systems[0], zero), TR_OK);
    assert_int_equal(tr_host(cloud.systems[1], one), TR_OK);
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
}

/* Writes the nth name of that kind whose shard the owner has. */
static inline void name(const char *kind, uint32_t owner, int nth, char *out,
                        size_t size)
{
    for (int i = 0; nth >= 0; i++) {
        snprintf(out, size, "shop::%s/k%d", kind, i);
        nth -= tri_shard_of(out, strlen(out)) % 2 == owner;
    }
}

/* Returns the ref of that actor on node `from`. */
static inline tr_ref actor(uint32_t from, const char *kind, uint32_t owner,
                           int nth)
{
    char text[64];
    name(kind, owner, nth, text, sizeof(text));
    return tr_virtual_named(cloud.systems[from], text);
}

static inline tr_err get(uint32_t from, tr_ref to, int64_t *count)
{
    Sum sum = {0};
    tr_err err = tr_ask(cloud.systems[from], to, &sum, TR_SECONDS(15), Get);
    *count = sum.value;
    return err;
}

static inline tri_bus *bus_of(uint32_t node)
{
    return tri_bus_of(tri_cluster_of(cloud.systems[node]));
}

#endif
