/*
 * store_contract.c - tests whether a store keeps the contract of storage.h.
 *
 * Each rule is a function that uses keys of its own, so that the rules do not
 * depend on each other. It reports the first thing that is wrong and stops.
 * The shards are those of `SHARD` and above, so that a store that other things
 * were written to can be tested, too.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/options.h"
#include "base/world.h"
#include "storage/storage.h"
#include "storage/store_op.h"
#include "troupe/base.h"
#include "troupe/storage.h"

enum {
    SHARD = 60000,
    SAVES = 40,       // of one key, submitted at once
    KEYS = 30,        // that a scan lists
    LARGE = 1 << 20,  // bytes of a large state
    TEXT_MAX = 512,
};

typedef struct contract {
    tr_storage *store;
    const char *rule;  // that is being tested
    char text[TEXT_MAX];
} contract;

/* An operation, and the word that its caller waits on. */
typedef struct asked {
    tri_store_op op;
    _Atomic(uint32_t) word;  // 1: answered
} asked;

/* ---- operations ---- */

static void on_answer(tri_store_op *op)
{
    asked *it = tri_container_of(op, asked, op);
    tri_world *world = tri_world_posix();

    // Release: pairs with the acquire in wait_for.
    atomic_store_explicit(&it->word, 1, memory_order_release);
    world->ops->wake(world, &it->word, 1);
}

static void wait_for(asked *it)
{
    tri_world *world = tri_world_posix();

    // Acquire: pairs with the release in on_answer.
    while (atomic_load_explicit(&it->word, memory_order_acquire) == 0) {
        (void)world->ops->park(world, &it->word, 0, TR_FOREVER);
    }
}

static tri_store_bytes bytes_of(const char *text)
{
    return (tri_store_bytes){text, strlen(text)};
}

static asked ask_for(tr_store_call call, const char *key)
{
    return (asked){.op = {.call = call,
                          .key = bytes_of(key),
                          .shard = SHARD,
                          .done = on_answer}};
}

static asked ask_save(const char *key, uint64_t version, const char *state)
{
    asked it = ask_for(TR_STORE_SAVE, key);

    it.op.number = version;
    it.op.bytes = bytes_of(state);
    return it;
}

static tr_err run(contract *c, asked *it)
{
    // Relaxed: no other thread knows the operation yet.
    atomic_store_explicit(&it->word, 0, memory_order_relaxed);
    tri_storage_submit(c->store, &it->op);
    wait_for(it);
    return it->op.err;
}

/* ---- reports ---- */

/* Notes what is wrong. Returns false for the caller to return. */
TR_PRINTF(2, 3)
static bool broken(contract *c, const char *format, ...)
{
    char text[TEXT_MAX / 2];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void)snprintf(c->text, sizeof(c->text), "%s: %s", c->rule, text);
    return false;
}

/* Runs the operation and compares its error. */
static bool expect(contract *c, asked *it, tr_err err, const char *what)
{
    tr_err got = run(c, it);

    if (got == err) {
        return true;
    }
    return broken(c, "%s gives %s, not %s (%s)", what, tr_errname(got),
                  tr_errname(err), it->op.text);
}

static bool expect_save(contract *c, const char *key, uint64_t version,
                        const char *state, tr_err err, const char *what)
{
    asked it = ask_save(key, version, state);

    return expect(c, &it, err, what) &&
           (err != TR_OK || it.op.version == version + 1 ||
            broken(c, "%s gives version %llu", what,
                   (unsigned long long)it.op.version));
}

/* Loads and compares; version 0: nothing is stored. */
static bool expect_bytes(contract *c, const char *key, uint64_t version,
                         tri_store_bytes state)
{
    asked it = ask_for(TR_STORE_LOAD, key);

    if (!expect(c, &it, TR_OK, "a load")) {
        return false;
    }
    bool same =
        it.op.found == (version > 0) &&
        (version == 0 ||
         (it.op.version == version && it.op.out_size == state.size &&
          (state.size == 0 || memcmp(it.op.out, state.at, state.size) == 0)));
    if (!same) {
        (void)broken(c,
                     "a load finds version %llu with %zu bytes, stored was "
                     "version %llu with %zu bytes",
                     (unsigned long long)it.op.version, it.op.out_size,
                     (unsigned long long)version, state.size);
    }
    tri_store_op_fini(&it.op);
    return same;
}

static bool expect_state(contract *c, const char *key, uint64_t version,
                         const char *state)
{
    return expect_bytes(c, key, version, bytes_of(state));
}

/* ---- the rules ---- */

static bool loads_what_was_saved(contract *c)
{
    static const char odd[] = {0, 1, (char)0xff, 0, '"', (char)0x80, 0};
    static const char key[] = "contract::load/odd";
    asked save = ask_for(TR_STORE_SAVE, key);

    save.op.bytes = (tri_store_bytes){odd, sizeof(odd)};
    return expect_state(c, "contract::load/never", 0, "") &&
           expect(c, &save, TR_OK, "a save of any bytes") &&
           expect_bytes(c, key, 1, save.op.bytes) &&
           expect_save(c, key, 1, "", TR_OK, "a save of an empty state") &&
           expect_state(c, key, 2, "") &&
           expect_save(c, "contract::load/odder", 0, "other", TR_OK,
                       "a save of another key") &&
           expect_state(c, key, 2, "") &&
           expect_state(c, "contract::load/odder", 1, "other");
}

static bool keeps_large_states_and_keys(contract *c)
{
    char key[TRI_STORE_KEY_MAX + 1];
    char *large = malloc(LARGE);

    if (large == NULL) {
        return broken(c, "no memory for the test");
    }
    memset(key, 'k', sizeof(key));
    memcpy(key, "contract::large/", strlen("contract::large/"));
    key[TRI_STORE_KEY_MAX] = '\0';
    for (size_t i = 0; i < LARGE; i++) {
        large[i] = (char)(i * 31 + i / 251);
    }
    asked save = ask_for(TR_STORE_SAVE, key);
    save.op.bytes = (tri_store_bytes){large, LARGE};
    bool ok = expect(c, &save, TR_OK, "a save of 1 MiB under a long key") &&
              expect_bytes(c, key, 1, save.op.bytes);
    free(large);
    return ok;
}

static bool checks_versions(contract *c)
{
    static const char key[] = "contract::version/a";

    return expect_save(c, key, 3, "x", TR_ENOENT,
                       "a save of version 3 where nothing is stored") &&
           expect_state(c, key, 0, "") &&
           expect_save(c, key, 0, "first", TR_OK, "a first save") &&
           expect_save(c, key, 0, "late", TR_EFENCED, "a second first save") &&
           expect_save(c, key, 2, "early", TR_EFENCED,
                       "a save of a version that is not stored yet") &&
           expect_state(c, key, 1, "first") &&
           expect_save(c, key, 1, "second", TR_OK, "a second save") &&
           expect_save(c, key, 1, "late", TR_EFENCED,
                       "a save of an old version") &&
           expect_state(c, key, 2, "second");
}

static bool expect_epoch(contract *c, asked *it, uint32_t shard, uint64_t epoch,
                         tr_err err, const char *what)
{
    it->op.shard = shard;
    it->op.epoch = epoch;
    return expect(c, it, err, what);
}

static bool checks_fences(contract *c)
{
    static const char key[] = "contract::fence/a";
    asked fence = ask_for(TR_STORE_FENCE, key);
    asked one = ask_save(key, 0, "one"), two = ask_save(key, 1, "two");
    asked late = ask_save(key, 2, "late"), plain = ask_save(key, 2, "plain");
    asked wrong = ask_save(key, 9, "wrong");
    asked other = ask_save("contract::fence/b", 0, "other shard");
    asked foreign = ask_save("contract2::fence/a", 0, "other namespace");

    return expect_epoch(c, &one, SHARD + 1, 4, TR_OK, "a save") &&
           expect_epoch(c, &fence, SHARD + 1, 6, TR_OK, "a fence") &&
           expect_epoch(c, &fence, SHARD + 1, 6, TR_OK, "the same fence") &&
           expect_epoch(c, &fence, SHARD + 1, 5, TR_EFENCED,
                        "a fence below the fence") &&
           expect_epoch(c, &two, SHARD + 1, 5, TR_EFENCED,
                        "a save below the fence") &&
           expect_state(c, key, 1, "one") &&
           expect_epoch(c, &two, SHARD + 1, 8, TR_OK,
                        "a save above the fence") &&
           expect_epoch(c, &late, SHARD + 1, 7, TR_EFENCED,
                        "a save below the epoch of an earlier save") &&
           expect_epoch(c, &wrong, SHARD + 1, 90, TR_EFENCED,
                        "a save of a wrong version") &&
           expect_epoch(c, &plain, SHARD + 1, 0, TR_OK,
                        "a save without an epoch") &&
           expect_epoch(
               c, &fence, SHARD + 1, 8, TR_OK,
               "a fence at an epoch that only a refused save passed") &&
           expect_epoch(c, &other, SHARD + 2, 1, TR_OK,
                        "a save in another shard") &&
           expect_epoch(c, &foreign, SHARD + 1, 1, TR_OK,
                        "a save in another namespace") &&
           expect_state(c, key, 3, "plain");
}

static bool expect_remove(contract *c, const char *key, uint64_t version,
                          uint64_t epoch, tr_err err, const char *what)
{
    asked it = ask_for(TR_STORE_DELETE, key);

    it.op.number = version;
    it.op.shard = SHARD + 3;
    it.op.epoch = epoch;
    return expect(c, &it, err, what);
}

static bool removes(contract *c)
{
    static const char key[] = "contract::remove/a";
    asked fence = ask_for(TR_STORE_FENCE, key);

    return expect_epoch(c, &fence, SHARD + 3, 5, TR_OK, "a fence") &&
           expect_remove(c, key, 0, 0, TR_OK, "a remove of nothing") &&
           expect_remove(c, key, 1, 0, TR_ENOENT,
                         "a remove of version 1 where nothing is stored") &&
           expect_save(c, key, 0, "x", TR_OK, "a save") &&
           expect_save(c, key, 1, "y", TR_OK, "a save") &&
           expect_remove(c, key, 1, 0, TR_EFENCED,
                         "a remove of an old version") &&
           expect_remove(c, key, 2, 4, TR_EFENCED,
                         "a remove below the fence") &&
           expect_state(c, key, 2, "y") &&
           expect_remove(c, key, 2, 5, TR_OK, "a remove") &&
           expect_state(c, key, 0, "") &&
           expect_save(c, key, 0, "again", TR_OK, "a save after a remove") &&
           expect_state(c, key, 1, "again");
}

/* All saves are submitted before the first answer is awaited. */
static bool keeps_order(contract *c)
{
    asked saves[SAVES];
    tri_list list;
    bool ok = true;

    tri_list_init(&list);
    for (uint32_t i = 0; i < SAVES; i++) {
        saves[i] = ask_save("contract::order/a", i, "same");
        tri_list_push_back(&list, &saves[i].op.link);
    }
    tri_storage_submit_all(c->store, &list);
    for (uint32_t i = 0; i < SAVES; i++) {
        wait_for(&saves[i]);
    }
    for (uint32_t i = 0; i < SAVES && ok; i++) {
        ok = saves[i].op.err == TR_OK ||
             broken(c, "save %u of %d that were submitted together gives %s", i,
                    SAVES, tr_errname(saves[i].op.err));
    }
    return ok && expect_state(c, "contract::order/a", SAVES, "same");
}

/* Compares a page of a scan with the keys from number *next on. */
static bool expect_page(contract *c, asked *scan, char *after, uint32_t *next)
{
    tri_store_row row;
    char key[TRI_STORE_KEY_MAX + 1];
    bool ok = true;

    for (size_t at = 0; ok && tri_store_row_next(&scan->op, &at, &row);
         (*next)++) {
        *next += *next == 7;  // it was removed
        (void)snprintf(key, sizeof(key), "contract::scan/m%02u", *next);
        (void)snprintf(after, TRI_STORE_KEY_MAX + 1, "%.*s", (int)row.key.size,
                       (const char *)row.key.at);
        ok = strcmp(key, after) == 0 ||
             broken(c, "found %.80s where %s comes next", after, key);
    }
    return ok;
}

static bool scan_in_pages(contract *c, uint32_t limit)
{
    char after[TRI_STORE_KEY_MAX + 1] = "contract::scan/";
    uint32_t next = 0;
    bool more = true;

    for (uint32_t pages = 0; more; pages++) {
        asked scan = ask_for(TR_STORE_SCAN, after);
        scan.op.bytes = bytes_of("contract::scan/m");
        scan.op.limit = limit;
        if (!expect(c, &scan, TR_OK, "a scan")) {
            return false;
        }
        bool ok = expect_page(c, &scan, after, &next);
        more = scan.op.more;
        tri_store_op_fini(&scan.op);
        if (!ok || pages > KEYS) {
            return ok ? broken(c, "a scan does not end") : false;
        }
    }
    return next == KEYS ||
           broken(c, "the scan ends after %u of %d keys", next, KEYS);
}

static bool scans_in_order(contract *c)
{
    char key[TRI_STORE_KEY_MAX + 1];

    for (uint32_t i = 0; i < KEYS; i++) {  // 7 and 30 have no common divisor
        (void)snprintf(key, sizeof(key), "contract::scan/m%02u", i * 7 % KEYS);
        if (!expect_save(c, key, 0, "x", TR_OK, "a save")) {
            return false;
        }
    }
    return expect_save(c, "contract::scan/a", 0, "x", TR_OK, "a save") &&
           expect_save(c, "contract::scan/n", 0, "x", TR_OK, "a save") &&
           expect_save(c, "contract::scan2/m", 0, "x", TR_OK, "a save") &&
           expect_remove(c, "contract::scan/m07", 1, 0, TR_OK, "a remove") &&
           scan_in_pages(c, 1) && scan_in_pages(c, 4) && scan_in_pages(c, 0);
}

static bool survives_begin(contract *c)
{
    asked fence = ask_for(TR_STORE_FENCE, "contract::kept/a");

    return expect_epoch(c, &fence, SHARD + 4, 5, TR_OK, "a fence") &&
           expect_save(c, "contract::kept/a", 0, "one", TR_OK, "a save") &&
           expect_save(c, "contract::kept/a", 1, "two", TR_OK, "a save");
}

static bool survives_end(contract *c)
{
    asked late = ask_save("contract::kept/b", 0, "late");

    return expect_state(c, "contract::kept/a", 2, "two") &&
           expect_epoch(c, &late, SHARD + 4, 4, TR_EFENCED,
                        "after opening it again, a save below the fence") &&
           expect_save(c, "contract::kept/a", 2, "three", TR_OK,
                       "after opening it again, a save");
}

/* ---- all of them ---- */

typedef struct rule {
    const char *name;
    bool (*test)(contract *c);
} rule;

static bool test_all(contract *c, const rule *rules, size_t count)
{
    bool ok = true;

    for (size_t i = 0; i < count && ok; i++) {
        c->rule = rules[i].name;
        ok = rules[i].test(c);
    }
    tr_storage_close(c->store);
    return ok;
}

static tr_err report(const tr_contract_options *o, const contract *c)
{
    if (o->text_size > 0) {
        (void)snprintf(o->text, o->text_size, "%s", c->text);
    } else {
        tri_world *world = tri_world_posix();
        tri_log_write(TRI_LOG_ERROR, world->ops->wall(world), NULL, NULL,
                      c->text);
    }
    return TR_EFAILED;
}

tr_err(tr_storage_contract)(const tr_contract_options *options)
{
    static const rule first[] = {
        {"a load finds what was saved", loads_what_was_saved},
        {"large states and long keys", keeps_large_states_and_keys},
        {"versions", checks_versions},
        {"fences", checks_fences},
        {"removing", removes},
        {"saves of one key keep their order", keeps_order},
        {"scans", scans_in_order},
        {"durable", survives_begin},
    };
    static const rule again[] = {{"durable", survives_end}};
    tr_contract_options o;
    contract c = {.store = NULL};

    if (!tri_options_copy(&o, sizeof(o),
                          TRI_SIZE_THROUGH(tr_contract_options, text_size),
                          options) ||
        o.open == NULL) {
        return TR_EINVAL;
    }
    TR_TRY(o.open(&c.store, o.user));
    if (!test_all(&c, first, TRI_COUNT_OF(first))) {
        return report(&o, &c);
    }
    if (o.is_durable) {
        TR_TRY(o.open(&c.store, o.user));
        if (!test_all(&c, again, TRI_COUNT_OF(again))) {
            return report(&o, &c);
        }
    }
    if (o.text_size > 0) {
        o.text[0] = '\0';
    }
    return TR_OK;
}
