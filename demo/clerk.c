/*
 * clerk.c - passes on acknowledged transfers, and news of its member.
 *
 * Acknowledgements are written in batches: when a batch is full, and ten times
 * a second together with the figures. If the member is killed, the
 * acknowledgements that are still here are lost: only a teller had them, so
 * they do not count as promises. Changes of members are written at once.
 */
#include <string.h>

#include "bank.h"

#define FIGURES_EVERY TR_MS(100)

TR_MESSAGE(TellFigures);

static tr_err hand_on(tr_ctx *ctx, Clerk *self)
{
    size_t count = self->count;
    self->count = 0;
    return count == 0 ? TR_OK
                      : self->bank->tell(ctx, self->bank, self->waiting, count);
}

static tr_err note(tr_ctx *ctx, Clerk *self, Record record)
{
    self->waiting[self->count++] = record;
    return self->count == BANK_BATCH ? hand_on(ctx, self) : TR_OK;
}

static tr_err on_done(tr_ctx *ctx, Clerk *self, const Done *m)
{
    switch (m->err) {
    case TR_OK:
        return note(ctx, self,
                    (Record){.kind = RECORD_ACK,
                             .ack = {m->id, m->to, m->cents, m->took}});
    case TR_EINVAL:
        self->figures.figures.refused++;
        return TR_OK;
    default:  // the account or its node failed, before or after it had saved
        if (tr_undelivered((tr_err)m->err)) {
            self->figures.figures.refused++;
        } else {
            self->figures.figures.unknown++;
        }
        return TR_OK;
    }
}

static tr_err on_resumed(tr_ctx *ctx, Clerk *self, const Resumed *m)
{
    (void)ctx;
    self->figures.figures.resumed += m->count;
    return TR_OK;
}

static tr_err on_round(tr_ctx *ctx, Clerk *self, const Round *m)
{
    return note(ctx, self,
                (Record){.kind = RECORD_ROUND, .round = {m->begun, m->ended}});
}

static tr_err on_change(tr_ctx *ctx, Clerk *self, const tr_member_event *m)
{
    Record record = {.kind = RECORD_CHANGE,
                     .change = {.what = (tr_member_change)m->what,
                                .slot = m->slot,
                                .at = m->at}};
    strncpy(record.change.address, m->address, BANK_ADDRESS_MAX - 1);
    TR_TRY(note(ctx, self, record));
    return hand_on(ctx, self);
}

static tr_err on_seen(tr_ctx *ctx, Clerk *self, const Seen *m)
{
    return note(ctx, self, (Record){.kind = RECORD_VIEW, .view = m->view});
}

static tr_err note_figures(tr_ctx *ctx, Clerk *self)
{
    tr_metrics_snapshot now = {.size = sizeof(now)};
    tr_metrics(tr_system_of(ctx), &now);
    self->figures.kind = RECORD_FIGURES;
    self->figures.figures.failures = now.failures;
    self->figures.figures.restarts = now.restarts;
    self->figures.figures.activations = now.activations;
    self->figures.figures.active = now.virtual_active;
    return note(ctx, self, self->figures);
}

static tr_err on_tell_figures(tr_ctx *ctx, Clerk *self, const TellFigures *m)
{
    (void)m;
    TR_TRY(note_figures(ctx, self));
    return hand_on(ctx, self);
}

static tr_err on_announce(tr_ctx *ctx, Clerk *self, const Announce *m)
{
    TR_TRY(note_figures(ctx, self));
    TR_TRY(note(ctx, self,
                (Record){.kind = (RecordKind)m->kind, .closed = {m->missing}}));
    TR_TRY(hand_on(ctx, self));
    return tr_reply(ctx, m);
}

static tr_err clerk_start(tr_ctx *ctx, Clerk *self)
{
    (void)self;
    tr_subscribe(ctx, tr_member_event);
    (void)tr_every(ctx, FIGURES_EVERY, TellFigures);
    return TR_OK;
}

TR_ACTOR_PUBLIC(clerk, Clerk, TR_HOOK(pre_start, clerk_start),
                TR_ON(Done, on_done), TR_ON(Resumed, on_resumed),
                TR_ON(Round, on_round), TR_ON(tr_member_event, on_change),
                TR_ON(Seen, on_seen), TR_ON(TellFigures, on_tell_figures),
                TR_ON(Announce, on_announce));
