/*
 * probe_test.c - probes and threads that ask, as others see them: they may be
 * asked, watched, joined and told anything; and what a probe expects in vain
 * ends the process with a text.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/dying.h"

/* ---- expectations that are not met end the process ---- */

static void fails_with(void (*fn)(stage *it), const char *text)
{
    int pipes[2];
    char out[4096] = "";
    assert_int_equal(pipe(pipes), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        stage it;
        dying_child();
        dup2(pipes[1], STDERR_FILENO);
        stage_open(&it);
        fn(&it);
        _exit(0);
    }
    close(pipes[1]);
    size_t used = 0;
    for (ssize_t n;
         (n = read(pipes[0], out + used, sizeof(out) - 1 - used)) > 0;) {
        used += (size_t)n;
    }
    close(pipes[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    if (strstr(out, text) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", text, out);
    }
}

static void expect_in_vain(stage *it)
{
    (void)tr_expect(it->probe, TR_SECONDS(1), Note);
}

static void expect_another(stage *it)
{
    tr_tell(it->sys, tr_probe_ref(it->probe), Stranger, .value = 1);
    (void)tr_expect(it->probe, TR_SECONDS(1), Note);
}

static tr_err act_tell_stranger(tr_ctx *ctx, puppet *self, const Act *m,
                                void *arg)
{
    (void)m;
    (void)arg;
    tr_tell(ctx, tr_probe_ref(self->stage->probe), Stranger, .value = 7);
    return TR_OK;
}

static void expect_another_of_one(stage *it)
{
    stage_tell(it, it->one, act_tell_stranger, NULL);
    (void)tr_expect(it->probe, TR_SECONDS(1), Note);
}

static void expect_any_in_vain(stage *it)
{
    (void)tr_expect_any(it->probe, TR_SECONDS(1));
}

static void expect_silence(stage *it)
{
    tr_tell(it->sys, tr_probe_ref(it->probe), Stranger, .value = 1);
    tr_expect_nothing(it->probe, TR_SECONDS(1));
}

static void test_expectations_say_what_came_instead(void **state)
{
    (void)state;
    fails_with(expect_in_vain, "expected Note, got nothing in time");
    fails_with(expect_another, "expected Note, got Stranger{value=1}\n");
    fails_with(expect_another_of_one,
               "expected Note, got Stranger{value=7} from /user/one");
    fails_with(expect_any_in_vain, "expected a message, got nothing in time");
    fails_with(expect_silence, "expected nothing, got Stranger");
}

/* A probe that is asked and says nothing answers when it goes on. */
static tr_err act_ask_probe(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)m;
    *out = act_ask(ctx, self->peer, act_nothing, NULL, TR_SECONDS(100));
    return TR_OK;
}

static void test_a_probe_may_be_asked(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    tr_ref to = tr_probe_ref(it.probe);
    expect_ok(stage_ask(&it, it.one, act_meet, &to));
    stage_tell(&it, it.one, act_ask_probe, &err);
    (void)tr_expect(it.probe, TR_SECONDS(1), Act);
    tr_expect_nothing(it.probe, TR_SECONDS(1));
    stage_run_ready(&it);
    expect_err(err, TR_ENOREPLY);
    stage_close(&it);
}

typedef struct vigil {
    tr_ref ref;
    tr_err joined;
    tr_result result;
} vigil;

static tr_err act_wait_for_probe(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    vigil *v = arg;
    (void)self;
    (void)m;
    tr_watch(ctx, v->ref);
    v->joined = tr_join(ctx, v->ref, TR_SECONDS(100), &v->result, NULL);
    return TR_OK;
}

/* A probe is somebody whose end can be waited for; poison does not hurt. */
static void test_DW21_K20_a_probe_may_be_watched_and_joined(void **state)
{
    (void)state;
    for (int reads = 0; reads < 2; reads++) {  // what comes, or is left there
        stage it;
        tr_probe *probe;
        vigil v = {.joined = TR_EUSER};
        stage_open(&it);
        expect_ok(tr_probe_new(&probe, it.sys));
        v.ref = tr_probe_ref(probe);
        stage_tell(&it, it.one, act_wait_for_probe, &v);
        tr_poison(it.sys, v.ref);
        stage_run_ready(&it);
        if (reads) {
            tr_expect_nothing(probe, TR_SECONDS(1));
        }
        expect_err(v.joined, TR_EUSER);  // it waits
        tr_probe_free(probe);
        stage_run_ready(&it);
        expect_ok(v.joined);
        assert_int_equal(v.result.reason, TR_STOPPED);
        expect_notes(&it, 1000 + TR_STOPPED);
        stage_close(&it);
    }
}

static tr_err act_wait_for_asker(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    vigil *v = arg;
    v->ref = tr_sender(ctx);
    return act_wait_for_probe(ctx, self, m, arg);
}

/* So is a thread that asks, until it has its answer or waits no longer. */
static void test_DW21_T19_a_thread_that_asks_may_be_joined(void **state)
{
    stage it;
    vigil v = {.joined = TR_EUSER};
    (void)state;
    stage_open(&it);
    expect_err(
        stage_ask_for(&it, it.one, act_wait_for_asker, &v, TR_SECONDS(5)),
        TR_ETIMEDOUT);
    stage_run_ready(&it);
    expect_ok(v.joined);
    assert_int_equal(v.result.reason, TR_STOPPED);
    expect_notes(&it, 1000 + TR_STOPPED);
    stage_close(&it);
}

/* All that can be sent to whoever asks, before the answer. */
static tr_err act_noise(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_ref asker = tr_sender(ctx), gone = *(tr_ref *)arg;
    (void)self;
    tr_tell(ctx, asker, Acted, .value = 1);
    tr_poison(ctx, asker);
    tr_watch_for(ctx, asker, gone);
    tr_watch(ctx, asker);
    tr_unwatch(ctx, asker);
    TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    return tr_reply(ctx, m, .value = 2);
}

static void test_T6_T19_only_a_reply_answers_a_thread(void **state)
{
    stage it;
    Acted done;
    (void)state;
    stage_open(&it);
    tr_ref gone = it.three;
    tr_kill(it.sys, gone);
    stage_run_ready(&it);
    expect_ok(tr_ask(it.sys, it.one, &done, TR_SECONDS(5), Act,
                     .fn = (uint64_t)(uintptr_t)act_noise,
                     .arg = (uint64_t)(uintptr_t)&gone));
    assert_int_equal(done.value, 2);
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 1);  // what was told
    stage_run_ready(&it);
    assert_int_equal(atomic_load(&it.note_count), 0);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expectations_say_what_came_instead),
        cmocka_unit_test(test_a_probe_may_be_asked),
        cmocka_unit_test(test_DW21_K20_a_probe_may_be_watched_and_joined),
        cmocka_unit_test(test_DW21_T19_a_thread_that_asks_may_be_joined),
        cmocka_unit_test(test_T6_T19_only_a_reply_answers_a_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
