/* hello - one actor, one request. */
#include <stdio.h>

#include <troupe/troupe.h>

TR_MESSAGE(Greeting, (const char *, text));
TR_REQUEST(Greet, Greeting, (const char *, name));

static tr_err on_greet(tr_ctx *ctx, void *self, const Greet *m)
{
    (void)self;
    return tr_reply(ctx, m, .text = tr_textf(ctx, "Hello, %s!", m->name));
}

TR_ACTOR(greeter, void, TR_ON(Greet, on_greet));

int main(void)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys));
    tr_ref ref = tr_spawn(sys, greeter);
    Greeting hello;
    TR_MUST(tr_ask(sys, ref, &hello, TR_SECONDS(30), Greet, .name = "world"));
    puts(hello.text);
    tr_drop(Greeting, &hello);
    return tr_system_close(sys, 0) != TR_OK;
}
