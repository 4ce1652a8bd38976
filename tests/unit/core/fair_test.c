/*
 * fair_test.c - nothing that can run waits for ever.
 */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { SPAWNS = 100000, SENDS = 1000000 };

TR_MESSAGE(Tick, (uint32_t, n));
TR_MESSAGE(Ran);
TR_MESSAGE(Done);

typedef struct Child {
    tr_ref told;
} Child;

static tr_err child_start(tr_ctx *ctx, Child *self)
{
    tr_tell(ctx, self->told, Ran);  // nobody, for all but the first
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(child, Child, TR_HOOK(pre_start, child_start));

typedef struct Spawner {
    tr_ref told;
} Spawner;

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

/* ---- a turn that sends and sends ---- */

TR_REQUEST(Begin, tr_none);
TR_REQUEST(Release, tr_none);

static void pass(sem_t *sem)
{
    while (sem_wait(sem) != 0) {
    }
}

/* Sends to itself alone: others must not wait for the end of it. */
typedef struct Sender {
    tr_ref told;
    sem_t *in, *go_on;      // NULL: has just answered instead
    _Atomic(bool) *others;  // have come to run
} Sender;

static tr_err on_begin(tr_ctx *ctx, Sender *self, const Begin *m)
{
    TR_TRY(tr_reply(ctx, m));
    if (self->in != NULL) {
        sem_post(self->in);
        pass(self->go_on);
    }
    bool ran = false;
    for (int i = 0; i < SENDS && !ran; i++) {
        tr_tell(ctx, tr_self(ctx), Ran);
        // Acquire: pairs with on_client.
        ran = atomic_load_explicit(self->others, memory_order_acquire);
    }
    tr_tell(ctx, self->told, Tick, .n = ran);
    return TR_OK;
}

static tr_err sender_ran(tr_ctx *ctx, Sender *self, const Ran *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}

TR_ACTOR(sender, Sender, TR_ON(Begin, on_begin), TR_ON(Ran, sender_ran));

typedef struct Other {
    tr_ref asks;
    _Atomic(bool) *ran;
} Other;

static tr_err on_client(tr_ctx *ctx, Other *self, const Done *m)
{
    (void)m;
    TR_TRY(tr_ask(ctx, self->asks, NULL, TR_FOREVER, Begin));
    // Release: pairs with on_begin.
    atomic_store_explicit(self->ran, true, memory_order_release);
    return TR_OK;
}

TR_ACTOR(other, Other, TR_ON(Done, on_client));

typedef struct Keeper {
    sem_t *in;
    const Begin *kept;
} Keeper;

static tr_err keeper_begin(tr_ctx *ctx, Keeper *self, const Begin *m)
{
    self->kept = tr_keep(ctx, m);
    sem_post(self->in);
    return TR_OK;
}

static tr_err keeper_release(tr_ctx *ctx, Keeper *self, const Release *m)
{
    TR_TRY(tr_reply(ctx, self->kept));
    return tr_reply(ctx, m);
}

TR_ACTOR(keeper, Keeper, TR_ON(Begin, keeper_begin),
         TR_ON(Release, keeper_release));

/* Another thread has answered one that waits here, on the only worker. */
static void test_a_turn_that_sends_lets_in_whom_others_answered(void **state)
{
    (void)state;
    tr_system *sys;
    tr_probe *probe;
    sem_t in, go_on;
    _Atomic(bool) ran = false;
    assert_int_equal(sem_init(&in, 0, 0), 0);
    assert_int_equal(sem_init(&go_on, 0, 0), 0);
    TR_MUST(tr_system_open(&sys, .workers = 1, .log_level = 9));
    TR_MUST(tr_probe_new(&probe, sys));
    tr_ref answers = tr_spawn(sys, keeper, .dispatcher = "pinned",
                              TR_INIT(keeper, .in = &in));
    tr_ref asker = tr_spawn(sys, other, .dispatcher = "concurrent",
                            TR_INIT(other, .asks = answers, .ran = &ran));
    tr_ref ref = tr_spawn(sys, sender, .dispatcher = "concurrent",
                          TR_INIT(sender, .told = tr_probe_ref(probe),
                                  .in = &in, .go_on = &go_on, .others = &ran));
    tr_tell(sys, asker, Done);
    pass(&in);
    tr_tell(sys, ref, Begin);
    pass(&in);
    TR_MUST(tr_ask(sys, answers, NULL, TR_MINUTES(5), Release));
    sem_post(&go_on);
    assert_true(tr_expect(probe, TR_MINUTES(5), Tick)->n);
    tr_probe_free(probe);
    TR_MUST(tr_system_close(sys, TR_MINUTES(5)));
    sem_destroy(&in);
    sem_destroy(&go_on);
}

/* Who was answered goes on before the turn ends that has answered. */
static void test_a_turn_that_sends_lets_in_whom_it_has_answered(void **state)
{
    (void)state;
    tr_system *sys;
    tr_probe *probe;
    _Atomic(bool) ran = false;
    TR_MUST(tr_system_open(&sys, .workers = 1, .log_level = 9));
    TR_MUST(tr_probe_new(&probe, sys));
    tr_ref ref =
        tr_spawn(sys, sender, .dispatcher = "concurrent",
                 TR_INIT(sender, .told = tr_probe_ref(probe), .others = &ran));
    tr_ref asker = tr_spawn(sys, other, .dispatcher = "concurrent",
                            TR_INIT(other, .asks = ref, .ran = &ran));
    tr_tell(sys, asker, Done);
    assert_true(tr_expect(probe, TR_MINUTES(5), Tick)->n);
    tr_probe_free(probe);
    TR_MUST(tr_system_close(sys, TR_MINUTES(5)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_child_runs_while_others_are_spawned),
        cmocka_unit_test(test_a_turn_that_sends_lets_in_whom_others_answered),
        cmocka_unit_test(test_a_turn_that_sends_lets_in_whom_it_has_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
