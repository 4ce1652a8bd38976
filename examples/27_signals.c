/*
 * signals - an actor reads its configuration again after SIGHUP.
 *
 * Notice: the actor waits for signals in on_run and tells itself a message, so
 * the reload is a turn like all others. With the end of the actor SIGHUP does
 * again what it did before. In a simulation tr_sim_signal sends the signal.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <troupe/troupe.h>

TR_MESSAGE(Reload);
TR_MESSAGE(Version, (int32_t, number));
TR_REQUEST(NextVersion, Version);

typedef struct Config {
    tr_signals *signals;
    int32_t version;
    const NextVersion *asked;  // waits for a reload
} Config;

// [snippet: signals]
static tr_err config_start(tr_ctx *ctx, Config *self)
{
    return tr_signals_open(ctx, &self->signals, SIGHUP);
}

static tr_err config_run(tr_ctx *ctx, Config *self)
{
    int number;
    for (;;) {
        TR_TRY(tr_signals_wait(ctx, self->signals, 0, &number));
        tr_tell(ctx, tr_self(ctx), Reload);
    }
}
// [end]

static tr_err config_answer(tr_ctx *ctx, Config *self)
{
    if (self->asked == NULL || self->version == 0) return TR_OK;
    tr_err err = tr_reply(ctx, self->asked, .number = self->version);
    tr_release(ctx, self->asked);
    self->asked = NULL;
    return err;
}

static tr_err config_reload(tr_ctx *ctx, Config *self, const Reload *m)
{
    (void)m;
    self->version++;
    return config_answer(ctx, self);
}

static tr_err config_next(tr_ctx *ctx, Config *self, const NextVersion *m)
{
    self->asked = tr_keep(ctx, m);
    return config_answer(ctx, self);
}

TR_ACTOR(config, Config, TR_HOOK(pre_start, config_start),
         TR_HOOK(on_run, config_run), TR_ON(Reload, config_reload),
         TR_ON(NextVersion, config_next));

int main(void)
{
    tr_system *sys;
    Version version;
    TR_MUST(tr_system_open(&sys));
    tr_ref ref = tr_spawn(sys, config);
    TR_MUST(tr_started(sys, ref, TR_SECONDS(30)));
    (void)kill(getpid(), SIGHUP);  // as `kill -HUP` does
    TR_MUST(tr_ask(sys, ref, &version, TR_SECONDS(30), NextVersion));
    printf("version %" PRId32 " of the configuration\n", version.number);
    return tr_system_close(sys, 0) != TR_OK;
}
