/*
 * plan.h - a random program as data: a system, slots of actors, scripts and
 * outside threads, all drawn from one seed.
 *
 * Every step and every option has a number. A program is named by its seed,
 * its mode and the numbers that are left out, so a failing program can be
 * reduced and repeated (docs/design/0014-random-programs.md).
 */
#ifndef TROUPE_RANDOM_PLAN_H
#define TROUPE_RANDOM_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    SLOTS = 7,     // places for actors; one life after the other
    SCRIPTS = 14,  // what the handler of a message does
    SCRIPT_STEPS = 6,
    THREADS = 3,  // outside threads, the first is the main one
    THREAD_STEPS = 14,
    OPTIONS = 6,     // options of one slot, or of the system
    NUMBERS = 1024,  // above all numbers of a program
};

typedef enum mode { MODE_THREADS, MODE_POLL, MODE_SIM, MODES } mode;

/*
 * Verbs. Columns: name, weight in a handler, in an outside thread, in a hook,
 * and the line of C that it is printed as. In that line $F is the caller, $A
 * the actor of the slot, $S the script, $N the argument, $T a time-out, $P a
 * priority; $U is a policy, $V an overflow, $L a limit of 1 to 8, $W 1 to 4, $M a short
 * span, $D a dispatcher, $X a policy with other options, $Y the system.
 */
#define VERBS(X)                                                               \
    X(SPAWN, 6, 14, 4, "spawn_$O($F);")                                        \
    X(TELL, 10, 14, 6, "tr_tell($F, $A, Work, .script = $S);")                 \
    X(TRY_TELL, 3, 4, 1, "ignore(tr_try_tell($F, $A, Work, .script = $S));")   \
    X(URGENT, 4, 4, 1, "tr_tell_urgent($F, $A, $P, Work, .script = $S);")      \
    X(ASK, 8, 8, 1, "ignore(tr_ask($F, $A, NULL, $T, Ask, .script = $S));")    \
    X(STOP, 2, 3, 1, "tr_stop($F, $A);")                                       \
    X(POISON, 1, 2, 0, "tr_poison($F, $A);")                                   \
    X(KILL, 1, 2, 0, "tr_kill($F, $A);")                                       \
    X(WATCH, 4, 0, 3, "tr_watch(ctx, $A);")                                    \
    X(UNWATCH, 2, 0, 0, "tr_unwatch(ctx, $A);")                                \
    X(SLEEP, 2, 2, 0, "nap($F, $N);")                                          \
    X(REPLY, 14, 0, 0,                                                         \
      "if (m != NULL) ignore(tr_reply(ctx, m, .value = $N));")                 \
    X(REFUSE, 2, 0, 0,                                                         \
      "if (m != NULL) ignore(tr_refuse(ctx, m, TR_EUSER + $N, \"no\"));")      \
    X(FAIL, 2, 0, 1, "return tr_fail(ctx, TR_EUSER + $N, \"failed\");")        \
    X(PANIC, 1, 0, 0, "tr_panic(ctx, \"panicked\");")                          \
    X(STARTED, 0, 2, 0, "ignore(tr_started($F, $A, $T));")                     \
    X(JOIN, 1, 2, 0, "ignore(tr_join($F, $A, $T, NULL, NULL));")               \
    X(READ, 4, 4, 0, "ignore(tr_ask($F, $A, NULL, $T, Read, .script = $S));")  \
    X(BESIDE, 4, 4, 0,                                                         \
      "ignore(tr_ask($F, $A, NULL, $T, Beside, .script = $S));")               \
    X(ASYNC, 4, 0, 0, "await_two(ctx, $O, $S, $T, false);")                    \
    X(ASYNC_ANY, 2, 0, 0, "await_two(ctx, $O, $S, $T, true);")                 \
    X(THEN, 4, 0, 1, "tr_ask_then(ctx, $A, $T, then, Ask, .script = $S);")     \
    X(PIPE, 3, 0, 1, "tr_ask_pipe(ctx, $A, $T, Ask, .script = $S);")           \
    X(KEEP, 3, 0, 0, "if (m != NULL) keep(ctx, m);")                           \
    X(ANSWER, 3, 0, 0, "answer(ctx, $N);")                                     \
    X(FORWARD, 2, 0, 0,                                                        \
      "if (m != NULL) return tr_forward(ctx, $A, m), TR_OK;")                  \
    X(STASH, 2, 0, 0, "if (any != NULL) return tr_stash(ctx, any);")           \
    X(UNSTASH, 3, 0, 0, "tr_unstash_all(ctx);")                                \
    X(BECOME, 2, 0, 0, "(tr_become)(ctx, $N % 2 ? &player : &other);")         \
    X(AFTER, 3, 0, 1, "last = tr_after(ctx, $M, Tick);")                       \
    X(EVERY, 1, 0, 1, "last = tr_every(ctx, $M, Tick);")                       \
    X(CANCEL, 2, 0, 0, "tr_cancel(ctx, last);")                                \
    X(RECEIVE_TIMEOUT, 1, 0, 1, "tr_receive_timeout(ctx, $M);")                \
    X(SUBSCRIBE, 1, 0, 1, "ignore(tr_topic_join(ctx, \"topic\"));")            \
    X(LEAVE, 1, 0, 0, "tr_topic_leave(ctx, \"topic\");")                       \
    X(PUBLISH, 2, 2, 1,                                                        \
      "tr_topic_publish($F, \"topic\", Event, .number = $N);")                 \
    X(BLOCKING, 2, 0, 0, "ignore(tr_blocking(ctx, blocks, (void *)100000));")  \
    X(ALLOC, 2, 0, 1, "memset(tr_alloc(ctx, 1 + $N), 7, 1 + $N);")             \
    X(ON_END, 2, 0, 1, "tr_on_end(ctx, closes, NULL);")                        \
    X(CONTEXT, 2, 0, 0, "set_deadline(ctx, $M);")                              \
    X(OBSERVE, 1, 3, 0, "observe($Y);")                                        \
    X(WATCH_FOR, 1, 2, 0, "tr_watch_for($F, $A, actor[$N % 7]);")              \
    X(UNWATCH_FOR, 1, 1, 0, "tr_unwatch_for($F, $A, actor[$N % 7]);")          \
    X(WATCH_IN_ORDER, 2, 0, 0, "tr_watch_in_order(ctx, $A);")                  \
    X(HOLD, 0, 1, 0, "tr_handle_hold($F, $A);")                                \
    X(DROP, 1, 2, 0, "tr_handle_drop($F, $A);")                                \
    X(TERMINATE, 0, 1, 0, "tr_system_terminate($Y);")                          \
    X(CHILDREN, 1, 0, 0, "(void)tr_children(ctx, NULL, 0);")                   \
    X(PROBE, 0, 2, 0, "probe_tells(sys, $A, $S);")                             \
    X(DEPOSIT, 4, 4, 1, "deposit($F, $N, $T);")                                \
    X(STOP_PURSE, 1, 1, 0, "tr_stop($F, purse_of($F, $N));")

typedef enum verb_id {
#define X(name, handler, outside, hook, text) V_##name,
    VERBS(X)
#undef X
        VERBS_COUNT
} verb_id;

typedef struct step {
    uint16_t number;
    uint8_t verb;
    uint8_t slot;
    uint8_t script;
    uint32_t arg;
} step;

typedef struct script {
    step steps[SCRIPT_STEPS];
    uint32_t count;
} script;

/* Options of a spawn. Columns: name, and how a value of it is printed. */
#define SPAWN_OPTIONS(X)                                                       \
    X(NAME, ".name = \"s$O\"")                                                 \
    X(SUPERVISION, ".supervision = $X")                                        \
    X(TEMPORARY, ".restart = TR_TEMPORARY")                                    \
    X(SOFT_LIMIT, ".soft_limit = $L")                                          \
    X(MAILBOX, ".mailbox_limit = $L, .overflow = $V")                          \
    X(WATCHED, ".watch = true")                                                \
    X(JOINABLE, ".joinable = true")                                            \
    X(DRAIN, ".drain = TR_DRAIN_DROP")                                         \
    X(DISPATCHER, ".dispatcher = $D")                                          \
    X(AUTO_STOP, ".auto_stop = true")                                          \
    X(INTERCEPTED, ".interceptors = interceptors")                             \
    X(INHERIT, ".inherit_supervision = true")                                  \
    X(STOP_TIMEOUT, ".stop_timeout = TR_SECONDS(20)")                          \
    X(HEAP_LIMIT, ".heap_limit = 1 << 20")

typedef enum spawn_option {
#define X(name, text) O_##name,
    SPAWN_OPTIONS(X)
#undef X
        SPAWN_OPTIONS_COUNT
} spawn_option;

/* Options of the system. */
#define SYSTEM_OPTIONS(X)                                                      \
    X(WORKERS, ".workers = $W")                                                \
    X(SYS_SOFT_LIMIT, ".soft_limit = $L")                                      \
    X(MAX_PARKED, ".max_parked = $L")                                          \
    X(ASK_TIMEOUT, ".ask_timeout = TR_MS(1 + $N)")                             \
    X(SYS_SUPERVISION, ".supervision = $U")                                    \
    X(SYS_INTERCEPTED, ".interceptors = interceptors")                         \
    X(USER_SUPERVISION, ".user_supervision = $U")                              \
    X(STACK_SIZE, ".stack_size = 128 << 10")                                   \
    X(BLOCKING_THREADS, ".blocking_threads = $W")                              \
    X(HANDLER_LIMIT, ".handler_limit = TR_FOREVER")                            \
    X(SAVES_FAIL, ".name = \"saves_fail\"")

typedef enum system_option {
#define X(name, text) Y_##name,
    SYSTEM_OPTIONS(X)
#undef X
        SYSTEM_OPTIONS_COUNT
} system_option;

typedef struct option {
    uint16_t number;
    uint8_t what;
    uint32_t arg;
} option;

/* Hooks of a slot. tr_terminated has a handler, which is listed here, too. */
#define HOOKS(X)                                                               \
    X(pre_start)                                                               \
    X(post_start)                                                              \
    X(pre_stop)                                                                \
    X(post_stop)                                                               \
    X(pre_restart)                                                             \
    X(post_restart)                                                            \
    X(on_run)                                                                  \
    X(terminated)                                                              \
    X(then)                                                                    \
    X(tick)

typedef enum hook {
#define X(name) HOOK_##name,
    HOOKS(X)
#undef X
        HOOKS_COUNT
} hook;

typedef struct slot_plan {
    option options[OPTIONS];
    uint32_t option_count;
    script hooks[HOOKS_COUNT];
} slot_plan;

typedef struct outside {
    step steps[THREAD_STEPS];
    uint32_t count;
} outside;

typedef struct plan {
    uint64_t seed;
    mode mode;
    slot_plan slots[SLOTS];
    script scripts[SCRIPTS];
    outside threads[THREADS];
    uint32_t thread_count;
    option options[OPTIONS];  // of the system
    uint32_t option_count;
    uint8_t decisions[8];   // what deciders answer, in turn
    bool settle;            // all mail is handled before the system is closed
    uint16_t numbers;       // one above the highest number
    bool log;               // the system's log is printed
    uint32_t rest_seconds;  // how long to wait until the program is at rest
} plan;

/* The numbers that are left out of a program. */
typedef struct without {
    bool out[NUMBERS];
} without;

/* Fills in the program of a seed. */
void plan_make(plan *p, uint64_t seed, mode m, const without *w);
/* Prints the program as C that can be compiled. */
void plan_print(const plan *p, FILE *to);

const char *mode_name(mode m);

/* The dispatcher that an argument stands for. */
const char *plan_dispatcher(uint32_t arg);
/* The spans that $T stands for, in milliseconds, by the argument of a step. */
uint32_t plan_span_ms(const plan *p, uint32_t arg);

#endif
