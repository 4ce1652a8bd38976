/*
 * spawn_test.c - tr_spawn: names and errors, what a new actor is, options, the
 * registry.
 */
#include "support/fixture.h"

#include <stdlib.h>

/* ---- names and errors ---- */

static void names(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    assert_int_equal(tr_ref_err(a), TR_OK);
    assert_int_equal(tr_ref_err(PLAY(s, "a", ())), TR_EEXIST);
    static const char *const bad[] = {
        "", "a/b", "/", "$1", "white space", "tab\t", "del\177"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(tr_ref_err(PLAY(s, bad[i], ())), TR_EINVAL);
    }
    char longest[130];
    memset(longest, 'x', sizeof(longest));
    longest[129] = '\0';
    assert_int_equal(tr_ref_err(PLAY(s, longest, ())), TR_EINVAL);
    longest[128] = '\0';
    assert_int_equal(tr_ref_err(PLAY(s, longest, ())), TR_OK);
    // The same name under another parent is another actor.
    assert_int_equal(tr_ref_err(CHILD(s, a, "a", ())), TR_OK);
    // After the end of the actor its name may be used again.
    tr_stop(s->sys, a);
    (void)joined(s, a);
    assert_int_equal(tr_ref_err(PLAY(s, "a", ())), TR_OK);
}

static void test_SP3_SP15_SP16_GD8_names_are_checked_and_taken(void **state)
{
    (void)state;
    everywhere(names);
}

static tr_err on_bear_twins(tr_ctx *ctx, Player *self, const Bear *m)
{
    char path[TR_PATH_SIZE];
    (void)self;
    tr_ref ref = tr_spawn(ctx, player, .name = "kid");
    tr_ref again = tr_spawn(ctx, player, .name = "kid");
    TR_ASSERT(ctx, tr_ref_err(again) == TR_EEXIST);
    TR_ASSERT(ctx, strcmp(tr_ref_path(ctx, ref, path, sizeof(path)),
                          "/user/one/kid") == 0);
    TR_ASSERT(ctx, tr_ref_eq(tr_child(ctx, "kid"), ref));
    return tr_reply(ctx, m, .ref = ref);
}

TR_ACTOR(mother_of_twins, Player, TR_ON(Bear, on_bear_twins));

static void name_is_taken(stage *s)
{
    char path[TR_PATH_SIZE];
    tr_ref one = tr_spawn(s->sys, mother_of_twins, .name = "one");
    (void)bear(s, one, NULL);
    tr_ref ref = PLAY(s, "mine", ());
    assert_string_equal(tr_ref_path(s->sys, ref, path, sizeof(path)),
                        "/user/mine");
    tr_ref taken = PLAY(s, "mine", ());
    assert_int_equal(tr_ref_err(taken), TR_EEXIST);
    // Mail to the ref of a spawn that failed is a dead letter.
    tr_probe_subscribe(s->probe, tr_dead_letter);
    tr_tell(s->sys, taken, Add, .number = 1);
    assert_int_equal(tr_expect(s->probe, patience(s), tr_dead_letter)->reason,
                     TR_DEAD_NO_SUCH_ACTOR);
    tr_system_terminate(s->sys);
    assert_int_equal(tr_ref_err(PLAY(s, "late", ())), TR_ECLOSED);
}

static void test_rule_25_spawn_takes_the_name_at_once(void **state)
{
    (void)state;
    virtually(name_is_taken);
}

static tr_err plain_strange(tr_ctx *ctx, void *self, const Strange *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    return TR_OK;
}

TR_ACTOR(plain_kind, void, TR_ON(Strange, plain_strange));

static void refused(stage *s)
{
    tr_metrics_snapshot before = {.size = sizeof(before)}, after = before;
    tr_metrics(s->sys, &before);
    assert_int_equal(tr_ref_err((tr_spawn)(s->sys, NULL, NULL)), TR_EINVAL);
    tr_actor_def small = player;
    small.size = 8;
    assert_int_equal(tr_ref_err((tr_spawn)(s->sys, &small, NULL)), TR_EINVAL);
    tr_spawn_options short_of = {.size = sizeof(short_of.size)};
    assert_int_equal(tr_ref_err((tr_spawn)(s->sys, &player, &short_of)),
                     TR_EINVAL);
    int wrong = 0;
    assert_int_equal(tr_ref_err(tr_spawn(s->sys, player, .init = &wrong,
                                         .init_size = sizeof(wrong))),
                     TR_EINVAL);
    assert_int_equal(tr_ref_err(tr_spawn(s->sys, player, .stop_timeout = -1)),
                     TR_EINVAL);
    assert_int_equal(tr_ref_err(tr_spawn(s->sys, player, .overflow = 99)),
                     TR_EINVAL);
    if (s->sim == NULL) {  // simulations have one thread and no dispatchers
        assert_int_equal(
            tr_ref_err(tr_spawn(s->sys, player, .dispatcher = "unknown")),
            TR_ENOENT);
    }
    // Options of a program compiled with an earlier version are accepted.
    tr_spawn_options older = {.size = offsetof(tr_spawn_options, serializer)};
    tr_ref ref = (tr_spawn)(s->sys, &plain_kind, &older);
    assert_int_equal(tr_ref_err(ref), TR_OK);
    tr_stop(s->sys, ref);
    (void)joined(s, ref);
    tr_metrics(s->sys, &before);
    older.name = "/";
    assert_int_equal(tr_ref_err((tr_spawn)(s->sys, &plain_kind, &older)),
                     TR_EINVAL);
    // The spawns that failed left nothing behind.
    // The joined actor may be counted out between the two looks.
    tr_metrics(s->sys, &after);
    assert_true(after.actors <= before.actors);
    assert_int_equal(after.spawned, before.spawned);
    // Mail to the ref of a failed spawn is a dead letter.
    tr_tell(s->sys, tr_spawn(s->sys, player, .name = "/"), Strange);
}

static void test_SP3_SP15_a_spawn_that_is_refused_leaves_nothing(void **state)
{
    (void)state;
    everywhere(refused);
}

/* ---- what a new actor is ---- */

typedef struct Fresh {
    tr_ref probe;
    char zeros[40];
} Fresh;

static tr_err fresh_start(tr_ctx *ctx, Fresh *self)
{
    bool zero = true;
    for (size_t i = 0; i < sizeof(self->zeros); i++) {
        zero &= self->zeros[i] == 0;
    }
    memset(self->zeros, 7, sizeof(self->zeros));
    if (self->probe.cell != 0) {
        tr_tell(ctx, self->probe, Note, .text = "zero", .number = zero);
    }
    return TR_OK;
}

static tr_err fresh_fail(tr_ctx *ctx, Fresh *self, const Fail *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    return TR_EIO;
}

TR_ACTOR(fresh, Fresh, TR_HOOK(pre_start, fresh_start),
         TR_ON(Fail, fresh_fail));

static void defaults(stage *s)
{
    for (int i = 0; i < 3; i++) {
        tr_ref a = tr_spawn(s->sys, fresh, TR_INIT(fresh, .probe = s->to));
        assert_int_equal(heard(s, "zero"), true);
        tr_tell(s->sys, a, Fail);
        // The restart made a new state.
        assert_int_equal(heard(s, "zero"), true);
        tr_actor_info info = {.size = sizeof(info)};
        assert_int_equal(tr_actor_info_of(s->sys, a, &info), TR_OK);
        assert_string_equal(info.kind, "fresh");
        assert_int_equal(info.restarts, 1);
        assert_int_equal(info.depth, 0);
        tr_stop(s->sys, a);
        (void)joined(s, a);
    }
}

static void test_SP5_SP24_X51_a_new_actor_has_a_new_state(void **state)
{
    (void)state;
    everywhere(defaults);
}

static void ids(stage *s)
{
    enum { MANY = 3000 };
    tr_ref *refs = calloc(MANY, sizeof(*refs));
    assert_non_null(refs);
    uint64_t highest = 0;
    for (int i = 0; i < MANY; i++) {
        refs[i] = PLAY(s, NULL, ());
        assert_true(refs[i].id > highest);  // no id is used twice
        highest = refs[i].id;
        if (i % 3 == 0) {
            tr_stop(s->sys, refs[i]);
        }
    }
    free(refs);
}

/* A new actor has the cell; the old ref does not lead to it. */
static void unreachable(stage *s)
{
    enum { HEIRS = 10 };
    tr_ref p = PLAY(s, "p", ());
    tr_ref old = CHILD(s, p, "old", ());
    tr_stop(s->sys, old);
    (void)joined(s, old);
    bool reused = false;
    for (int i = 0; i < HEIRS; i++) {
        tr_ref heir = CHILD(s, p, NULL, ());
        (void)gotten(s, heir);
        reused |= heir.cell == old.cell;
    }
    assert_true(reused);
    char path[TR_PATH_SIZE];
    tr_actor_info info = {.size = sizeof(info)};
    assert_int_equal(tr_state_of(s->sys, old), TR_STATE_TERMINATED);
    assert_int_equal(tr_actor_info_of(s->sys, old, &info), TR_ENOENT);
    assert_non_null(
        strstr(tr_ref_path(s->sys, old, path, sizeof(path)), "gone$"));
    assert_int_equal(tr_try_tell(s->sys, old, Say, .text = "x"), TR_EGONE);
    assert_int_equal(tr_ask(s->sys, old, NULL, 0, Get), TR_EGONE);
}

static void test_SP4_X7_RG6_ids_are_never_used_again(void **state)
{
    (void)state;
    virtually(unreachable);
    static stage s;
    stage_open(&s, 0, NULL);
    ids(&s);
    stage_close(&s);
}

static void does_not_block(stage *s)
{
    tr_nanos start = tr_sim_now(s->sim);
    tr_ref a = PLAY(s, "a", (.says = PRE_START, .sleepy = true));
    assert_true(tr_sim_now(s->sim) - start < TR_MS(1));
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_CREATED);
    heard(s, "a pre_start");
    assert_true(tr_sim_now(s->sim) - start >= TR_MINUTES(1));
}

static void test_SP9_X6_spawn_does_not_wait_for_the_start(void **state)
{
    (void)state;
    virtually(does_not_block);
}

/* ---- options ---- */

/* Outside an actor nobody can watch: the option has no effect. */
static void unwatched(stage *s)
{
    tr_ref a = PLAY(s, "a", (), .watch = true);
    assert_int_equal(tr_ref_err(a), TR_OK);
    tr_stop(s->sys, a);
    (void)joined(s, a);
}

static void test_SP20_a_spawn_from_outside_watches_nobody(void **state)
{
    (void)state;
    everywhere(unwatched);
}

static void dispatchers(stage *s)
{
    if (s->sim != NULL) {
        return;  // one thread runs all actors
    }
    static const char *const names_[] = {"parallel", "pinned", "concurrent",
                                         "blocking", "mine"};
    assert_int_equal(tr_dispatcher_add(s->sys, "mine",
                                       .kind = TR_DISPATCH_PARALLEL,
                                       .threads = 1),
                     TR_OK);
    assert_int_equal(tr_dispatcher_add(s->sys, "mine"), TR_EEXIST);
    for (int i = 0; i < 5; i++) {
        tr_ref a = PLAY(s, NULL, (), .dispatcher = names_[i]);
        assert_int_equal(tr_ref_err(a), TR_OK);
        assert_int_equal(gotten(s, a).incarnation, 1);
    }
}

static void test_SP8_SP10_DP5_the_dispatcher_is_an_option(void **state)
{
    (void)state;
    everywhere(dispatchers);
}

static void bounded(stage *s)
{
    tr_ref a = PLAY(s, "a", (), .mailbox_limit = 2);
    tr_tell(s->sys, a, Nap, .span = TR_SECONDS(10));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    assert_int_equal(tr_try_tell(s->sys, a, Add, .number = 1), TR_OK);
    assert_int_equal(tr_try_tell(s->sys, a, Add, .number = 1), TR_OK);
    assert_int_equal(tr_try_tell(s->sys, a, Add, .number = 1), TR_EFULL);
    heard(s, "a woke");
    tr_sim_advance(s->sim, TR_SECONDS(1));  // there is room again
    assert_int_equal(gotten(s, a).number, 2);
}

static void test_SP12_the_mailbox_limit_is_an_option(void **state)
{
    (void)state;
    virtually(bounded);
}

/* ---- the registry ---- */

static void registry(stage *s)
{
    tr_actor_info some[64];
    tr_metrics_snapshot before = {.size = sizeof(before)}, after = before;
    tr_metrics(s->sys, &before);
    size_t own = tr_actors(s->sys, NULL, 0);
    assert_int_equal(own, before.actors);
    tr_ref a = PLAY(s, "a", ());
    tr_ref b = CHILD(s, a, "b", ());
    tr_ref c = PLAY(s, "c", ());
    for (int i = 0; i < 7; i++) {
        tr_tell(s->sys, b, Add, .number = 1);
    }
    (void)gotten(s, b);
    (void)gotten(s, c);
    some[0].size = sizeof(some[0]);
    size_t count = tr_actors(s->sys, some, 64);
    assert_int_equal(count, own + 3);
    size_t at_a = 0, at_b = 0, at_c = 0;
    for (size_t i = 0; i < count; i++) {
        at_a = tr_ref_eq(some[i].ref, a) ? i : at_a;
        at_b = tr_ref_eq(some[i].ref, b) ? i : at_b;
        at_c = tr_ref_eq(some[i].ref, c) ? i : at_c;
    }
    assert_true(at_a < at_b && at_b < at_c);  // parents first
    while (some[at_b].messages < 8) {  // a message is counted after its handler
        assert_int_equal(tr_actors(s->sys, some, 64), own + 3);
    }
    assert_int_equal(some[at_b].messages, 8);
    assert_int_equal(some[at_b].state, TR_STATE_RUNNING);
    assert_int_equal(tr_actors(s->sys, some, 1), own + 3);
    char text[4096];
    size_t length = tr_tree(s->sys, text, sizeof(text));
    assert_int_equal(length, strlen(text));
    assert_non_null(strstr(text, "b  player RUNNING"));
    assert_int_equal(tr_tree(s->sys, text, 10), length);
    assert_int_equal(strlen(text), 9);
    tr_stop(s->sys, a);
    (void)joined(s, a);
    do {
        tr_metrics(s->sys, &after);
    } while (s->sim == NULL && (after.actors != before.actors + 1 ||
                                after.ended != before.ended + 2));
    assert_int_equal(after.actors, before.actors + 1);
    assert_int_equal(after.ended, before.ended + 2);
    tr_actor_info info = {.size = sizeof(info)};
    assert_int_equal(tr_actor_info_of(s->sys, b, &info), TR_ENOENT);
}

static void test_RG1_RG2_RG3_RG8_C5_the_registry_lists_all_actors(void **state)
{
    (void)state;
    everywhere(registry);
}

/* ---- many at once ---- */

static void spawn_some(void *arg)
{
    stage *s = arg;
    for (int i = 0; i < 2000; i++) {
        tr_ref a = PLAY(s, NULL, ());
        if (tr_ref_err(a) != TR_OK) {
            tr_abort(TR_HERE, "spawn");
        }
        tr_stop(s->sys, a);
    }
}

static void test_SP6_SP17_RG1_many_threads_spawn(void **state)
{
    (void)state;
    static stage s;
    stage_open(&s, 0, NULL);
    tr_thread *threads[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tr_thread_start(s.sys, &threads[i], spawn_some, &s),
                         TR_OK);
    }
    for (int i = 0; i < 3; i++) {
        tr_thread_join(s.sys, threads[i]);
    }
    tr_metrics_snapshot m = {.size = sizeof(m)};
    do {
        tr_metrics(s.sys, &m);
    } while (m.ended < 6000);
    assert_int_equal(m.ended, 6000);
    stage_close(&s);
}

static uint64_t steps_to_spawn(uint32_t count)
{
    static stage s;
    stage_open(&s, 3, NULL);
    for (uint32_t i = 0; i < count; i++) {
        (void)PLAY(&s, NULL, ());
    }
    uint64_t before = tr_sim_steps(s.sim);
    tr_sim_advance(s.sim, TR_SECONDS(1));
    uint64_t steps = tr_sim_steps(s.sim) - before;
    stage_close(&s);
    return steps;
}

static void test_SP17_the_cost_of_a_spawn_does_not_grow(void **state)
{
    (void)state;
    assert_true(steps_to_spawn(800) < 5 * steps_to_spawn(200));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_SP3_SP15_SP16_GD8_names_are_checked_and_taken),
        cmocka_unit_test(test_rule_25_spawn_takes_the_name_at_once),
        cmocka_unit_test(test_SP3_SP15_a_spawn_that_is_refused_leaves_nothing),
        cmocka_unit_test(test_SP5_SP24_X51_a_new_actor_has_a_new_state),
        cmocka_unit_test(test_SP4_X7_RG6_ids_are_never_used_again),
        cmocka_unit_test(test_SP9_X6_spawn_does_not_wait_for_the_start),
        cmocka_unit_test(test_SP20_a_spawn_from_outside_watches_nobody),
        cmocka_unit_test(test_SP8_SP10_DP5_the_dispatcher_is_an_option),
        cmocka_unit_test(test_SP12_the_mailbox_limit_is_an_option),
        cmocka_unit_test(test_RG1_RG2_RG3_RG8_C5_the_registry_lists_all_actors),
        cmocka_unit_test(test_SP6_SP17_RG1_many_threads_spawn),
        cmocka_unit_test(test_SP17_the_cost_of_a_spawn_does_not_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
