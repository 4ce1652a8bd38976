/*
 * disk_hostile.c - SQLite on a disk that is full, read-only or damaged: the
 * actor gets an error with a text, keeps its state, and saves again when the
 * disk is well.
 */
#include "child.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <troupe/storage.h>

TR_STATE(Purse, (int64_t, cents), (const char *, note));
TR_REQUEST(Add, tr_none, (int64_t, cents), (const char *, note));
TR_MESSAGE(Sum, (int64_t, cents));
TR_REQUEST(Count, Sum);

static tr_err on_add(tr_ctx *ctx, Purse *self, const Add *m)
{
    Purse next = {.cents = self->cents + m->cents, .note = m->note};

    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m);
}

static tr_err on_count(tr_ctx *ctx, Purse *self, const Count *m)
{
    return tr_reply(ctx, m, .cents = self->cents);
}

TR_ACTOR(purse, Purse, TR_ON(Add, on_add), TR_ON(Count, on_count));

static char folder[64], path[96], note[1 << 16];

static void make_folder(void)
{
    snprintf(folder, sizeof(folder), "/tmp/troupe-hostile-XXXXXX");
    MUST_BE(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/purse.db", folder);
    memset(note, 'x', sizeof(note) - 1);
}

static void remove_folder(void)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char name[128];

    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "%s%s", path, ends[i]);
        (void)unlink(name);
    }
    MUST_BE(rmdir(folder) == 0);
}

static void quiet(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

static tr_system *open_system(tr_storage **store)
{
    tr_system *sys;

    TR_MUST(tr_storage_sqlite(store, path));
    TR_MUST(tr_system_open(&sys, .workers = 2, .log = quiet));
    return sys;
}

static void close_system(tr_system *sys, tr_storage *store)
{
    MUST_BE(tr_system_close(sys, TR_SECONDS(30)) == TR_OK);
    tr_storage_close(store);
}

static tr_err add(tr_system *sys, tr_ref to, int64_t cents)
{
    return tr_ask(sys, to, NULL, TR_SECONDS(30), Add, .cents = cents,
                  .note = note);
}

static int64_t count(tr_system *sys, tr_ref to)
{
    Sum sum;

    MUST_BE(tr_ask(sys, to, &sum, TR_SECONDS(30), Count) == TR_OK);
    return sum.cents;
}

static void set_file_limit(rlim_t most)
{
    struct rlimit limit = {.rlim_cur = most, .rlim_max = RLIM_INFINITY};

    MUST_BE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* ---- full ---- */

static void fill_the_disk(void)
{
    tr_storage *store;
    int64_t saved = 0;
    tr_err err = TR_OK;

    make_folder();
    signal(SIGXFSZ, SIG_IGN);
    tr_system *sys = open_system(&store);
    tr_ref ref = tr_spawn(sys, purse, .name = "p", .storage = store);
    MUST_BE(add(sys, ref, 1) == TR_OK);
    set_file_limit(1 << 19);
    for (int i = 0; i < 1000 && err == TR_OK; i++) {
        saved++;
        err = add(sys, ref, 1);
    }
    MUST_BE(err == TR_ESTORAGE || err == TR_EUNKNOWN || err == TR_EFAILED);
    // Nothing that was saved is lost; what failed is not there.
    int64_t now = count(sys, ref);
    MUST_BE(now == saved || (err == TR_EUNKNOWN && now == saved + 1));
    set_file_limit(RLIM_INFINITY);
    while (add(sys, ref, 100) != TR_OK) {
    }
    MUST_BE(count(sys, ref) == now + 100);
    close_system(sys, store);
    sys = open_system(&store);
    ref = tr_spawn(sys, purse, .name = "p", .storage = store);
    MUST_BE(count(sys, ref) == now + 100);
    close_system(sys, store);
    remove_folder();
}

static void test_a_full_disk_loses_no_save(void **state)
{
    (void)state;
    in_child(fill_the_disk);
}

/* ---- read-only ---- */

static void open_read_only(void)
{
    tr_storage *store;

    make_folder();
    tr_system *sys = open_system(&store);
    tr_ref ref = tr_spawn(sys, purse, .name = "p", .storage = store);
    MUST_BE(add(sys, ref, 5) == TR_OK);
    close_system(sys, store);
    MUST_BE(chmod(path, 0444) == 0 && chmod(folder, 0555) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        become_nobody();
        // Either the store does not open, or a save says that it cannot.
        tr_err err = tr_storage_sqlite(&store, path);
        if (err == TR_OK) {
            TR_MUST(tr_system_open(&sys, .workers = 1, .log = quiet));
            ref = tr_spawn(sys, purse, .name = "p", .storage = store);
            err = add(sys, ref, 1);
            close_system(sys, store);
        }
        MUST_BE(err != TR_OK && err != TR_ETIMEDOUT);
        _exit(0);
    }
    int status;
    MUST_BE(waitpid(pid, &status, 0) == pid && status == 0);
    MUST_BE(chmod(folder, 0755) == 0 && chmod(path, 0644) == 0);
    remove_folder();
}

static void test_a_read_only_disk_is_named(void **state)
{
    (void)state;
    in_child(open_read_only);
}

/* ---- damaged ---- */

/* Overwrites a part of the file; 0: its beginning. */
static void damage(off_t at, size_t size)
{
    char garbage[4096];
    int fd = open(path, O_WRONLY);

    memset(garbage, 0xa5, sizeof(garbage));
    MUST_BE(fd >= 0);
    MUST_BE(pwrite(fd, garbage, size, at) == (ssize_t)size);
    close(fd);
}

static void open_damaged(off_t at, size_t size)
{
    tr_storage *store;
    tr_system *sys;

    make_folder();
    sys = open_system(&store);
    tr_ref ref = tr_spawn(sys, purse, .name = "p", .storage = store);
    for (int i = 0; i < 20; i++) {
        MUST_BE(add(sys, ref, 1) == TR_OK);
    }
    close_system(sys, store);
    damage(at, size);
    // An error or the truth, never another state.
    if (tr_storage_sqlite(&store, path) == TR_OK) {
        Sum sum;
        TR_MUST(tr_system_open(&sys, .workers = 1, .log = quiet));
        ref = tr_spawn(sys, purse, .name = "p", .storage = store);
        tr_err err = tr_ask(sys, ref, &sum, TR_SECONDS(30), Count);
        MUST_BE(err != TR_ETIMEDOUT && (err != TR_OK || sum.cents == 20));
        close_system(sys, store);
    }
    remove_folder();
}

static void damage_the_head(void)
{
    open_damaged(0, 100);
}

static void damage_pages(void)
{
    for (off_t at = 4096; at < 16 * 4096; at += 4096) {
        open_damaged(at, 4096);
    }
}

static void cut_the_file(void)
{
    tr_storage *store;

    make_folder();
    tr_system *sys = open_system(&store);
    tr_ref ref = tr_spawn(sys, purse, .name = "p", .storage = store);
    MUST_BE(add(sys, ref, 1) == TR_OK);
    close_system(sys, store);
    MUST_BE(truncate(path, 5000) == 0);
    if (tr_storage_sqlite(&store, path) == TR_OK) {
        tr_storage_close(store);
    }
    remove_folder();
}

static void test_a_damaged_file_is_an_error_or_the_truth(void **state)
{
    (void)state;
    in_child(damage_the_head);
    in_child(damage_pages);
    in_child(cut_the_file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_disk_loses_no_save),
        cmocka_unit_test(test_a_read_only_disk_is_named),
        cmocka_unit_test(test_a_damaged_file_is_an_error_or_the_truth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
