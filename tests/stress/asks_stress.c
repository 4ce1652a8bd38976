/*
 * asks_stress.c - many requests at once, answered in every way.
 *
 * Actors ask each other in an order that cannot close a cycle, so every
 * TR_EDEADLOCK is a false alarm. Others ask in rings, where each cycle must be
 * found before a time-out. Outside threads ask at the same time. Each request
 * must end exactly once.
 */
#include "support/stage.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/rand.h"

enum { LAYERS = 6, WIDTH = 4, THREADS = 2 };

TR_MESSAGE(Answer, (int64_t, value), (const char *, text));
TR_REQUEST(Query, Answer, (const char *, text));
TR_REQUEST(Peek, Answer, (uint32_t, layer));
TR_MESSAGE(Go, (uint64_t, left));

typedef struct scene {
    tr_system *sys;
    tr_ref peers[LAYERS][WIDTH];
    _Atomic(uint64_t) asked, answered, alarms, cycles, wrong, done;
} scene;

typedef struct peer {
    scene *scene;
    uint32_t layer;
    tri_rand rand;
    const Query *kept;
} peer;

static tr_ref below(peer *self)
{
    return self->scene
        ->peers[self->layer + 1][tri_rand_below(&self->rand, WIDTH)];
}

static void count(peer *self, tr_err err)
{
    scene *it = self->scene;
    atomic_fetch_add(&it->answered, 1);
    if (err == TR_EDEADLOCK) {
        atomic_fetch_add(&it->alarms, 1);
    } else if (err != TR_OK && err != TR_EUSER && err != TR_ENOREPLY &&
               err != TR_ESTOPPED) {
        atomic_fetch_add(&it->wrong, 1);
    }
}

static tr_err two_at_once(tr_ctx *ctx, peer *self)
{
    tr_future futures[2];
    Answer out;
    size_t first;
    for (int i = 0; i < 2; i++) {
        futures[i] = tr_async(ctx, below(self), 0, Query, .text = "two");
    }
    atomic_fetch_add(&self->scene->asked, 2);
    tr_err err = tr_await_any(ctx, futures, 2, &first);
    if (err == TR_EDEADLOCK) {
        atomic_fetch_add(&self->scene->alarms, 1);
    }
    for (int i = 0; i < 2; i++) {
        count(self, tr_await(ctx, futures[i], Query, &out));
    }
    return TR_OK;
}

static tr_err on_query(tr_ctx *ctx, peer *self, const Query *m)
{
    uint64_t how = tri_rand_below(&self->rand, 16);
    Answer out;
    if (self->layer + 1 < LAYERS && how < 8) {
        if (how == 0) {
            TR_TRY(two_at_once(ctx, self));
        } else {
            atomic_fetch_add(&self->scene->asked, 1);
            count(self,
                  tr_ask(ctx, below(self), &out, 0, Query, .text = m->text));
        }
    }
    switch (how) {
    case 9:
        return TR_OK;  // TR_ENOREPLY
    case 10:
        return tr_refuse(ctx, m, TR_EUSER, "refused");
    case 11:
        return tr_fail(ctx, TR_EUSER, "failed");
    case 12:
        if (self->kept == NULL) {
            self->kept = tr_keep(ctx, m);
            return TR_OK;
        }
        break;
    case 13:
        if (self->layer + 1 < LAYERS) {
            tr_forward(ctx, below(self), m);
            return TR_OK;
        }
        break;
    default:
        break;
    }
    if (self->kept != NULL) {
        const Query *kept = self->kept;
        self->kept = NULL;
        TR_TRY(tr_reply(ctx, kept, .value = 2, .text = kept->text));
        tr_release(ctx, kept);
    }
    return tr_reply(ctx, m, .value = 1, .text = m->text);
}

static tr_err on_peek(tr_ctx *ctx, const peer *self, const Peek *m)
{
    (void)self;
    return tr_reply(ctx, m, .value = m->layer);
}

/* Answers the request that was kept, so that it does not wait for ever. */
static tr_err on_go(tr_ctx *ctx, peer *self, const Go *m)
{
    if (self->kept != NULL) {
        const Query *kept = self->kept;
        self->kept = NULL;
        TR_TRY(tr_reply(ctx, kept, .value = 3));
        tr_release(ctx, kept);
    }
    (void)m;
    return TR_OK;
}

static tr_err peer_start(tr_ctx *ctx, peer *self)
{
    (void)self;
    (void)tr_every(ctx, TR_MS(1), Go);
    return TR_OK;
}

TR_ACTOR(peers, peer, TR_ON(Query, on_query), TR_ON_INTERLEAVE(Peek, on_peek),
         TR_ON(Go, on_go), TR_HOOK(pre_start, peer_start));

static tr_err on_client_go(tr_ctx *ctx, peer *self, const Go *m)
{
    scene *it = self->scene;
    Answer out;
    atomic_fetch_add(&it->asked, 1);
    count(self, tr_ask(ctx, it->peers[0][tri_rand_below(&self->rand, WIDTH)],
                       &out, 0, Query, .text = "a text"));
    if (m->left > 0) {
        tr_tell(ctx, tr_self(ctx), Go, .left = m->left - 1);
    } else {
        atomic_fetch_add(&it->done, 1);
        tr_stop(ctx, tr_self(ctx));
    }
    return TR_OK;
}

TR_ACTOR(clients, peer, TR_ON(Go, on_client_go));

static void *ask_outside(void *arg)
{
    scene *it = arg;
    uint64_t left = stage_scaled(30000);
    peer self = {.scene = it};
    tri_rand_init(&self.rand, (uint64_t)(uintptr_t)&self);
    for (; left > 0; left--) {
        Answer out;
        atomic_fetch_add(&it->asked, 1);
        tr_err err = tr_ask(it->sys, it->peers[left % LAYERS][left % WIDTH],
                            &out, 0, Query, .text = "outside");
        count(&self, err);
        tr_drop(Answer, &out);
        if (tr_ask(it->sys, it->peers[left % LAYERS][left % WIDTH], &out, 0,
                   Peek, .layer = 7) != TR_OK ||
            out.value != 7) {
            atomic_fetch_add(&it->wrong, 1);
        }
    }
    return NULL;
}

static void no_log(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

static void test_every_request_ends_and_no_alarm_is_false(void **state)
{
    scene it = {0};
    pthread_t threads[THREADS];
    tr_ref clients_of[WIDTH];
    (void)state;
    expect_ok(tr_system_open(
        &it.sys, .log = no_log, .workers = 2, .ask_timeout = TR_MINUTES(10),
        .supervision = TR_SUPERVISE(.on_failure = TR_RESUME)));
    for (uint64_t layer = 0; layer < LAYERS; layer++) {
        for (uint64_t i = 0; i < WIDTH; i++) {
            peer first = {.scene = &it, .layer = (uint32_t)layer};
            tri_rand_init(&first.rand, layer * 100 + i);
            it.peers[layer][i] = tr_spawn(it.sys, peers, .init = &first,
                                          .init_size = sizeof(first));
        }
    }
    for (uint64_t i = 0; i < WIDTH; i++) {
        peer first = {.scene = &it};
        tri_rand_init(&first.rand, 1000 + i);
        clients_of[i] = tr_spawn(it.sys, clients, .init = &first,
                                 .init_size = sizeof(first), .joinable = true);
        tr_tell(it.sys, clients_of[i], Go, .left = stage_scaled(60000));
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask_outside, &it),
                         0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < WIDTH; i++) {
        expect_ok(tr_join(it.sys, clients_of[i], TR_MINUTES(10), NULL, NULL));
    }
    expect_ok(tr_system_close(it.sys, TR_MINUTES(10)));
    print_message("%llu asked, %llu alarms\n", (unsigned long long)it.asked,
                  (unsigned long long)it.alarms);
    assert_int_equal(it.answered, it.asked);
    assert_int_equal(it.alarms, 0);
    assert_int_equal(it.wrong, 0);
    assert_int_equal(it.done, WIDTH);
}

/* ---- rings: every cycle is found ---- */

typedef struct ring_node {
    scene *scene;
    tr_ref next;
    tri_rand rand;
} ring_node;

TR_MESSAGE(Next, (tr_ref, ref));
TR_REQUEST(Around, Answer, (uint32_t, left));

static tr_err on_next(tr_ctx *ctx, ring_node *self, const Next *m)
{
    (void)ctx;
    self->next = m->ref;
    return TR_OK;
}

static tr_err on_around(tr_ctx *ctx, ring_node *self, const Around *m)
{
    Answer out;
    tr_err err = m->left == 0 ? TR_OK
                              : tr_ask(ctx, self->next, &out, TR_SECONDS(600),
                                       Around, .left = m->left - 1);
    if (err == TR_EDEADLOCK) {
        atomic_fetch_add(&self->scene->cycles, 1);
    } else if (err != TR_OK) {
        atomic_fetch_add(&self->scene->wrong, 1);
    }
    return tr_reply(ctx, m, .value = 1);
}

TR_ACTOR(ring_nodes, ring_node, TR_ON(Next, on_next), TR_ON(Around, on_around));

static void *ask_around(void *arg)
{
    scene *it = arg;
    for (uint64_t i = stage_scaled(15000); i > 0; i--) {
        Answer out;
        // Often more hops than there are actors, so it closes a cycle.
        if (tr_ask(it->sys, it->peers[0][i % WIDTH], &out, TR_SECONDS(600),
                   Around, .left = (uint32_t)(i % 7)) != TR_OK) {
            atomic_fetch_add(&it->wrong, 1);
        }
        tr_drop(Answer, &out);
    }
    return NULL;
}

static void test_every_cycle_is_found(void **state)
{
    scene it = {0};
    pthread_t threads[THREADS];
    (void)state;
    expect_ok(tr_system_open(&it.sys, .log = no_log, .workers = 2));
    for (int i = 0; i < WIDTH; i++) {
        it.peers[0][i] =
            tr_spawn(it.sys, ring_nodes, TR_INIT(ring_nodes, .scene = &it));
    }
    for (int i = 0; i < WIDTH; i++) {
        tr_tell(it.sys, it.peers[0][i], Next,
                .ref = it.peers[0][(i + 1) % WIDTH]);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask_around, &it), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    expect_ok(tr_system_close(it.sys, TR_MINUTES(10)));
    print_message("%llu cycles\n", (unsigned long long)it.cycles);
    assert_int_equal(it.wrong, 0);
    assert_true(it.cycles > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_request_ends_and_no_alarm_is_false),
        cmocka_unit_test(test_every_cycle_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
