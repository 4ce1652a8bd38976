/*
 * waiting.h - puppets that wait: functions for tests whose handlers sleep, ask
 * or note what they see (support/stage.h).
 */
#ifndef TEST_UNIT_CORE_WAITING_H
#define TEST_UNIT_CORE_WAITING_H

#include "support/stage.h"

/* A sleep between two notes. */
typedef struct nap {
    tr_nanos span;
    int64_t before, after;
    tr_err err;  // what tr_sleep returned
} nap;

static inline tr_err act_nap(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    nap *it = arg;
    (void)m;
    stage_note(self->stage, it->before);
    it->err = tr_sleep(ctx, it->span);
    stage_note(self->stage, it->after);
    return it->err;
}

/* Notes the number that arg is. */
static inline tr_err act_note(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)ctx;
    (void)m;
    stage_note(self->stage, (int64_t)(intptr_t)arg);
    return TR_OK;
}

/* Sleeps twice for 100 s, asks its peer, and stores the three errors in arg. */
static inline tr_err act_two_naps(tr_ctx *ctx, puppet *self, const Act *m,
                                  void *arg)
{
    tr_err *out = arg;
    (void)self;
    (void)m;
    out[0] = tr_sleep(ctx, TR_SECONDS(100));
    out[1] = tr_sleep(ctx, TR_SECONDS(100));
    out[2] = act_ask(ctx, self->peer, act_nothing, NULL, 0);
    return TR_OK;
}

/* Asks its peer for something that takes 50 s. */
static inline tr_err act_ask_nap(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    tr_err *out = arg;
    (void)m;
    *out = act_ask(ctx, self->peer, act_sleep, (uintptr_t)TR_SECONDS(50), 0);
    return TR_OK;
}

/* Sleeps, then notes what the sleep returned and whether the actor stops. */
static inline tr_err act_sleep_and_look(tr_ctx *ctx, puppet *self, const Act *m,
                                        void *arg)
{
    (void)m;
    stage_note(self->stage, tr_sleep(ctx, (tr_nanos)(uintptr_t)arg));
    stage_note(self->stage, tr_stopping(ctx));
    return TR_OK;
}

/* Tells the puppet to run fn in its reading handler. */
static inline void tell_read(stage *it, tr_ref ref, act_fn fn, void *arg)
{
    tr_tell(it->probe, ref, ActRead, .fn = (uint64_t)(uintptr_t)fn,
            .arg = (uint64_t)(uintptr_t)arg);
}

/* Tells the puppet to run fn in its interleaving handler. */
static inline void tell_beside(stage *it, tr_ref ref, act_fn fn, void *arg)
{
    tr_tell(it->probe, ref, ActBeside, .fn = (uint64_t)(uintptr_t)fn,
            .arg = (uint64_t)(uintptr_t)arg);
}

/* The handler of ref waits for the next second; its mail queues up. */
static inline void keep_busy(stage *it, tr_ref ref)
{
    stage_tell(it, ref, act_sleep, (void *)TR_SECONDS(1));
    stage_run_ready(it);
}

#endif
