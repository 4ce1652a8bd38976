/*
 * ext_test.c - tri_ext_check finds a damaged extension.
 */
#include "support/stage.h"

#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/ref.h"
#include "core/run/user_timer.h"
#include "support/aborts.h"

/* Gives the actor something of each part of its extension. */
static tr_err act_fill(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    puppet first = {.stage = self->stage};
    (void)arg;
    (void)tr_spawn(ctx, puppets, .init = &first, .init_size = sizeof(first));
    (void)tr_alloc(ctx, 100);
    (void)tr_after(ctx, TR_SECONDS(100), Note, .value = 1);
    tr_receive_timeout(ctx, TR_SECONDS(200));
    tr_watch(ctx, self->peer);
    return tr_stash(ctx, m);
}

static tri_ext *filled(stage *it)
{
    stage_open(it);
    expect_ok(stage_ask(it, it->one, act_meet, &it->two));
    tr_tell(it->sys, it->one, Act, .fn = (uint64_t)(uintptr_t)act_fill);
    stage_run_ready(it);
    tri_ext *ext = tri_ext_of(tri_ref_cell(it->one));
    assert_non_null(ext);
    assert_int_equal(ext->keep.stashed, 1);
    assert_non_null(ext->timers.receive_timeout);
    return ext;
}

static void damage_children(void *at)
{
    tri_ext *ext = at;
    ext->family.children.head.prev = NULL;
    tri_ext_check(ext);
}

static void damage_live(void *at)
{
    tri_ext *ext = at;
    ext->family.live = 0;
    tri_ext_check(ext);
}

static void damage_heap(void *at)
{
    tri_ext *ext = at;
    tri_list_init(&ext->heap.blocks);
    tri_ext_check(ext);
}

static void damage_stash(void *at)
{
    tri_ext *ext = at;
    ext->keep.stashed++;
    tri_ext_check(ext);
}

static void damage_urgent(void *at)
{
    tri_ext *ext = at;
    ext->urgent.first[3] = ext->keep.stash;
    tri_ext_check(ext);
}

static void damage_room(void *at)
{
    tri_ext *ext = at;
    ext->room.count++;
    tri_ext_check(ext);
}

static void damage_edge(void *at)
{
    tri_ext *ext = at;
    ext->edge.seq++;
    tri_ext_check(ext);
}

static void damage_timeout(void *at)
{
    tri_ext *ext = at;
    tri_list_remove(&ext->timers.receive_timeout->link);
    tri_ext_check(ext);
}

static void damage_timer_id(void *at)
{
    tri_ext *ext = at;
    ext->timers.last_id = 0;
    tri_ext_check(ext);
}

static void damage_pending(void *at)
{
    tri_ext *ext = at;
    ext->watch.pending = ext->keep.stash;
    tri_ext_check(ext);
}

static void test_tri_ext_check_finds_each_damage(void **state)
{
    static void (*const damages[])(void *ext) = {
        damage_children, damage_live,    damage_heap, damage_stash,
        damage_urgent,   damage_room,    damage_edge, damage_timeout,
        damage_timer_id, damage_pending,
    };
    stage it;
    (void)state;
    tri_ext *ext = filled(&it);
    tri_ext_check(ext);
    for (size_t i = 0; i < TRI_COUNT_OF(damages); i++) {
        assert_true(aborts(damages[i], ext));
    }
    tri_ext_check(ext);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tri_ext_check_finds_each_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
