/*
 * router_test.c - routers: who gets what, resizing, supervision (PA2).
 */
#include "support/fixture.h"

TR_MESSAGE(Job, (const char *, key), (int64_t, number));

typedef struct Hand {
    tr_ref probe;
} Hand;

static tr_err on_job(tr_ctx *ctx, Hand *self, const Job *m)
{
    if (m->number < 0) {
        return TR_EIO;
    }
    tr_tell(ctx, self->probe, Note, .text = tr_name(ctx), .number = m->number,
            .ref = tr_sender(ctx));
    return TR_OK;
}

static tr_err hand_get(tr_ctx *ctx, Hand *self, const Get *m)
{
    (void)self;
    return tr_reply(ctx, m, .number = 77, .incarnation = tr_incarnation(ctx));
}

static tr_err hand_nap(tr_ctx *ctx, Hand *self, const Nap *m)
{
    (void)self;
    return tr_sleep(ctx, m->span);
}

static tr_err hand_end(tr_ctx *ctx, Hand *self, const End *m)
{
    (void)self;
    (void)m;
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(hand, Hand, TR_ON(Job, on_job), TR_ON(Get, hand_get),
         TR_ON(Nap, hand_nap), TR_ON(End, hand_end));

#define ROUTER(s, ...)                                                         \
    tr_router((s)->sys, hand, .name = "r",                                     \
              .worker = TR_OPTIONS(tr_spawn_options,                           \
                                   TR_INIT(hand, .probe = (s)->to)),           \
              __VA_ARGS__)

/* Sends n jobs and counts what each of the first ten workers got. */
static void spread(stage *s, tr_ref router, int n, int got[10])
{
    memset(got, 0, 10 * sizeof(got[0]));
    for (int i = 0; i < n; i++) {
        tr_tell(s->sys, router, Job, .key = "k", .number = i);
    }
    for (int i = 0; i < n; i++) {
        const Note *note_ = tr_expect(s->probe, patience(s), Note);
        got[note_->text[0] - '0']++;
    }
}

static void round_robin(stage *s)
{
    int got[10];
    tr_ref r = ROUTER(s, .count = 3);
    assert_int_equal(tr_ref_err(r), TR_OK);
    spread(s, r, 30, got);
    assert_int_equal(got[0], 10);
    assert_int_equal(got[1], 10);
    assert_int_equal(got[2], 10);
    // In turn: each third message is the same worker's.
    for (int i = 0; i < 30; i++) {
        tr_tell(s->sys, r, Job, .key = "k", .number = i);
    }
    for (int i = 0; i < 30; i++) {
        const Note *n = tr_expect(s->probe, patience(s), Note);
        assert_int_equal(n->text[0] - '0', n->number % 3);
    }
    // The asker is the worker's asker, the sender its sender.
    assert_int_equal(gotten(s, r).number, 77);
    tr_tell(s->probe, r, Job, .number = 1);
    assert_true(tr_ref_eq(tr_expect(s->probe, patience(s), Note)->ref, s->to));
}

static void test_PA2_round_robin(void **state)
{
    (void)state;
    everywhere(round_robin);
}

static void randomly(stage *s)
{
    int got[10];
    spread(s, ROUTER(s, .count = 4, .routing = TR_RANDOM), 200, got);
    for (int i = 0; i < 4; i++) {
        assert_true(got[i] > 10 && got[i] < 120);
    }
    assert_int_equal(got[0] + got[1] + got[2] + got[3], 200);
}

static void test_PA2_random(void **state)
{
    (void)state;
    everywhere(randomly);
}

static void least_loaded(stage *s)
{
    tr_ref r = ROUTER(s, .count = 2, .routing = TR_LEAST_LOADED);
    assert_int_equal(tr_started(s->sys, r, 0), TR_OK);
    // One worker sleeps and has mail: the other gets all that follows.
    tr_ref zero = tr_lookup(s->sys, "/user/r/0");
    assert_int_equal(tr_ref_err(zero), TR_OK);
    tr_tell(s->sys, zero, Nap, .span = TR_SECONDS(60));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    for (int i = 0; i < 5; i++) {
        tr_tell(s->sys, zero, Job, .number = 1000);
    }
    for (int i = 0; i < 5; i++) {
        tr_tell(s->sys, r, Job, .number = i);
        assert_string_equal(tr_expect(s->probe, patience(s), Note)->text, "1");
    }
}

static void test_PA2_least_loaded(void **state)
{
    (void)state;
    virtually(least_loaded);
}

static void broadcast(stage *s)
{
    int got[10] = {0};
    tr_ref r = ROUTER(s, .count = 3, .routing = TR_BROADCAST);
    tr_tell(s->probe, r, Job, .number = 5);
    for (int i = 0; i < 3; i++) {
        const Note *n = tr_expect(s->probe, patience(s), Note);
        got[n->text[0] - '0']++;
        assert_true(tr_ref_eq(n->ref, s->to));
    }
    assert_true(got[0] == 1 && got[1] == 1 && got[2] == 1);
    assert_int_equal(gotten(s, r).number, 77);  // the first one answers
    quiet(s);
}

static void test_PA2_broadcast(void **state)
{
    (void)state;
    everywhere(broadcast);
}

/* The worker for each of some keys. */
static void owners_of(stage *s, tr_ref r, char owners[20])
{
    for (int i = 0; i < 20; i++) {
        char key[24];
        snprintf(key, sizeof(key), "key %d", i);
        tr_tell(s->sys, r, Job, .key = key, .number = i);
        owners[i] = tr_expect(s->probe, patience(s), Note)->text[0];
    }
}

static void hashed(stage *s)
{
    char before[20], again[20], after[20];
    tr_ref r =
        ROUTER(s, .count = 4, .routing = TR_HASH_OF_FIELD, .field = "key");
    owners_of(s, r, before);
    owners_of(s, r, again);
    assert_memory_equal(before, again, sizeof(before));
    bool several = false;
    for (int i = 1; i < 20; i++) {
        several |= before[i] != before[0];
    }
    assert_true(several);
    // With one worker more, keys move to it or stay.
    tr_tell(s->sys, r, tr_resize, .count = 5);
    owners_of(s, r, after);
    for (int i = 0; i < 20; i++) {
        assert_true(after[i] == before[i] || after[i] == '4');
    }
    // A message without the field goes to anybody.
    assert_int_equal(gotten(s, r).number, 77);
}

static void test_PA2_hash_of_field_is_consistent(void **state)
{
    (void)state;
    everywhere(hashed);
}

static void resized(stage *s)
{
    int got[10];
    tr_ref r = ROUTER(s, .count = 2);
    tr_tell(s->sys, r, tr_resize, .count = 4);
    spread(s, r, 40, got);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(got[i], 10);
    }
    tr_tell(s->sys, r, tr_resize, .count = 1);
    spread(s, r, 10, got);
    assert_int_equal(got[0], 10);
    tr_tell(s->sys, r, tr_resize, .count = 0);  // refused, and logged
    spread(s, r, 10, got);
    assert_int_equal(got[0], 10);
    assert_true(stage_logged(s, "cannot have 0 workers"));
}

static void test_PA2_a_router_is_resized(void **state)
{
    (void)state;
    everywhere(resized);
}

static void supervised(stage *s)
{
    int got[10];
    // Restarted: the router goes on with the same workers.
    tr_ref r = ROUTER(s, .count = 2);
    tr_tell(s->sys, r, Job, .number = -1);
    spread(s, r, 20, got);
    assert_int_equal(got[0], 10);
    assert_int_equal(got[1], 10);
    // Ended: the other gets all that comes, and takes the router with it.
    watch_end(s, r);
    tr_ref one = tr_lookup(s->sys, "/user/r/1");
    watch_end(s, one);
    tr_stop(s->sys, one);
    assert_int_equal(ended(s, one), TR_STOPPED);
    tr_sim_advance(s->sim, TR_SECONDS(1));  // the router has heard of it
    spread(s, r, 10, got);
    assert_int_equal(got[0], 10);
    tr_tell(s->sys, r, End);
    assert_int_equal(ended(s, r), TR_STOPPED);
}

static void test_PA2_workers_are_supervised(void **state)
{
    (void)state;
    virtually(supervised);
}

static void refused(stage *s)
{
    tr_ref r = ROUTER(s, .count = 2, .routing = 99);
    assert_int_equal(tr_ref_err(r), TR_EINVAL);
    r = ROUTER(s, .routing = TR_HASH_OF_FIELD);
    assert_int_equal(tr_ref_err(r), TR_EINVAL);
    r = tr_router(s->sys, hand,
                  .worker = TR_OPTIONS(tr_spawn_options, .name = "all"));
    assert_int_equal(tr_ref_err(r), TR_EINVAL);
    r = ROUTER(s, .count = 2);
    assert_int_equal(tr_ref_err(r), TR_OK);
    r = ROUTER(s, .count = 2);  // the name is taken; nothing is left over
    assert_int_equal(tr_ref_err(r), TR_EEXIST);
}

static void test_PA2_bad_router_options_are_refused(void **state)
{
    (void)state;
    everywhere(refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_PA2_round_robin),
        cmocka_unit_test(test_PA2_random),
        cmocka_unit_test(test_PA2_least_loaded),
        cmocka_unit_test(test_PA2_broadcast),
        cmocka_unit_test(test_PA2_hash_of_field_is_consistent),
        cmocka_unit_test(test_PA2_a_router_is_resized),
        cmocka_unit_test(test_PA2_workers_are_supervised),
        cmocka_unit_test(test_PA2_bad_router_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
