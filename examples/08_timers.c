/*
 * timers - once, repeatedly, and "no message came".
 *
 * Notice: a timer sends its actor an ordinary message, so there is no second
 * thread and no lock. After tr_cancel no message of that timer is handled, not
 * even one that was queued already. All timers end with their actor.
 */
#include <stdio.h>

#include <troupe/troupe.h>

TR_MESSAGE(Tick);
TR_MESSAGE(Alarm, (const char *, text));
TR_REQUEST(Run, tr_none);

typedef struct Clock {
    const Run *asked;
    tr_timer ticks, never;
    uint32_t count;
} Clock;

// [snippet: arm]
static tr_err on_run(tr_ctx *ctx, Clock *self, const Run *m)
{
    self->asked = tr_keep(ctx, m);
    self->ticks = tr_every(ctx, TR_MS(10), Tick);
    self->never = tr_after(ctx, TR_MINUTES(1), Alarm, .text = "too late");
    return TR_OK;
}

static tr_err on_tick(tr_ctx *ctx, Clock *self, const Tick *m)
{
    (void)m;
    printf("tick %u\n", ++self->count);
    if (self->count == 3) {
        tr_cancel(ctx, self->ticks);
        tr_cancel(ctx, self->never);
        (void)tr_after(ctx, TR_MS(10), Alarm, .text = "wake up");
    }
    return TR_OK;
}

static tr_err on_alarm(tr_ctx *ctx, Clock *self, const Alarm *m)
{
    (void)self;
    puts(m->text);
    tr_receive_timeout(ctx, TR_MS(10));
    return TR_OK;
}

static tr_err on_timeout(tr_ctx *ctx, Clock *self, const tr_timeout *m)
{
    (void)m;
    puts("nothing for 10 ms");
    tr_receive_timeout(ctx, 0);
    (void)tr_reply(ctx, self->asked);
    tr_release(ctx, self->asked);
    return TR_OK;
}
// [end]

TR_ACTOR(clock_actor, Clock, TR_ON(Run, on_run), TR_ON(Tick, on_tick),
         TR_ON(Alarm, on_alarm), TR_ON(tr_timeout, on_timeout));

int main(void)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys));
    tr_ref ref = tr_spawn(sys, clock_actor, .name = "clock");
    TR_MUST(tr_ask(sys, ref, NULL, TR_SECONDS(30), Run));
    return tr_system_close(sys, 0) != TR_OK;
}
