/*
 * stack_overflow_test.c - a handler that uses up its stack ends the process
 * with a text that names the actor, the message and the option.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <troupe/troupe.h>

#include "../support/sanitizer.h"

enum { TEXT_MAX = 4096, LARGE = 600 * 1024 };

TR_MESSAGE(Recurse, (uint32_t, depth));
TR_MESSAGE(Fill, (uint32_t, seed));

static volatile uint32_t sink;

static uint32_t descend(uint32_t depth)
{
    volatile char frame[512];
    memset((char *)frame, (int)depth, sizeof(frame));
    return depth == 0 ? 0 : descend(depth - 1) + (uint32_t)frame[depth % 512];
}

static tr_err on_recurse(tr_ctx *ctx, void *self, const Recurse *m)
{
    (void)ctx;
    (void)self;
    sink = descend(m->depth);
    return TR_OK;
}

/* Its locals are larger than the stack and the guard below it together. */
static tr_err on_fill(tr_ctx *ctx, void *self, const Fill *m)
{
    volatile char local[LARGE];
    (void)ctx;
    (void)self;
    local[m->seed % LARGE] = 1;
    sink = (uint32_t)local[m->seed % LARGE];
    return TR_OK;
}

TR_ACTOR(hungry, void, TR_ON(Recurse, on_recurse), TR_ON(Fill, on_fill));

/* Sends one message to an actor in a child, and returns what that prints. */
static int said(bool fill, size_t stack_size, char *text)
{
    int ends[2], status = 0;
    size_t used = 0;
    ssize_t got;

    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        tr_system *sys;
        struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL);  // cmocka has handlers of its own
        signal(SIGBUS, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        TR_MUST(tr_system_open(&sys, .workers = 1, .stack_size = stack_size));
        tr_ref ref = tr_spawn(sys, hungry, .name = "hungry", .joinable = true);
        if (fill) {
            tr_tell(sys, ref, Fill, .seed = 1);
        } else {
            tr_tell(sys, ref, Recurse, .depth = 1000);
        }
        tr_poison(sys, ref);
        TR_MUST(tr_join(sys, ref, 0, NULL, NULL));
        TR_MUST(tr_system_close(sys, 0));
        _exit(0);
    }
    close(ends[1]);
    while (used + 1 < TEXT_MAX &&
           (got = read(ends[0], text + used, TEXT_MAX - used - 1)) > 0) {
        used += (size_t)got;
    }
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void assert_explained(bool fill, const char *message)
{
    char text[TEXT_MAX], wanted[128];
    int status = said(fill, 0, text);

    assert_true(WIFSIGNALED(status));
    snprintf(wanted, sizeof(wanted),
             "/user/hungry: stack overflow while handling %s", message);
    if (strstr(text, wanted) == NULL || strstr(text, ".stack_size") == NULL) {
        fail_msg("\"%s\" does not say \"%s\" and .stack_size", text, wanted);
    }
}

static void test_a_stack_overflow_names_actor_message_and_option(void **state)
{
    (void)state;
    if (UNDER_SANITIZER) {
        skip();  // the sanitizer has its own handler of the fault
    }
    assert_explained(false, "Recurse");
}

static void test_locals_do_not_step_over_the_guard(void **state)
{
    (void)state;
    if (UNDER_SANITIZER) {
        skip();  // the sanitizer has its own handler of the fault
    }
    assert_explained(true, "Fill");
}

static void test_a_larger_stack_is_enough(void **state)
{
    char text[TEXT_MAX];

    (void)state;
    assert_int_equal(said(false, 4 << 20, text), 0);
    assert_int_equal(said(true, 4 << 20, text), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stack_overflow_names_actor_message_and_option),
        cmocka_unit_test(test_locals_do_not_step_over_the_guard),
        cmocka_unit_test(test_a_larger_stack_is_enough),
    };
    return cmocka_run_group_tests_name("stack overflow", tests, NULL, NULL);
}
