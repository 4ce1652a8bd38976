/* guestbook.c - an actor that counts guests and remembers the last one. */
#include "guestbook.h"

/* Without a guest for this long, a new page begins. */
static const tr_nanos quiet = TR_MINUTES(60);

static tr_err start(tr_ctx *ctx, Guestbook *self)
{
    (void)self;
    tr_receive_timeout(ctx, quiet);
    return TR_OK;
}

static tr_err on_sign(tr_ctx *ctx, Guestbook *self, const Sign *m)
{
    if (m->name == NULL || m->name[0] == '\0') {
        // The asker's mistake: it is refused, and the actor does not fail.
        return tr_refuse(ctx, m, TR_EINVAL, "a guest needs a name");
    }
    const char *text =
        self->last != NULL
            ? tr_textf(ctx, "Welcome, %s! Before you came %s.", m->name,
                       self->last)
            : tr_textf(ctx, "Welcome, %s! You are the first.", m->name);
    tr_free(ctx, self->last);
    self->last = tr_dup(ctx, m->name);  // m ends with this handler
    self->guests++;
    return tr_reply(ctx, m, .text = text, .guests = self->guests);
}

static tr_err on_quiet(tr_ctx *ctx, Guestbook *self, const tr_timeout *m)
{
    (void)m;
    tr_info(ctx, "a new page, after %u guests", self->guests);
    tr_free(ctx, self->last);
    *self = (Guestbook){0};
    return TR_OK;
}

TR_ACTOR_PUBLIC(guestbook, Guestbook, TR_HOOK(pre_start, start),
                TR_ON(Sign, on_sign), TR_ON(tr_timeout, on_quiet));
