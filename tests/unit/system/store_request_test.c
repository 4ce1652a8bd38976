/*
 * store_request_test.c - actors end and restart while the store has not answered
 * (rule 28), and what becomes of the family around them (K7, X15, rule 5).
 *
 * The store holds saves back until the test lets them go, on virtual time.
 */
#include "support/fixture.h"

#include "base/list.h"
#include "storage/storage.h"
#include "support/core.h"

/* ---- a store that is asked and does not answer ---- */

typedef struct late_store {
    tr_storage base;
    tr_storage *inner;
    tri_list held;
    uint32_t count;  // held now
    bool prompt;     // does not hold any more
} late_store;

static void late_submit(tr_storage *storage, tri_list *ops)
{
    late_store *store = tri_container_of(storage, late_store, base);
    tri_link *link;
    while ((link = tri_list_pop_front(ops)) != NULL) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        if (op->call == TR_STORE_SAVE && !store->prompt) {
            tri_list_push_back(&store->held, link);
            store->count++;
        } else {
            tri_storage_submit(store->inner, op);
        }
    }
}

static void late_close(tr_storage *storage)
{
    (void)storage;
}

static void late_open(late_store *store)
{
    static const tri_storage_ops ops = {"late", late_submit, late_close};
    *store = (late_store){.prompt = false};
    TR_MUST(tr_storage_memory(&store->inner));
    tri_storage_init(&store->base, &ops);
    tri_list_init(&store->held);
}

/* What was asked is done now. */
static void late_answer(late_store *store)
{
    tri_link *link;
    store->prompt = true;
    while ((link = tri_list_pop_front(&store->held)) != NULL) {
        store->count--;
        tri_storage_submit(store->inner,
                           tri_container_of(link, tri_store_op, link));
    }
}

/* ---- actors ---- */

TR_STATE(Box, (int64_t, held));
TR_REQUEST(Put, Count, (int64_t, number));

static tr_err on_put(tr_ctx *ctx, Box *self, const Put *m)
{
    TR_TRY(tr_persist(ctx, self, &(Box){.held = m->number}));
    return tr_reply(ctx, m, .number = self->held);
}

static tr_err on_get_box(tr_ctx *ctx, Box *self, const Get *m)
{
    return tr_reply(ctx, m, .number = self->held,
                    .incarnation = tr_incarnation(ctx));
}

static tr_err on_fail_box(tr_ctx *ctx, Box *self, const Fail *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER, "told to fail");
}

TR_ACTOR(box, Box, TR_ON(Put, on_put), TR_ON(Get, on_get_box),
         TR_ON(Fail, on_fail_box));

/* Has children of any kind. */
typedef struct House {
    tr_ref probe;
    late_store *store;  // answers when the house ends, if not NULL
} House;

TR_REQUEST(Raise, Born, (uint64_t, kind), (uint64_t, options));

static tr_err on_raise(tr_ctx *ctx, House *self, const Raise *m)
{
    (void)self;
    const tr_actor_def *kind = (const tr_actor_def *)(uintptr_t)m->kind;
    const tr_spawn_options *options =
        (const tr_spawn_options *)(uintptr_t)m->options;
    return tr_reply(ctx, m, .ref = (tr_spawn)(ctx, kind, options));
}

static tr_err house_end(tr_ctx *ctx, House *self, tr_reason reason)
{
    tr_tell(ctx, self->probe, Note,
            .text = tr_textf(ctx, "%s over", tr_name(ctx)), .number = reason);
    if (self->store != NULL) {
        late_answer(self->store);
    }
    return TR_OK;
}

TR_ACTOR(house, House, TR_ON(Raise, on_raise), TR_HOOK(post_stop, house_end));

static tr_ref add_child(stage *s, tr_ref parent, const tr_actor_def *kind,
                        const tr_spawn_options *options)
{
    Born born;
    assert_int_equal(tr_ask(s->sys, parent, &born, patience(s), Raise,
                            .kind = (uint64_t)(uintptr_t)kind,
                            .options = (uint64_t)(uintptr_t)options),
                     TR_OK);
    assert_int_equal(tr_ref_err(born.ref), TR_OK);
    return born.ref;
}

#define ADD(s, parent, kind, ...)                                              \
    add_child((s), (parent), &(kind), TR_OPTIONS(tr_spawn_options, __VA_ARGS__))

static uint64_t zombies(stage *s)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(s->sys, &m);
    return m.zombies;
}

/* A save of it is with the store. */
static void put_late(stage *s, late_store *store, tr_ref ref, int64_t number)
{
    tr_tell(s->sys, ref, Put, .number = number);
    while (store->count == 0) {
        tr_sim_advance(s->sim, TR_MS(1));
    }
}

static late_store the_store;

static void with_late_store(void (*scenario)(stage *s))
{
    static stage s;
    for (uint64_t seed = 1; seed <= STAGE_SEEDS; seed++) {
        late_open(&the_store);
        stage_open(&s, seed, NULL);
        scenario(&s);
        stage_close(&s);
        assert_int_equal(the_store.count, 0);
        tr_storage_close(the_store.inner);
    }
}

/* ---- ends ---- */

/*
 * The family of an actor whose save is on its way ends in its time; itself it
 * ends when the store has answered, and not as a zombie.
 */
static void family_ends(stage *s)
{
    tr_ref a =
        tr_spawn(s->sys, house, .name = "a", .stop_timeout = TR_SECONDS(1),
                 TR_INIT(house, .probe = s->to));
    tr_ref b = ADD(s, a, house, .name = "b", .stop_timeout = TR_MINUTES(10),
                   TR_INIT(house, .probe = s->to));
    tr_ref c = ADD(s, b, box, .name = "c", .storage = &the_store.base,
                   .stop_timeout = TR_MINUTES(10));
    put_late(s, &the_store, c, 5);
    watch_end(s, c);
    tr_nanos start = tr_sim_now(s->sim);
    tr_stop(s->sys, a);
    assert_int_equal(heard(s, "b over"), TR_FORCED);
    assert_int_equal(heard(s, "a over"), TR_STOPPED);
    tr_nanos took = tr_sim_now(s->sim) - start;
    assert_true(took >= TR_SECONDS(1) && took < TR_SECONDS(3));
    (void)joined(s, a);
    quiet(s);  // for as long as the store is silent
    assert_int_equal(tr_state_of(s->sys, c), TR_STATE_STOPPING);
    assert_int_equal(zombies(s), 0);
    late_answer(&the_store);
    assert_int_equal(ended(s, c), TR_FORCED);
}

static void test_rule_28_X15_K7_a_family_ends_before_its_store_answers(
    void **state)
{
    (void)state;
    with_late_store(family_ends);
}

/* Until then it has its name: no successor loads what is being replaced. */
static void name_is_kept(stage *s)
{
    tr_ref c = tr_spawn(s->sys, box, .name = "c", .storage = &the_store.base,
                        .stop_timeout = TR_SECONDS(1));
    put_late(s, &the_store, c, 7);
    watch_end(s, c);
    tr_kill(s->sys, c);
    quiet(s);
    tr_ref next =
        tr_spawn(s->sys, box, .name = "c", .storage = &the_store.base);
    assert_int_equal(tr_ref_err(next), TR_EEXIST);
    late_answer(&the_store);
    assert_int_equal(ended(s, c), TR_KILLED);
    next = tr_spawn(s->sys, box, .name = "c", .storage = &the_store.base);
    assert_int_equal(gotten(s, next).number, 7);
}

static void test_rule_28_the_name_is_kept_until_the_store_answers(void **state)
{
    (void)state;
    with_late_store(name_is_kept);
}

/* Closing does not cut it off: what the store has taken is stored. */
static void closing_waits(stage *s)
{
    tr_ref p =
        tr_spawn(s->sys, house, .name = "p", .stop_timeout = TR_SECONDS(1),
                 TR_INIT(house, .probe = s->to, .store = &the_store));
    tr_ref c = ADD(s, p, box, .name = "c", .storage = &the_store.base,
                   .stop_timeout = TR_MINUTES(10));
    put_late(s, &the_store, c, 11);
}

static void test_rule_28_closing_waits_for_the_store(void **state)
{
    (void)state;
    with_late_store(closing_waits);  // it closes cleanly
}

/* ---- restarts ---- */

/* Saves in `c`, then its brother fails for both; returns c. */
static tr_ref restart_both(stage *s, tr_ref parent)
{
    tr_ref c = ADD(s, parent, box, .name = "c", .storage = &the_store.base,
                   .stop_timeout = TR_SECONDS(3),
                   .supervision = TR_SUPERVISE(.on_limit = TR_ESCALATE));
    tr_ref d = ADD(s, parent, box, .name = "d",
                   .supervision =
                       TR_SUPERVISE(.scope = TR_ALL_FOR_ONE, .backoff_min = 1));
    put_late(s, &the_store, c, 9);
    watch_end(s, c);
    tr_tell(s->sys, d, Fail);
    return c;
}

/* In time: it goes on with what was saved. */
static void restart_waits(stage *s)
{
    tr_ref p =
        tr_spawn(s->sys, house, .name = "p", TR_INIT(house, .probe = s->to));
    tr_ref c = restart_both(s, p);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(s->sys, c), TR_STATE_RESTARTING);
    late_answer(&the_store);
    Count count = gotten(s, c);
    assert_int_equal(count.number, 9);
    assert_int_equal(count.incarnation, 2);
    assert_int_equal(tr_state_of(s->sys, p), TR_STATE_RUNNING);
}

static void test_rule_28_SV14_a_restart_waits_for_the_store(void **state)
{
    (void)state;
    with_late_store(restart_waits);
}

/* Not in time: that is a forced stop, and a failure of the parent. */
static void restart_gives_up(stage *s)
{
    tr_ref p = tr_spawn(s->sys, house, .name = "p", .joinable = true,
                        .stop_timeout = TR_SECONDS(1),
                        .supervision = TR_SUPERVISE(.on_failure = TR_STOP),
                        TR_INIT(house, .probe = s->to));
    tr_ref c = restart_both(s, p);
    assert_int_equal(heard(s, "p over"), TR_FAILED);
    tr_result result = joined(s, p);
    assert_non_null(strstr(result.text, "a child could not be restarted"));
    quiet(s);
    assert_int_equal(zombies(s), 0);
    late_answer(&the_store);
    assert_int_equal(ended(s, c), TR_FORCED);
}

static void test_rule_5_rule_28_a_restart_gives_up_on_the_store(void **state)
{
    (void)state;
    with_late_store(restart_gives_up);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_rule_28_X15_K7_a_family_ends_before_its_store_answers),
        cmocka_unit_test(test_rule_28_the_name_is_kept_until_the_store_answers),
        cmocka_unit_test(test_rule_28_closing_waits_for_the_store),
        cmocka_unit_test(test_rule_28_SV14_a_restart_waits_for_the_store),
        cmocka_unit_test(test_rule_5_rule_28_a_restart_gives_up_on_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
