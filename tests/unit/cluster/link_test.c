/*
 * link_test.c - a link between two systems on threads: a system is detached
 * and closed while the other one sends to it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "cluster/transport/link.h"
#include "support/mesh.h"

enum { ROUNDS = 30 };

static const tri_bus_up up;
static tri_transport *link_between;
static _Atomic(bool) stop;

/* Sends bytes that are not a packet: the bus counts them and drops them. */
static void *send_bytes(void *user)
{
    static const unsigned char bytes[64];
    (void)user;
    // Relaxed: only ends the loop.
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        link_between->ops->send(link_between, 0, 1, bytes, sizeof(bytes));
    }
    return NULL;
}

/* The sanitizers see whether a packet reaches a system that is closed. */
static void test_a_detached_system_gets_no_packets(void **state)
{
    pthread_t sender;
    (void)state;
    assert_int_equal(tri_link_new(&link_between), TR_OK);
    assert_int_equal(pthread_create(&sender, NULL, send_bytes, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        tr_system *sys;
        TR_MUST(tr_system_open(&sys, .ns = "shop", .workers = 1,
                               .log_level = TR_LOG_ERROR));
        TR_MUST(tri_bus_join(
            sys, &(tri_bus_options){.transport = link_between,
                                    .up = &up,
                                    .node = {.slot = 1, .incarnation = 1}}));
        tri_link_attach(link_between, 1, sys);
        tri_link_attach(link_between, 1, NULL);
        assert_int_equal(tr_system_close(sys, 0), TR_OK);
    }
    // Relaxed: as in send_bytes.
    atomic_store_explicit(&stop, true, memory_order_relaxed);
    assert_int_equal(pthread_join(sender, NULL), 0);
    tri_link_free(link_between);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_detached_system_gets_no_packets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
