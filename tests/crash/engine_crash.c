/*
 * engine_crash.c - processes that share an SQLite engine are killed at random
 * moments while they write; no answered CAS is lost, and none is doubled.
 *
 *   crash_engine [KILLS]         default: 20; TR_TEST_SCALE multiplies that
 *
 * Each child counts one number up by CAS and reports each number that was
 * answered yes to the parent through a pipe. The parent kills one child after
 * another, each after a random time, and starts another in its place. In the
 * end the file is intact, no number was reported twice, and the number is at
 * least the highest that was reported.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "unit/cluster/engine_calls.h"
#include "unit/storage/store_calls.h"

enum { KILLS = 20, CHILDREN = 3, RUN_MAX_MS = 60, NUMBERS_MAX = 1 << 22 };

static void expect(bool is_true, const char *what)
{
    if (!is_true) {
        fprintf(stderr, "crash: %s\n", what);
        exit(1);
    }
}

/* Counts up until it is killed. */
static void run_child(const folder *it, int out)
{
    tr_engine *engine;

    if (tr_engine_sqlite(&engine, it->database, NULL) != TR_OK) {
        _exit(2);
    }
    for (;;) {
        uint64_t revision, number = read_number(engine, "sum", &revision) + 1;
        char text[32];
        snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
        if (cas_text(engine, "sum", revision, text, NULL) == TRI_ENGINE_YES &&
            write(out, &number, sizeof(number)) != sizeof(number)) {
            _exit(3);
        }
    }
}

static pid_t start_child(const folder *it, int out)
{
    pid_t child = fork();

    expect(child >= 0, "no child");
    if (child == 0) {
        run_child(it, out);
    }
    return child;
}

/* Reads what has been reported so far. */
static void read_reports(int in, unsigned char *seen, uint64_t *highest,
                         uint64_t *count)
{
    struct pollfd ready = {.fd = in, .events = POLLIN};
    uint64_t number;

    while (poll(&ready, 1, 0) > 0) {
        expect(read(in, &number, sizeof(number)) == sizeof(number),
               "a report is cut off");
        expect(number < NUMBERS_MAX, "too many numbers");
        expect(seen[number]++ == 0, "a number was answered yes twice");
        *highest = number > *highest ? number : *highest;
        ++*count;
    }
}

static void check_file(const folder *it, uint64_t highest)
{
    tr_engine *engine;
    uint64_t revision;
    sqlite3 *handle;
    sqlite3_stmt *statement = NULL;

    expect(tr_engine_sqlite(&engine, it->database, NULL) == TR_OK, "no file");
    uint64_t number = read_number(engine, "sum", &revision);
    expect(number >= highest, "an answered CAS is lost");
    expect(number <= highest + CHILDREN, "the number was never written");
    tr_engine_close(engine);
    expect(sqlite3_open(it->database, &handle) == SQLITE_OK &&
               sqlite3_prepare_v2(handle, "PRAGMA integrity_check", -1,
                                  &statement, NULL) == SQLITE_OK &&
               sqlite3_step(statement) == SQLITE_ROW,
           "the file cannot be read");
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    expect(strcmp(text, "ok") == 0, text);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(handle);
}

int main(int argc, char **argv)
{
    tri_world *world = tri_world_posix();
    unsigned char *seen = calloc(NUMBERS_MAX, 1);
    uint64_t highest = 0, count = 0;
    pid_t children[CHILDREN];
    int ends[2];
    folder place;
    long kills =
        argc > 1 ? strtol(argv[1], NULL, 10) : (long)(KILLS * test_scale());

    expect(kills > 0 && seen != NULL && folder_make(&place), "no folder");
    expect(pipe(ends) == 0, "no pipe");
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = start_child(&place, ends[1]);
    }
    for (long i = 0; i < kills + CHILDREN; i++) {
        pid_t *victim = &children[i % CHILDREN];
        int status;
        if (i < kills) {
            (void)poll(NULL, 0, (int)(world->ops->random(world) % RUN_MAX_MS));
        }
        (void)kill(*victim, SIGKILL);
        expect(waitpid(*victim, &status, 0) == *victim, "no child");
        expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
               "a child ended before it was killed");
        read_reports(ends[0], seen, &highest, &count);
        if (i < kills) {
            *victim = start_child(&place, ends[1]);
        }
    }
    check_file(&place, highest);
    printf("crash: %ld kills, %llu commits answered, none lost or doubled, "
           "file intact\n",
           kills, (unsigned long long)count);
    free(seen);
    return folder_remove(&place) == 0 ? 0 : 1;
}
