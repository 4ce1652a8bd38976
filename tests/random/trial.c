/*
 * trial.c - one run of a random program: opens the system, runs the outside
 * threads, waits until the program is at rest, closes the system.
 */
#include "trial.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "actor.h"
#include "purse.h"

void option_supervision(tr_supervision *out, uint32_t arg)
{
    static const tr_directive directives[] = {TR_RESTART, TR_RESTART, TR_STOP,
                                              TR_RESUME, TR_ESCALATE};

    out->on_failure = directives[arg % 5];
    out->scope = (tr_scope)(arg / 5 % 3);
    out->max_restarts = 1 + arg / 15 % 4;
    out->backoff_min = TR_MS(1);
    out->backoff_max = TR_MS(5);
    out->on_limit = directives[arg / 60 % 5 == 0 ? 4 : 2];
}

static void set_system_option(tr_system_options *o, tr_supervision *policy,
                              const option *it)
{
    switch ((system_option)it->what) {
    case Y_WORKERS:
        o->workers = 1 + it->arg % 4;
        break;
    case Y_SYS_SOFT_LIMIT:
        o->soft_limit = 1 + it->arg % 8;
        break;
    case Y_MAX_PARKED:
        o->max_parked = 1 + it->arg % 8;
        break;
    case Y_ASK_TIMEOUT:
        o->ask_timeout = TR_MS(1 + it->arg % 100);
        break;
    case Y_SYS_SUPERVISION:
        option_supervision(policy, it->arg);
        o->supervision = policy;
        break;
    case Y_SYS_INTERCEPTED:
        o->interceptors = player_interceptors;
        break;
    case Y_USER_SUPERVISION:
        option_supervision(policy + 1, it->arg);
        o->user_supervision = policy + 1;
        break;
    case Y_STACK_SIZE:
        o->stack_size = 128 << 10;
        break;
    case Y_BLOCKING_THREADS:
        o->blocking_threads = 1 + it->arg % 4;
        break;
    case Y_HANDLER_LIMIT:
        o->handler_limit = TR_FOREVER;
        break;
    default:
        break;
    }
}

static void quiet(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

static void open_system(trial *t)
{
    const plan *p = t->plan;
    tr_supervision policy[2] = {{.size = sizeof(policy[0])},
                                {.size = sizeof(policy[0])}};
    tr_system_options o = {.size = sizeof(o),
                           .log = p->log ? NULL : quiet,
                           .poll = p->mode == MODE_POLL,
                           .close_timeout = TR_SECONDS(p->rest_seconds)};

    if (t->sim != NULL) {
        o.world = tr_sim_world(t->sim);
        o.close_timeout = TR_MINUTES(5);
    }
    for (uint32_t i = 0; i < p->option_count; i++) {
        set_system_option(&o, policy, &p->options[i]);
    }
    TR_MUST((tr_system_open)(&t->sys, &o));
    bool fails = false;
    for (uint32_t i = 0; i < p->option_count; i++) {
        fails |= p->options[i].what == Y_SAVES_FAIL;
    }
    purses_open(t, fails);
    TR_MUST(tr_dispatcher_add(t->sys, "mine", .threads = 2));
    TR_MUST(tr_on_event(t->sys, tr_dead_letter, dead_add, t));
}

/* ---- outside threads ---- */

typedef struct walker {
    trial *trial;
    uint32_t index;
    tr_thread *thread;
    atomic_bool done;
} walker;

static void walk(void *arg)
{
    walker *w = arg;
    const outside *o = &w->trial->plan->threads[w->index];
    turn t = {.trial = w->trial,
              .from.sys = w->trial->sys,
              .source = LIVES + w->index};

    (void)perform(&t, o->steps, o->count);
    atomic_store(&w->done, true);
}

static void pause_for(trial *t, tr_nanos span)
{
    if (t->sim != NULL) {
        tr_sim_advance(t->sim, span);
    } else if (t->plan->mode == MODE_POLL) {
        TR_MUST(tr_poll(t->sys, span));
    } else {  // between two looks: no event says that a program is at rest
        nanosleep(&(struct timespec){.tv_nsec = span}, NULL);
    }
}

static void run_threads(trial *t)
{
    walker walkers[THREADS] = {0};

    for (uint32_t i = 0; i < t->plan->thread_count; i++) {
        walkers[i].trial = t;
        walkers[i].index = i;
        if (i > 0) {
            TR_MUST(
                tr_thread_start(t->sys, &walkers[i].thread, walk, &walkers[i]));
        }
    }
    walk(&walkers[0]);
    for (uint32_t i = 1; i < t->plan->thread_count; i++) {
        // A polled system runs only while somebody polls it.
        while (t->plan->mode == MODE_POLL && !atomic_load(&walkers[i].done)) {
            TR_MUST(tr_poll(t->sys, TR_MS(1)));
        }
        tr_thread_join(t->sys, walkers[i].thread);
    }
}

/* ---- the whole ---- */

/* False if an escalation has reached /user: then the system ends by itself. */
static bool is_up(trial *t)
{
    return tr_state_of(t->sys, tr_lookup(t->sys, "/user")) == TR_STATE_RUNNING;
}

/* A program that has called a handler since then does not come to rest. */
#define STILL_WORKS TR_SECONDS(12)  // longer than any wait of a step

/*
 * Waits until the program is at rest. Some never are: a restart may send itself
 * the message that makes it fail again. What their mailboxes hold is checked
 * after the close.
 */
static void settle(trial *t)
{
    tr_nanos limit = tr_now(t->sys) + TR_SECONDS(t->plan->rest_seconds);
    tr_nanos worked = tr_now(t->sys);
    uint64_t called = atomic_load(&t->called);

    if (t->sim != NULL) {
        limit += TR_MINUTES(2);  // virtual
    }

    while (!model_settled(t)) {
        if (!is_up(t)) {
            return;
        }
        if (atomic_load(&t->called) != called) {
            called = atomic_load(&t->called);
            worked = tr_now(t->sys);
        }
        if (tr_now(t->sys) > limit) {
            if (tr_now(t->sys) - worked < STILL_WORKS) {
                return;
            }
            model_unsettled(t);
        }
        pause_for(t, t->sim != NULL ? TR_MS(50) : TR_MS(1) / 4);
    }
    model_at_rest(t);
    purses_at_rest(t);
}

static uint32_t entries_of(const char *path)
{
    DIR *dir = opendir(path);
    uint32_t count = 0;

    while (dir != NULL && readdir(dir) != NULL) {
        count++;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return count;
}

/* Counts the threads of the library, "tr-...": sanitizers have others. */
static uint32_t threads_of(bool print)
{
    DIR *dir = opendir("/proc/self/task");
    uint32_t count = 0;

    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        char path[300], name[32] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
        FILE *file = fopen(path, "r");
        if (file != NULL && fgets(name, sizeof(name), file) != NULL &&
            strncmp(name, "tr-", 3) == 0) {
            count++;
            if (print) {
                fprintf(stderr, "thread %s", name);
            }
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return count;
}

/* A thread that was joined is listed for some moments more. */
static void check_left(uint32_t files)
{
    for (int i = 0;
         threads_of(false) > 0 || entries_of("/proc/self/fd") > files; i++) {
        if (i == 2000) {
            broken("rule 40 (systems)",
                   "%u threads are left; descriptors: %u, then %u",
                   threads_of(true), files, entries_of("/proc/self/fd"));
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void run_in(trial *t)
{
    uint32_t files = t->sim == NULL ? entries_of("/proc/self/fd") : 0;

    open_system(t);
    run_threads(t);
    if (t->plan->settle) {
        settle(t);
    }
    tr_close_report report = {.size = sizeof(report)};
    tr_err err = tr_system_close_report(t->sys, 0, &report);
    model_at_end(t, err, &report);
    purses_close(t);
    if (t->sim == NULL) {
        check_left(files);
    }
}

static tr_err workload(tr_sim *sim, void *user)
{
    trial *t = user;

    t->sim = sim;
    run_in(t);
    return TR_OK;
}

void trial_run(const plan *p)
{
    trial *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        abort();
    }
    t->plan = p;
    if (p->mode != MODE_SIM) {
        run_in(t);
    } else if (tr_sim_run(TR_OPTIONS(
                   tr_sim_options, .seed = p->seed, .workload = workload,
                   .user = t, .strays = TR_STRAYS_ALLOW,
                   .faults = TR_OPTIONS(tr_faults, .early_wake = 0.01))) !=
               TR_OK) {
        broken("the simulation", "its own checks failed");
    }
    free(t);
}
