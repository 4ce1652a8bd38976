/*
 * stuck_test.c - a handler that blocks its thread is named, and stops nobody.
 *
 * On a busy machine any handler may last: where somebody must not be told of,
 * only those who block have a limit.
 */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Block);
TR_REQUEST(Echo, tr_none);

typedef struct Blocker {
    sem_t *go_on;
} Blocker;

static tr_err on_block(tr_ctx *ctx, Blocker *self, const Block *m)
{
    (void)ctx, (void)m;
    while (sem_wait(self->go_on) != 0) {
    }
    return TR_OK;
}

static void let_go(sem_t *go_on, int count)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(sem_post(go_on), 0);
    }
}

static tr_err on_free(tr_ctx *ctx, Blocker *self, const Echo *m)
{
    (void)self;
    return tr_reply(ctx, m);
}

TR_ACTOR(blocker, Blocker, TR_ON(Block, on_block), TR_ON(Echo, on_free));

static tr_err start_late(tr_ctx *ctx, Blocker *self)
{
    return on_block(ctx, self, NULL);
}

TR_ACTOR(latecomer, Blocker, TR_HOOK(pre_start, start_late));

static tr_err on_echo(tr_ctx *ctx, void *self, const Echo *m)
{
    (void)self;
    return tr_reply(ctx, m);
}

TR_ACTOR(echo, void, TR_ON(Echo, on_echo));

/* DP8: the event names actor and message; blocked workers do not end the system. */
static void test_DP8_stuck_handlers_are_reported_and_stop_nobody(void **state)
{
    (void)state;
    tr_system *sys;
    tr_probe *probe;
    sem_t go_on;
    assert_int_equal(sem_init(&go_on, 0, 0), 0);
    TR_MUST(tr_system_open(&sys, .workers = 2, .log_level = 9,
                           .handler_limit = TR_FOREVER));
    TR_MUST(tr_probe_new(&probe, sys));
    tr_probe_subscribe(probe, tr_stuck);
    tr_ref one =
        tr_spawn(sys, blocker, .name = "one", .handler_limit = TR_MS(50),
                 TR_INIT(blocker, .go_on = &go_on));
    tr_ref two =
        tr_spawn(sys, blocker, .name = "two", .handler_limit = TR_MS(50),
                 TR_INIT(blocker, .go_on = &go_on));
    TR_MUST(tr_started(sys, one, TR_SECONDS(60)));
    TR_MUST(tr_started(sys, two, TR_SECONDS(60)));
    tr_tell(sys, one, Block);
    tr_tell(sys, two, Block);
    for (int i = 0; i < 2; i++) {
        const tr_stuck *told = tr_expect(probe, TR_SECONDS(60), tr_stuck);
        assert_string_equal(told->type, "Block");
        assert_true(tr_ref_eq(told->actor, one) || tr_ref_eq(told->actor, two));
        assert_true(told->since_ns > 0);
    }
    tr_actor_info info = {.size = sizeof(info)};
    TR_MUST(tr_actor_info_of(sys, one, &info));
    assert_string_equal(info.running, "Block");

    // Both threads are taken, and still somebody answers.
    tr_ref other = tr_spawn(sys, echo);
    assert_int_equal(tr_ask(sys, other, NULL, TR_SECONDS(60), Echo), TR_OK);

    let_go(&go_on, 2);
    tr_probe_free(probe);
    TR_MUST(tr_system_close(sys, TR_SECONDS(60)));
    sem_destroy(&go_on);
}

/* Longer than the default limit. */
static tr_err on_long(tr_ctx *ctx, Blocker *self, const Block *m)
{
    (void)self, (void)m;
    tr_nanos start = tr_now(ctx);
    while (tr_now(ctx) - start < TR_MS(300)) {
    }
    return TR_OK;
}

TR_ACTOR(slow, Blocker, TR_ON(Block, on_long));

/* DP8: each actor has its own limit, or the system's. */
static void test_DP8_the_limit_of_a_handler_is_chosen(void **state)
{
    (void)state;
    tr_system *sys;
    tr_probe *probe;
    TR_MUST(tr_system_open(&sys, .workers = 1, .log_level = 9,
                           .handler_limit = TR_FOREVER));
    TR_MUST(tr_probe_new(&probe, sys));
    tr_probe_subscribe(probe, tr_stuck);
    // Both outlast the default; the first may, by the system's word.
    tr_ref free_to = tr_spawn(sys, slow);
    sem_t go_on;
    assert_int_equal(sem_init(&go_on, 0, 0), 0);
    tr_ref watched = tr_spawn(sys, blocker, .handler_limit = TR_MS(50),
                              TR_INIT(blocker, .go_on = &go_on));
    TR_MUST(tr_started(sys, watched, TR_SECONDS(60)));
    tr_nanos begin = tr_now(sys);
    tr_tell(sys, free_to, Block);
    tr_tell(sys, watched, Block);
    const tr_stuck *told = tr_expect(probe, TR_SECONDS(60), tr_stuck);
    assert_true(tr_ref_eq(told->actor, watched));
    assert_string_equal(told->type, "Block");
    assert_true(told->since_ns >= TR_MS(50));
    assert_true(told->at >= begin);
    assert_true(told->at + told->since_ns <= tr_now(sys));
    assert_int_equal(tr_ref_err(tr_spawn(sys, slow, .handler_limit = -1)),
                     TR_EINVAL);
    let_go(&go_on, 1);
    tr_probe_free(probe);
    TR_MUST(tr_system_close(sys, TR_SECONDS(60)));
    sem_destroy(&go_on);
}

enum { MANY = 8, A_SECOND = 3 };  // told of in a second

static void count_told(void *user, const tr_log_record *record)
{
    _Atomic(uint32_t) *count = user;
    if (strstr(record->text, "has been handling") != NULL) {
        // Release: pairs with the test's look.
        atomic_fetch_add_explicit(count, 1, memory_order_release);
    }
}

/* DP8: when every handler lasts, the log tells of a few in a second. */
static void test_DP8_the_log_is_not_flooded(void **state)
{
    (void)state;
    tr_system *sys;
    tr_probe *probe;
    _Atomic(uint32_t) count = 0;
    sem_t go_on;
    assert_int_equal(sem_init(&go_on, 0, 0), 0);
    TR_MUST(tr_system_open(&sys, .workers = MANY, .log = count_told,
                           .log_user = &count, .handler_limit = TR_MS(20)));
    TR_MUST(tr_probe_new(&probe, sys));
    tr_probe_subscribe(probe, tr_stuck);
    tr_nanos begin = tr_now(sys);
    for (int i = 0; i < MANY; i++) {
        tr_ref ref = tr_spawn(sys, blocker, TR_INIT(blocker, .go_on = &go_on));
        TR_MUST(tr_started(sys, ref, TR_SECONDS(60)));
        tr_tell(sys, ref, Block);
    }
    for (int i = 0; i < MANY;) {  // the events miss none
        const tr_stuck *told = tr_expect(probe, TR_SECONDS(60), tr_stuck);
        i += told->type != NULL && strcmp(told->type, "Block") == 0;
    }
    // Acquire: pairs with count_told. Before the clock: no line of the second
    // that it has begun is in the count.
    uint32_t logged = atomic_load_explicit(&count, memory_order_acquire);
    tr_nanos seconds = (tr_now(sys) - begin) / TR_SECONDS(1) + 1;
    let_go(&go_on, MANY);
    tr_probe_free(probe);
    TR_MUST(tr_system_close(sys, TR_SECONDS(60)));
    sem_destroy(&go_on);
    assert_in_range(logged, 1, A_SECOND * seconds);
}

/* DP8: a hook has no message to be named by. */
static void test_DP8_a_stuck_hook_is_reported(void **state)
{
    (void)state;
    tr_system *sys;
    tr_probe *probe;
    sem_t go_on;
    assert_int_equal(sem_init(&go_on, 0, 0), 0);
    TR_MUST(tr_system_open(&sys, .workers = 1, .log_level = 9,
                           .handler_limit = TR_FOREVER));
    TR_MUST(tr_probe_new(&probe, sys));
    tr_probe_subscribe(probe, tr_stuck);
    tr_ref ref = tr_spawn(sys, latecomer, .handler_limit = TR_MS(50),
                          TR_INIT(latecomer, .go_on = &go_on));
    const tr_stuck *told = tr_expect(probe, TR_SECONDS(60), tr_stuck);
    assert_true(tr_ref_eq(told->actor, ref));
    assert_string_equal(told->type, "a hook");
    let_go(&go_on, 1);
    TR_MUST(tr_started(sys, ref, TR_SECONDS(60)));
    tr_probe_free(probe);
    TR_MUST(tr_system_close(sys, TR_SECONDS(60)));
    sem_destroy(&go_on);
}

typedef struct Lines {
    _Atomic(uint32_t) told, untold;
} Lines;

static void count_both(void *user, const tr_log_record *record)
{
    Lines *lines = user;
    uint32_t more;
    count_told(&lines->told, record);
    if (sscanf(record->text, "%u handlers more that last", &more) == 1) {
        // Release: pairs with the test's look.
        atomic_fetch_add_explicit(&lines->untold, more, memory_order_release);
    }
}

/* DP8: of those that the log has left out it gives the number later. */
static void test_DP8_the_log_counts_what_it_leaves_out(void **state)
{
    (void)state;
    tr_system *sys;
    tr_probe *probe;
    Lines lines = {.told = 0};
    uint32_t events = 0;
    sem_t go_on;
    assert_int_equal(sem_init(&go_on, 0, 0), 0);
    TR_MUST(tr_system_open(&sys, .workers = MANY, .log = count_both,
                           .log_user = &lines, .handler_limit = TR_FOREVER));
    TR_MUST(tr_probe_new(&probe, sys));
    tr_probe_subscribe(probe, tr_stuck);
    // Others and others, until the log speaks again.
    tr_nanos end = tr_now(sys) + TR_SECONDS(60);
    while (atomic_load_explicit(&lines.untold, memory_order_acquire) == 0) {
        assert_true(tr_now(sys) < end);
        tr_ref refs[MANY];
        for (int i = 0; i < MANY; i++) {
            refs[i] = tr_spawn(sys, blocker, .handler_limit = TR_MS(20),
                               TR_INIT(blocker, .go_on = &go_on));
            TR_MUST(tr_started(sys, refs[i], TR_SECONDS(60)));
            tr_tell(sys, refs[i], Block);
        }
        for (int i = 0; i < MANY; i++, events++) {
            (void)tr_expect(probe, TR_SECONDS(60), tr_stuck);
        }
        let_go(&go_on, MANY);
        for (int i = 0; i < MANY; i++) {
            TR_MUST(tr_ask(sys, refs[i], NULL, TR_SECONDS(60), Echo));
        }
    }
    tr_probe_free(probe);
    TR_MUST(tr_system_close(sys, TR_SECONDS(60)));
    sem_destroy(&go_on);
    // Each is in one of them, and some of the last round may be in none.
    uint32_t all = lines.told + lines.untold;
    assert_in_range(all, events - MANY + 1, events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_DP8_the_log_is_not_flooded),
        cmocka_unit_test(test_DP8_the_limit_of_a_handler_is_chosen),
        cmocka_unit_test(test_DP8_stuck_handlers_are_reported_and_stop_nobody),
        cmocka_unit_test(test_DP8_a_stuck_hook_is_reported),
        cmocka_unit_test(test_DP8_the_log_counts_what_it_leaves_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
