/*
 * numbered.h - actors that check the order of numbered messages, for tests of
 * lanes and relays.
 */
#ifndef TEST_UNIT_CLUSTER_NUMBERED_H
#define TEST_UNIT_CLUSTER_NUMBERED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/mesh.h"

enum { NODES = 3, SEEDS = 4 };

TR_MESSAGE(Number, (uint32_t, from), (uint32_t, number));
TR_MESSAGE(State, (uint32_t, node), (uint64_t, epoch));
TR_REQUEST(Where, State);

static mesh cloud;
static uint32_t sent[NODES], handled[NODES];  // there is one run at a time
static uint32_t wrong, active;

static inline uint32_t node_of(tr_ctx *ctx)
{
    uint32_t i = 0;
    while (i < NODES && cloud.systems[i] != tr_system_of(ctx)) {
        i++;
    }
    return i;
}

static inline tr_err numbered_start(tr_ctx *ctx, void *self)
{
    (void)ctx, (void)self;
    wrong += active++ > 0;
    return TR_OK;
}

static inline tr_err numbered_stop(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)ctx, (void)self, (void)reason;
    active--;
    return TR_OK;
}

static inline tr_err on_number(tr_ctx *ctx, void *self, const Number *m)
{
    (void)ctx, (void)self;
    wrong += m->number != ++handled[m->from];
    return TR_OK;
}

static inline tr_err on_where(tr_ctx *ctx, void *self, const Where *q)
{
    (void)self;
    return tr_reply(ctx, q, .node = node_of(ctx), .epoch = tr_epoch(ctx));
}

TR_ACTOR(numbered, void, TR_HOOK(pre_start, numbered_start),
         TR_HOOK(post_stop, numbered_stop), TR_ON(Number, on_number),
         TR_ON(Where, on_where));

static inline void set_up(uint64_t seed)
{
    memset(sent, 0, sizeof(sent));
    memset(handled, 0, sizeof(handled));
    wrong = active = 0;
    mesh_open(&cloud, seed, NODES, true);
}

static inline tr_ref key(uint32_t node, const char *name)
{
    return tr_virtual(cloud.systems[node], "numbered", name);
}

static inline uint32_t shard_of(const char *name)
{
    char text[64];
    snprintf(text, sizeof(text), "shop::numbered/%s", name);
    return tri_shard_of(text, strlen(text));
}

static inline void send_some(uint32_t node, const char *name, uint32_t count)
{
    for (; count > 0; count--) {
        tr_tell(cloud.systems[node], key(node, name), Number, .from = node,
                .number = ++sent[node]);
    }
}

static inline State where(uint32_t from, const char *name)
{
    State state = {.node = NODES};
    tr_system *sys = cloud.systems[from];
    tr_err err = tr_ask(sys, key(from, name), &state, TR_SECONDS(20), Where);
    if (err != TR_OK) {
        print_error("%s: %s\n", tr_errname(err), tr_error_text(sys));
    }
    assert_int_equal(err, TR_OK);
    return state;
}

static inline void all_handled_in_order(void)
{
    assert_int_equal(wrong, 0);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(handled[i], sent[i]);
    }
}

#endif
