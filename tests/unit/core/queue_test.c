/*
 * queue_test.c - what runs a mailbox and who can see it: MB3, MB7, MB9, MB15,
 * MB17 to MB19, X25, X27; and where its turns run: DP6, DP7, DP10, DP11.
 */
#include "support/stage.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>

#include "core/mailbox.h"
#include "core/runtime.h"

/* ---- looking at it ---- */

static tr_actor_info info_of(tr_from from, tr_ref ref)
{
    tr_actor_info info = {.size = sizeof(info)};
    expect_ok((tr_actor_info_of)(from, ref, &info));
    return info;
}

static tr_err act_look_at_self(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    tr_actor_info *out = arg;
    (void)self;
    *out = info_of((tr_from){.ctx = ctx}, tr_self(ctx));
    return tr_reply(ctx, m, .value = 1);
}

/* MB17: waiting, being handled, handled; MB3: being run or not. */
static void test_mb03_mb17_a_message_is_followed(void **state)
{
    stage it;
    tr_actor_info inside = {0};
    (void)state;
    stage_open(&it);
    tr_from sys = {.sys = it.sys};
    tr_actor_info before = info_of(sys, it.one);
    assert_null(before.running);
    stage_tell(&it, it.one, act_look_at_self, &inside);
    tr_actor_info sent = info_of(sys, it.one);  // nothing runs by itself
    assert_int_equal(sent.depth, 1);
    assert_int_equal(sent.messages, before.messages);
    assert_null(sent.running);
    stage_settle(&it);
    assert_int_equal(inside.depth, 0);
    assert_non_null(inside.running);
    assert_string_equal(inside.running, "Act");
    tr_actor_info after = info_of(sys, it.one);
    assert_int_equal(after.depth, 0);
    assert_int_equal(after.messages, before.messages + 1);
    assert_null(after.running);
    stage_close(&it);
}

/* ---- no locks ---- */

/* Sends while every lock is held that a push could have wanted. */
static tr_err act_send_under_locks(tr_ctx *ctx, puppet *self, const Act *m,
                                   void *arg)
{
    uintptr_t *seen = arg;
    tri_cell *cell = tri_ref_cell(self->peer);
    tri_ext *ext = tri_ext_need(ctx->worker, cell);
    TR_ASSERT(ctx, ext != NULL);
    tri_lock *locks[] = {&ext->lock,
                         &ext->blocked_lock,
                         &ctx->worker->group->lock,
                         &ctx->sys->groups_lock,
                         &ctx->sys->outside_lock,
                         &ctx->sys->boxes_lock};
    enum { LOCKS = sizeof(locks) / sizeof(locks[0]) };
    for (int i = 0; i < LOCKS; i++) {
        tri_lock_take(locks[i]);
    }
    seen[0] = atomic_load(&cell->mail);
    tr_tell(ctx, self->peer, Note, .value = 1);
    seen[1] = atomic_load(&cell->mail);
    tr_stop(ctx, self->peer);
    seen[2] = atomic_load(&cell->sys_mail);
    for (int i = LOCKS; i-- > 0;) {
        tri_lock_drop(locks[i]);
    }
    return tr_reply(ctx, m, .value = 1);
}

/*
 * MB7, X25: the push itself decides who schedules; nobody waits for a thread
 * that holds a lock. Under one lock too many this test does not end.
 */
static void test_mb07_x25_a_send_takes_no_lock(void **state)
{
    stage it;
    uintptr_t seen[3];
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    stage_settle(&it);
    expect_ok(stage_ask(&it, it.one, act_send_under_locks, seen));
    assert_true(seen[0] & TRI_MAIL_IDLE);
    assert_false(seen[1] & TRI_MAIL_IDLE);  // whose push took it schedules
    assert_int_equal(tri_mail_depth(seen[1]), 1);
    assert_true(seen[2] & TRI_SYS_SIGNAL);
    stage_settle(&it);
    assert_int_equal(tr_state_of(it.sys, it.two), TR_STATE_TERMINATED);
    stage_close(&it);
}

/* X25: system nodes come out of their stack in the order of sending. */
static void test_x25_system_mail_keeps_its_order(void **state)
{
    stage it;
    tr_ref refs[5];
    (void)state;
    stage_open(&it);
    for (int i = 0; i < 5; i++) {
        refs[i] = stage_spawn(&it, .soft_limit = 0);
        tr_watch_for(it.sys, it.one, refs[i]);
    }
    stage_tell(&it, it.one, act_sleep, (void *)TR_SECONDS(1));
    stage_settle(&it);
    for (int i = 0; i < 5; i++) {  // each end is a node for the sleeper
        if (i % 2 == 0) {
            tr_stop(it.sys, refs[i]);
        } else {
            tr_kill(it.sys, refs[i]);
        }
        stage_settle(&it);
    }
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 1000 + TR_STOPPED, 1000 + TR_KILLED, 1000 + TR_STOPPED,
                 1000 + TR_KILLED, 1000 + TR_STOPPED);
    stage_close(&it);
}

/* ---- after the end ---- */

static tr_err act_begin_things(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)m;
    (void)arg;
    (void)tr_every(ctx, TR_MS(5), Note, .value = 1);
    (void)tr_after(ctx, TR_SECONDS(1), Note, .value = 2);
    tr_ask_pipe(ctx, self->peer, TR_SECONDS(9), Act,
                .fn = (uint64_t)(uintptr_t)act_sleep, .arg = TR_MS(500));
    tr_watch(ctx, self->peer);
    return TR_OK;
}

enum { HEIRS = 10 };

/* Where the dead have run: one of them lives in the cell of the last. */
static tr_err act_spawn_heirs(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    tr_ref *heirs = arg;
    puppet first = {.stage = self->stage};
    for (int i = 0; i < HEIRS; i++) {
        heirs[i] =
            tr_spawn(ctx, puppets, .init = &first, .init_size = sizeof(first));
    }
    return tr_reply(ctx, m, .value = 1);
}

/* MB9: what was on its way reaches neither the dead nor the next. */
static void test_mb09_pending_runs_do_nothing(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    expect_ok(stage_ask(&it, it.one, act_begin_things, NULL));
    for (int i = 0; i < 5; i++) {
        tr_tell(it.sys, it.one, Note, .value = 10 + i);
    }
    tr_stop(it.sys, it.one);
    tr_kill(it.sys, it.one);  // its cell is queued to run, with all of that
    stage_settle(&it);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_TERMINATED);
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 5);
    tr_ref heirs[HEIRS];
    bool reused = false;
    expect_ok(stage_ask(&it, it.three, act_spawn_heirs, heirs));
    for (int i = 0; i < HEIRS; i++) {
        assert_int_equal(tr_ref_err(heirs[i]), TR_OK);
        reused |= heirs[i].cell == it.one.cell;
    }
    assert_true(reused);
    // What still comes for the old owner does nothing to the new one.
    tr_tell(it.sys, it.one, Note, .value = 3);
    tr_poison(it.sys, it.one);
    tr_stop(it.sys, it.one);
    tr_kill(it.sys, it.one);
    stage_pass(&it, TR_SECONDS(10));
    assert_int_equal(stage_dead(&it, TR_DEAD_NO_SUCH_ACTOR), 1);
    for (int i = 0; i < HEIRS; i++) {
        assert_int_equal(tr_state_of(it.sys, heirs[i]), TR_STATE_RUNNING);
    }
    tr_stop(it.sys, it.two);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it);
    stage_close(&it);
}

/* ---- virtual actors ---- */

enum { FLOOD = 3000 };

typedef struct Inbox {
    int64_t handled;
} Inbox;

static struct {
    stage *stage;
    int64_t handled, wrong;
    uint32_t lives;
} inbox_seen;

static tr_err inbox_start(tr_ctx *ctx, Inbox *self)
{
    (void)self;
    inbox_seen.lives++;
    return tr_sleep(ctx, TR_MS(100));
}

static tr_err inbox_note(tr_ctx *ctx, Inbox *self, const Note *m)
{
    inbox_seen.wrong += m->value != inbox_seen.handled;
    inbox_seen.handled++;
    if (++self->handled == 1000) {
        tr_stop(ctx, tr_self(ctx));  // in the middle of it all
    }
    return TR_OK;
}

TR_ACTOR(inbox, Inbox, TR_ON(Note, inbox_note),
         TR_HOOK(pre_start, inbox_start));

/* MB15, X27: no limit, nothing lost, and somebody is told. */
static void test_mb15_x27_virtual_actors_lose_no_mail(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        stage it;
        tr_system_options options = {
            .size = sizeof(options), .ns = "test", .soft_limit = 500};
        memset(&inbox_seen, 0, sizeof(inbox_seen));
        stage_open_seed(&it, seed, &options);
        expect_ok(tr_host(it.sys, inbox, .idle = TR_MINUTES(1)));
        tr_ref ref = tr_virtual(it.sys, "inbox", "one");
        for (int i = 0; i < FLOOD; i++) {
            tr_tell(it.sys, ref, Note, .value = i);
            if (i == 0) {
                stage_settle(&it);  // it is starting: the rest waits
            }
        }
        stage_pass(&it, TR_SECONDS(10));
        assert_int_equal(inbox_seen.handled, FLOOD);
        assert_int_equal(inbox_seen.wrong, 0);
        assert_int_equal(inbox_seen.lives, FLOOD / 1000 + (FLOOD % 1000 > 0));
        assert_true(atomic_load(&it.overloads) > 0);
        for (int i = 0; i < STAGE_REASONS; i++) {
            assert_int_equal(stage_dead(&it, (tr_dead_reason)i), 0);
        }
        stage_close(&it);
    }
}

/* X27: each mailbox has its own alarm, and one that rings now and then. */
static void tell_many(stage *it, tr_ref ref, int count)
{
    for (int i = 0; i < count; i++) {
        tr_tell(it->sys, ref, Note, .value = i);
    }
    stage_settle(it);
}

static void test_x27_alarms_are_for_each_actor(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options), .soft_limit = 100};
    tr_metrics_snapshot now = {.size = sizeof(now)};
    (void)state;
    stage_open_seed(&it, 1, &options);
    tr_ref refs[] = {it.one, it.two};
    for (int i = 0; i < 2; i++) {
        stage_tell(&it, refs[i], act_sleep, (void *)TR_SECONDS(5));
        stage_settle(&it);
        tell_many(&it, refs[i], 200);
    }
    assert_int_equal(atomic_load(&it.overloads), 2);
    tr_metrics(it.sys, &now);
    assert_int_equal(now.overloads, 200);
    stage_pass(&it, TR_SECONDS(2));  // still too deep: told again
    tell_many(&it, it.one, 200);
    assert_int_equal(atomic_load(&it.overloads), 3);
    stage_pass(&it, TR_SECONDS(5));
    tell_many(&it, it.one, 1);  // all is well again
    assert_int_equal(atomic_load(&it.overloads), 3);
    stage_close(&it);
}

/* ---- runs ---- */

enum { EACH = 100 };

typedef struct order {
    tr_ref to[2];
    char text[2 * EACH + 1];
    _Atomic(uint32_t) used;
} order;

typedef struct Taker {
    order *order;
    char letter;
} Taker;

static tr_err on_take(tr_ctx *ctx, Taker *self, const Note *m)
{
    (void)ctx;
    (void)m;
    self->order->text[atomic_fetch_add(&self->order->used, 1)] = self->letter;
    return TR_OK;
}

TR_ACTOR(takers, Taker, TR_ON(Note, on_take));

static tr_err act_send_in_turns(tr_ctx *ctx, puppet *self, const Act *m,
                                void *arg)
{
    order *it = arg;
    (void)self;
    (void)m;
    for (int i = 0; i < 2 * EACH; i++) {
        tr_tell(ctx, it->to[i % 2], Note, .value = i);
    }
    return TR_OK;
}

/*
 * MB18, DP6: a thread runs one mailbox at a time, and several of its messages
 * at once. Sent A, B, A, B, ... they are handled A, A, ..., B, B, ...
 */
static void test_mb18_dp06_a_run_takes_several_messages(void **state)
{
    stage it;
    order seen = {0};
    (void)state;
    stage_open_real(&it, NULL);
    tr_ref sender = stage_spawn(&it, .dispatcher = "concurrent");
    for (int i = 0; i < 2; i++) {
        seen.to[i] =
            tr_spawn(it.sys, takers,
                     TR_INIT(takers, .order = &seen, .letter = (char)('A' + i)),
                     .dispatcher = "concurrent");
        expect_ok(tr_started(it.sys, seen.to[i], 0));
    }
    expect_ok(stage_ask(&it, sender, act_send_in_turns, &seen));
    while (atomic_load(&seen.used) < 2 * EACH) {
        sched_yield();
    }
    int runs = 1;
    for (int i = 1; i < 2 * EACH; i++) {
        runs += seen.text[i] != seen.text[i - 1];
    }
    int batch = TRI_BATCH_MESSAGES == 1 ? 1 : TRI_CLOCK_FIRST;
    assert_true(runs >= 2);
    assert_true(runs <= 2 * EACH / batch + 2);
    stage_close(&it);
}

/* MB19: what one busy thread cannot do, another takes over. */
enum { CHORES = 8 };

typedef struct chores {
    tr_ref to[CHORES];
    sem_t done;
} chores;

static tr_err act_chore(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    chores *it = arg;
    (void)ctx;
    (void)self;
    (void)m;
    sem_post(&it->done);
    return TR_OK;
}

static tr_err act_wait_for_chores(tr_ctx *ctx, puppet *self, const Act *m,
                                  void *arg)
{
    chores *it = arg;
    (void)self;
    for (int i = 0; i < CHORES; i++) {
        act_tell(ctx, it->to[i], act_chore, it);
    }
    for (int i = 0; i < CHORES; i++) {  // blocks its thread
        while (sem_wait(&it->done) != 0) {
        }
    }
    return tr_reply(ctx, m, .value = 1);
}

static void test_mb19_idle_threads_take_over(void **state)
{
    stage it;
    chores list;
    tr_system_options options = {.size = sizeof(options), .workers = 2};
    tr_metrics_snapshot now = {.size = sizeof(now)};
    (void)state;
    assert_int_equal(sem_init(&list.done, 0, 0), 0);
    stage_open_real(&it, &options);
    for (int i = 0; i < CHORES; i++) {
        list.to[i] = stage_spawn(&it, .soft_limit = 0);
        expect_ok(tr_started(it.sys, list.to[i], 0));
    }
    expect_ok(stage_ask(&it, it.one, act_wait_for_chores, &list));
    tr_metrics(it.sys, &now);
    // With so few sends to a turn it yields, and its own thread does them.
    assert_true(now.steals > 0 || (int)TRI_BATCH_SENDS < CHORES);
    stage_close(&it);
    sem_destroy(&list.done);
}

/* ---- threads and stacks ---- */

static int thread_count(void)
{
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    int count = 0;
    for (struct dirent *e; (e = readdir(tasks)) != NULL;) {
        count += e->d_name[0] != '.';
    }
    closedir(tasks);
    return count;
}

/* DP7: every kind of dispatcher ends with the system. */
static void test_dp07_dispatchers_end_with_the_system(void **state)
{
    static const char *const names[] = {"parallel", "pinned", "concurrent",
                                        "blocking", "mine"};
    stage it;
    (void)state;
    int before = thread_count();
    stage_open_real(&it, NULL);
    expect_ok(tr_dispatcher_add(it.sys, "mine", .threads = 2));
    for (int i = 0; i < 5; i++) {
        tr_ref ref = stage_spawn(&it, .dispatcher = names[i]);
        expect_ok(stage_ask(&it, ref, act_nothing, NULL));
    }
    assert_true(thread_count() > before);
    stage_close(&it);
    while (thread_count() > before) {  // the kernel takes its time
        sched_yield();
    }
}

/* DP10: a turn that waits keeps its own stack. */
enum { DEEP = 200, WAITERS = 50 };

static tr_err wait_deep(tr_ctx *ctx, puppet *self, int depth)
{
    volatile int64_t local[8];
    for (int i = 0; i < 8; i++) {
        local[i] = self->value * 1000 + depth * 10 + i;
    }
    TR_TRY(depth > 0 ? wait_deep(ctx, self, depth - 1)
                     : tr_sleep(ctx, TR_SECONDS(1)));
    for (int i = 0; i < 8; i++) {
        TR_ASSERT(ctx, local[i] == self->value * 1000 + depth * 10 + i);
    }
    return TR_OK;
}

static tr_err act_wait_deep(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    self->value = (int64_t)(intptr_t)arg;
    TR_TRY(wait_deep(ctx, self, DEEP));
    stage_note(self->stage, 1);
    return TR_OK;
}

static void test_dp10_a_waiting_turn_has_its_own_stack(void **state)
{
    stage it;
    tr_metrics_snapshot now = {.size = sizeof(now)};
    (void)state;
    stage_open(&it);
    for (int i = 0; i < WAITERS; i++) {
        stage_tell(&it, stage_spawn(&it, .soft_limit = 0), act_wait_deep,
                   (void *)(intptr_t)i);
    }
    stage_settle(&it);
    tr_metrics(it.sys, &now);
    assert_int_equal(now.parked, WAITERS);  // all of them at once
    stage_pass(&it, TR_SECONDS(1));
    assert_int_equal(atomic_load(&it.note_count), WAITERS);
    stage_close(&it);
}

/* DP11: in a simulation everything runs on the thread that asks for it. */
static tr_err note_thread(void *arg)
{
    pthread_t *main_thread = arg;
    return pthread_equal(*main_thread, pthread_self()) ? TR_OK : TR_EUSER;
}

static tr_err act_note_thread(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    TR_TRY(note_thread(arg));
    TR_TRY(tr_sleep(ctx, TR_MS(1)));
    TR_TRY(note_thread(arg));
    TR_TRY(tr_blocking(ctx, note_thread, arg));
    stage_note(self->stage, 1);
    return tr_reply(ctx, m, .value = 1);
}

static void test_dp11_one_thread_for_all_in_a_simulation(void **state)
{
    static const char *const names[] = {"parallel", "pinned", "concurrent",
                                        "blocking"};
    stage it;
    pthread_t me = pthread_self();
    (void)state;
    int before = thread_count();
    stage_open(&it);
    for (int i = 0; i < 4; i++) {
        tr_ref ref = stage_spawn(&it, .dispatcher = names[i]);
        expect_ok(stage_ask(&it, ref, act_note_thread, &me));
    }
    expect_notes(&it, 1, 1, 1, 1);
    assert_int_equal(thread_count(), before);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mb03_mb17_a_message_is_followed),
        cmocka_unit_test(test_mb07_x25_a_send_takes_no_lock),
        cmocka_unit_test(test_x25_system_mail_keeps_its_order),
        cmocka_unit_test(test_mb09_pending_runs_do_nothing),
        cmocka_unit_test(test_mb15_x27_virtual_actors_lose_no_mail),
        cmocka_unit_test(test_x27_alarms_are_for_each_actor),
        cmocka_unit_test(test_mb18_dp06_a_run_takes_several_messages),
        cmocka_unit_test(test_mb19_idle_threads_take_over),
        cmocka_unit_test(test_dp07_dispatchers_end_with_the_system),
        cmocka_unit_test(test_dp10_a_waiting_turn_has_its_own_stack),
        cmocka_unit_test(test_dp11_one_thread_for_all_in_a_simulation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
