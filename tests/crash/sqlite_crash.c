/*
 * sqlite_crash.c - a process that saves is killed at random moments, and after
 * each restart everything that it had acknowledged must be there.
 *
 *   crash_sqlite [KILLS]         default: 20; TR_TEST_SCALE multiplies that
 *
 * The child saves states and appends events, each as soon as the one before
 * is answered, and reports each answer to its parent through a pipe. The
 * parent kills the child after a random time (perhaps before the file is
 * open), reads the rest of the pipe, opens the same file and compares. A
 * version may be one higher than acknowledged, because the child can be killed
 * between commit and report. No version may be lower, and no state may be
 * damaged or belong to another version. The limits are small, so that a fold
 * or a checkpoint is in progress at most times.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include <sqlite3.h>

#include "storage/storage_sqlite.h"
#include "unit/storage/store_calls.h"

#define KILLS      20
#define KEYS       24  // odd ones have events, even ones a state
#define RUN_MAX_US 60000
#define STATE_SIZE 300

static const tri_sqlite_limits small = {
    .batch = 8,
    .fold_rows = 16,
    .slice = 3,
    .checkpoint_pages = 4,
    .log_pages = 32,
};

typedef struct ack {
    uint32_t key;
    uint64_t version;
} ack;

typedef struct saver {
    tri_store_op op;
    tr_storage *store;
    int pipe;
    uint32_t index;
    tri_store_bytes event;
    char key[32];
    char text[STATE_SIZE];
} saver;

static void expect(bool is_true, const char *what, uint32_t key)
{
    if (!is_true) {
        fprintf(stderr, "crash: key %u: %s\n", key, what);
        exit(1);
    }
}

static bool has_events(uint32_t index)
{
    return index % 2 == 1;
}

static void fill(char out[STATE_SIZE], uint32_t index, uint64_t version)
{
    memset(out, 'a' + (int)(version % 26), STATE_SIZE);
    (void)snprintf(out, STATE_SIZE, "%u:%llu", index,
                   (unsigned long long)version);
}

static void key_of(char out[32], uint32_t index)
{
    (void)snprintf(out, 32, "crash::key/%u", index);
}

/* ---- the child ---- */

/* Reports the answer and submits the next write, until it is killed. */
static void on_saved(tri_store_op *op)
{
    saver *it = op->user;
    ack said = {it->index, op->version};

    if (op->err != TR_OK ||
        write(it->pipe, &said, sizeof(said)) != (ssize_t)sizeof(said)) {
        fprintf(stderr, "crash: %s\n", op->text);
        _exit(3);
    }
    op->number = op->version;
    fill(it->text, it->index, op->version + 1);
    tri_storage_submit(it->store, op);
}

static void run_child(const folder *it, const uint64_t versions[KEYS], int out)
{
    static saver savers[KEYS];
    tri_world *world = tri_world_posix();
    tri_sqlite_fault why;
    tr_storage *store;
    _Atomic(uint32_t) never = 0;

    if (tri_storage_sqlite_open(&store, world, it->database, &small, &why) !=
        TR_OK) {
        fprintf(stderr, "crash: %s\n", why.text);
        _exit(2);
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        saver *each = &savers[i];
        *each = (saver){.store = store, .pipe = out, .index = i};
        key_of(each->key, i);
        fill(each->text, i, versions[i] + 1);
        each->event = (tri_store_bytes){each->text, STATE_SIZE};
        each->op = (tri_store_op){.key = bytes_of(each->key),
                                  .number = versions[i],
                                  .done = on_saved,
                                  .user = each};
        if (has_events(i)) {
            each->op.call = TR_STORE_APPEND;
            each->op.events = &each->event;
            each->op.event_count = 1;
        } else {
            each->op.call = TR_STORE_SAVE;
            each->op.bytes = each->event;
        }
        tri_storage_submit(store, &each->op);
    }
    for (;;) {
        (void)world->ops->park(world, &never, 0, TR_FOREVER);
    }
}

/* ---- the parent ---- */

/* Reads one report. Returns false at the end of the pipe. */
static bool read_ack(int in, uint64_t acked[KEYS])
{
    ack said;
    ssize_t size = read(in, &said, sizeof(said));

    if (size != (ssize_t)sizeof(said)) {
        return false;
    }
    expect(said.key < KEYS, "no such key", said.key);
    expect(said.version == acked[said.key] + 1, "a version is out of order",
           said.key);
    acked[said.key] = said.version;
    return true;
}

/* Reads reports for this time, kills the child, and reads the rest. */
static void kill_child(pid_t child, int in, tr_nanos span, uint64_t acked[KEYS])
{
    tri_world *world = tri_world_posix();
    tr_nanos due = world->ops->mono(world) + span;
    struct pollfd it = {.fd = in, .events = POLLIN};
    int status;

    for (tr_nanos now; (now = world->ops->mono(world)) < due;) {
        // poll takes whole milliseconds: the last one is spent without waiting.
        int ready = poll(&it, 1, (int)((due - now) / TR_MS(1)));
        if (ready > 0 && !read_ack(in, acked)) {
            break;  // the child ended by itself: the status is checked below
        }
    }
    (void)kill(child, SIGKILL);
    while (read_ack(in, acked)) {
    }
    expect(waitpid(child, &status, 0) == child, "no child", 0);
    expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
           "the child ended before it was killed", 0);
}

static void check_state(tr_storage *store, uint32_t index, uint64_t *acked)
{
    char key[32], expected[STATE_SIZE];
    key_of(key, index);
    asked load = ask_for(TR_STORE_LOAD, key);

    expect(asked_run(&load, store) == TR_OK, load.op.text, index);
    uint64_t version = load.op.version;
    expect(version >= *acked, "an acknowledged save is lost", index);
    expect(version <= *acked + 1, "a save that was not submitted", index);
    if (version > 0) {
        fill(expected, index, version);
        expect(load.op.out_size == STATE_SIZE &&
                   memcmp(load.op.out, expected, STATE_SIZE) == 0,
               "the state is not the one of its version", index);
    }
    *acked = version;
    tri_store_op_fini(&load.op);
}

/* Checks the last events and trims the others. */
static void check_events(tr_storage *store, uint32_t index, uint64_t *acked)
{
    char key[32], expected[STATE_SIZE];
    key_of(key, index);
    asked read = ask_for(TR_STORE_READ, key);
    asked trim = ask_for(TR_STORE_TRIM, key);
    tri_store_row row;
    size_t at = 0;

    read.op.number = *acked == 0 ? 1 : *acked;
    expect(asked_run(&read, store) == TR_OK, read.op.text, index);
    uint64_t last = read.op.version;
    expect(last >= *acked, "an acknowledged event is lost", index);
    expect(last <= *acked + 1, "an event that was not submitted", index);
    for (uint64_t n = read.op.number; n <= last; n++) {
        fill(expected, index, n);
        expect(tri_store_row_next(&read.op, &at, &row) && row.number == n &&
                   row.bytes.size == STATE_SIZE &&
                   memcmp(row.bytes.at, expected, STATE_SIZE) == 0,
               "an event is missing or not the one of its number", index);
    }
    *acked = last;
    tri_store_op_fini(&read.op);
    trim.op.number = last;
    expect(asked_run(&trim, store) == TR_OK, trim.op.text, index);
}

static void check_integrity(const folder *it)
{
    sqlite3 *handle;
    sqlite3_stmt *statement = NULL;

    expect(sqlite3_open(it->database, &handle) == SQLITE_OK &&
               sqlite3_prepare_v2(handle, "PRAGMA integrity_check", -1,
                                  &statement, NULL) == SQLITE_OK &&
               sqlite3_step(statement) == SQLITE_ROW,
           "the file cannot be read", 0);
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    expect(strcmp(text, "ok") == 0, text, 0);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(handle);
}

static void check_all(const folder *it, uint64_t acked[KEYS])
{
    tri_sqlite_fault why;
    tr_storage *store;

    expect(tri_storage_sqlite_open(&store, tri_world_posix(), it->database,
                                   &small, &why) == TR_OK,
           why.text, 0);
    for (uint32_t i = 0; i < KEYS; i++) {
        if (has_events(i)) {
            check_events(store, i, &acked[i]);
        } else {
            check_state(store, i, &acked[i]);
        }
    }
    tr_storage_close(store);
    check_integrity(it);
}

static void one_kill(const folder *it, uint64_t acked[KEYS])
{
    tri_world *world = tri_world_posix();
    uint64_t span = world->ops->random(world) % RUN_MAX_US;
    int ends[2];

    expect(pipe(ends) == 0, "no pipe", 0);
    pid_t child = fork();
    expect(child >= 0, "no child", 0);
    if (child == 0) {
        (void)close(ends[0]);
        run_child(it, acked, ends[1]);
    }
    (void)close(ends[1]);
    kill_child(child, ends[0], (tr_nanos)span * 1000, acked);
    (void)close(ends[0]);
    check_all(it, acked);
}

int main(int argc, char **argv)
{
    uint64_t acked[KEYS] = {0}, sum = 0;
    folder place;
    long kills =
        argc > 1 ? strtol(argv[1], NULL, 10) : (long)(KILLS * test_scale());

    if (kills < 1 || !folder_make(&place)) {
        fprintf(stderr, "usage: crash_sqlite [KILLS]\n");
        return 2;
    }
    for (long i = 0; i < kills; i++) {
        one_kill(&place, acked);
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        sum += acked[i];
    }
    printf("crash: %ld kills, %llu writes, all acknowledged ones there, "
           "file intact\n",
           kills, (unsigned long long)sum);
    return folder_remove(&place) == 0 ? 0 : 1;
}
