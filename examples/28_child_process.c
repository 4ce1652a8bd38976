/*
 * child process - an actor sorts lines with another program.
 *
 * Notice: reading, writing and waiting for the process park the actor. However
 * the handler ends, the process is killed with the actor and leaves no zombie.
 */
#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

TR_MESSAGE(Lines, (const char *, text));
TR_REQUEST(Sort, Lines, (const char *, text));

// [snippet: sort]
static tr_err on_sort(tr_ctx *ctx, void *self, const Sort *m)
{
    static const char *const argv[] = {"sort", NULL};
    tr_process *process;
    tr_stream *in, *out;
    tr_process_status status;
    char text[256];
    size_t size = strlen(m->text), got;
    (void)self;
    TR_ASSERT(ctx, size <= sizeof(text));
    TR_TRY(tr_process_start(ctx, &process, argv, .in = &in, .out = &out));
    TR_TRY(tr_write(ctx, in, 0, {m->text, size}));
    tr_stream_close(ctx, in);  // the end of its input
    // It sorts as many bytes as it has got.
    TR_TRY(tr_read_exactly(ctx, out, text, size, 0, &got));
    tr_stream_close(ctx, out);
    TR_TRY(tr_process_wait(ctx, process, TR_SECONDS(30), &status));
    tr_process_close(ctx, process);
    TR_ASSERT(ctx, status.code == 0 && status.signal == 0);
    return tr_reply(ctx, m, .text = tr_textf(ctx, "%.*s", (int)got, text));
}
// [end]
TR_ACTOR(sorter, void, TR_ON(Sort, on_sort));

int main(void)
{
    tr_system *sys;
    Lines sorted;
    TR_MUST(tr_system_open(&sys));
    tr_ref ref = tr_spawn(sys, sorter);
    TR_MUST(tr_ask(sys, ref, &sorted, TR_SECONDS(30), Sort,
                   .text = "pear\napple\nfig\n"));
    printf("%s", sorted.text);
    tr_drop(Lines, &sorted);
    return tr_system_close(sys, 0) != TR_OK;
}
