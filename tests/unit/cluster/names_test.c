/*
 * names_test.c - sends by name, and which names are kept.
 *
 * Most tests run on virtual time with several seeds and once on threads. Each
 * message says whom the actor reports to.
 */
#include <stdatomic.h>

#include <pthread.h>
#include <sched.h>

#include "cluster/virtual/actor_id.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/names.h"
#include "unit/cluster/scenario.h"

TR_MESSAGE(Seen, (int64_t, number), (tr_ref, ref), (const char *, key));
TR_MESSAGE(Add, (int64_t, number), (tr_ref, tell));
TR_REQUEST(Get, Seen);
TR_REQUEST(Nap, Seen, (int64_t, span));
TR_REQUEST(Store, Seen, (int64_t, number));
TR_MESSAGE(End);
TR_REQUEST(Relay, Seen, (const char *, to));
TR_REQUEST(Pass, Seen, (const char *, to));

TR_STATE(Tally, (int64_t, sum));

static tr_err on_add(tr_ctx *ctx, Tally *self, const Add *m)
{
    self->sum += m->number;
    tr_tell(ctx, m->tell, Seen, .number = m->number, .ref = tr_self(ctx),
            .key = tr_key(ctx));
    return TR_OK;
}

static tr_err on_get(tr_ctx *ctx, Tally *self, const Get *m)
{
    return tr_reply(ctx, m, .number = self->sum, .ref = tr_self(ctx),
                    .key = tr_key(ctx));
}

static tr_err on_nap(tr_ctx *ctx, Tally *self, const Nap *m)
{
    TR_TRY(tr_sleep(ctx, m->span));
    return tr_reply(ctx, m, .number = self->sum);
}

static tr_err on_store(tr_ctx *ctx, Tally *self, const Store *m)
{
    Tally next = {.sum = m->number};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m, .number = self->sum);
}

static tr_err on_end(tr_ctx *ctx, Tally *self, const End *m)
{
    (void)self;
    (void)m;
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

/* From a handler: asks by name. */
static tr_err on_relay(tr_ctx *ctx, Tally *self, const Relay *m)
{
    Seen seen;
    (void)self;
    TR_OR_REFUSE(ctx, m, tr_ask_virtual(ctx, "tally", m->to, &seen, 0, Get));
    return tr_reply(ctx, m, .number = seen.number, .key = seen.key);
}

static tr_err on_pass(tr_ctx *ctx, Tally *self, const Pass *m)
{
    (void)self;
    if (strcmp(m->to, tr_key(ctx)) == 0) {
        return tr_reply(ctx, m, .number = self->sum, .key = tr_key(ctx));
    }
    tr_forward_virtual(ctx, "tally", m->to, m);
    return TR_OK;
}

TR_ACTOR(tally, Tally, TR_ON(Add, on_add), TR_ON(Get, on_get),
         TR_ON(Nap, on_nap), TR_ON(Store, on_store), TR_ON(End, on_end),
         TR_ON(Relay, on_relay), TR_ON(Pass, on_pass));

#define EVERYWHERE(name) SCENARIO(name, 0, NULL, NULL)
#define VIRTUALLY(name)  SCENARIO(name, 1, NULL, NULL)

static int64_t ask(world *w, const char *key)
{
    Seen seen;
    assert_int_equal(tr_ask_virtual(w->sys, "tally", key, &seen, 0, Get),
                     TR_OK);
    assert_string_equal(seen.key, key);
    int64_t number = seen.number;
    tr_drop(Seen, &seen);
    return number;
}

/* Ends the activation and waits for it: the probe watches it. */
static void end(world *w, const char *key)
{
    Seen seen;
    assert_int_equal(tr_ask_virtual(w->sys, "tally", key, &seen, 0, Get),
                     TR_OK);
    tr_ref ref = seen.ref;
    tr_drop(Seen, &seen);
    tr_probe_watch(w->probe, ref);
    tr_tell_virtual(w->sys, "tally", key, End);
    const tr_terminated *t = tr_expect(w->probe, TR_SECONDS(60), tr_terminated);
    assert_true(tr_ref_eq(t->actor, ref));
}

/* The name is forgotten a moment after the end is known. */
static void await_names(world *w, uint64_t count)
{
    while (metrics(w).virtual_names != count) {
        if (w->sim != NULL) {
            tr_sim_advance(w->sim, TR_MS(1));
        } else {
            sched_yield();
        }
    }
}

/* ---- tests ---- */

EVERYWHERE(rule33_a_name_sent_to_is_forgotten_with_its_activation)
{
    Seen seen;
    assert_int_equal(tr_host(w->sys, tally), TR_OK);
    tr_tell_virtual(w->sys, "tally", "a", Add, .number = 3,
                    .tell = tr_probe_ref(w->probe));
    const Seen *s = tr_expect(w->probe, TR_SECONDS(60), Seen);
    assert_string_equal(s->key, "a");
    tr_ref old = s->ref;
    assert_int_equal(ask(w, "a"), 3);
    assert_int_equal(metrics(w).virtual_names, 1);
    end(w, "a");
    await_names(w, 0);
    assert_int_equal(ask(w, "a"), 0);  // another activation, in another record
    assert_int_equal(metrics(w).virtual_names, 1);
    // The old ref is stale now: rule 39 (refs).
    assert_int_equal(tr_ask(w->sys, old, &seen, 0, Get), TR_EGONE);
    assert_int_equal(tr_try_tell(w->sys, old, End), TR_EGONE);
    char path[64];
    tr_ref_path(w->sys, old, path, sizeof(path));
    assert_non_null(strstr(path, "gone"));
}

EVERYWHERE(rule33_unlimited_keys_sent_to_by_name_need_no_more_names)
{
    char key[24];
    assert_int_equal(tr_host(w->sys, tally), TR_OK);
    for (int i = 0; i < 10 * NAMES; i++) {
        snprintf(key, sizeof(key), "%s-%d", i % 3 ? "session" : "s", i);
        tr_tell_virtual(w->sys, "tally", key, Add, .number = i,
                        .tell = tr_probe_ref(w->probe));
        const Seen *s = tr_expect(w->probe, TR_SECONDS(60), Seen);
        assert_int_equal(s->number, i);
        assert_string_equal(s->key, key);
        end(w, key);
        await_names(w, 0);
    }
    assert_int_equal(metrics(w).dead_letters, 0);
}

EVERYWHERE(rule33_a_ref_keeps_its_name)
{
    Seen seen;
    assert_int_equal(tr_host(w->sys, tally), TR_OK);
    assert_int_equal(ask(w, "a"), 0);
    tr_ref a = tr_virtual(w->sys, "tally", "a");  // while it is active
    end(w, "a");
    tr_ref b = tr_virtual(w->sys, "tally", "b");  // before it ever was
    end(w, "b");
    assert_int_equal(tr_ask(w->sys, a, &seen, 0, Get), TR_OK);
    assert_true(tr_ref_eq(seen.ref, a));
    tr_drop(Seen, &seen);
    assert_int_equal(tr_ask(w->sys, b, &seen, 0, Get), TR_OK);
    tr_drop(Seen, &seen);
    assert_int_equal(metrics(w).virtual_names, 2);
}

EVERYWHERE(rule33_the_limit_counts_names_sent_to)
{
    char key[16];
    assert_int_equal(tr_host(w->sys, tally), TR_OK);
    for (int i = 0; i < NAMES; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(ask(w, key), 0);
    }
    Seen seen;
    assert_int_equal(tr_try_tell_virtual(w->sys, "tally", "more", End),
                     TR_ELIMIT);
    assert_non_null(strstr(tr_error_text(w->sys), "virtual_names"));
    assert_int_equal(tr_ask_virtual(w->sys, "tally", "more", &seen, 0, Get),
                     TR_ELIMIT);
    assert_int_equal(tr_ref_err(tr_virtual(w->sys, "tally", "more")),
                     TR_ELIMIT);
    uint64_t before = metrics(w).dead_letters;
    tr_tell_virtual(w->sys, "tally", "more", End);
    assert_int_equal(metrics(w).dead_letters, before + 1);
    end(w, "k7");  // makes room
    await_names(w, NAMES - 1);
    assert_int_equal(ask(w, "more"), 0);
}

EVERYWHERE(T14_T15_a_send_by_name_that_fails_says_why)
{
    Seen seen;
    assert_int_equal(tr_ask_virtual(w->sys, "tally", "a", &seen, 0, Get),
                     TR_ENOENT);  // no node hosts the kind
    assert_int_equal(tr_try_tell_virtual(w->sys, "tally", "a", End), TR_ENOENT);
    assert_int_equal(metrics(w).virtual_names, 0);
    assert_int_equal(tr_host(w->sys, tally), TR_OK);
    assert_int_equal(tr_try_tell_virtual(w->sys, "tally", "a/b", End),
                     TR_EINVAL);
    assert_int_equal(tr_ask_virtual(w->sys, "", "a", &seen, 0, Get), TR_EINVAL);
    assert_non_null(strstr(tr_error_text(w->sys), "not a name"));
    assert_int_equal(
        tr_ask_virtual(w->sys, "tally", "a", &seen, 0, Nap, .span = TR_MS(1)),
        TR_OK);
    assert_int_equal(metrics(w).virtual_names, 1);
}

EVERYWHERE(T14_handlers_ask_and_forward_by_name)
{
    Seen seen;
    assert_int_equal(tr_host(w->sys, tally), TR_OK);
    tr_tell_virtual(w->sys, "tally", "b", Add, .number = 5,
                    .tell = tr_probe_ref(w->probe));
    assert_int_equal(tr_expect(w->probe, TR_SECONDS(60), Seen)->number, 5);
    assert_int_equal(
        tr_ask_virtual(w->probe, "tally", "a", &seen, 0, Relay, .to = "b"),
        TR_OK);
    assert_int_equal(seen.number, 5);
    tr_drop(Seen, &seen);
    assert_int_equal(
        tr_ask_virtual(w->sys, "tally", "a", &seen, 0, Pass, .to = "b"), TR_OK);
    assert_string_equal(seen.key, "b");
    tr_drop(Seen, &seen);
    // Rule 18 (cycles): it asks itself by name; the handler passes the
    // error on.
    assert_int_equal(
        tr_ask_virtual(w->sys, "tally", "a", &seen, 0, Relay, .to = "a"),
        TR_EFAILED);
    assert_int_equal(
        tr_ask_virtual(w->sys, "tally", "a", &seen, 0, Relay, .to = "a b"),
        TR_EINVAL);
    end(w, "a");
    end(w, "b");
    await_names(w, 0);
}

VIRTUALLY(rule29_an_asker_keeps_the_name_until_it_is_answered)
{
    Seen seen;
    assert_int_equal(tr_host(w->sys, tally, .idle = TR_SECONDS(1)), TR_OK);
    assert_int_equal(tr_ask_virtual(w->sys, "tally", "a", &seen, TR_MINUTES(2),
                                    Nap, .span = TR_MINUTES(1)),
                     TR_OK);
    assert_int_equal(metrics(w).activations, 1);
    tr_sim_advance(w->sim, TR_SECONDS(5));
    assert_int_equal(metrics(w).virtual_active, 0);
    assert_int_equal(metrics(w).virtual_names, 0);
}

VIRTUALLY(X30_mail_by_name_during_an_end_goes_to_the_next_activation)
{
    assert_int_equal(tr_host(w->sys, tally, .idle = TR_SECONDS(1)), TR_OK);
    for (int i = 0; i < 50; i++) {
        // End, and more behind it in the same mailbox.
        tr_tell_virtual(w->sys, "tally", "a", End);
        tr_tell_virtual(w->sys, "tally", "a", Add, .number = i,
                        .tell = tr_probe_ref(w->probe));
    }
    for (int i = 0; i < 50; i++) {  // none lost, none out of order
        assert_int_equal(tr_expect(w->probe, TR_SECONDS(60), Seen)->number, i);
    }
    tr_sim_advance(w->sim, TR_SECONDS(5));
    assert_int_equal(metrics(w).virtual_names, 0);
    assert_int_equal(metrics(w).dead_letters, 0);
}

VIRTUALLY(rule33_stateless_workers_keep_their_name)
{
    assert_int_equal(
        tr_host(w->sys, tally, .workers = 3, .idle = TR_SECONDS(1)), TR_OK);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(ask(w, "pool"), 0);
    }
    assert_int_equal(metrics(w).virtual_active, 3);
    tr_sim_advance(w->sim, TR_SECONDS(5));
    assert_int_equal(metrics(w).virtual_active, 0);
    assert_int_equal(metrics(w).virtual_names, 1);
    assert_int_equal(ask(w, "pool"), 0);
}

EVERYWHERE(ST_state_is_found_again_by_name)
{
    tr_storage *memory;
    Seen seen;
    assert_int_equal(tr_storage_memory(&memory), TR_OK);
    assert_int_equal(tr_host(w->sys, tally, .storage = memory), TR_OK);
    assert_int_equal(
        tr_ask_virtual(w->sys, "tally", "a", &seen, 0, Store, .number = 42),
        TR_OK);
    end(w, "a");
    await_names(w, 0);
    assert_int_equal(ask(w, "a"), 42);
    close_world(w);
    tr_storage_close(memory);
    open_world(w, 1);  // for the fixture to close
}

/* Each allocation fails once: an error, and no name is left behind. */
static void test_rule33_without_memory_no_name_is_left_behind(void **state)
{
    (void)state;
    for (int64_t n = 0;; n++) {
        world w;
        open_world(&w, 1);
        assert_int_equal(tr_host(w.sys, tally, .idle = TR_SECONDS(1)), TR_OK);
        assert_int_equal(tr_ref_err(tr_virtual(w.sys, "tally", "known")),
                         TR_OK);
        tri_mem_fail_after(&w.sys->mem, n);
        tr_err err = tr_try_tell_virtual(w.sys, "tally", "a", End);
        // Relaxed: one thread.
        bool all = atomic_load_explicit(&w.sys->mem.fail_at,
                                        memory_order_relaxed) >= 0;
        tri_mem_fail_after(&w.sys->mem, -1);
        tr_sim_advance(w.sim, TR_SECONDS(5));
        assert_int_equal(metrics(&w).virtual_names, 1);
        assert_int_equal(metrics(&w).virtual_active, 0);
        close_world(&w);
        if (all) {
            assert_int_equal(err, TR_OK);
            break;
        }
        assert_int_equal(err, TR_ENOMEM);
    }
}

/* ---- threads ---- */

enum { THREADS = 4, HOLD_ROUNDS = 200 };

typedef struct holders {
    tr_system *sys;
    pthread_barrier_t barrier;
    _Atomic(uint32_t) next;  // number of the next thread
    tri_virtual *held[THREADS];
    tr_err errs[THREADS];
    bool right[THREADS];  // what thread saw in its record
    uint32_t wrong;       // rounds; of thread 0
} holders;

static uint64_t names_of(const holders *it)
{
    return atomic_load(&tri_cluster_of(it->sys)->names);
}

/* Between two barriers: all threads hold the name now. */
static void look_at_held(holders *it)
{
    bool same = names_of(it) == 1;
    for (uint32_t i = 0; i < THREADS; i++) {
        same = same && it->errs[i] == TR_OK && it->held[i] == it->held[0] &&
               it->right[i];
    }
    it->wrong += !same;
}

static void *hold_and_release(void *arg)
{
    holders *it = arg;
    tri_cluster *cluster = tri_cluster_of(it->sys);
    uint32_t me = atomic_fetch_add(&it->next, 1);
    for (uint32_t round = 0; round < HOLD_ROUNDS; round++) {
        char key[16];
        tri_actor_id id;
        const char *why;
        snprintf(key, sizeof(key), "r%u", round);
        TR_MUST(tri_actor_id_make(&id, NS, "tally", key, &why));
        pthread_barrier_wait(&it->barrier);
        tri_virtual *v = NULL;
        it->errs[me] =
            tri_names_hold(cluster, (tr_from){.sys = it->sys}, &id, &v);
        it->held[me] = v;
        it->right[me] = v != NULL && strcmp(v->text, id.text) == 0;
        pthread_barrier_wait(&it->barrier);
        if (me == 0) {
            look_at_held(it);
        }
        pthread_barrier_wait(&it->barrier);
        if (v != NULL) {
            tri_names_release(cluster, v);
        }
        pthread_barrier_wait(&it->barrier);
        if (me == 0) {
            it->wrong += names_of(it) != 0;
        }
    }
    return NULL;
}

/*
 * Threads that hold a new name at once get one record, and the name goes with
 * the last of them: no thread sees half of what another does.
 */
static void test_DI12_threads_add_and_forget_a_name_in_one_step(void **state)
{
    world w;
    pthread_t threads[THREADS];
    (void)state;
    open_world(&w, 0);
    assert_int_equal(tr_host(w.sys, tally), TR_OK);
    holders it = {.sys = w.sys};
    assert_int_equal(pthread_barrier_init(&it.barrier, NULL, THREADS), 0);
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, hold_and_release, &it), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    pthread_barrier_destroy(&it.barrier);
    assert_int_equal(it.wrong, 0);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_rule33_a_name_sent_to_is_forgotten_with_its_activation),
        cmocka_unit_test(
            test_rule33_unlimited_keys_sent_to_by_name_need_no_more_names),
        cmocka_unit_test(test_rule33_a_ref_keeps_its_name),
        cmocka_unit_test(test_rule33_the_limit_counts_names_sent_to),
        cmocka_unit_test(test_T14_T15_a_send_by_name_that_fails_says_why),
        cmocka_unit_test(test_T14_handlers_ask_and_forward_by_name),
        cmocka_unit_test(
            test_rule29_an_asker_keeps_the_name_until_it_is_answered),
        cmocka_unit_test(
            test_X30_mail_by_name_during_an_end_goes_to_the_next_activation),
        cmocka_unit_test(test_rule33_stateless_workers_keep_their_name),
        cmocka_unit_test(test_ST_state_is_found_again_by_name),
        cmocka_unit_test(test_rule33_without_memory_no_name_is_left_behind),
        cmocka_unit_test(test_DI12_threads_add_and_forget_a_name_in_one_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
