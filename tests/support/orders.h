/*
 * orders.h - runs code of the library under every interleaving and every value
 * that its memory orders allow.
 *
 * A test includes it after the headers whose atomics are not of interest, and
 * then the sources to check: their atomic operations become calls of this file.
 * Threads are fibers. Before each operation on a watched word another thread
 * may go on, and a load returns any value that the thread may still see, as in
 * the C memory model without speculation:
 *
 *  - a word has a history of writes; a thread has a view, which says how much
 *    of each history it has seen, and never reads what is older;
 *  - a release write carries the view of its thread, an acquire read joins it;
 *    an exchange reads the newest write and passes on what that carried;
 *  - a seq_cst read sees at least the last seq_cst write of the word.
 *
 * orders_touch stands for accesses to plain data: it fails unless the thread
 * has seen the access before it. All choices are tried, one run after another,
 * with at most orders.most_switches switches away from a thread that could go on.
 *
 * With a weakening one operation in the sources gets a weaker order. A test
 * that fails for each of them shows that it would notice such a change.
 *
 * Not modelled: writes that are ordered before earlier ones of the same word,
 * values from the future, spurious failures of an exchange, fences.
 */
#ifndef TEST_SUPPORT_ORDERS_H
#define TEST_SUPPORT_ORDERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fiber.h"

enum {
    ORDERS_THREADS = 4,
    ORDERS_PLACES = 12,    // watched words and plain data
    ORDERS_WRITES = 40,    // of one place in one run
    ORDERS_CHOICES = 400,  // of one run
    ORDERS_SITES = 40,
};

/* How much of each history has been seen: the index of a write. */
typedef struct orders_view {
    uint8_t at[ORDERS_PLACES];
} orders_view;

typedef struct orders_write {
    uint64_t value;
    orders_view carried;
} orders_write;

typedef struct orders_place {
    const void *address;
    uint32_t count;
    orders_write writes[ORDERS_WRITES];
} orders_place;

/* An atomic operation in the sources: the function and the operation. */
typedef struct orders_site {
    const char *function, *operation;
    memory_order order;
} orders_site;

typedef struct orders_thread {
    tri_fiber *fiber;
    void (*run)(int index);
    orders_view view;
    bool over;
} orders_thread;

static struct {
    orders_place places[ORDERS_PLACES];
    uint32_t place_count;
    orders_view strict;  // the last seq_cst write of each word
    orders_thread threads[ORDERS_THREADS];
    int thread_count, now;
    uint32_t switches, most_switches;
    struct {
        uint8_t chosen, of;
    } choices[ORDERS_CHOICES];
    uint32_t choice_count, choice_at;
    uint64_t runs;
    bool failed;
    char why[160];
    orders_site sites[ORDERS_SITES];
    uint32_t site_count;
    orders_site weak;  // that site has this order
    tri_fiber_pool pool;
    _Atomic(uint32_t) live;
    tri_fiber main;
} orders;

/* ---- choices ---- */

/* Ends the run and the search. Does not return to a thread. */
static void orders_fail(const char *why)
{
    orders.failed = true;
    snprintf(orders.why, sizeof(orders.why), "%s", why);
    if (orders.now >= 0) {
        tri_fiber_switch(orders.threads[orders.now].fiber, &orders.main);
    }
}

static uint32_t orders_choose(uint32_t of)
{
    if (of <= 1) {
        return 0;
    }
    uint32_t at = orders.choice_at++;
    if (at == ORDERS_CHOICES) {
        orders_fail("the run has too many choices");
    }
    if (at == orders.choice_count) {
        orders.choices[at].chosen = 0;
        orders.choices[at].of = (uint8_t)of;
        orders.choice_count++;
    }
    return orders.choices[at].chosen;
}

/* Prepares the next run; false if all choices were tried. */
static bool orders_next_run(void)
{
    while (orders.choice_count > 0) {
        uint32_t last = orders.choice_count - 1;
        if (++orders.choices[last].chosen < orders.choices[last].of) {
            return true;
        }
        orders.choice_count--;
    }
    return false;
}

/* Lets a thread go on: this one at no cost, others while switches are left. */
static void orders_pick(void)
{
    int others[ORDERS_THREADS], count = 0, from = orders.now;
    bool over = orders.threads[from].over;
    for (int i = 0; i < orders.thread_count; i++) {
        if (i != from && !orders.threads[i].over) {
            others[count++] = i;
        }
    }
    if (!over && orders.switches == orders.most_switches) {
        return;
    }
    uint32_t choice = orders_choose((uint32_t)count + (over ? 0 : 1));
    if (!over && choice == 0) {
        return;
    }
    tri_fiber *to = &orders.main;
    if (count > 0) {
        orders.now = others[over ? choice : choice - 1];
        orders.switches += !over;
        to = orders.threads[orders.now].fiber;
    }
    tri_fiber_switch(orders.threads[from].fiber, to);
}

static void orders_fiber(void *arg)
{
    (void)arg;
    for (;;) {
        orders_thread *me = &orders.threads[orders.now];
        me->run(orders.now);
        me->over = true;
        orders_pick();
    }
}

/* ---- places ---- */

static orders_place *orders_find(const void *address)
{
    for (uint32_t i = 0; i < orders.place_count; i++) {
        if (orders.places[i].address == address) {
            return &orders.places[i];
        }
    }
    return NULL;
}

/* Watches a word, or plain data, from its value on. */
static void orders_watch(const void *address, uint64_t value)
{
    orders_place *p = &orders.places[orders.place_count++];
    p->address = address;
    p->count = 1;
    p->writes[0] = (orders_write){.value = value};
}

static void orders_join(orders_view *to, const orders_view *from)
{
    for (int i = 0; i < ORDERS_PLACES; i++) {
        to->at[i] = to->at[i] > from->at[i] ? to->at[i] : from->at[i];
    }
}

static bool orders_acquires(memory_order order)
{
    return order == memory_order_acquire || order == memory_order_acq_rel ||
           order == memory_order_seq_cst;
}

static bool orders_releases(memory_order order)
{
    return order == memory_order_release || order == memory_order_acq_rel ||
           order == memory_order_seq_cst;
}

static bool orders_same(const orders_site *a, const orders_site *b)
{
    return a->function != NULL && strcmp(a->function, b->function) == 0 &&
           strcmp(a->operation, b->operation) == 0;
}

/* Notes the site; returns its order, or that of the weakening. */
static memory_order orders_at(orders_site site)
{
    uint32_t i = 0;
    while (i < orders.site_count && !orders_same(&orders.sites[i], &site)) {
        i++;
    }
    if (i == orders.site_count && i < ORDERS_SITES) {
        orders.sites[orders.site_count++] = site;
    }
    return orders_same(&orders.weak, &site) ? orders.weak.order : site.order;
}

/* Takes the writes up to `at` into the view of the thread. */
static uint64_t orders_see(orders_place *p, uint32_t at, memory_order order)
{
    orders_view *view = &orders.threads[orders.now].view;
    view->at[p - orders.places] = (uint8_t)at;
    if (orders_acquires(order)) {
        orders_join(view, &p->writes[at].carried);
    }
    return p->writes[at].value;
}

/* Appends a write; `before` is the one that an exchange has read, or NULL. */
static void orders_put(orders_place *p, uint64_t value, memory_order order,
                       const orders_write *before)
{
    orders_view *view = &orders.threads[orders.now].view;
    uint32_t place = (uint32_t)(p - orders.places);
    if (p->count == ORDERS_WRITES) {
        orders_fail("a word is written too often");
    }
    orders_write *w = &p->writes[p->count];
    *w = (orders_write){.value = value};
    view->at[place] = (uint8_t)p->count;
    w->carried.at[place] = (uint8_t)p->count;
    if (before != NULL) {
        orders_join(&w->carried, &before->carried);
    }
    if (orders_releases(order)) {
        orders_join(&w->carried, view);
    }
    if (order == memory_order_seq_cst) {
        orders.strict.at[place] = (uint8_t)p->count;
    }
    p->count++;
}

/* The oldest write that the thread may still read. */
static uint32_t orders_oldest(const orders_place *p, memory_order order)
{
    uint32_t place = (uint32_t)(p - orders.places);
    uint32_t seen = orders.threads[orders.now].view.at[place];
    uint32_t strict = orders.strict.at[place];
    return order == memory_order_seq_cst && strict > seen ? strict : seen;
}

/* An access to plain data, which no other thread may have at the same time. */
static void orders_touch(const void *address)
{
    orders_place *p = orders_find(address);
    uint32_t place = (uint32_t)(p - orders.places);
    if (orders.threads[orders.now].view.at[place] != p->count - 1) {
        orders_fail("plain data is used without order");
    }
    orders_put(p, 0, memory_order_relaxed, NULL);
}

/* ---- operations ---- */

/* Returns false, and does nothing, if the word is not watched. */
static bool orders_load(const void *address, orders_site site, uint64_t *out)
{
    orders_place *p = orders_find(address);
    if (p == NULL || orders.now < 0) {
        return false;
    }
    memory_order order = orders_at(site);
    orders_pick();
    uint32_t oldest = orders_oldest(p, order);
    // The newest first: most runs find it.
    uint32_t at = p->count - 1 - orders_choose(p->count - oldest);
    *out = orders_see(p, at, order);
    return true;
}

typedef enum orders_op {
    ORDERS_STORE,
    ORDERS_SWAP,
    ORDERS_OR,
    ORDERS_AND,
    ORDERS_ADD
} orders_op;

static bool orders_change(const void *address, orders_op op, uint64_t operand,
                          orders_site site, uint64_t *before, uint64_t *after)
{
    orders_place *p = orders_find(address);
    if (p == NULL || orders.now < 0) {
        return false;
    }
    memory_order order = orders_at(site);
    orders_pick();
    orders_write last = p->writes[p->count - 1];
    if (op != ORDERS_STORE) {
        orders_see(p, p->count - 1, order);
    }
    *before = last.value;
    *after = op == ORDERS_OR    ? last.value | operand
             : op == ORDERS_AND ? last.value & operand
             : op == ORDERS_ADD ? last.value + operand
                                : operand;
    orders_put(p, *after, order, op == ORDERS_STORE ? NULL : &last);
    return true;
}

/*
 * A compare-exchange. It succeeds if it reads the newest write and that has the
 * expected value; if it reads another value, it fails with that.
 */
static bool orders_compare(const void *address, uint64_t *expected,
                           uint64_t desired, orders_site site,
                           memory_order failure, bool *done)
{
    orders_place *p = orders_find(address);
    if (p == NULL || orders.now < 0) {
        return false;
    }
    memory_order order = orders_at(site);
    orders_pick();
    uint32_t may[ORDERS_WRITES], count = 0;
    for (uint32_t i = p->count; i-- > orders_oldest(p, failure);) {
        bool same = p->writes[i].value == *expected;
        if (!same || i == p->count - 1) {
            may[count++] = i;
        }
    }
    uint32_t at = may[orders_choose(count)];
    *done = p->writes[at].value == *expected;
    if (*done) {
        orders_write last = p->writes[at];
        orders_see(p, at, order);
        orders_put(p, desired, order, &last);
    } else {
        *expected = orders_see(p, at, failure);
    }
    return true;
}

/* ---- the search ---- */

/* One run: the watched words are set by begin, judged by end. */
static void orders_run(void (*begin)(void), void (*end)(void))
{
    orders.place_count = 0;
    orders.strict = (orders_view){{0}};
    orders.switches = orders.choice_at = 0;
    orders.now = -1;
    begin();
    for (int i = 0; i < orders.thread_count; i++) {
        orders.threads[i].view = (orders_view){{0}};
        orders.threads[i].over = false;
    }
    orders.now = (int)orders_choose((uint32_t)orders.thread_count);
    tri_fiber_switch(&orders.main, orders.threads[orders.now].fiber);
    orders.now = -1;
    orders.runs++;
    if (!orders.failed) {
        end();
    }
}

/* Tries all choices; returns false, with orders.why, if a run fails. */
static bool orders_search(int threads, void (*run)(int index),
                          void (*begin)(void), void (*end)(void))
{
    orders.thread_count = threads;
    orders.failed = false;
    orders.runs = orders.choice_count = 0;
    tri_fiber_pool_init(&orders.pool, 0, 1000, &orders.live, orders_fiber,
                        NULL);
    tri_fiber_thread_init(&orders.main);
    for (int i = 0; i < threads; i++) {
        orders.threads[i].fiber = tri_fiber_take(&orders.pool);
        orders.threads[i].run = run;
    }
    do {
        orders_run(begin, end);
    } while (!orders.failed && orders_next_run());
    for (int i = 0; i < threads; i++) {
        tri_fiber_give(&orders.pool, orders.threads[i].fiber);
    }
    tri_fiber_pool_fini(&orders.pool);
    tri_fiber_thread_fini(&orders.main);
    return !orders.failed;
}

/* ---- in place of <stdatomic.h> ---- */

#define ORDERS_SITE(operation, order)                                          \
    (orders_site)                                                              \
    {                                                                          \
        __func__, (operation), (order)                                         \
    }
#define ORDERS_TYPE(p) __typeof__((void)0, *(p))
// The memory itself always has the newest value, for code that is not checked.
#define ORDERS_REAL(p) ((ORDERS_TYPE(p) *)(uintptr_t)(p))
#define ORDERS_CHANGE(p, op, operand, order, real)                             \
    ({                                                                         \
        uint64_t before_, after_;                                              \
        ORDERS_TYPE(p) result_;                                                \
        if (orders_change((const void *)(p), (op),                             \
                          (uint64_t)(uintptr_t)(operand),                      \
                          ORDERS_SITE(#op, order), &before_, &after_)) {       \
            result_ = (ORDERS_TYPE(p))(uintptr_t)before_;                      \
            *ORDERS_REAL(p) = (ORDERS_TYPE(p))(uintptr_t)after_;               \
        } else {                                                               \
            result_ = real;                                                    \
        }                                                                      \
        result_;                                                               \
    })

#undef atomic_load_explicit
#define atomic_load_explicit(p, order)                                         \
    ({                                                                         \
        uint64_t got_;                                                         \
        orders_load((const void *)(p), ORDERS_SITE("load", order), &got_)      \
            ? (ORDERS_TYPE(p))(uintptr_t)got_                                  \
            : __atomic_load_n(ORDERS_REAL(p), __ATOMIC_SEQ_CST);               \
    })
#undef atomic_store_explicit
#define atomic_store_explicit(p, value, order)                                 \
    ((void)ORDERS_CHANGE(p, ORDERS_STORE, value, order,                        \
                         (*ORDERS_REAL(p) = (value))))
#undef atomic_exchange_explicit
#define atomic_exchange_explicit(p, value, order)                              \
    ORDERS_CHANGE(                                                             \
        p, ORDERS_SWAP, value, order,                                          \
        __atomic_exchange_n(ORDERS_REAL(p), (value), __ATOMIC_SEQ_CST))
#undef atomic_fetch_or_explicit
#define atomic_fetch_or_explicit(p, value, order)                              \
    ORDERS_CHANGE(                                                             \
        p, ORDERS_OR, value, order,                                            \
        __atomic_fetch_or(ORDERS_REAL(p), (value), __ATOMIC_SEQ_CST))
#undef atomic_fetch_and_explicit
#define atomic_fetch_and_explicit(p, value, order)                             \
    ORDERS_CHANGE(                                                             \
        p, ORDERS_AND, value, order,                                           \
        __atomic_fetch_and(ORDERS_REAL(p), (value), __ATOMIC_SEQ_CST))
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(p, value, order)                             \
    ORDERS_CHANGE(                                                             \
        p, ORDERS_ADD, value, order,                                           \
        __atomic_fetch_add(ORDERS_REAL(p), (value), __ATOMIC_SEQ_CST))
#undef atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong_explicit(p, e, d, order, failure)       \
    ({                                                                         \
        uint64_t expected_ = (uint64_t)(uintptr_t)*(e);                        \
        ORDERS_TYPE(p) desired_ = (d);                                         \
        bool done_;                                                            \
        if (!orders_compare(                                                   \
                (const void *)(p), &expected_, (uint64_t)(uintptr_t)desired_,  \
                ORDERS_SITE("compare", order), (failure), &done_)) {           \
            done_ = __atomic_compare_exchange_n(ORDERS_REAL(p), (e), desired_, \
                                                false, __ATOMIC_SEQ_CST,       \
                                                __ATOMIC_SEQ_CST);             \
        } else if (done_) {                                                    \
            *ORDERS_REAL(p) = desired_;                                        \
        } else {                                                               \
            *(e) = (__typeof__(*(e)))(uintptr_t)expected_;                     \
        }                                                                      \
        done_;                                                                 \
    })
#undef atomic_compare_exchange_weak_explicit
#define atomic_compare_exchange_weak_explicit                                  \
    atomic_compare_exchange_strong_explicit

#endif
