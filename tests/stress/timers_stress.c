/*
 * timers_stress.c - many timers are armed and cancelled on all workers.
 *
 * Each actor arms and cancels timers of all kinds at random while messages
 * move it between the workers. No message of a cancelled timer may be handled,
 * no other timer may be lost, and all sleeps end.
 */
#include "support/stage.h"

#include <stdatomic.h>

#include "base/rand.h"

enum { ACTORS = 32, TIMERS = 8 };

TR_MESSAGE(Tick, (uint64_t, number));
TR_MESSAGE(Beat, (uint64_t, number));
TR_MESSAGE(Round, (uint64_t, left));

typedef struct clocks {
    tr_system *sys;
    tr_ref refs[ACTORS];
    _Atomic(uint64_t) armed, cancelled, fired, ghosts, sleeps, silences, done;
} clocks;

typedef struct ticker {
    clocks *all;
    tri_rand rand;
    tr_timer timers[TIMERS];
    uint64_t numbers[TIMERS];  // of timers that may still fire; 0: none
    uint64_t next;
    bool ending;
} ticker;

static tr_err on_tick(tr_ctx *ctx, ticker *self, const Tick *m)
{
    (void)ctx;
    atomic_fetch_add(&self->all->fired, 1);
    for (int i = 0; i < TIMERS; i++) {
        if (self->numbers[i] == m->number) {
            self->numbers[i] = 0;
            return TR_OK;
        }
    }
    atomic_fetch_add(&self->all->ghosts, 1);
    return TR_OK;
}

/* The slot of a periodic timer is in use until the timer is cancelled. */
static tr_err on_beat(tr_ctx *ctx, ticker *self, const Beat *m)
{
    (void)ctx;
    for (int i = 0; i < TIMERS; i++) {
        if (self->numbers[i] == m->number) {
            return TR_OK;
        }
    }
    atomic_fetch_add(&self->all->ghosts, 1);
    return TR_OK;
}

static void play(tr_ctx *ctx, ticker *self)
{
    int i = (int)tri_rand_below(&self->rand, TIMERS);
    if (self->numbers[i] != 0) {
        tr_cancel(ctx, self->timers[i]);
        self->numbers[i] = 0;
        atomic_fetch_add(&self->all->cancelled, 1);
        return;
    }
    self->numbers[i] = ++self->next;
    atomic_fetch_add(&self->all->armed, 1);
    tr_nanos span = (tr_nanos)tri_rand_below(&self->rand, 200000);
    if (tri_rand_below(&self->rand, 4) == 0) {
        self->timers[i] = tr_every(ctx, span + 1, Beat, .number = self->next);
    } else {
        self->timers[i] = tr_after(ctx, span, Tick, .number = self->next);
    }
}

static tr_err on_round(tr_ctx *ctx, ticker *self, const Round *m)
{
    for (int i = 0; i < 4; i++) {
        play(ctx, self);
    }
    if (tri_rand_below(&self->rand, 16) == 0) {
        TR_TRY(tr_sleep(ctx, (tr_nanos)tri_rand_below(&self->rand, 100000)));
        atomic_fetch_add(&self->all->sleeps, 1);
    }
    if (m->left > 0) {
        tr_tell(ctx, tr_self(ctx), Round, .left = m->left - 1);
        return TR_OK;
    }
    for (int i = 0; i < TIMERS; i++) {
        tr_cancel(ctx, self->timers[i]);
        self->numbers[i] = 0;
    }
    // No more messages from now on: the receive timeout must fire.
    self->ending = true;
    tr_receive_timeout(ctx, TR_MS(1));
    return TR_OK;
}

static tr_err on_silence(tr_ctx *ctx, ticker *self, const tr_timeout *m)
{
    (void)m;
    atomic_fetch_add(&self->all->silences, 1);
    if (self->ending) {
        tr_stop(ctx, tr_self(ctx));
    }
    return TR_OK;
}

TR_ACTOR(tickers, ticker, TR_ON(Tick, on_tick), TR_ON(Beat, on_beat),
         TR_ON(Round, on_round), TR_ON(tr_timeout, on_silence));

static void no_log(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

static void test_no_timer_is_lost_or_fires_after_cancel(void **state)
{
    clocks *it = test_calloc(1, sizeof(*it));
    (void)state;
    expect_ok(tr_system_open(&it->sys, .log = no_log, .workers = 2));
    for (uint64_t i = 0; i < ACTORS; i++) {
        ticker first = {.all = it};
        tri_rand_init(&first.rand, i + 1);
        it->refs[i] = tr_spawn(it->sys, tickers, .init = &first,
                               .init_size = sizeof(first), .joinable = true);
        tr_tell(it->sys, it->refs[i], Round, .left = stage_scaled(80000));
    }
    for (int i = 0; i < ACTORS; i++) {
        expect_ok(tr_join(it->sys, it->refs[i], TR_MINUTES(10), NULL, NULL));
    }
    expect_ok(tr_system_close(it->sys, TR_MINUTES(10)));
    print_message(
        "%llu armed, %llu cancelled, %llu fired, %llu sleeps\n",
        (unsigned long long)it->armed, (unsigned long long)it->cancelled,
        (unsigned long long)it->fired, (unsigned long long)it->sleeps);
    assert_int_equal(it->ghosts, 0);
    assert_int_equal(it->silences, ACTORS);
    assert_true(it->fired > 0);
    test_free(it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_timer_is_lost_or_fires_after_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
