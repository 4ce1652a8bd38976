/*
 * file_test.c - the calls of file.h, on real disks and on simulated ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe/troupe.h>
#include <unistd.h>

#define LONG TR_SECONDS(60)

enum { PATH_SIZE = 256 };

/* A system and a folder of its own. */
typedef struct place {
    tr_sim *sim;  // NULL: the real world
    tr_system *sys;
    char folder[PATH_SIZE / 2];
    char path[PATH_SIZE];  // of a file in it, which does not exist
} place;

static void place_open(place *it, bool simulated)
{
    *it = (place){0};
    (void)snprintf(it->folder, sizeof(it->folder), "/tmp/troupe-file-XXXXXX");
    if (simulated) {
        assert_int_equal(tr_sim_new(&it->sim, 7), TR_OK);
    } else {
        assert_non_null(mkdtemp(it->folder));
    }
    (void)snprintf(it->path, sizeof(it->path), "%s/file", it->folder);
    assert_int_equal(
        tr_system_open(&it->sys,
                       .world = simulated ? tr_sim_world(it->sim) : NULL),
        TR_OK);
}

/* Closes the system; the test has removed its files. */
static void place_close(place *it)
{
    assert_int_equal(tr_system_close(it->sys, 0), TR_OK);
    if (it->sim == NULL) {
        assert_int_equal(rmdir(it->folder), 0);
    }
    tr_sim_free(it->sim);
}

static void in_both_worlds(void (*check)(place *it))
{
    for (int simulated = 0; simulated < 2; simulated++) {
        place it;
        place_open(&it, simulated);
        check(&it);
        place_close(&it);
    }
}

static tr_file *open_file(place *it, uint32_t flags)
{
    tr_file *file;
    assert_int_equal(tr_file_open(it->sys, &file, it->path, flags), TR_OK);
    return file;
}

/* ---- outside of actors ---- */

static void check_bytes(place *it)
{
    tr_file *file = open_file(it, TR_FILE_WRITE | TR_FILE_CREATE);
    char text[16] = "";
    uint64_t size;
    size_t got;

    assert_int_equal(tr_file_write(it->sys, file, "hello", 5, 0), TR_OK);
    assert_int_equal(tr_file_write(it->sys, file, "world", 5, 6), TR_OK);
    assert_int_equal(tr_file_write(it->sys, file, NULL, 0, 100), TR_OK);
    assert_int_equal(tr_file_size(it->sys, file, &size), TR_OK);
    assert_int_equal(size, 11);
    assert_int_equal(tr_file_read(it->sys, file, text, 16, 0, &got), TR_OK);
    assert_int_equal(got, 11);
    assert_memory_equal(text, "hello\0world", 11);
    assert_int_equal(tr_file_read(it->sys, file, text, 2, 7, &got), TR_OK);
    assert_int_equal(got, 2);
    assert_memory_equal(text, "or", 2);
    assert_int_equal(tr_file_read(it->sys, file, text, 2, 11, &got), TR_OK);
    assert_int_equal(got, 0);
    assert_int_equal(tr_file_sync(it->sys, file), TR_OK);
    assert_int_equal(tr_file_resize(it->sys, file, 2), TR_OK);
    assert_int_equal(tr_file_size(it->sys, file, &size), TR_OK);
    assert_int_equal(size, 2);
    tr_file_close(it->sys, file);
    tr_file_close(it->sys, NULL);
    assert_int_equal(tr_file_remove(it->sys, it->path), TR_OK);
    assert_int_equal(tr_file_remove(it->sys, it->path), TR_ENOENT);
}

static void check_flags(place *it)
{
    tr_file *file, *none;
    char byte;
    size_t got;

    assert_int_equal(tr_file_open(it->sys, &none, it->path, TR_FILE_READ),
                     TR_ENOENT);
    assert_null(none);
    assert_non_null(strstr(tr_error_text(it->sys), it->path));
    assert_int_equal(tr_file_open(it->sys, &none, it->path, TR_FILE_CREATE),
                     TR_EINVAL);
    assert_int_equal(tr_file_open(it->sys, &none, it->path, TR_FILE_READ | 64),
                     TR_EINVAL);
    file = open_file(it, TR_FILE_WRITE | TR_FILE_CREATE);
    assert_int_equal(
        tr_file_open(it->sys, &none, it->path,
                     TR_FILE_WRITE | TR_FILE_CREATE | TR_FILE_EXCLUSIVE),
        TR_EEXIST);
    tr_file_close(it->sys, file);
    file = open_file(it, TR_FILE_READ);
    assert_int_equal(tr_file_write(it->sys, file, "x", 1, 0), TR_EINVAL);
    assert_int_equal(tr_file_resize(it->sys, file, 1), TR_EINVAL);
    assert_int_equal(tr_file_read(it->sys, file, &byte, 1, UINT64_MAX, &got),
                     TR_EINVAL);
    tr_file_close(it->sys, file);
    assert_int_equal(tr_file_remove(it->sys, it->path), TR_OK);
}

static void check_whole_files(place *it)
{
    static char large[200000], back[200000];
    char text[8] = "";
    size_t got;

    memset(large, 'x', sizeof(large));
    assert_int_equal(tr_file_load(it->sys, it->path, text, 8, &got), TR_ENOENT);
    assert_int_equal(tr_file_save(it->sys, it->path, "first", 5), TR_OK);
    assert_int_equal(tr_file_load(it->sys, it->path, text, 8, &got), TR_OK);
    assert_int_equal(got, 5);
    assert_memory_equal(text, "first", 5);
    assert_int_equal(tr_file_load(it->sys, it->path, text, 4, &got), TR_ELIMIT);
    assert_int_equal(got, 4);
    assert_int_equal(tr_file_save(it->sys, it->path, large, sizeof(large)),
                     TR_OK);
    assert_int_equal(tr_file_load(it->sys, it->path, back, sizeof(back), &got),
                     TR_OK);
    assert_int_equal(got, sizeof(large));
    assert_memory_equal(large, back, sizeof(large));
    assert_int_equal(tr_file_save(it->sys, it->path, NULL, 0), TR_OK);
    assert_int_equal(tr_file_load(it->sys, it->path, text, 8, &got), TR_OK);
    assert_int_equal(got, 0);
    // A file that is open while it is replaced stays as it was.
    assert_int_equal(tr_file_save(it->sys, it->path, "old", 3), TR_OK);
    tr_file *file = open_file(it, TR_FILE_READ);
    assert_int_equal(tr_file_save(it->sys, it->path, "newer", 5), TR_OK);
    assert_int_equal(tr_file_read(it->sys, file, text, 8, 0, &got), TR_OK);
    assert_int_equal(got, 3);
    assert_memory_equal(text, "old", 3);
    tr_file_close(it->sys, file);
    // place_close shows that no second file is left.
    assert_int_equal(tr_file_remove(it->sys, it->path), TR_OK);
}

static void test_outside_threads_use_files(void **state)
{
    (void)state;
    in_both_worlds(check_bytes);
    in_both_worlds(check_flags);
    in_both_worlds(check_whole_files);
}

static void test_a_save_that_fails_leaves_nothing(void **state)
{
    (void)state;
    place it;
    char path[PATH_SIZE];

    place_open(&it, false);
    (void)snprintf(path, sizeof(path), "%.100s/none/file", it.folder);
    assert_int_equal(tr_file_save(it.sys, path, "x", 1), TR_ENOENT);
    assert_non_null(strstr(tr_error_text(it.sys), path));
    // A folder cannot be replaced.
    assert_int_not_equal(tr_file_save(it.sys, it.folder, "x", 1), TR_OK);
    (void)snprintf(path, sizeof(path), "ls %.100s* -d | wc -l", it.folder);
    FILE *list = popen(path, "r");
    int count = 0;
    assert_int_equal(fscanf(list, "%d", &count), 1);
    (void)pclose(list);
    assert_int_equal(count, 1);  // the folder itself
    place_close(&it);
}

static void check_left_open(place *it)
{
    (void)open_file(it, TR_FILE_WRITE | TR_FILE_CREATE);
    assert_int_equal(tr_file_remove(it->sys, it->path), TR_OK);
}

static uint32_t count_descriptors(void)
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder) != NULL) {
        count++;
    }
    (void)closedir(folder);
    return count;
}

static void test_a_system_closes_files_that_are_left(void **state)
{
    (void)state;
    uint32_t before = count_descriptors();
    in_both_worlds(check_left_open);
    assert_int_equal(count_descriptors(), before);
}

static void test_a_file_of_another_system_is_refused(void **state)
{
    (void)state;
    place it, other;
    size_t got;
    char byte;

    place_open(&it, false);
    place_open(&other, false);
    tr_file *file = open_file(&it, TR_FILE_WRITE | TR_FILE_CREATE);
    assert_int_equal(tr_file_read(other.sys, file, &byte, 1, 0, &got),
                     TR_EFOREIGN);
    tr_file_close(it.sys, file);
    assert_int_equal(tr_file_remove(it.sys, it.path), TR_OK);
    place_close(&it);
    place_close(&other);
}

/* ---- in actors ---- */

TR_MESSAGE(Answer, (int32_t, err), (const char *, text));
TR_REQUEST(Append, Answer, (const char *, text));
TR_REQUEST(Content, Answer);
TR_REQUEST(Misuse, Answer);
TR_REQUEST(Whole, Answer);
TR_REQUEST(Close, Answer);

/* Appends to a file that it has open. */
typedef struct Book {
    const char *path;
    tr_file *file;
} Book;

static tr_err book_start(tr_ctx *ctx, Book *self)
{
    return tr_file_open(ctx, &self->file, self->path,
                        TR_FILE_WRITE | TR_FILE_CREATE);
}

static tr_err append(tr_ctx *ctx, tr_file *file, const char *text)
{
    uint64_t size;
    TR_TRY(tr_file_size(ctx, file, &size));
    TR_TRY(tr_file_write(ctx, file, text, strlen(text), size));
    return tr_file_sync(ctx, file);
}

static tr_err book_append(tr_ctx *ctx, Book *self, const Append *m)
{
    return tr_reply(ctx, m, .err = append(ctx, self->file, m->text));
}

static tr_err book_content(tr_ctx *ctx, Book *self, const Content *m)
{
    char text[64];
    size_t got;
    tr_err err = tr_file_read(ctx, self->file, text, sizeof(text) - 1, 0, &got);
    text[got] = '\0';
    return tr_reply(ctx, m, .err = err, .text = text);
}

/* Saves the file with more text, loads it, and removes it. */
static tr_err replace(tr_ctx *ctx, const Book *self, char *text, size_t size)
{
    size_t got;
    TR_TRY(tr_file_load(ctx, self->path, text, size, &got));
    TR_TRY(tr_file_save(ctx, self->path, "saved", 5));
    TR_TRY(tr_file_load(ctx, self->path, text, size, &got));
    text[got] = '\0';
    TR_TRY(tr_file_remove(ctx, self->path));
    tr_err err = tr_file_load(ctx, self->path, text, size, &got);
    return err == TR_ENOENT ? TR_OK : TR_EFAILED;
}

static tr_err book_whole(tr_ctx *ctx, Book *self, const Whole *m)
{
    char text[64] = "";
    tr_err err = replace(ctx, self, text, sizeof(text) - 1);
    return tr_reply(ctx, m, .err = err, .text = text);
}

static tr_err book_misuse(tr_ctx *ctx, Book *self, const Misuse *m)
{
    uint64_t size;
    tr_system *sys = tr_system_of(ctx);
    bool good = tr_file_size(sys, self->file, &size) == TR_EWOULDBLOCK &&
                tr_file_remove(sys, self->path) == TR_EWOULDBLOCK;
    return tr_reply(ctx, m, .err = good ? TR_OK : TR_EFAILED);
}

static tr_err book_close(tr_ctx *ctx, Book *self, const Close *m)
{
    tr_file_close(ctx, self->file);
    tr_err err = tr_file_open(ctx, &self->file, self->path, TR_FILE_WRITE);
    return tr_reply(ctx, m, .err = err);
}

TR_ACTOR(book, Book, TR_HOOK(pre_start, book_start), TR_ON(Append, book_append),
         TR_ON(Content, book_content), TR_ON(Whole, book_whole),
         TR_ON(Misuse, book_misuse), TR_ON(Close, book_close));

static void expect_text(Answer *answer, const char *text)
{
    assert_int_equal(answer->err, TR_OK);
    if (text != NULL) {
        assert_string_equal(answer->text, text);
    }
    tr_drop(Answer, answer);
}

static void check_actor(place *it)
{
    Answer answer;
    uint32_t before = count_descriptors();
    tr_ref ref = tr_spawn(it->sys, book, .joinable = true,
                          TR_INIT(book, .path = it->path));

    assert_int_equal(tr_ask(it->sys, ref, &answer, LONG, Append, .text = "a,"),
                     TR_OK);
    expect_text(&answer, NULL);
    assert_int_equal(tr_ask(it->sys, ref, &answer, LONG, Close), TR_OK);
    expect_text(&answer, NULL);
    assert_int_equal(tr_ask(it->sys, ref, &answer, LONG, Append, .text = "b"),
                     TR_OK);
    expect_text(&answer, NULL);
    assert_int_equal(tr_ask(it->sys, ref, &answer, LONG, Content), TR_OK);
    expect_text(&answer, "a,b");
    assert_int_equal(tr_ask(it->sys, ref, &answer, LONG, Misuse), TR_OK);
    expect_text(&answer, NULL);
    assert_int_equal(tr_ask(it->sys, ref, &answer, LONG, Whole), TR_OK);
    expect_text(&answer, "saved");
    tr_kill(it->sys, ref);
    assert_int_equal(tr_join(it->sys, ref, LONG, NULL, NULL), TR_OK);
    // The first call has opened a poller; the file itself is closed.
    assert_in_range(count_descriptors(), before, before + 2);
}

static void test_actors_use_files(void **state)
{
    (void)state;
    in_both_worlds(check_actor);
}

/* ---- an actor that is ended while it waits for the disk ---- */

typedef struct Writer {
    const char *path;
} Writer;

/* Writes without an end; a stop must end it, in the middle of a call. */
static tr_err writer_run(tr_ctx *ctx, Writer *self)
{
    tr_file *file;
    TR_TRY(tr_file_open(ctx, &file, self->path, TR_FILE_WRITE));
    for (uint64_t i = 0;; i++) {
        char block[4096];
        memset(block, (int)i, sizeof(block));
        TR_TRY(tr_file_write(ctx, file, block, sizeof(block), i % 64 * 4096));
    }
}

TR_ACTOR(writer, Writer, TR_HOOK(on_run, writer_run));

static void check_ended(place *it)
{
    // A writer that makes the file could make it after the test removed it:
    // what an ended handler has asked for still happens.
    assert_int_equal(tr_file_save(it->sys, it->path, "", 0), TR_OK);
    for (int i = 0; i < 20; i++) {
        tr_ref ref = tr_spawn(it->sys, writer, .joinable = true,
                              TR_INIT(writer, .path = it->path));
        assert_int_equal(tr_started(it->sys, ref, LONG), TR_OK);
        if (i % 2) {
            tr_kill(it->sys, ref);
        } else {
            tr_stop(it->sys, ref);
        }
        assert_int_equal(tr_join(it->sys, ref, LONG, NULL, NULL), TR_OK);
    }
    assert_int_equal(tr_file_remove(it->sys, it->path), TR_OK);
}

static void test_an_actor_may_be_ended_while_it_writes(void **state)
{
    (void)state;
    in_both_worlds(check_ended);
}

/* ---- a simulated disk that fails ---- */

enum { SAVES = 40 };

/* What the node was told to be durable. */
typedef struct ledger {
    uint32_t begun, saved, kills, failed;
    uint32_t runs;
    tr_err wrong;
} ledger;

typedef struct Keeper {
    ledger *ledger;
} Keeper;

/* Reads the number that is stored. None yet: 0. */
static tr_err load_number(tr_ctx *ctx, uint32_t *number)
{
    size_t got;
    *number = 0;
    tr_err err = tr_file_load(ctx, "number", number, sizeof(*number), &got);
    if (err == TR_ENOENT) {
        return TR_OK;
    }
    TR_TRY(err);
    return got == sizeof(*number) ? TR_OK : TR_EFAILED;  // neither old nor new
}

/* Saves greater and greater numbers; a number that was saved must stay. */
static tr_err keeper_run(tr_ctx *ctx, Keeper *self)
{
    ledger *it = self->ledger;
    uint32_t number;
    tr_err err;
    it->runs++;
    while ((err = load_number(ctx, &number)) == TR_EIO) {
        it->failed++;
    }
    TR_TRY(err);
    if (number < it->saved || number > it->begun) {
        it->wrong = TR_EFAILED;
    }
    while (it->saved < SAVES) {
        it->begun = it->begun > number ? it->begun + 1 : number + 1;
        number = it->begun;
        err = tr_file_save(ctx, "number", &number, sizeof(number));
        if (err == TR_OK) {
            it->saved = number;
        } else if (err == TR_EIO) {
            it->failed++;
        } else {
            return err;
        }
        TR_TRY(tr_sleep(ctx, TR_MS(100)));
    }
    return TR_OK;
}

TR_ACTOR(keeper, Keeper, TR_HOOK(on_run, keeper_run));

static tr_err keeper_start(tr_system *sys, uint32_t index, void *user)
{
    (void)index;
    return tr_ref_err(tr_spawn(sys, keeper, TR_INIT(keeper, .ledger = user)));
}

static tr_err kill_now_and_then(tr_sim *sim, void *user)
{
    ledger *it = user;
    while (it->saved < SAVES) {
        tr_sim_advance(sim, (tr_nanos)tr_sim_random(sim, TR_SECONDS(2)));
        tr_sim_kill(sim, 0, TR_MS(100));
        it->kills++;
    }
    return it->wrong;
}

static void test_a_saved_file_survives_kills_and_errors(void **state)
{
    (void)state;
    uint32_t kills = 0, failed = 0;
    tr_faults faults = {.size = sizeof(faults),
                        .disk_error = 0.05,
                        .disk_slow = 0.05,
                        .torn_write = 0.05,
                        .disk_full = 0.05};
    for (uint64_t seed = 0; seed < 30; seed++) {
        ledger it = {0};
        tr_sim_options options = {.size = sizeof(options),
                                  .seed = seed,
                                  .faults = &faults,
                                  .node = keeper_start,
                                  .workload = kill_now_and_then,
                                  .user = &it};
        assert_int_equal(tr_sim_run(&options), TR_OK);
        assert_int_equal(it.wrong, TR_OK);
        kills += it.kills;
        failed += it.failed;
    }
    assert_true(kills > 30);
    assert_true(failed > 30);
}

/* What was written and not synced may be lost in a kill: the disk is honest. */
typedef struct Careless {
    bool *lost;
} Careless;

static tr_err careless_run(tr_ctx *ctx, Careless *self)
{
    tr_file *file;
    uint64_t size;
    TR_TRY(tr_file_open(ctx, &file, "log", TR_FILE_WRITE | TR_FILE_CREATE));
    TR_TRY(tr_file_size(ctx, file, &size));
    if (size == 0) {
        TR_TRY(tr_file_sync(ctx, file));
        TR_TRY(tr_file_write(ctx, file, "x", 1, 0));
        return tr_sleep(ctx, TR_SECONDS(100));
    }
    *self->lost = false;  // it was there after the kill
    return TR_OK;
}

TR_ACTOR(careless, Careless, TR_HOOK(on_run, careless_run));

static tr_err careless_start(tr_system *sys, uint32_t index, void *user)
{
    (void)index;
    return tr_ref_err(tr_spawn(sys, careless, TR_INIT(careless, .lost = user)));
}

static tr_err kill_once(tr_sim *sim, void *user)
{
    (void)user;
    tr_sim_advance(sim, TR_SECONDS(5));
    tr_sim_kill(sim, 0, TR_MS(100));
    tr_sim_advance(sim, TR_SECONDS(5));
    return TR_OK;
}

static void test_a_write_without_sync_may_be_lost(void **state)
{
    (void)state;
    uint32_t count = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        bool lost = true;
        tr_sim_options options = {.size = sizeof(options),
                                  .seed = seed,
                                  .node = careless_start,
                                  .workload = kill_once,
                                  .user = &lost};
        assert_int_equal(tr_sim_run(&options), TR_OK);
        count += lost;
    }
    assert_in_range(count, 1, 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outside_threads_use_files),
        cmocka_unit_test(test_a_save_that_fails_leaves_nothing),
        cmocka_unit_test(test_a_system_closes_files_that_are_left),
        cmocka_unit_test(test_a_file_of_another_system_is_refused),
        cmocka_unit_test(test_actors_use_files),
        cmocka_unit_test(test_an_actor_may_be_ended_while_it_writes),
        cmocka_unit_test(test_a_saved_file_survives_kills_and_errors),
        cmocka_unit_test(test_a_write_without_sync_may_be_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
