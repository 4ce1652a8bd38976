/*
 * 21_delete_and_list_state.c - stored state is deleted by its actor and by
 * name, and listed by kind and prefix, in memory, SQLite and PostgreSQL.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <troupe/troupe.h>

#include "support/postgres.h"

TR_MESSAGE(Sum, (int64_t, value), (const char *, memo));
TR_REQUEST(Add, Sum, (int64_t, value), (const char *, memo));
TR_REQUEST(Drop, Sum);
TR_REQUEST(Clean, Sum, (const char *, prefix));
TR_MESSAGE(Added, (int64_t, value));
TR_STATE(Account, (int64_t, value), (const char *, memo));
TR_STATE(Ledger, (int64_t, value));
TR_STATE(Cleaner, (int64_t, runs));

/* ---- accounts store their state, ledgers their events ---- */

static tr_err on_add(tr_ctx *ctx, Account *self, const Add *m)
{
    Account next = {.value = self->value + m->value, .memo = m->memo};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m, .value = self->value, .memo = self->memo);
}

static tr_err on_drop(tr_ctx *ctx, Account *self, const Drop *m)
{
    TR_OR_REFUSE(ctx, m, tr_delete_state(ctx, self));
    return tr_reply(ctx, m, .value = self->value, .memo = self->memo);
}

TR_ACTOR(account, Account, TR_ON(Add, on_add), TR_ON(Drop, on_drop));

static void apply_added(Ledger *self, const Added *e)
{
    self->value += e->value;
}

static tr_err on_ledger_add(tr_ctx *ctx, Ledger *self, const Add *m)
{
    TR_OR_REFUSE(ctx, m, tr_emit(ctx, self, Added, .value = m->value));
    return tr_reply(ctx, m, .value = self->value);
}

static tr_err on_ledger_drop(tr_ctx *ctx, Ledger *self, const Drop *m)
{
    TR_OR_REFUSE(ctx, m, tr_delete_state(ctx, self));
    return tr_reply(ctx, m, .value = self->value + (int64_t)tr_sequence(ctx));
}

TR_ACTOR(ledger, Ledger, TR_ON(Add, on_ledger_add), TR_ON(Drop, on_ledger_drop),
         TR_APPLY(Added, apply_added));

/* An actor that deletes the accounts of a prefix. */
static tr_storage *cleaned;

static tr_err on_clean(tr_ctx *ctx, Cleaner *self, const Clean *m)
{
    tr_scan scan = {.kind = "account", .prefix = m->prefix};
    tr_err err;
    int64_t count = 0;
    (void)self;
    while ((err = tr_scan_next(ctx, cleaned, &scan)) == TR_OK) {
        TR_OR_REFUSE(ctx, m,
                     tr_delete_state_of(ctx, cleaned, "account", scan.key));
        count++;
    }
    if (err != TR_ENOENT) return tr_refuse(ctx, m, err, "scan");
    return tr_reply(ctx, m, .value = count);
}

TR_ACTOR(cleaner, Cleaner, TR_ON(Clean, on_clean));

/* ---- each test on each store ---- */

typedef enum place { IN_MEMORY, IN_SQLITE, IN_POSTGRES, PLACES } place;

static pg_server *server;  // of the whole group of tests

typedef struct bank {
    char folder[64], file[80];
    tr_storage *store;
    tr_system *sys;
} bank;

static tr_err open_store(bank *b, place where)
{
    switch (where) {
    case IN_SQLITE:
        return tr_storage_sqlite(&b->store, b->file);
    case IN_POSTGRES:
        return tr_storage_postgres(&b->store, pg_server_conninfo(server));
    default:
        return tr_storage_memory(&b->store);
    }
}

static void bank_open(bank *b, place where)
{
    static int count;
    char ns[16];  // another one each time: the database is the same
    snprintf(ns, sizeof(ns), "bank%d", ++count);
    snprintf(b->folder, sizeof(b->folder), "/tmp/troupe-21-XXXXXX");
    assert_non_null(mkdtemp(b->folder));
    snprintf(b->file, sizeof(b->file), "%s/db", b->folder);
    TR_MUST(open_store(b, where));
    TR_MUST(tr_system_open(&b->sys, .ns = ns));
    TR_MUST(tr_host(b->sys, account, .storage = b->store));
    TR_MUST(tr_host(b->sys, ledger, .storage = b->store));
    cleaned = b->store;
}

static void bank_close(bank *b)
{
    static const char *const parts[] = {"", "-wal", "-shm"};
    char path[96];
    TR_MUST(tr_system_close(b->sys, 0));
    tr_storage_close(b->store);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s%s", b->file, parts[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(b->folder), 0);
}

static int64_t add(bank *b, tr_ref ref, int64_t value)
{
    Sum sum;
    TR_MUST(tr_ask(b->sys, ref, &sum, 0, Add, .value = value, .memo = "m"));
    int64_t result = sum.value;
    tr_drop(Sum, &sum);
    return result;
}

static int64_t drop(bank *b, tr_ref ref)
{
    Sum sum;
    TR_MUST(tr_ask(b->sys, ref, &sum, 0, Drop));
    assert_null(sum.memo);
    return sum.value;
}

/* Lists all keys as "a,b,c". */
static const char *list(bank *b, const char *kind, const char *prefix,
                        const char *after)
{
    static char text[8192];
    tr_scan scan = {.kind = kind, .prefix = prefix};
    tr_err err;
    text[0] = '\0';
    snprintf(scan.key, sizeof(scan.key), "%s", after);
    while ((err = tr_scan_next(b->sys, b->store, &scan)) == TR_OK) {
        strcat(text, text[0] == '\0' ? "" : ",");
        strcat(text, scan.key);
    }
    assert_int_equal(err, TR_ENOENT);
    return text;
}

static tr_err delete_by_name(bank *b, const char *kind, const char *key)
{
    return tr_delete_state_of(b->sys, b->store, kind, key);
}

static void deletes_its_own(bank *b, const char *kind)
{
    tr_ref ann = tr_virtual(b->sys, kind, "ann");
    assert_int_equal(add(b, ann, 5), 5);
    assert_int_equal(add(b, ann, 2), 7);
    assert_string_equal(list(b, kind, NULL, ""), "ann");
    assert_int_equal(drop(b, ann), 0);
    assert_string_equal(list(b, kind, NULL, ""), "");
    assert_int_equal(drop(b, ann), 0);  // nothing is stored: no error
    assert_int_equal(add(b, ann, 3), 3);
    tr_stop(b->sys, ann);
    assert_int_equal(add(b, ann, 1), 4);  // loaded again
    assert_string_equal(list(b, kind, NULL, ""), "ann");
}

static void deletes_by_name(bank *b, const char *kind)
{
    tr_ref bob = tr_virtual(b->sys, kind, "bob");
    assert_int_equal(add(b, bob, 5), 5);
    assert_int_equal(delete_by_name(b, kind, "bob"), TR_OK);
    assert_int_equal(delete_by_name(b, kind, "bob"), TR_ENOENT);
    assert_int_equal(delete_by_name(b, kind, "never"), TR_ENOENT);
    // The activation does not know: its write is refused, and it ends.
    assert_int_equal(tr_ask(b->sys, bob, NULL, 0, Add, .value = 1), TR_EFENCED);
    assert_int_equal(add(b, bob, 8), 8);
    assert_int_equal(delete_by_name(b, kind, ""), TR_EINVAL);
    assert_int_equal(delete_by_name(b, "a/b", "bob"), TR_EINVAL);
    TR_MUST(delete_by_name(b, kind, "bob"));
}

static void run(void (*test)(bank *b, const char *kind))
{
    bank b;
    for (place where = IN_MEMORY; where < PLACES; where++) {
        bank_open(&b, where);
        test(&b, "account");
        test(&b, "ledger");
        bank_close(&b);
    }
}

static void test_an_actor_deletes_its_state(void **state)
{
    (void)state;
    run(deletes_its_own);
}

static void test_state_is_deleted_by_name(void **state)
{
    (void)state;
    run(deletes_by_name);
}

static void lists_by_prefix(bank *b, const char *kind)
{
    char key[16];
    tr_scan scan = {.kind = kind, .prefix = "m"};
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof(key), "m%03d", i);
        (void)add(b, tr_virtual(b->sys, kind, key), 1);
    }
    (void)add(b, tr_virtual(b->sys, kind, "a"), 1);
    (void)add(b, tr_virtual(b->sys, kind, "z1"), 1);
    (void)add(b, tr_virtual(b->sys, kind, "z2"), 1);
    TR_MUST(delete_by_name(b, kind, "m007"));
    for (int i = 0; i < 300; i++) {
        if (i == 7) continue;
        snprintf(key, sizeof(key), "m%03d", i);
        assert_int_equal(tr_scan_next(b->sys, b->store, &scan), TR_OK);
        assert_string_equal(scan.key, key);
    }
    assert_int_equal(tr_scan_next(b->sys, b->store, &scan), TR_ENOENT);
    assert_int_equal(tr_scan_next(b->sys, b->store, &scan), TR_ENOENT);
    assert_string_equal(list(b, kind, "z", ""), "z1,z2");
    assert_string_equal(list(b, kind, "z2", ""), "z2");
    assert_string_equal(list(b, kind, "y", ""), "");
    assert_string_equal(list(b, kind, NULL, "m298"), "m299,z1,z2");
    assert_string_equal(list(b, kind, "z", "z1"), "z2");
    assert_string_equal(list(b, "other", NULL, ""), "");
}

static void test_keys_are_listed_by_kind_and_prefix(void **state)
{
    (void)state;
    run(lists_by_prefix);
}

static void list_and_delete_in(place where)
{
    bank b;
    Sum sum;
    bank_open(&b, where);
    (void)add(&b, tr_virtual(b.sys, "account", "ann"), 1);
    (void)add(&b, tr_virtual(b.sys, "account", "amy"), 1);
    (void)add(&b, tr_virtual(b.sys, "account", "bob"), 1);
    tr_ref plain =
        tr_spawn(b.sys, account, .name = "plain", .storage = b.store);
    (void)add(&b, plain, 1);
    tr_ref ref = tr_spawn(b.sys, cleaner);
    TR_MUST(tr_ask(b.sys, ref, &sum, 0, Clean, .prefix = "a"));
    assert_int_equal(sum.value, 2);
    assert_string_equal(list(&b, "account", NULL, ""), "/user/plain,bob");
    TR_MUST(delete_by_name(&b, "account", "/user/plain"));
    assert_string_equal(list(&b, "account", NULL, ""), "bob");
    bank_close(&b);
}

static void test_an_actor_may_list_and_delete(void **state)
{
    (void)state;
    for (place where = IN_MEMORY; where < PLACES; where++) {
        list_and_delete_in(where);
    }
}

static void test_a_failed_delete_changes_nothing(void **state)
{
    static const char *const kinds[] = {"account", "ledger"};
    tr_storage *inner, *store;
    bank b;
    (void)state;
    TR_MUST(tr_storage_memory(&inner));
    TR_MUST(tr_storage_capture(&store, inner));
    b.store = store;
    TR_MUST(tr_system_open(&b.sys));
    TR_MUST(tr_host(b.sys, account, .storage = store));
    TR_MUST(tr_host(b.sys, ledger, .storage = store));
    for (int i = 0; i < 2; i++) {
        tr_ref ref = tr_virtual(b.sys, kinds[i], "eve");
        assert_int_equal(add(&b, ref, 5), 5);
        tr_storage_fail_nth(store, 1, TR_ESTORAGE);
        assert_int_equal(tr_ask(b.sys, ref, NULL, 0, Drop), TR_ESTORAGE);
        assert_int_equal(add(&b, ref, 2), 7);
        // Done, but the actor does not know: it loads before it goes on.
        tr_storage_fail_nth(store, 1, TR_EUNKNOWN);
        assert_int_equal(tr_ask(b.sys, ref, NULL, 0, Drop), TR_EUNKNOWN);
        assert_int_equal(add(&b, ref, 4), 4);
    }
    TR_MUST(tr_system_close(b.sys, 0));
    tr_storage_close(store);
    tr_storage_close(inner);
}

/* Calls from outside wait as tr_ask does: they run the system meanwhile. */
static void works_driven(tr_sim *sim)
{
    bank b = {.folder = ""};
    tr_storage_options options = {.size = sizeof(options),
                                  .world =
                                      sim != NULL ? tr_sim_world(sim) : NULL};
    if (sim != NULL) {
        TR_MUST(tr_storage_sqlite_with(&b.store, "/data/bank", &options));
        TR_MUST(tr_system_open(&b.sys, .world = tr_sim_world(sim)));
    } else {
        TR_MUST(tr_storage_memory(&b.store));
        TR_MUST(tr_system_open(&b.sys, .poll = true));
    }
    TR_MUST(tr_host(b.sys, account, .storage = b.store));
    TR_MUST(tr_host(b.sys, ledger, .storage = b.store));
    deletes_its_own(&b, "account");
    deletes_by_name(&b, "ledger");
    TR_MUST(tr_system_close(b.sys, 0));
    tr_storage_close(b.store);
}

static void test_it_works_in_simulated_and_polled_systems(void **state)
{
    tr_sim *sim;
    (void)state;
    works_driven(NULL);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        TR_MUST(tr_sim_new(&sim, seed));
        works_driven(sim);
        tr_sim_free(sim);
    }
}

static int start_server(void **state)
{
    (void)state;
    server = pg_server_new();
    return 0;
}

static int end_server(void **state)
{
    (void)state;
    pg_server_free(server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_actor_deletes_its_state),
        cmocka_unit_test(test_state_is_deleted_by_name),
        cmocka_unit_test(test_keys_are_listed_by_kind_and_prefix),
        cmocka_unit_test(test_an_actor_may_list_and_delete),
        cmocka_unit_test(test_a_failed_delete_changes_nothing),
        cmocka_unit_test(test_it_works_in_simulated_and_polled_systems),
    };
    return cmocka_run_group_tests(tests, start_server, end_server);
}
