/*
 * slab_test.c - small blocks of tr_alloc: side by side, zeroed, freed in any
 * order, moved with a joined actor, and mistakes with them are named.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/slab.h"
#include "core/run/context.h"
#include "support/core.h"
#include "support/dying.h"

enum { BLOCKS = 600, ROUNDS = 4000 };

/* Makes the actor one that gets slabs: it has enough blocks from malloc. */
static void have_many(tr_ctx *ctx)
{
    for (int i = 0; i < TRI_SLAB_FROM; i++) {
        (void)tr_alloc(ctx, TRI_SLAB_MAX + 1);
    }
}

/* ---- a random history ---- */

typedef struct owned {
    unsigned char *at;
    size_t size;
    unsigned char mark;
} owned;

static void check_marks(tr_ctx *ctx, const owned *it)
{
    for (size_t i = 0; i < it->size; i++) {
        TR_ASSERT(ctx, it->at[i] == it->mark);
    }
}

static void take(tr_ctx *ctx, owned *it, size_t size)
{
    it->at = tr_alloc(ctx, size);
    it->size = size;
    TR_ASSERT(ctx, (uintptr_t)it->at % 16 == 0);
    for (size_t i = 0; i < size; i++) {
        TR_ASSERT(ctx, it->at[i] == 0);
    }
    memset(it->at, it->mark, size);
}

static void resize(tr_ctx *ctx, owned *it, size_t size)
{
    it->at = tr_realloc(ctx, it->at, size);
    it->size = it->size < size ? it->size : size;
    check_marks(ctx, it);
    it->size = size;
    memset(it->at, it->mark, size);
}

/* One step: a free place takes a block, a full one frees or resizes it. */
static void step(tr_ctx *ctx, owned *it)
{
    size_t size = tr_random(ctx, 400);
    if (it->at == NULL) {
        take(ctx, it, size);
        return;
    }
    check_marks(ctx, it);
    if (tr_random(ctx, 3) == 0) {
        resize(ctx, it, size);
    } else {
        tr_free(ctx, it->at);
        it->at = NULL;
    }
}

static tr_err act_history(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    owned *all = tr_scratch(ctx, BLOCKS * sizeof(*all));
    (void)self, (void)m, (void)arg;
    have_many(ctx);
    for (int i = 0; i < BLOCKS; i++) {
        all[i].mark = (unsigned char)(1 + i % 255);
    }
    for (int i = 0; i < ROUNDS; i++) {
        step(ctx, &all[tr_random(ctx, BLOCKS)]);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (all[i].at != NULL) {
            check_marks(ctx, &all[i]);
            tr_free(ctx, all[i].at);
        }
    }
    return TR_OK;
}

static void test_blocks_do_not_touch_each_other(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .soft_limit = 0);
    stage_tell(&it, ref, act_history, NULL);
    stage_run_ready(&it);
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_RUNNING);
    assert_int_equal(atomic_load(&it.restarts), 0);
    // Of each size at most one empty slab is kept.
    const tri_ext *ext = tri_ext_of(tri_ref_cell(ref));
    assert_true(ext->heap.count <=
                TRI_SLAB_FROM + 1 + TRI_SLAB_MAX / TRI_SLAB_STEP);
    stage_close(&it);
}

/* ---- where the blocks are ---- */

static tr_err act_side_by_side(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)self, (void)m, (void)arg;
    TR_ASSERT(ctx, !tri_slab_has(tr_alloc(ctx, 16)));
    have_many(ctx);
    char *first = tr_alloc(ctx, 16);
    char *second = tr_alloc(ctx, 24);
    TR_ASSERT(ctx, tri_slab_has(first));
    TR_ASSERT(ctx, second == first + TRI_SLAB_STEP);
    // A place that was freed is taken first, and is zero again.
    memset(first, 7, 16);
    tr_free(ctx, first);
    char *again = tr_alloc(ctx, 32);
    TR_ASSERT(ctx, again == first && again[0] == 0 && again[31] == 0);
    TR_ASSERT(ctx, !tri_slab_has(tr_alloc(ctx, TRI_SLAB_MAX + 1)));
    return TR_OK;
}

static void test_blocks_are_side_by_side(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .soft_limit = 0);
    stage_tell(&it, ref, act_side_by_side, NULL);
    stage_run_ready(&it);
    assert_int_equal(atomic_load(&it.restarts), 0);
    stage_close(&it);
}

/* ---- the limit of a heap ---- */

static tr_err act_fill(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    int64_t *taken = arg;
    (void)self, (void)m;
    for (int i = 0; i < 10000; i++) {
        (void)tr_alloc(ctx, 100);
        ++*taken;
    }
    return TR_OK;
}

static void test_the_heap_limit_counts_slabs(void **state)
{
    stage it;
    int64_t taken = 0;
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .heap_limit = 64 * 1024);
    stage_tell(&it, ref, act_fill, &taken);
    stage_run_ready(&it);
    // It has panicked, with nearly all of the limit in use.
    assert_true(taken > 400 && taken <= 655);
    stage_close(&it);
}

/* ---- the memory of a joined actor ---- */

typedef struct node {
    struct node *next;
    int64_t number;
} node;

typedef struct Chain {
    node *first;
} Chain;

static tr_err on_grow(tr_ctx *ctx, Chain *self, const Acted *m)
{
    have_many(ctx);
    for (int64_t i = 0; i < m->value; i++) {
        node *made = tr_alloc(ctx, sizeof(*made));
        *made = (node){self->first, i};
        self->first = made;
    }
    return TR_OK;
}

TR_ACTOR(chain, Chain, TR_ON(Acted, on_grow));

static tr_err act_join(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    Chain got;
    int64_t count = 0;
    (void)self, (void)m;
    tr_ref ref = tr_spawn(ctx, chain, .joinable = true);
    tr_tell(ctx, ref, Acted, .value = 500);
    tr_poison(ctx, ref);
    TR_TRY(tr_join(ctx, ref, 0, NULL, &got));
    have_many(ctx);
    (void)tr_alloc(ctx, sizeof(node));
    while (got.first != NULL) {
        node *next = got.first->next;
        tr_free(ctx, got.first);
        got.first = next;
        count++;
    }
    *(int64_t *)arg = count;
    return TR_OK;
}

static void test_slabs_go_to_whoever_joins(void **state)
{
    stage it;
    int64_t count = 0;
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .soft_limit = 0);
    stage_tell(&it, ref, act_join, &count);
    stage_run_ready(&it);
    assert_int_equal(count, 500);
    // The empty slabs of the other actor are freed.
    const tri_ext *ext = tri_ext_of(tri_ref_cell(ref));
    assert_true(ext->heap.count <= 2 * TRI_SLAB_FROM + 4);
    stage_close(&it);
}

/* ---- mistakes ---- */

static tr_err act_free_twice(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self, (void)m, (void)arg;
    have_many(ctx);
    void *block = tr_alloc(ctx, 16);
    (void)tr_alloc(ctx, 16);
    tr_free(ctx, block);
    tr_free(ctx, block);
    return TR_OK;
}

static tr_err act_free_the_middle(tr_ctx *ctx, puppet *self, const Act *m,
                                  void *arg)
{
    (void)self, (void)m, (void)arg;
    have_many(ctx);
    char *block = tr_alloc(ctx, 64);
    tr_free(ctx, block + TRI_SLAB_STEP);
    return TR_OK;
}

/* Runs the act in a child process, which must abort. */
static void expect_abort(act_fn mistake)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        stage it;
        (void)freopen("/dev/null", "w", stderr);
        dying_child();
        stage_open(&it);
        stage_tell(&it, stage_spawn(&it, .soft_limit = 0), mistake, NULL);
        stage_run_ready(&it);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void test_mistakes_end_the_process(void **state)
{
    (void)state;
    expect_abort(act_free_twice);
    expect_abort(act_free_the_middle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_do_not_touch_each_other),
        cmocka_unit_test(test_blocks_are_side_by_side),
        cmocka_unit_test(test_the_heap_limit_counts_slabs),
        cmocka_unit_test(test_slabs_go_to_whoever_joins),
        cmocka_unit_test(test_mistakes_end_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
