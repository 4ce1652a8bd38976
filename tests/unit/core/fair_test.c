/*
 * fair_test.c - nothing that can run waits for ever.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { SPAWNS = 100000 };

TR_MESSAGE(Tick, (uint32_t, n));
TR_MESSAGE(Ran);
TR_MESSAGE(Done);

typedef struct Child { tr_ref told; } Child;

static tr_err child_start(tr_ctx *ctx, Child *self)
{
    tr_tell(ctx, self->told, Ran);  // nobody, for all but the first
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(child, Child, TR_HOOK(pre_start, child_start));

typedef struct Spawner { tr_ref told; } Spawner;

static tr_err on_tick(tr_ctx *ctx, Spawner *self, const Tick *m)
{
    tr_ref told = m->n == 0 ? self->told : tr_self(ctx);
    (void)tr_spawn(ctx, child, .dispatcher = "concurrent",
                   TR_INIT(child, .told = told));
    if (m->n < SPAWNS) {
        tr_tell(ctx, tr_self(ctx), Tick, .n = m->n + 1);
    } else {
        tr_tell(ctx, self->told, Done);
    }
    return TR_OK;
}

static tr_err on_ran(tr_ctx *ctx, Spawner *self, const Ran *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}

TR_ACTOR(spawner, Spawner, TR_ON(Tick, on_tick), TR_ON(Ran, on_ran));

/* New actors run first, but those before them are not buried. */
static void test_the_first_child_runs_while_others_are_spawned(void **state)
{
    (void)state;
    tr_system *sys;
    tr_probe *probe;
    TR_MUST(tr_system_open(&sys, .workers = 1, .log_level = 9));
    TR_MUST(tr_probe_new(&probe, sys));
    // All on one thread, which never gets a helper.
    tr_ref ref = tr_spawn(sys, spawner, .dispatcher = "concurrent",
                          TR_INIT(spawner, .told = tr_probe_ref(probe)));
    tr_tell(sys, ref, Tick, .n = 0);
    (void)tr_expect(probe, TR_MINUTES(5), Ran);  // before Done, that is
    (void)tr_expect(probe, TR_MINUTES(5), Done);
    tr_probe_free(probe);
    TR_MUST(tr_system_close(sys, TR_MINUTES(5)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_child_runs_while_others_are_spawned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
