/*
 * virtual actors - chat rooms that exist when someone speaks.
 *
 * No room is ever spawned: its name is enough. The first line activates it, ten
 * quiet minutes later it is deactivated, and its history is in the store. The
 * example runs on virtual time.
 */
#include <stdio.h>

#include <troupe/troupe.h>

TR_MESSAGE(Noted, (int64_t, lines), (const char *, last));
TR_REQUEST(Say, Noted, (const char *, text));
TR_REQUEST(Read, Noted);
TR_MESSAGE(Sum, (int64_t, value));
TR_REQUEST(Add, Sum, (int64_t, a), (int64_t, b));

// [snippet: state]
TR_STATE(Room, (int64_t, lines), (const char *, last));
// [end]

static tr_err room_start(tr_ctx *ctx, Room *self)
{
    (void)ctx;
    printf("    (%s opens with %lld lines)\n", tr_key(ctx),
           (long long)self->lines);
    return TR_OK;
}

static tr_err room_stop(tr_ctx *ctx, Room *self, tr_reason reason)
{
    (void)self;
    printf("    (%s closes: %s)\n", tr_key(ctx),
           reason == TR_IDLE ? "nobody speaks" : "told to");
    return TR_OK;
}

// [snippet: room]
static tr_err on_say(tr_ctx *ctx, Room *self, const Say *m)
{
    Room next = {.lines = self->lines + 1, .last = m->text};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m, .lines = self->lines, .last = self->last);
}

/* Reading does not keep a room open. */
static tr_err on_read(tr_ctx *ctx, Room *self, const Read *m)
{
    return tr_reply(ctx, m, .lines = self->lines, .last = self->last);
}

TR_ACTOR(room, Room, TR_HOOK(pre_start, room_start),
         TR_HOOK(post_stop, room_stop), TR_ON(Say, on_say),
         TR_ON_QUIET(Read, on_read));
// [end]

/* An actor without state: several activations share one name. */
static tr_err on_add(tr_ctx *ctx, void *self, const Add *m)
{
    (void)self;
    return tr_reply(ctx, m, .value = m->a + m->b);
}

TR_ACTOR(adder, void, TR_ON(Add, on_add));

// [snippet: say]
static void say(tr_system *sys, const char *name, const char *text)
{
    Noted noted;
    TR_MUST(tr_ask(sys, tr_virtual(sys, "room", name), &noted, 0, Say,
                   .text = text));
    printf("%s, line %lld: %s\n", name, (long long)noted.lines, noted.last);
    tr_drop(Noted, &noted);
}
// [end]

static void show(tr_system *sys)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(sys, &m);
    printf("%llu names, %llu active, %llu activations\n",
           (unsigned long long)m.virtual_names,
           (unsigned long long)m.virtual_active,
           (unsigned long long)m.activations);
}

int main(void)
{
    tr_sim *sim;
    tr_system *sys;
    tr_storage *store;
    Noted noted;
    Sum sum;
    char name[64];

    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_storage_memory(&store));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim), .ns = "chat"));
    // [snippet: host]
    TR_MUST(tr_host(sys, room, .storage = store, .idle = TR_MINUTES(10)));
    TR_MUST(tr_host(sys, adder, .workers = 4));
    // [end]

    tr_ref garden = tr_virtual(sys, "room", "garden");  // activates nothing
    printf("%s\n", tr_ref_path(sys, garden, name, sizeof(name)));
    show(sys);
    say(sys, "garden", "is anybody here?");
    say(sys, "garden", "it seems not");
    tr_sim_advance(sim, TR_MINUTES(6));
    say(sys, "kitchen", "coffee is ready");
    show(sys);

    tr_sim_advance(sim, TR_MINUTES(60));
    show(sys);
    TR_MUST(tr_ask(sys, garden, &noted, 0, Read));  // the same ref as before
    printf("garden, last of %lld: %s\n", (long long)noted.lines, noted.last);
    tr_drop(Noted, &noted);

    tr_ref any = tr_virtual(sys, "adder", "any");
    for (int i = 1; i <= 3; i++) {
        TR_MUST(tr_ask(sys, any, &sum, 0, Add, .a = i, .b = i));
        printf("%d + %d = %lld\n", i, i, (long long)sum.value);
    }
    show(sys);
    tr_err err = tr_system_close(sys, 0);
    tr_storage_close(store);
    tr_sim_free(sim);
    return err != TR_OK;
}
