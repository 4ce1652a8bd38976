/*
 * deadlock - two actors that wait for each other get an error; they do not
 * hang.
 *
 * Notice: the actor whose wait would close the cycle gets the error, at once
 * and not after a time-out. The text names every actor in the cycle, with the
 * line of its wait. An actor that asks itself is the shortest cycle.
 */
#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

TR_REQUEST(Start, tr_none);
TR_REQUEST(Hello, tr_none);

typedef struct Friend {
    tr_ref other;
} Friend;

/* Prints the path of actors, without the lines of their waits. */
static void print_cycle(const char *text)
{
    const char *at = strchr(text, '/');
    for (int depth = 0; at != NULL && *at != '\0'; at++) {
        depth += *at == '(';
        if (depth == 0 && !(*at == ' ' && at[1] == '(')) {
            putchar(*at);
        }
        depth -= *at == ')';
    }
    putchar('\n');
}

// [snippet: cycle]
static tr_err on_start(tr_ctx *ctx, Friend *self, const Start *m)
{
    TR_OR_REFUSE(ctx, m, tr_ask(ctx, self->other, NULL, 0, Hello));
    return tr_reply(ctx, m);
}

static tr_err on_hello(tr_ctx *ctx, Friend *self, const Hello *m)
{
    tr_err err = tr_ask(ctx, self->other, NULL, 0, Hello);  // it waits for us
    if (err == TR_EDEADLOCK) {
        printf("%s: ", tr_errname(err));
        print_cycle(tr_error_text(ctx));
    }
    return tr_reply(ctx, m);  // we have the error, and can go on
}
// [end]

TR_ACTOR(friend_actor, Friend, TR_ON(Start, on_start), TR_ON(Hello, on_hello));

TR_MESSAGE(Meet, (tr_ref, other));

static tr_err on_meet(tr_ctx *ctx, Friend *self, const Meet *m)
{
    self->other = m->other;
    tr_become(ctx, self, friend_actor);
    return TR_OK;
}

TR_ACTOR(stranger, Friend, TR_ON(Meet, on_meet));

int main(void)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys));
    tr_ref ann = tr_spawn(sys, stranger, .name = "ann");
    tr_ref bob = tr_spawn(sys, stranger, .name = "bob");
    tr_tell(sys, ann, Meet, .other = bob);
    tr_tell(sys, bob, Meet, .other = ann);
    TR_MUST(tr_ask(sys, ann, NULL, TR_SECONDS(30), Start));

    tr_ref eve = tr_spawn(sys, stranger, .name = "eve");
    tr_tell(sys, eve, Meet, .other = eve);
    TR_MUST(tr_ask(sys, eve, NULL, TR_SECONDS(30), Hello));
    return tr_system_close(sys, 0) != TR_OK;
}
