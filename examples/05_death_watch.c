/*
 * death watch - to be told, exactly once, that an actor has ended.
 *
 * Notice: tr_terminated is an ordinary message with the reason of the end; a
 * restart is not an end. Watching an actor that has ended already gives the
 * message at once, so an end cannot be missed.
 */
#include <stdio.h>

#include <troupe/troupe.h>

TR_MESSAGE(Work, (bool, possible));
TR_REQUEST(Watch, tr_none);

static tr_err on_work(tr_ctx *ctx, void *self, const Work *m)
{
    (void)self;
    return m->possible ? TR_OK : tr_fail(ctx, TR_EUSER, "cannot do that");
}

TR_ACTOR(patient, void, TR_ON(Work, on_work));

typedef struct Nurse {
    const Watch *asked;
    tr_ref patients[4];
    uint32_t ended;
} Nurse;

static const char *const names[] = {"stopped", "poisoned", "killed", "failed"};
static const char *const reasons[] = {
    [TR_STOPPED] = "TR_STOPPED",
    [TR_KILLED] = "TR_KILLED",
    [TR_FAILED] = "TR_FAILED",
    [TR_NO_SUCH_ACTOR] = "TR_NO_SUCH_ACTOR",
};

// [snippet: watch]
static tr_err on_watch(tr_ctx *ctx, Nurse *self, const Watch *m)
{
    for (int i = 0; i < 4; i++) {
        self->patients[i] =
            tr_spawn(ctx, patient, .name = names[i], .watch = true,
                     .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
    }
    self->asked = tr_keep(ctx, m);  // answered when all have ended
    tr_stop(ctx, self->patients[0]);
    return TR_OK;
}
// [end]

/* Ends the next patient, each in its own way. */
static void end_next(tr_ctx *ctx, Nurse *self)
{
    switch (self->ended) {
    case 1:
        tr_tell(ctx, self->patients[1], Work, .possible = true);
        tr_poison(ctx, self->patients[1]);
        break;
    case 2:
        tr_kill(ctx, self->patients[2]);
        break;
    case 3:
        tr_tell(ctx, self->patients[3], Work, .possible = false);
        break;
    case 4:
        tr_watch(ctx, self->patients[0]);  // it has ended long ago
        break;
    default:
        (void)tr_reply(ctx, self->asked);
        tr_release(ctx, self->asked);
        break;
    }
}

// [snippet: terminated]
static tr_err on_terminated(tr_ctx *ctx, Nurse *self, const tr_terminated *m)
{
    for (int i = 0; i < 4; i++) {
        if (tr_ref_eq(m->actor, self->patients[i])) {
            printf("%s: %s\n", names[i], reasons[m->reason]);
        }
    }
    self->ended++;
    end_next(ctx, self);
    return TR_OK;
}
// [end]

TR_ACTOR(nurse, Nurse, TR_ON(Watch, on_watch),
         TR_ON(tr_terminated, on_terminated));

int main(void)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .log_level = TR_LOG_ERROR + 1));
    tr_ref ref = tr_spawn(sys, nurse, .name = "nurse");
    TR_MUST(tr_ask(sys, ref, NULL, TR_SECONDS(30), Watch));
    return tr_system_close(sys, 0) != TR_OK;
}
