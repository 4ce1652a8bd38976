/*
 * handoff_test.c - the hand-off slot: an actor that is asked runs next on the
 * worker of the asker, and the asker runs next when it is answered.
 *
 * The worker gives up the cell of the asker after the asked actor has run.
 * Mail that reaches the asker in between must not be lost, and other actors
 * must run as well. Each test has one worker on a real thread.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Go);
TR_MESSAGE(Ended, (int64_t, err));
TR_MESSAGE(Answer, (int64_t, value));
TR_REQUEST(Query, Answer, (int64_t, value));

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool in, open;
} gate;

#define GATE {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false}

static void gate_set(gate *g, bool *mark)
{
    pthread_mutex_lock(&g->lock);
    *mark = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void gate_wait(gate *g, const bool *mark)
{
    pthread_mutex_lock(&g->lock);
    while (!*mark) {
        pthread_cond_wait(&g->changed, &g->lock);
    }
    pthread_mutex_unlock(&g->lock);
}

/* ---- a client that asks once, or until `enough` is set ---- */

typedef struct Client {
    tr_ref server, report_to;
    _Atomic(bool) *enough;  // NULL: asks once
} Client;

static tr_err on_go(tr_ctx *ctx, Client *self, const Go *m)
{
    (void)m;
    Answer answer = {.value = -1};
    tr_err err;
    int64_t i = 0;
    do {
        err = tr_ask(ctx, self->server, &answer, TR_FOREVER, Query, .value = i);
        if (answer.value != (err == TR_OK ? i + 1 : 0)) {
            tr_abort(TR_HERE, "an answer to another request");
        }
        i++;
    } while (err == TR_OK && self->enough != NULL &&
             !atomic_load(self->enough));
    tr_tell(ctx, self->report_to, Ended, .err = err);
    return TR_OK;
}

TR_ACTOR(client, Client, TR_ON(Go, on_go));

/* Asks with a context whose deadline is near. */
static tr_err hurried_go(tr_ctx *ctx, Client *self, const Go *m)
{
    (void)m;
    Answer answer = {.value = -1};
    tr_context_set(ctx, &(tr_context){.deadline = tr_now(ctx) + TR_MINUTES(5)});
    tr_err err =
        tr_ask(ctx, self->server, &answer, TR_FOREVER, Query, .value = 1);
    if (err == TR_OK && answer.value != 2) {
        tr_abort(TR_HERE, "an answer to another request");
    }
    tr_tell(ctx, self->report_to, Ended, .err = err);
    return TR_OK;
}

TR_ACTOR(hurried, Client, TR_ON(Go, hurried_go));

/* Sends three requests; the server stashes the first until the last. */
static tr_err patient_go(tr_ctx *ctx, Client *self, const Go *m)
{
    (void)m;
    Answer first = {.value = -1}, second = first, last = first;
    tr_future future =
        tr_async(ctx, self->server, TR_FOREVER, Query, .value = 0);
    tr_err err =
        tr_ask(ctx, self->server, &second, TR_FOREVER, Query, .value = 1);
    if (err == TR_OK) {
        err = tr_ask(ctx, self->server, &last, TR_FOREVER, Query, .value = 2);
    }
    if (err == TR_OK) {
        err = tr_await(ctx, future, Query, &first);
    }
    if (err == TR_OK &&
        (first.value != 10 || second.value != 11 || last.value != 12)) {
        tr_abort(TR_HERE, "an answer to another request");
    }
    tr_tell(ctx, self->report_to, Ended, .err = err);
    return TR_OK;
}

TR_ACTOR(patient, Client, TR_ON(Go, patient_go));

/* ---- servers ---- */

typedef struct Server {
    int64_t served;
} Server;

static tr_err on_query(tr_ctx *ctx, Server *self, const Query *m)
{
    self->served++;
    return tr_reply(ctx, m, .value = m->value + 1);
}

TR_ACTOR(server, Server, TR_ON(Query, on_query));

/* Answers the first request after the last has come, then the last. */
typedef struct Aside {
    int64_t asked;
    const Query *last;
} Aside;

static tr_err aside_asked(tr_ctx *ctx, Aside *self, const Query *m)
{
    self->asked++;
    if (self->asked == 1) {
        return tr_stash(ctx, m);
    }
    if (m->value == 2) {
        self->last = tr_keep(ctx, m);
        tr_unstash_all(ctx);
        return TR_OK;
    }
    TR_TRY(tr_reply(ctx, m, .value = m->value + 10));
    return m->value == 0 ? tr_reply(ctx, self->last, .value = 12) : TR_OK;
}

TR_ACTOR(aside, Aside, TR_ON(Query, aside_asked));

/* Keeps or forwards the request, then waits at the gate. */
typedef struct Keeper {
    gate *g;
    tr_ref next;  // forwards to it unless it is TR_NOBODY
} Keeper;

static tr_err keeper_asked(tr_ctx *ctx, Keeper *self, const Query *m)
{
    if (tr_ref_eq(self->next, TR_NOBODY)) {
        (void)tr_keep(ctx, m);
    } else {
        tr_forward(ctx, self->next, m);
    }
    gate_set(self->g, &self->g->in);
    gate_wait(self->g, &self->g->open);
    return TR_OK;
}

TR_ACTOR(keeper, Keeper, TR_ON(Query, keeper_asked));

typedef struct Opener {
    gate *g;
} Opener;

static tr_err opener_asked(tr_ctx *ctx, Opener *self, const Query *m)
{
    gate_wait(self->g, &self->g->in);
    TR_TRY(tr_reply(ctx, m, .value = m->value + 1));
    gate_set(self->g, &self->g->open);
    return TR_OK;
}

TR_ACTOR(opener, Opener, TR_ON(Query, opener_asked));

typedef struct Ender {
    _Atomic(bool) *enough;
} Ender;

static tr_err ender_go(tr_ctx *ctx, Ender *self, const Go *m)
{
    (void)ctx, (void)m;
    atomic_store(self->enough, true);
    return TR_OK;
}

TR_ACTOR(ender, Ender, TR_ON(Go, ender_go));

/* ---- tests ---- */

static tr_system *sys;
static tr_probe *probe;

static int open_system(void **state)
{
    (void)state;
    TR_MUST(tr_system_open(&sys, .workers = 1, .log_level = 9));
    TR_MUST(tr_probe_new(&probe, sys));
    return 0;
}

static int close_system(void **state)
{
    (void)state;
    tr_probe_free(probe);
    TR_MUST(tr_system_close(sys, TR_SECONDS(60)));
    return 0;
}

static tr_ref spawn_client(tr_ref server_ref, _Atomic(bool) *enough)
{
    return tr_spawn(sys, client,
                    TR_INIT(client, .server = server_ref,
                            .report_to = tr_probe_ref(probe), .enough = enough),
                    .joinable = true);
}

static tr_err ended(void)
{
    const Ended *m = tr_expect(probe, TR_SECONDS(60), Ended);
    return (tr_err)m->err;
}

/* The pairs go on until the last actor has run. */
static void test_pairs_that_ask_in_a_loop_do_not_starve_others(void **state)
{
    enum { PAIRS = 3 };
    (void)state;
    _Atomic(bool) enough = false;
    tr_ref clients[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        clients[i] = spawn_client(tr_spawn(sys, server), &enough);
        TR_MUST(tr_started(sys, clients[i], 0));
    }
    tr_ref last = tr_spawn(sys, ender, TR_INIT(ender, .enough = &enough));
    TR_MUST(tr_started(sys, last, 0));
    for (int i = 0; i < PAIRS; i++) {
        tr_tell(sys, clients[i], Go);
    }
    tr_tell(sys, last, Go);
    for (int i = 0; i < PAIRS; i++) {
        assert_int_equal(ended(), TR_OK);
    }
}

static void test_a_kill_reaches_an_asker_while_the_asked_actor_runs(
    void **state)
{
    (void)state;
    gate g = GATE;
    tr_ref target = tr_spawn(sys, keeper, TR_INIT(keeper, .g = &g));
    tr_ref asker = spawn_client(target, NULL);
    tr_tell(sys, asker, Go);
    gate_wait(&g, &g.in);
    tr_kill(sys, asker);
    gate_set(&g, &g.open);
    assert_int_not_equal(ended(), TR_OK);
    TR_MUST(tr_join(sys, asker, TR_SECONDS(60), NULL, NULL));
}

/* Another thread answers before the handler of the asked actor returns. */
static void test_an_answer_from_another_thread_reaches_the_asker(void **state)
{
    (void)state;
    gate g = GATE;
    tr_ref second =
        tr_spawn(sys, opener, TR_INIT(opener, .g = &g), .dispatcher = "pinned");
    tr_ref first =
        tr_spawn(sys, keeper, TR_INIT(keeper, .g = &g, .next = second));
    tr_ref asker = spawn_client(first, NULL);
    tr_tell(sys, asker, Go);
    assert_int_equal(ended(), TR_OK);
}

static void test_a_request_with_a_context_deadline_is_handed_over(void **state)
{
    (void)state;
    tr_ref asker = tr_spawn(sys, hurried,
                            TR_INIT(hurried, .server = tr_spawn(sys, server),
                                    .report_to = tr_probe_ref(probe)));
    tr_tell(sys, asker, Go);
    assert_int_equal(ended(), TR_OK);
}

/* The asker waits for its last request; an older one is answered first. */
static void test_an_older_request_is_answered_before_the_last(void **state)
{
    (void)state;
    tr_ref asker = tr_spawn(sys, patient,
                            TR_INIT(patient, .server = tr_spawn(sys, aside),
                                    .report_to = tr_probe_ref(probe)));
    tr_tell(sys, asker, Go);
    assert_int_equal(ended(), TR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_pairs_that_ask_in_a_loop_do_not_starve_others, open_system,
            close_system),
        cmocka_unit_test_setup_teardown(
            test_a_kill_reaches_an_asker_while_the_asked_actor_runs,
            open_system, close_system),
        cmocka_unit_test_setup_teardown(
            test_an_answer_from_another_thread_reaches_the_asker, open_system,
            close_system),
        cmocka_unit_test_setup_teardown(
            test_a_request_with_a_context_deadline_is_handed_over, open_system,
            close_system),
        cmocka_unit_test_setup_teardown(
            test_an_older_request_is_answered_before_the_last, open_system,
            close_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
