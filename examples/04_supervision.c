/*
 * supervision - an actor fails, and its policy decides what happens.
 *
 * Notice: no caller and no handler restarts anything; the policy given at spawn
 * does. A restart begins again with TR_INIT, under the same ref and with the
 * same mailbox. TR_RESUME keeps the state. After too many restarts in too short
 * a time the actor ends. The asker gets the error at once in every case.
 */
#include <stdio.h>

#include <troupe/troupe.h>

TR_MESSAGE(Answer, (int64_t, value), (uint32_t, handled),
           (uint32_t, incarnation));
TR_REQUEST(Divide, Answer, (int64_t, by));

// [snippet: worker]
typedef struct Divider {
    int64_t number;
    uint32_t handled;
} Divider;

static tr_err on_divide(tr_ctx *ctx, Divider *self, const Divide *m)
{
    self->handled++;
    if (m->by == 0) {
        return tr_fail(ctx, TR_EUSER, "divided %ld by zero",
                       (long)self->number);
    }
    return tr_reply(ctx, m, .value = self->number / m->by,
                    .handled = self->handled,
                    .incarnation = tr_incarnation(ctx));
}

static tr_err divider_before_restart(tr_ctx *ctx, Divider *self,
                                     const tr_failure *cause)
{
    (void)ctx;
    printf("  restart after %u messages: %s\n", self->handled, cause->text);
    return TR_OK;
}

TR_ACTOR(divider, Divider, TR_ON(Divide, on_divide),
         TR_HOOK(pre_restart, divider_before_restart));
// [end]

static void divide(tr_system *sys, tr_ref ref, int64_t by)
{
    Answer a;
    if (by == 0) {
        puts("  12 / 0");
    }
    tr_err err = tr_ask(sys, ref, &a, TR_SECONDS(30), Divide, .by = by);
    if (by == 0) {
        TR_MUST(err == TR_EUSER ? TR_OK : err);  // the asker gets it at once
    } else {
        TR_MUST(err);
        printf("  12 / %ld = %ld, message %u of incarnation %u\n", (long)by,
               (long)a.value, a.handled, a.incarnation);
    }
}

int main(void)
{
    tr_system *sys;
    // Failures are also logged, to standard error.
    TR_MUST(tr_system_open(&sys, .log_level = TR_LOG_ERROR + 1));

    puts("restart:");
    // [snippet: restart]
    tr_ref ref = tr_spawn(sys, divider, .name = "restarted", .joinable = true,
                          TR_INIT(divider, .number = 12),
                          .supervision = TR_SUPERVISE(.max_restarts = 2,
                                                      .within = TR_MINUTES(1),
                                                      .on_limit = TR_STOP));
    // [end]
    divide(sys, ref, 3);
    divide(sys, ref, 0);
    divide(sys, ref, 4);

    puts("twice more is too often:");
    divide(sys, ref, 0);
    divide(sys, ref, 6);
    divide(sys, ref, 0);
    tr_result result;
    TR_MUST(tr_join(sys, ref, TR_SECONDS(30), &result, NULL));
    printf("  ended, %s\n",
           result.reason == TR_FAILED ? "because it failed" : "as asked");

    puts("resume:");
    // [snippet: resume]
    ref = tr_spawn(sys, divider, .name = "resumed",
                   TR_INIT(divider, .number = 12),
                   .supervision = TR_SUPERVISE(.on_failure = TR_RESUME));
    // [end]
    divide(sys, ref, 3);
    divide(sys, ref, 0);
    divide(sys, ref, 4);

    puts("escalate:");
    // [snippet: escalate]
    ref = tr_spawn(sys, divider, .name = "essential",
                   TR_INIT(divider, .number = 12),
                   .supervision = TR_SUPERVISE(.on_failure = TR_ESCALATE));
    divide(sys, ref, 0);
    tr_err err = tr_system_run(sys);  // returns: the system has failed
    printf("  %s: %s\n", tr_errname(err), tr_error_text(sys));
    // [end]
    return tr_system_close(sys, 0) != err;
}
