/*
 * shutdown - the order in which everything ends.
 *
 * Notice: tr_system_run waits for SIGTERM, SIGINT or tr_system_terminate; here
 * an actor calls the last. Children end before their parents, the youngest
 * first; each has a time limit. The report says whether an actor had to be
 * forced.
 */
#include <stdio.h>

#include <troupe/troupe.h>

TR_MESSAGE(Finish);

// [snippet: hooks]
static tr_err before_stop(tr_ctx *ctx, void *self)
{
    (void)self;
    printf("%s: pre_stop\n", tr_name(ctx));
    return TR_OK;
}

static tr_err after_stop(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)self, (void)reason;
    printf("%s: post_stop\n", tr_name(ctx));
    return TR_OK;
}
// [end]

TR_ACTOR(child, void, TR_HOOK(pre_stop, before_stop),
         TR_HOOK(post_stop, after_stop));

static tr_err parent_start(tr_ctx *ctx, void *self)
{
    (void)self;
    tr_ref first = tr_spawn(ctx, child, .name = "first");
    tr_ref second = tr_spawn(ctx, child, .name = "second");
    // A spawn returns at once; an actor that never started has no stop hooks.
    TR_TRY(tr_started(ctx, first, TR_SECONDS(30)));
    return tr_started(ctx, second, TR_SECONDS(30));
}

static tr_err on_finish(tr_ctx *ctx, void *self, const Finish *m)
{
    (void)self, (void)m;
    puts("terminate");
    tr_system_terminate(tr_system_of(ctx));
    return TR_OK;
}

TR_ACTOR(parent, void, TR_HOOK(pre_start, parent_start),
         TR_ON(Finish, on_finish), TR_HOOK(pre_stop, before_stop),
         TR_HOOK(post_stop, after_stop));

int main(void)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys));
    tr_ref ref = tr_spawn(sys, parent, .name = "parent");
    tr_tell(sys, ref, Finish);
    // [snippet: run]
    TR_MUST(tr_system_run(sys));
    tr_close_report report = {.size = sizeof(report)};
    tr_err err = tr_system_close_report(sys, TR_SECONDS(60), &report);
    printf("closed: %s, %u forced\n", tr_errname(err), report.forced);
    // [end]
    return err != TR_OK;
}
