/*
 * system_log_test.c - lines of the log: who, where, when, what (PA10).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <troupe/troupe.h>

enum { LINES = 64 };

typedef struct line {
    int level;
    tr_nanos at;
    char site[128], path[TR_PATH_SIZE], text[2048];
} line;

typedef struct log_book {
    line lines[LINES];
    uint32_t used;
} log_book;

static void keep(void *user, const tr_log_record *record)
{
    log_book *book = user;
    assert_int_equal(record->size, sizeof(*record));
    if (book->used == LINES) {
        return;
    }
    line *l = &book->lines[book->used++];
    l->level = record->level;
    l->at = record->at;
    snprintf(l->site, sizeof(l->site), "%s", record->site);
    snprintf(l->path, sizeof(l->path), "%s",
             record->path != NULL ? record->path : "-");
    snprintf(l->text, sizeof(l->text), "%s", record->text);
}

/* The lines that an actor or a thread of this file wrote. */
static const line *mine(const log_book *book, uint32_t n)
{
    for (uint32_t i = 0; i < book->used; i++) {
        if (strstr(book->lines[i].site, "log_test.c:") != NULL && n-- == 0) {
            return &book->lines[i];
        }
    }
    return NULL;
}

/* ---- actors ---- */

TR_MESSAGE(Ping);

static tr_err logger_start(tr_ctx *ctx, void *self)
{
    (void)self;
    tr_info(ctx, "activated, epoch %d", (int)(tr_epoch(ctx) > 0));
    return TR_OK;
}

static tr_err logger_stop(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)self;
    tr_warn(ctx, "deactivated, reason %d", reason);
    return TR_OK;
}

static tr_err on_ping(tr_ctx *ctx, void *self, const Ping *m)
{
    (void)self;
    (void)m;
    tr_debug(ctx, "ping");
    return TR_OK;
}

TR_ACTOR(logger, void, TR_HOOK(pre_start, logger_start),
         TR_HOOK(post_stop, logger_stop), TR_ON(Ping, on_ping));

/* PA10: a virtual actor's lines carry its identity, from first to last. */
static void test_PA10_lines_carry_the_actor(void **state)
{
    static log_book book;
    tr_sim *sim;
    tr_system *sys;
    (void)state;
    memset(&book, 0, sizeof(book));
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim), .ns = "shop",
                           .log = keep, .log_user = &book));
    TR_MUST(tr_host(sys, logger, .idle = TR_SECONDS(5)));
    tr_tell(sys, tr_virtual(sys, "logger", "lamp-7"), Ping);
    tr_sim_advance(sim, TR_SECONDS(30));
    const line *first = mine(&book, 0), *ping = mine(&book, 1),
               *last = mine(&book, 2);
    assert_non_null(last);
    assert_null(mine(&book, 3));
    assert_string_equal(first->text, "activated, epoch 1");
    assert_int_equal(first->level, TR_LOG_INFO);
    assert_non_null(strstr(first->path, "logger"));
    assert_non_null(strstr(first->path, "lamp-7"));
    assert_int_equal(ping->level, TR_LOG_DEBUG);
    assert_string_equal(ping->path, first->path);
    assert_string_equal(last->path, first->path);
    assert_int_equal(last->level, TR_LOG_WARN);
    assert_true(strncmp(last->text, "deactivated", 11) == 0);
    assert_true(last->at >= first->at + TR_SECONDS(5));  // virtual time
    TR_MUST(tr_system_close(sys, 0));
    tr_sim_free(sim);
}

/* From a thread or a probe there is no actor to name. */
static void test_PA10_lines_from_outside_and_below_the_level(void **state)
{
    static log_book book;
    tr_sim *sim;
    tr_system *sys;
    tr_probe *probe;
    (void)state;
    memset(&book, 0, sizeof(book));
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim),
                           .log_level = TR_LOG_WARN, .log = keep,
                           .log_user = &book));
    TR_MUST(tr_probe_new(&probe, sys));
    tr_info(sys, "not wanted");
    tr_tell(sys, tr_spawn(sys, logger), Ping);  // debug: not wanted either
    tr_warn(sys, "from %s", "a thread");
    tr_error(probe, "from a probe");
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_string_equal(mine(&book, 0)->text, "from a thread");
    assert_string_equal(mine(&book, 0)->path, "-");
    assert_string_equal(mine(&book, 1)->text, "from a probe");
    assert_int_equal(mine(&book, 1)->level, TR_LOG_ERROR);
    assert_null(mine(&book, 2));
    char text[3000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    tr_warn(sys, "%s", text);  // cut, not refused
    assert_true(strlen(mine(&book, 2)->text) >= 1000);
    tr_probe_free(probe);
    TR_MUST(tr_system_close(sys, 0));
    tr_sim_free(sim);
}

/* Without a sink the line goes to standard error, in columns. */
static void test_PA10_the_default_is_standard_error(void **state)
{
    char text[4096] = "";
    tr_system *sys;
    int pipes[2];
    (void)state;
    assert_int_equal(pipe(pipes), 0);
    int saved = dup(STDERR_FILENO);
    assert_int_equal(dup2(pipes[1], STDERR_FILENO), STDERR_FILENO);
    TR_MUST(tr_system_open(&sys, .workers = 1));
    TR_MUST(tr_started(sys, tr_spawn(sys, logger, .name = "lamp"), 0));
    tr_warn(sys, "seen by people");
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(saved);
    close(pipes[1]);
    size_t used = 0;
    for (ssize_t n;
         used < sizeof(text) - 1 &&
         (n = read(pipes[0], text + used, sizeof(text) - 1 - used)) > 0;) {
        used += (size_t)n;
    }
    close(pipes[0]);
    assert_non_null(strstr(text, "WARN"));
    assert_non_null(strstr(text, "seen by people"));
    assert_non_null(strstr(text, "/user/lamp"));
    // The last line of the lamp goes to the real one.
    TR_MUST(tr_system_close(sys, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_PA10_lines_carry_the_actor),
        cmocka_unit_test(test_PA10_lines_from_outside_and_below_the_level),
        cmocka_unit_test(test_PA10_the_default_is_standard_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
