/*
 * io_plans.h - puppets that wait for a descriptor or for a blocking call.
 */
#ifndef TEST_UNIT_CORE_IO_PLANS_H
#define TEST_UNIT_CORE_IO_PLANS_H

#include <stdatomic.h>

#include "support/stage.h"

#include <errno.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

/* One wait for a descriptor, and what came of it. */
typedef struct fd_plan {
    int fd;
    uint32_t events;
    tr_nanos timeout;
    tr_err err;
    uint32_t ready;
    char text[16];
} fd_plan;

static inline tr_err act_wait(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    fd_plan *it = arg;
    (void)self;
    it->err = tr_wait_fd(ctx, it->fd, it->events, it->timeout, &it->ready);
    return tr_reply(ctx, m, .value = 1);
}

static inline tr_err act_read_text(tr_ctx *ctx, puppet *self, const Act *m,
                                   void *arg)
{
    fd_plan *it = arg;
    (void)self;
    TR_TRY(tr_wait_fd(ctx, it->fd, TR_FD_READ, TR_FOREVER, &it->ready));
    ssize_t got = read(it->fd, it->text, sizeof(it->text) - 1);
    it->text[got > 0 ? got : 0] = '\0';
    return tr_reply(ctx, m, .value = 1);
}

/* One blocking call: it posts `begun`, then blocks until `go` is posted. */
typedef struct job_plan {
    sem_t begun, go;
    tr_err result, err;
    _Atomic(int) ran;
} job_plan;

static inline void job_plan_init(job_plan *it, tr_err result)
{
    memset(it, 0, sizeof(*it));
    assert_int_equal(sem_init(&it->begun, 0, 0), 0);
    assert_int_equal(sem_init(&it->go, 0, 0), 0);
    it->result = result;
}

static inline void take(sem_t *sem)
{
    while (sem_wait(sem) != 0 && errno == EINTR) {
    }
}

static inline tr_err block(void *arg)
{
    job_plan *it = arg;
    sem_post(&it->begun);
    take(&it->go);
    atomic_fetch_add(&it->ran, 1);
    return it->result;
}

static inline tr_err act_block(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    job_plan *it = arg;
    (void)self;
    it->err = tr_blocking(ctx, block, it);
    return tr_reply(ctx, m, .value = 1);
}

#endif
