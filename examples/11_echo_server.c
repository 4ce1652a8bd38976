/*
 * echo server - an actor per connection, in straight-line code.
 * Notice: reads and writes park the actor and hold no thread. However a
 * connection ends, its stream is closed and the others do not notice.
 */
#include <stdio.h>
#include <troupe/troupe.h>

// [snippet: server]
typedef struct Echo {
    tr_stream *stream;  // set by tr_serve
} Echo;

static tr_err echo(tr_ctx *ctx, Echo *self)
{
    char line[1024];
    size_t got;
    for (;;) {
        TR_TRY(tr_read_until(ctx, self->stream, '\n', line, sizeof(line),
                             TR_MINUTES(5), &got));
        if (got == 0) return TR_OK;  // the client has ended
        TR_TRY(tr_write(ctx, self->stream, 0, {"you said: ", 10}, {line, got}));
    }
}
TR_ACTOR(connection, Echo, TR_HOOK(on_run, echo));

static tr_err start(tr_system *sys, char *at)
{
    return tr_ref_err(tr_serve(sys, "tcp://127.0.0.1:0", connection,
                               .name = "server", .bound = at));
}
// [end]
int main(void)
{
    char at[TR_ADDRESS_SIZE], line[64];
    size_t got;
    tr_system *sys;
    tr_stream *client;
    TR_MUST(tr_system_open(&sys));
    TR_MUST(start(sys, at));  // port 0: a free one, which is in `at` now
    // Outside of an actor the same calls block the thread.
    TR_MUST(tr_connect(sys, &client, at, TR_SECONDS(30)));
    TR_MUST(tr_write(sys, client, 0, {"hello\n", 6}));
    TR_MUST(tr_read_until(sys, client, '\n', line, sizeof(line), TR_SECONDS(30),
                          &got));
    printf("%.*s", (int)got, line);
    tr_stream_close(sys, client);
    return tr_system_close(sys, 0) != TR_OK;
}
