/*
 * mailbox_orders_test.c - the memory orders of a cell's words: mail, sys_mail
 * and signals, under every interleaving of few senders and owners.
 *
 * The functions checked are those of the library, compiled here with other
 * atomics (support/orders.h). Whoever claims the cell runs it at once, in place
 * of a worker. Then each order is weakened in turn, and the search must fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// What the sources below include, except what is checked.
#include "base/check.h"
#include "base/lock.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/cell/props.h"
#include "core/mail/backlog.h"
#include "core/run/scheduler.h"
#include "core/run/worker.h"
#include "core/system.h"

#include "support/orders.h"

// A check that fails in a run is a failure that the search reports.
#undef TRI_CHECK
#define TRI_CHECK(cond) ((cond) ? (void)0 : orders_fail("check: " #cond))
#define tri_schedule    run_cell

static void run_cell(tri_worker *worker, tri_cell *cell);

#include "core/life/signal.c"
#include "core/mail/mailbox.c"
#include "core/mail/push.c"

enum { SENDERS = 3, EACH = 2, SIGNALLERS = 2, ID = 7 };

static tri_cell cell;
static tr_msg mail[SENDERS][EACH];
static tri_item item;
static int handled[SENDERS];  // messages of each sender
static int items, signals, owners;
// Plain data: of the cell's owner, of the item, signals and messages.
static char owned, item_data, signal_data[SIGNALLERS], payload[SENDERS][EACH];

/* Who takes part in a run: each is a thread. */
static struct {
    int users, each;  // senders of user mail, and their messages
    int items, signallers;
    uint32_t switches;
} play;

/* ---- the owner ---- */

static void handle(tri_item *first)
{
    for (tri_item *next; first != NULL; first = next) {
        next = first->next;
        if (first == &item) {
            orders_touch(&item_data);
            items++;
            continue;
        }
        tr_msg *msg = tri_msg_from(first);
        long index = msg - &mail[0][0];
        orders_touch(&payload[index / EACH][index % EACH]);
        if (handled[index / EACH]++ != index % EACH) {
            orders_fail("a message came twice, or before an earlier one");
        }
    }
}

/* One round of an owner: system mail, then user mail. */
static void take_all(void)
{
    bool has_signals;
    handle(tri_system_take(&cell, &has_signals));
    uint32_t taken = has_signals ? tri_signals_take(&cell) : 0;
    for (int i = 0; i < SIGNALLERS; i++) {
        if (taken & (1u << i)) {
            orders_touch(&signal_data[i]);
            signals++;
        }
    }
    (void)tri_detach(&cell);
    tri_item *first = cell.queue;
    cell.queue = NULL;
    handle(first);
}

static void run_cell(tri_worker *worker, tri_cell *it)
{
    (void)worker;
    if (owners++ != 0) {
        orders_fail("the cell has two owners");
    }
    orders_touch(&owned);
    for (;;) {
        take_all();
        // Another thread may have the cell before tri_sleep returns.
        owners--;
        if (tri_sleep(NULL, it, true)) {
            return;
        }
        owners++;
    }
}

/* ---- the senders ---- */

static void send_user(int sender)
{
    for (int i = 0; i < play.each; i++) {
        tr_msg *msg = &mail[sender][i];
        uintptr_t seen = 0;
        uint32_t depth;
        orders_touch(&payload[sender][i]);
        if (tri_mail_claim(&cell, msg)) {
            run_cell(NULL, &cell);
        } else if (tri_mail_push(&cell, msg, &seen, &depth) &&
                   (seen & TRI_MAIL_IDLE)) {
            run_cell(NULL, &cell);
        }
    }
}

static void run_thread(int index)
{
    int signaller = index - play.users - play.items;
    if (index < play.users) {
        send_user(index);
    } else if (signaller < 0) {
        orders_touch(&item_data);
        (void)tri_push_system(NULL, &cell, &item);
    } else {
        orders_touch(&signal_data[signaller]);
        tri_signal(NULL, &cell, ID, 1u << signaller);
    }
}

/* ---- one run ---- */

static void begin(void)
{
    memset(&cell, 0, sizeof(cell));
    memset(handled, 0, sizeof(handled));
    items = signals = owners = 0;
    *ORDERS_REAL(&cell.mail) = TRI_MAIL_IDLE;
    *ORDERS_REAL(&cell.id) = ID;
    *ORDERS_REAL(&cell.signals) = (uint64_t)ID << TRI_SIG_BITS;
    orders_watch(&cell.mail, TRI_MAIL_IDLE);
    orders_watch(&cell.sys_mail, 0);
    orders_watch(&cell.signals, (uint64_t)ID << TRI_SIG_BITS);
    orders_watch(&owned, 0);
    orders_watch(&item_data, 0);
    for (int i = 0; i < play.signallers; i++) {
        orders_watch(&signal_data[i], 0);
    }
    for (int i = 0; i < play.users; i++) {
        for (int k = 0; k < play.each; k++) {
            orders_watch(&payload[i][k], 0);
        }
    }
}

static void end(void)
{
    bool all = *ORDERS_REAL(&cell.mail) == TRI_MAIL_IDLE &&
               items == play.items && signals == play.signallers;
    for (int i = 0; i < play.users; i++) {
        all &= handled[i] == play.each;
    }
    if (!all) {
        orders_fail("mail was lost, or a wake-up");
    }
}

/* ---- tests ---- */

/* Searches all plays; false if one fails. `more` switches for each. */
static bool all_hold(uint32_t more, bool report)
{
    static const __typeof__(play) plays[] = {
        {.users = 2, .each = 2, .switches = 1},
        {.users = 3, .each = 1, .switches = 1},
        {.users = 1, .each = 1, .items = 1, .signallers = 1, .switches = 1},
        {.items = 1, .signallers = 1, .switches = 3},
        {.signallers = 2, .switches = 3},
    };
    for (size_t i = 0; i < TRI_COUNT_OF(plays); i++) {
        play = plays[i];
        orders.most_switches = play.switches + more;
        bool holds = orders_search(play.users + play.items + play.signallers,
                                   run_thread, begin, end);
        if (report) {
            print_message("%d senders, %d items, %d signals: %llu runs\n",
                          play.users, play.items, play.signallers,
                          (unsigned long long)orders.runs);
        }
        if (!holds) {
            return false;
        }
    }
    return true;
}

static void test_MB6_no_interleaving_of_senders_loses_mail(void **state)
{
    (void)state;
    const char *scale = getenv("TR_TEST_SCALE");
    if (!all_hold(scale != NULL && atof(scale) > 1 ? 2 : 0, true)) {
        fail_msg("%s", orders.why);
    }
}

/* ---- weaker orders ---- */

/* Fills in the orders that are weaker by one step; returns how many. */
static int weaker(memory_order order, memory_order out[2])
{
    switch (order) {
    case memory_order_seq_cst:
        out[0] = memory_order_acq_rel;
        return 1;
    case memory_order_acq_rel:
        out[0] = memory_order_acquire;
        out[1] = memory_order_release;
        return 2;
    case memory_order_relaxed:
        return 0;
    default:
        out[0] = memory_order_relaxed;
        return 1;
    }
}

static const char *name_of(memory_order order)
{
    static const char *const names[] = {"relaxed", "consume", "acquire",
                                        "release", "acq_rel", "seq_cst"};
    return names[order];
}

/* Weakenings that these plays do not notice, and why. */
static const struct {
    orders_site site;  // with the weaker order
    const char *why;
} unneeded[] = {
    {{"tri_system_take", "ORDERS_SWAP", memory_order_acquire},
     "its release has no partner: senders read nothing of the owner's"},
    {{"tri_mail_take", "ORDERS_SWAP", memory_order_acquire},
     "as above: whoever takes the cell acquires it from tri_sleep"},
    {{"tri_push_system", "load", memory_order_relaxed},
     "it is for a lane that is closed, which no play has"},
    {{"tri_mailbox_claim", "compare", memory_order_acq_rel},
     "the load before it is the read of the argument in mailbox.c"},
};

static bool is_unneeded(const orders_site *weak)
{
    bool found = false;
    for (size_t i = 0; i < TRI_COUNT_OF(unneeded); i++) {
        found |= orders_same(&unneeded[i].site, weak) &&
                 unneeded[i].site.order == weak->order;
    }
    return found;
}

static void test_MB6_each_memory_order_of_the_mailbox_is_needed(void **state)
{
    uint32_t survivors = 0, tried = 0;
    (void)state;
    assert_true(all_hold(0, false));  // finds the operations
    for (uint32_t i = 0; i < orders.site_count; i++) {
        memory_order weak[2];
        int count = weaker(orders.sites[i].order, weak);
        for (int k = 0; k < count; k++) {
            orders.weak = orders.sites[i];
            orders.weak.order = weak[k];
            if (!is_unneeded(&orders.weak) && ++tried && all_hold(0, false)) {
                survivors++;
                print_error("%s, %s: nothing fails with %s in place of %s\n",
                            orders.weak.function, orders.weak.operation,
                            name_of(weak[k]), name_of(orders.sites[i].order));
            }
        }
    }
    orders.weak = (orders_site){0};
    assert_int_equal(survivors, 0);
    assert_true(tried >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_MB6_no_interleaving_of_senders_loses_mail),
        cmocka_unit_test(test_MB6_each_memory_order_of_the_mailbox_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
