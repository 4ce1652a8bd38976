/*
 * 20_store_of_ones_own.c - a store of the program's own works like any other,
 * and the contract test finds the mistakes of one that does not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

/* ---- a store in two arrays ---- */

enum { ROWS = 256, FENCES = 16 };

typedef struct row {
    char key[TR_KEY_SIZE];
    uint64_t version;  // 0: free
    void *bytes;
    size_t size;
} row;

/* The mistakes that the contract must find. */
typedef enum mistake {
    NONE,
    NO_VERSIONS,
    NO_FENCES,
    FENCE_OF_SHARD,
    PLAIN_IS_FENCED,
    REFUSED_RAISES,
    REMOVES_NOTHING,
    UNSORTED,
    IGNORES_PREFIX,
    FORGETS,
    MISTAKES,
} mistake;

typedef struct fence_row {
    uint64_t number, epoch;  // epoch 0: a free place
} fence_row;

typedef struct table {
    mistake mistake;
    row rows[ROWS];
    fence_row fences[FENCES];
    int opened, closed;
} table;

static row *find(table *t, const char *key)
{
    for (int i = 0; i < ROWS; i++) {
        if (t->rows[i].version > 0 && strcmp(t->rows[i].key, key) == 0) {
            return &t->rows[i];
        }
    }
    return NULL;
}

static tr_err my_load(void *user, const tr_store_request *request,
                      tr_store_answer *answer)
{
    row *r = find(user, request->key);
    if (r != NULL) tr_store_answer_state(answer, r->version, r->bytes, r->size);
    return TR_OK;
}

static uint64_t *fence_of(table *t, const tr_store_request *request)
{
    uint64_t number =
        t->mistake == FENCE_OF_SHARD ? request->shard : request->fence;
    fence_row *f = t->fences;
    while (f->epoch != 0 && f->number != number) {
        assert_true(++f < t->fences + FENCES);
    }
    f->number = number;
    return &f->epoch;
}

/* Checks fence and version of a write; raises the fence if both are right. */
static tr_err check(table *t, const tr_store_request *request, const row *r,
                    tr_store_answer *answer)
{
    uint64_t *fence = fence_of(t, request);
    uint64_t stored = r != NULL ? r->version : 0;
    bool is_plain = request->epoch == 0 && t->mistake != PLAIN_IS_FENCED;
    if (request->epoch < *fence && !is_plain && t->mistake != NO_FENCES) {
        tr_store_answer_text(answer, "epoch %d", (int)*fence);
        return TR_EFENCED;
    }
    if (t->mistake == REFUSED_RAISES && request->epoch > *fence) {
        *fence = request->epoch;
    }
    if (stored != request->version && t->mistake != NO_VERSIONS) {
        return stored == 0 ? TR_ENOENT : TR_EFENCED;
    }
    if (request->epoch > *fence) *fence = request->epoch;
    return TR_OK;
}

static tr_err my_save(void *user, const tr_store_request *request,
                      tr_store_answer *answer)
{
    table *t = user;
    row *r = find(t, request->key);
    TR_TRY(check(t, request, r, answer));
    for (int i = 0; r == NULL; i++) {
        assert_true(i < ROWS);
        if (t->rows[i].version == 0) r = &t->rows[i];
    }
    free(r->bytes);
    r->bytes = malloc(request->state.size + 1);
    if (request->state.size > 0) {
        memcpy(r->bytes, request->state.at, request->state.size);
    }
    r->size = request->state.size;
    r->version = request->version + 1;
    snprintf(r->key, sizeof(r->key), "%s", request->key);
    return TR_OK;
}

static tr_err my_remove(void *user, const tr_store_request *request,
                        tr_store_answer *answer)
{
    table *t = user;
    row *r = find(t, request->key);
    TR_TRY(check(t, request, r, answer));
    if (r != NULL && t->mistake != REMOVES_NOTHING) r->version = 0;
    return TR_OK;
}

static tr_err my_fence(void *user, const tr_store_request *request,
                       tr_store_answer *answer)
{
    table *t = user;
    (void)answer;
    uint64_t *fence = fence_of(t, request);
    if (request->epoch < *fence && t->mistake != NO_FENCES) {
        return TR_EFENCED;
    }
    *fence = request->epoch;
    return TR_OK;
}

static tr_err my_scan(void *user, const tr_store_request *request,
                      tr_store_answer *answer)
{
    table *t = user;
    char after[TR_KEY_SIZE];
    size_t size = t->mistake == IGNORES_PREFIX ? 0 : strlen(request->prefix);
    snprintf(after, sizeof(after), "%s", request->key);
    for (uint32_t n = 0; n < request->limit; n++) {
        const row *best = NULL;
        for (int i = 0; i < ROWS; i++) {
            const row *r = &t->rows[i];
            bool fits = r->version > 0 && strcmp(r->key, after) > 0 &&
                        strncmp(r->key, request->prefix, size) == 0;
            if (fits && (best == NULL || strcmp(r->key, best->key) < 0)) {
                best = r;
                if (t->mistake == UNSORTED) break;
            }
        }
        if (best == NULL || !tr_store_answer_key(answer, best->key)) break;
        snprintf(after, sizeof(after), "%s", best->key);
    }
    return TR_OK;
}

static void my_close(void *user)
{
    ((table *)user)->closed++;
}

static const tr_store_ops my_ops = {.size = sizeof(tr_store_ops),
                                    .name = "arrays",
                                    .load = my_load,
                                    .save = my_save,
                                    .remove = my_remove,
                                    .fence = my_fence,
                                    .scan = my_scan,
                                    .close = my_close};

static void forget(table *t)
{
    for (int i = 0; i < ROWS; i++)
        free(t->rows[i].bytes);
    memset(t->rows, 0, sizeof(t->rows));
    memset(t->fences, 0, sizeof(t->fences));
}

static tr_err open_table(tr_storage **out, void *user)
{
    table *t = user;
    if (t->opened++ > 0 && t->mistake == FORGETS) forget(t);
    return tr_storage_own(out, &my_ops, t, NULL);
}

static void table_free(table *t)
{
    assert_int_equal(t->opened, t->closed);
    forget(t);
    free(t);
}

/* ---- an actor that uses it ---- */

TR_MESSAGE(Sum, (int64_t, value));
TR_MESSAGE(Noted, (int64_t, value));
TR_REQUEST(Add, Sum, (int64_t, value));
TR_STATE(Counter, (int64_t, value));

static tr_err on_add(tr_ctx *ctx, Counter *self, const Add *m)
{
    Counter next = {.value = self->value + m->value};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m, .value = self->value);
}

TR_ACTOR(counter, Counter, TR_ON(Add, on_add));

static tr_err on_note(tr_ctx *ctx, Counter *self, const Add *m)
{
    TR_OR_REFUSE(ctx, m, tr_emit(ctx, self, Noted, .value = m->value));
    return tr_reply(ctx, m, .value = self->value);
}

static void apply_noted(Counter *self, const Noted *e)
{
    self->value += e->value;
}

TR_ACTOR(noter, Counter, TR_ON(Add, on_note), TR_APPLY(Noted, apply_noted));

static void test_actors_store_in_it(void **state)
{
    table *t = calloc(1, sizeof(*t));
    tr_storage *store;
    tr_system *sys;
    Sum sum;
    (void)state;
    for (int life = 1; life <= 2; life++) {
        TR_MUST(open_table(&store, t));
        TR_MUST(tr_system_open(&sys));
        TR_MUST(tr_host(sys, counter, .storage = store));
        tr_ref plain = tr_spawn(sys, counter, .name = "p", .storage = store);
        tr_ref ann = tr_virtual(sys, "counter", "ann");
        TR_MUST(tr_ask(sys, plain, &sum, 0, Add, .value = 5));
        assert_int_equal(sum.value, 5 * life);
        TR_MUST(tr_ask(sys, ann, &sum, 0, Add, .value = 7));
        assert_int_equal(sum.value, 7 * life);
        tr_scan scan = {.kind = "counter"};
        TR_MUST(tr_scan_next(sys, store, &scan));
        assert_string_equal(scan.key, "/user/p");
        TR_MUST(tr_scan_next(sys, store, &scan));
        assert_string_equal(scan.key, "ann");
        assert_int_equal(tr_scan_next(sys, store, &scan), TR_ENOENT);
        TR_MUST(tr_system_close(sys, 0));
        tr_storage_close(store);
    }
    table_free(t);
}

static void test_events_are_refused_with_a_text(void **state)
{
    table *t = calloc(1, sizeof(*t));
    tr_storage *store;
    tr_system *sys;
    (void)state;
    TR_MUST(open_table(&store, t));
    TR_MUST(tr_system_open(&sys));
    tr_ref ref = tr_spawn(sys, noter, .name = "n", .storage = store);
    assert_int_equal(tr_ask(sys, ref, NULL, 0, Add, .value = 5), TR_ESTORAGE);
    assert_non_null(
        strstr(tr_error_text(sys), "the store arrays keeps no events"));
    TR_MUST(tr_system_close(sys, 0));
    tr_storage_close(store);
    table_free(t);
}

static void test_the_contract_finds_each_mistake(void **state)
{
    char text[256];
    (void)state;
    for (int i = NONE; i < MISTAKES; i++) {
        table *t = calloc(1, sizeof(*t));
        t->mistake = (mistake)i;
        tr_err err = tr_storage_contract(.open = open_table, .user = t,
                                         .is_durable = true, .text = text,
                                         .text_size = sizeof(text));
        print_message("%d: %s\n", i, text);
        assert_int_equal(err, i == NONE ? TR_OK : TR_EFAILED);
        assert_int_equal(text[0] == '\0', i == NONE);
        table_free(t);
    }
}

static void test_a_table_with_holes_is_refused(void **state)
{
    tr_store_ops ops = my_ops;
    tr_storage *store;
    char text[128];
    tr_storage_options options = {
        .size = sizeof(options), .text = text, .text_size = sizeof(text)};
    (void)state;
    ops.scan = NULL;
    assert_int_equal(tr_storage_own(&store, &ops, NULL, &options), TR_EINVAL);
    assert_null(store);
    assert_non_null(strstr(text, "missing"));
    assert_int_equal(tr_storage_contract(.is_durable = true), TR_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_actors_store_in_it),
        cmocka_unit_test(test_events_are_refused_with_a_text),
        cmocka_unit_test(test_the_contract_finds_each_mistake),
        cmocka_unit_test(test_a_table_with_holes_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
