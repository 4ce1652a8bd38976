/*
 * ask - requests and the four ways in which they end.
 *
 * Notice: TR_REQUEST names the type of the answer, so the compiler checks both
 * `&total` and the fields of tr_reply. An actor that refuses a request has not
 * failed: the mistake was the asker's. A request that its handler does not
 * answer gets an error at once, not a time-out.
 */
#include <inttypes.h>
#include <stdio.h>

#include <troupe/troupe.h>

// [snippet: protocol]
TR_MESSAGE(Total, (int64_t, sum));
TR_REQUEST(Add, Total, (int64_t, n));
TR_REQUEST(Forget, Total);
// [end]

// [snippet: handler]
typedef struct Counter {
    int64_t sum;
} Counter;

static tr_err on_add(tr_ctx *ctx, Counter *self, const Add *m)
{
    if (m->n <= 0) {
        return tr_refuse(ctx, m, TR_EINVAL, "cannot add %" PRId64, m->n);
    }
    self->sum += m->n;
    return tr_reply(ctx, m, .sum = self->sum);
}
// [end]

static tr_err on_forget(tr_ctx *ctx, Counter *self, const Forget *m)
{
    (void)ctx, (void)m;
    self->sum = 0;
    return TR_OK;  // without a reply
}

TR_ACTOR(counter, Counter, TR_ON(Add, on_add), TR_ON(Forget, on_forget));

int main(void)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys));
    tr_ref ref = tr_spawn(sys, counter, .name = "counter", .joinable = true,
                          TR_INIT(counter, .sum = 40));

    // [snippet: calls]
    Total total;
    TR_MUST(tr_ask(sys, ref, &total, TR_SECONDS(30), Add, .n = 2));
    printf("answered: %" PRId64 "\n", total.sum);

    tr_err err = tr_ask(sys, ref, &total, TR_SECONDS(30), Add, .n = -1);
    printf("refused: %s\n", tr_errname(err));  // tr_error_text(sys) says more

    err = tr_ask(sys, ref, NULL, TR_SECONDS(30), Forget);
    printf("forgotten: %s, %s\n", tr_errname(err), tr_strerror(err));

    tr_stop(sys, ref);
    TR_MUST(tr_join(sys, ref, TR_SECONDS(30), NULL, NULL));
    err = tr_ask(sys, ref, &total, TR_SECONDS(30), Add, .n = 1);
    printf("gone: certainly not run: %s\n", tr_undelivered(err) ? "yes" : "no");
    // [end]
    return tr_system_close(sys, 0) != TR_OK;
}
