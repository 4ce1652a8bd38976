/*
 * blocking library - calls that block a thread, without blocking the others.
 *
 * Notice: the actors that call the library run on threads of their own, the
 * dispatcher "blocking"; a router spreads the calls over them and limits how
 * many wait. For everybody else the library is an actor: it is asked, with a
 * time-out, and its answer is a message, so no memory is shared with a call
 * that nobody waits for any more. A library that must always be called from
 * the same thread gets one worker, with the dispatcher "pinned".
 *
 * The library is a table of functions, so that a test can put another one in
 * its place: a simulated world has one thread, which must not block.
 */
#include <semaphore.h>
#include <stdio.h>

#include <troupe/troupe.h>

enum { WORKERS = 4, SEEDS = 20 };

/* ---- a library that blocks ---- */

typedef struct Library {
    int (*find)(struct Library *self, tr_ctx *ctx, int key);
    sem_t called, go;  // of the real one
} Library;

/* Blocks until the example lets it go on, as a slow disk would. */
static int find_blocking(Library *self, tr_ctx *ctx, int key)
{
    (void)ctx;
    sem_post(&self->called);
    while (sem_wait(&self->go) != 0) {
    }
    return key * 10;
}

// [snippet: worker]
TR_MESSAGE(Found, (int, value));
TR_REQUEST(Find, Found, (int, key));

typedef struct Worker {
    Library *library;
} Worker;

/* May block: no other actor runs on this thread. */
static tr_err worker_find(tr_ctx *ctx, Worker *self, const Find *m)
{
    int value = self->library->find(self->library, ctx, m->key);
    if (value < 0) return tr_refuse(ctx, m, TR_EUSER, "no key %d", m->key);
    return tr_reply(ctx, m, .value = value);
}

TR_ACTOR(worker, Worker, TR_ON(Find, worker_find));

static tr_err start(tr_system *sys, Library *library)
{
    return tr_ref_err(tr_router(
        sys, worker, .name = "library", .count = WORKERS,
        .routing = TR_LEAST_LOADED,
        .limit = 100,  // calls that wait at one worker; more get TR_EFULL
        .worker = TR_OPTIONS(tr_spawn_options, .dispatcher = "blocking",
                             TR_INIT(worker, .library = library))));
}
// [end]

/* ---- real threads: all workers block, and another actor answers ---- */

TR_REQUEST(Ping, tr_none);

static tr_err on_ping(tr_ctx *ctx, void *self, const Ping *m)
{
    (void)self;
    return tr_reply(ctx, m);
}

TR_ACTOR(bystander, void, TR_ON(Ping, on_ping));

/* Asks for several keys at once. */
TR_MESSAGE(Sum, (int, value));
TR_REQUEST(AddUp, Sum);

static tr_err on_add_up(tr_ctx *ctx, void *self, const AddUp *m)
{
    tr_future asked[WORKERS];
    int sum = 0;
    (void)self;
    for (int i = 0; i < WORKERS; i++) {
        asked[i] = tr_async(ctx, tr_lookup(ctx, "/user/library"),
                            TR_SECONDS(30), Find, .key = i + 1);
    }
    for (int i = 0; i < WORKERS; i++) {
        Found found;
        TR_OR_REFUSE(ctx, m, tr_await(ctx, asked[i], Find, &found));
        sum += found.value;
    }
    return tr_reply(ctx, m, .value = sum);
}

TR_ACTOR(adder, void, TR_ON(AddUp, on_add_up));

typedef struct Caller {
    tr_system *sys;
    Sum sum;
} Caller;

static void add_up(void *arg)
{
    Caller *it = arg;
    TR_MUST(tr_ask(it->sys, tr_spawn(it->sys, adder), &it->sum, TR_SECONDS(60),
                   AddUp));
}

static void real(void)
{
    Library library = {.find = find_blocking};
    Caller caller = {0};
    tr_thread *thread;
    TR_MUST(tr_system_open(&caller.sys, .workers = 1));
    sem_init(&library.called, 0, 0);
    sem_init(&library.go, 0, 0);
    TR_MUST(start(caller.sys, &library));
    TR_MUST(tr_thread_start(caller.sys, &thread, add_up, &caller));
    for (int i = 0; i < WORKERS; i++) {
        while (sem_wait(&library.called) != 0) {
        }
    }
    TR_MUST(tr_ask(caller.sys, tr_spawn(caller.sys, bystander), NULL,
                   TR_SECONDS(60), Ping));
    printf("%d calls block, another actor answers\n", WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        sem_post(&library.go);
    }
    tr_thread_join(caller.sys, thread);
    printf("the calls return: %d\n", caller.sum.value);
    TR_MUST(tr_system_close(caller.sys, 0));
}

/* ---- simulated: the library is slow, fails, or takes too long ---- */

// [snippet: simulated]
/* Takes as long as the seed says; fails for the key 13. */
static int find_simulated(Library *self, tr_ctx *ctx, int key)
{
    (void)self;
    tr_nanos takes = TR_MS(tr_random(ctx, 40000));
    return tr_sleep(ctx, takes) != TR_OK || key == 13 ? -1 : key * 10;
}

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    (void)index;
    return start(sys, user);
}

static tr_err workload(tr_sim *sim, void *user)
{
    tr_system *sys = tr_sim_node(sim, 0);
    (void)user;
    for (int key = 1; key <= 20; key++) {
        Found found;
        tr_err err = tr_ask(sys, tr_lookup(sys, "library"), &found,
                            TR_SECONDS(30), Find, .key = key);
        if (err == TR_OK
                ? key == 13 || found.value != key * 10
                : err != TR_ETIMEDOUT && (key != 13 || err != TR_EUSER))
            return tr_sim_fail(sim, "key %d: %s", key, tr_errname(err));
    }
    return TR_OK;
}
// [end]

int main(void)
{
    Library library = {.find = find_simulated};
    uint64_t seed = 0;
    real();
    while (seed < SEEDS &&
           tr_sim_run(TR_OPTIONS(tr_sim_options, .seed = seed, .node = node,
                                 .workload = workload, .user = &library,
                                 .strays = TR_STRAYS_FAIL)) == TR_OK) {
        seed++;
    }
    printf("%d seeds: an answer, a refusal or a time-out\n", (int)seed);
    return seed < SEEDS;
}
