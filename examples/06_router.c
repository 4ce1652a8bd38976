/*
 * router - one address, several workers behind it.
 *
 * Notice: senders know one ref and no worker. The workers are children of the
 * router, /user/pool/0 and so on, and are supervised like any other actor: a
 * worker that fails is restarted, and no sender notices. A worker answers the
 * asker directly. With TR_HASH_OF_FIELD all messages with one key go to the
 * same worker, which may then keep data about its keys. A tr_resize changes the
 * number of workers while they work.
 */
#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

TR_MESSAGE(Resized, (const char *, worker), (uint32_t, known));
TR_REQUEST(Resize, Resized, (const char *, picture));

// [snippet: worker]
typedef struct Worker {
    uint32_t known;  // pictures it has seen
} Worker;

static tr_err on_resize(tr_ctx *ctx, Worker *self, const Resize *m)
{
    if (strcmp(m->picture, "broken.png") == 0) {
        return tr_fail(ctx, TR_EUSER, "%s is no picture", m->picture);
    }
    self->known++;
    return tr_reply(ctx, m, .worker = tr_name(ctx), .known = self->known);
}

TR_ACTOR(worker, Worker, TR_ON(Resize, on_resize));
// [end]

static void resize(tr_system *sys, tr_ref pool, const char *picture)
{
    Resized done;
    tr_err err =
        tr_ask(sys, pool, &done, TR_SECONDS(30), Resize, .picture = picture);
    if (err != TR_OK) {
        printf("  %s: %s\n", picture,
               err == TR_EUSER ? "no picture" : tr_strerror(err));
        return;
    }
    printf("  %s: worker %s, its picture %u\n", picture, done.worker,
           done.known);
    tr_drop(Resized, &done);
}

static void in_turn(tr_system *sys)
{
    // [snippet: router]
    tr_ref pool = tr_router(sys, worker, .name = "pool", .count = 3,
                            .routing = TR_ROUND_ROBIN);
    // [end]
    puts("in turn:");
    resize(sys, pool, "cat.png");
    resize(sys, pool, "broken.png");  // the worker fails and is restarted
    resize(sys, pool, "dog.png");
    resize(sys, pool, "cat.png");
    resize(sys, pool, "owl.png");

    puts("with one worker only:");
    // [snippet: resize]
    tr_tell(sys, pool, tr_resize, .count = 1);
    // [end]
    resize(sys, pool, "cat.png");
    resize(sys, pool, "dog.png");
}

/* A key always goes to the same worker; which one it is does not matter. */
static void by_key(tr_system *sys)
{
    static const char *const pictures[] = {"cat.png", "dog.png", "owl.png"};
    // [snippet: hash]
    tr_ref pool = tr_router(sys, worker, .name = "by_key", .count = 8,
                            .routing = TR_HASH_OF_FIELD, .field = "picture");
    // [end]
    puts("by key:");
    for (int i = 0; i < 3; i++) {
        char first[16] = "";
        int same = 0;
        for (int turn = 0; turn < 10; turn++) {
            Resized done;
            TR_MUST(tr_ask(sys, pool, &done, TR_SECONDS(30), Resize,
                           .picture = pictures[i]));
            if (turn == 0) {
                snprintf(first, sizeof(first), "%s", done.worker);
            }
            same += strcmp(first, done.worker) == 0;
            tr_drop(Resized, &done);
        }
        printf("  %s: %d of 10 times the same worker\n", pictures[i], same);
    }
}

int main(void)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .log_level = TR_LOG_ERROR + 1));
    in_turn(sys);
    by_key(sys);
    return tr_system_close(sys, 0) != TR_OK;
}
