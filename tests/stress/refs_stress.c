/*
 * refs_stress.c - stale refs against cells that are reused at full speed.
 *
 * Spawners start and stop actors. Hammerers, which are outside threads and
 * actors, send to every ref they have ever seen: tell, try_tell, urgent, ask,
 * stop, watch, poison. No message may reach an actor that it was not sent to,
 * and every message is either handled or a dead letter.
 */
#include "support/stage.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"

enum {
    SLOTS = 512,
    THREADS = 2,
    SPAWNERS = 2,
    // In flight at once. The listener of dead letters misses events if it
    // is tens of thousands behind; here every one must be counted.
    UNDER_WAY_MAX = 8192,
};

#define STANDSTILL TR_MINUTES(10)  // without progress: messages are lost

TR_MESSAGE(Aimed, (tr_ref, to));
TR_MESSAGE(Round);

typedef struct scene {
    tr_system *sys;
    _Atomic(uint64_t)
        cells[SLOTS];  // refs; torn reads are one more kind of stale ref
    _Atomic(uint64_t) ids[SLOTS];
    _Atomic(uint64_t) sent, handled, dead, astray, spawned;
    uint64_t messages;  // number to send
} scene;

static bool enough(scene *it)
{
    return atomic_load(&it->sent) >= it->messages;
}

/* Returns true if so many messages are in flight that senders should wait. */
static bool is_ahead(scene *it)
{
    uint64_t ended = atomic_load(&it->handled) + atomic_load(&it->dead);
    return atomic_load(&it->sent) > ended + UNDER_WAY_MAX;
}

typedef struct target {
    scene *scene;
} target;

static tr_err on_aimed(tr_ctx *ctx, target *self, const Aimed *m)
{
    if (!tr_ref_eq(m->to, tr_self(ctx))) {
        atomic_fetch_add(&self->scene->astray, 1);
    }
    atomic_fetch_add(&self->scene->handled, 1);
    return TR_OK;
}

static tr_err on_target_act(tr_ctx *ctx, target *self, const Act *m)
{
    (void)self;
    return tr_reply(ctx, m, .value = (int64_t)tr_self(ctx).id);
}

TR_ACTOR(targets, target, TR_ON(Aimed, on_aimed), TR_ON(Act, on_target_act));

typedef struct spawner {
    scene *scene;
    uint64_t index;
    tri_rand rand;
} spawner;

/* Replaces the actors one by one and watches some of them. */
static tr_err on_round(tr_ctx *ctx, spawner *self, const Round *m)
{
    scene *it = self->scene;
    (void)m;
    for (int i = 0; i < 32; i++) {
        uint64_t slot =
            tri_rand_below(&self->rand, SLOTS / SPAWNERS) * SPAWNERS +
            self->index;
        tr_ref old = {atomic_load(&it->cells[slot]),
                      atomic_load(&it->ids[slot])};
        if (old.cell != 0) {
            if (i % 3 == 0) {
                tr_watch(ctx, old);
            }
            if (i % 2 == 0) {
                tr_stop(ctx, old);
            } else {
                tr_kill(ctx, old);
            }
        }
        tr_ref ref = tr_spawn(ctx, targets, TR_INIT(targets, .scene = it),
                              .mailbox_limit = i % 5 == 0 ? 8 : 0,
                              .soft_limit = i % 7 == 0 ? 4 : 0);
        atomic_fetch_add(&it->spawned, 1);
        atomic_store(&it->cells[slot], ref.cell);
        atomic_store(&it->ids[slot], ref.id);
    }
    if (!enough(it)) {
        tr_tell(ctx, tr_self(ctx), Round);
    }
    return TR_OK;
}

static tr_err on_ended(tr_ctx *ctx, spawner *self, const tr_terminated *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    return TR_OK;
}

TR_ACTOR(spawners, spawner, TR_ON(Round, on_round),
         TR_ON(tr_terminated, on_ended));

static tr_ref some_ref(scene *it, tri_rand *rand)
{
    uint64_t slot = tri_rand_below(rand, SLOTS);
    return (tr_ref){atomic_load(&it->cells[slot]), atomic_load(&it->ids[slot])};
}

static void hammer_once(tr_from from, scene *it, tr_ref ref, uint64_t how)
{
    // A torn ref belongs to no actor, so `to` must match none.
    Aimed aimed = {.to = ref};
    switch (how) {
    case 0:
        if ((tr_try_tell)(from, ref, &Aimed_tr_type, &aimed) == TR_OK) {
            atomic_fetch_add(&it->sent, 1);
        }
        break;
    case 1:
        atomic_fetch_add(&it->sent, 1);
        (tr_tell_urgent)(from, ref, 3, &Aimed_tr_type, &aimed);
        break;
    default:
        atomic_fetch_add(&it->sent, 1);
        (tr_tell)(from, ref, &Aimed_tr_type, &aimed);
        break;
    }
}

/* Waits until fewer messages are in flight; aborts after STANDSTILL. */
static void await_room(scene *it)
{
    tr_nanos begin = tr_now(it->sys);
    while (is_ahead(it)) {
        if (tr_now(it->sys) - begin > STANDSTILL) {
            tr_abort(TR_HERE, "messages are neither handled nor dead");
        }
        sched_yield();
    }
}

static void *hammer(void *arg)
{
    scene *it = arg;
    tri_rand rand;
    tri_rand_init(&rand, (uint64_t)(uintptr_t)&rand);
    while (!enough(it)) {
        await_room(it);
        tr_ref ref = some_ref(it, &rand);
        uint64_t how = tri_rand_below(&rand, 16);
        if (how < 13) {
            hammer_once((tr_from){.sys = it->sys}, it, ref, how);
        } else if (how == 13) {
            Acted done;
            tr_err err = tr_ask(it->sys, ref, &done, TR_MS(50), Act);
            if (err == TR_OK && (uint64_t)done.value != ref.id) {
                atomic_fetch_add(&it->astray, 1);
            }
            tr_drop(Acted, &done);
        } else if (how == 14) {
            (void)tr_state_of(it->sys, ref);
        } else {
            char path[TR_PATH_SIZE];
            (void)tr_ref_path(it->sys, ref, path, sizeof(path));
        }
    }
    return NULL;
}

typedef struct inner {
    scene *scene;
    tri_rand rand;
} inner;

static tr_err on_inner(tr_ctx *ctx, inner *self, const Round *m)
{
    (void)m;
    for (int i = 0; i < 64 && !is_ahead(self->scene); i++) {
        hammer_once((tr_from){.ctx = ctx}, self->scene,
                    some_ref(self->scene, &self->rand), (uint64_t)i % 8);
    }
    if (!enough(self->scene)) {
        tr_tell(ctx, tr_self(ctx), Round);
    }
    return TR_OK;
}

TR_ACTOR(inners, inner, TR_ON(Round, on_inner));

static void count_dead(void *user, const tr_type *type, const void *event)
{
    scene *it = user;
    const tr_dead_letter *letter = event;
    (void)type;
    if (strcmp(letter->type, "Aimed") == 0) {
        atomic_fetch_add(&it->dead, 1);
    }
}

static void no_log(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

static void test_no_message_reaches_another_actor(void **state)
{
    scene *it = test_calloc(1, sizeof(*it));
    pthread_t threads[THREADS];
    (void)state;
    it->messages = stage_scaled(4000000);
    expect_ok(tr_system_open(&it->sys, .log = no_log, .workers = 2));
    expect_ok(tr_on_event(it->sys, tr_dead_letter, count_dead, it));
    for (uint64_t i = 0; i < SPAWNERS; i++) {
        spawner first = {.scene = it, .index = i};
        tri_rand_init(&first.rand, i + 1);
        tr_ref ref = tr_spawn(it->sys, spawners, .init = &first,
                              .init_size = sizeof(first));
        tr_tell(it->sys, ref, Round);
    }
    inner within = {.scene = it};
    tri_rand_init(&within.rand, 99);
    tr_ref ref =
        tr_spawn(it->sys, inners, .init = &within, .init_size = sizeof(within));
    tr_tell(it->sys, ref, Round);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, it), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    expect_ok(tr_system_close(it->sys, TR_MINUTES(10)));
    print_message("%llu actors, %llu sent, %llu handled, %llu dead\n",
                  (unsigned long long)it->spawned, (unsigned long long)it->sent,
                  (unsigned long long)it->handled,
                  (unsigned long long)it->dead);
    assert_int_equal(it->astray, 0);
    assert_int_equal(it->handled + it->dead, it->sent);
    test_free(it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_message_reaches_another_actor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
