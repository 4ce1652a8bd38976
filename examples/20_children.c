/*
 * children - a parent that replaces what it has lost.
 *
 * Notice: the parent watches nobody; its hook child_terminated is told of each
 * child that has ended, and why. The main actor ends the system when it ends
 * (ends_system), so `main` only waits for that.
 */
#include <stdio.h>

#include <troupe/troupe.h>

TR_MESSAGE(Print, (const char *, text));

static tr_err on_print(tr_ctx *ctx, void *self, const Print *m)
{
    (void)self;
    if (m->text == NULL) {
        return tr_fail(ctx, TR_EUSER, "out of paper");
    }
    printf("%s prints %s\n", tr_name(ctx), m->text);
    return TR_OK;
}

TR_ACTOR(printer, void, TR_ON(Print, on_print));

typedef struct Office {
    uint32_t printers;
} Office;

static tr_ref buy_printer(tr_ctx *ctx, Office *self)
{
    self->printers++;
    return tr_spawn(ctx, printer,
                    .name = tr_textf(ctx, "printer-%u", self->printers),
                    .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
}

static tr_err office_opens(tr_ctx *ctx, Office *self)
{
    tr_ref ref = buy_printer(ctx, self);
    tr_tell(ctx, ref, Print, .text = "a letter");
    tr_tell(ctx, ref, Print);
    return TR_OK;
}

// [snippet: hook]
static tr_err on_child_ended(tr_ctx *ctx, Office *self, const tr_child_end *end)
{
    printf("%s has ended: %s\n", end->name,
           end->reason == TR_FAILED ? end->text : "as asked");
    if (self->printers == 2) {
        tr_stop(ctx, tr_self(ctx));
        return TR_OK;
    }
    tr_ref next = buy_printer(ctx, self);
    tr_tell(ctx, next, Print, .text = "a bill");
    tr_poison(ctx, next);
    return TR_OK;
}
// [end]

TR_ACTOR(office, Office, TR_HOOK(pre_start, office_opens),
         TR_HOOK(child_terminated, on_child_ended));

int main(void)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .log_level = TR_LOG_ERROR + 1));
    tr_ref ref = tr_spawn(sys, office, .name = "office", .ends_system = true);
    TR_MUST(tr_ref_err(ref));
    TR_MUST(tr_system_run(sys));
    return tr_system_close(sys, 0) != TR_OK;
}
