/*
 * stage.h - puppets: actors that run functions of a test.
 *
 * A test of the runtime is a few functions that must run inside actors. A
 * puppet has one handler for each kind of turn (writing, reading,
 * interleaving), and the message carries the function. stage_ask waits for the
 * end of the function, stage_tell does not.
 *
 *     static tr_err greet(tr_ctx *ctx, puppet *self, const Act *m, void *arg);
 *     stage_ask(&it, it.one, greet, NULL);
 *
 * A stage is a system with a probe, on virtual time or on real threads. Dead
 * letters are counted by reason.
 *
 * Threads: one thread owns the stage; counters may be read by any.
 */
#ifndef TEST_SUPPORT_STAGE_H
#define TEST_SUPPORT_STAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { STAGE_REASONS = 16, STAGE_NOTES = 256, STAGE_TEXT = 1024 };

TR_MESSAGE(Acted, (int64_t, value), (const char *, text));
TR_REQUEST(Act, Acted, (uint64_t, fn), (uint64_t, arg));
TR_REQUEST(ActRead, Acted, (uint64_t, fn), (uint64_t, arg));
TR_REQUEST(ActBeside, Acted, (uint64_t, fn), (uint64_t, arg));
TR_MESSAGE(Note, (int64_t, value));
TR_MESSAGE(Stranger, (int64_t, value));

typedef struct puppet {
    tr_ref peer, other;
    int64_t value;
    void *kept;
    struct stage *stage;
} puppet;

/* `m` is for tr_keep, tr_reply and forwarding only. */
typedef tr_err (*act_fn)(tr_ctx *ctx, puppet *self, const Act *m, void *arg);

typedef struct stage {
    tr_sim *sim;  // NULL: real threads
    tr_system *sys;
    tr_probe *probe;
    tr_ref one, two, three;
    _Atomic(uint32_t) dead[STAGE_REASONS];
    _Atomic(uint32_t) overloads;
    _Atomic(uint32_t) starts, stops, restarts;
    _Atomic(uint32_t) note_count;
    int64_t
        notes[STAGE_NOTES];  // in the order of handling; on virtual time only
    char last_log[STAGE_TEXT];
} stage;

/*
 * The definition of all puppets: Act, ActRead, ActBeside run their function,
 * a Note appends its value to stage->notes, tr_terminated its reason + 1000.
 */
TR_ACTOR_DECLARE(puppets, puppet);

/* Opens it on virtual time, with the puppets one, two and three. */
void stage_open(stage *it);
void stage_open_seed(stage *it, uint64_t seed, const tr_system_options *more);
/* Opens it on real threads. */
void stage_open_real(stage *it, const tr_system_options *more);
/* Closes it; the system must end in time. */
void stage_close(stage *it);

/* Spawns another puppet; options as of tr_spawn, without init. */
tr_ref stage_puppet(stage *it, const tr_spawn_options *options);
#define stage_spawn(it, ...)                                                   \
    stage_puppet(it, TR_OPTIONS(tr_spawn_options, __VA_ARGS__, ))

/* Runs fn in a puppet and waits; returns the error of the ask. */
tr_err stage_ask(stage *it, tr_ref ref, act_fn fn, void *arg);
tr_err stage_ask_for(stage *it, tr_ref ref, act_fn fn, void *arg,
                     tr_nanos timeout);
void stage_tell(stage *it, tr_ref ref, act_fn fn, void *arg);
/* Runs everything that can run without time passing: virtual time only. */
void stage_run_ready(stage *it);
void stage_pass(stage *it, tr_nanos span);

/* From inside a puppet. */
#define act_ask(ctx, to, function, argument, timeout)                          \
    tr_ask(ctx, to, NULL, timeout, Act, .fn = (uint64_t)(uintptr_t)(function), \
           .arg = (uint64_t)(uintptr_t)(argument))
#define act_tell(from, to, function, argument)                                 \
    tr_tell(from, to, Act, .fn = (uint64_t)(uintptr_t)(function),              \
            .arg = (uint64_t)(uintptr_t)(argument))

/* Functions that many tests use. */
tr_err act_nothing(tr_ctx *ctx, puppet *self, const Act *m, void *arg);
tr_err act_sleep(tr_ctx *ctx, puppet *self, const Act *m, void *arg);
tr_err act_keep(tr_ctx *ctx, puppet *self, const Act *m, void *arg);
tr_err act_fail(tr_ctx *ctx, puppet *self, const Act *m, void *arg);
tr_err act_panic(tr_ctx *ctx, puppet *self, const Act *m, void *arg);
/* Sets peer to *(tr_ref *)arg. */
tr_err act_meet(tr_ctx *ctx, puppet *self, const Act *m, void *arg);
/* Appends a value to the notes. */
void stage_note(stage *it, int64_t value);
void stage_expect_notes(stage *it, const int64_t *values, size_t count);
#define expect_notes(it, ...)                                                  \
    stage_expect_notes(it, (const int64_t[]){__VA_ARGS__},                     \
                       sizeof((const int64_t[]){__VA_ARGS__}) /                \
                           sizeof(int64_t))
uint32_t stage_dead(stage *it, tr_dead_reason reason);
uint32_t stage_depth(stage *it, tr_ref ref);

/* count * TR_TEST_SCALE, at least 1. */
uint64_t stage_scaled(uint64_t count);

#define expect_err(got, wanted)                                                \
    stage_same_err((got), (wanted), __FILE__, __LINE__)
void stage_same_err(tr_err got, tr_err wanted, const char *file, int line);
#define expect_ok(got) expect_err(got, TR_OK)

#endif
