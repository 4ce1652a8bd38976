/*
 * udp_test.c - the calls of udp.h, in the real world and in a simulated one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe/troupe.h>

#define ANY  "udp://127.0.0.1:0"
#define LONG TR_SECONDS(60)

/* A system with two sockets. */
typedef struct place {
    tr_sim *sim;  // NULL: the real world
    tr_system *sys;
    tr_udp *a, *b;
    char at_a[TR_ADDRESS_SIZE], at_b[TR_ADDRESS_SIZE];
} place;

static void place_open(place *it, bool simulated)
{
    *it = (place){0};
    if (simulated) {
        assert_int_equal(tr_sim_new(&it->sim, 7), TR_OK);
    }
    assert_int_equal(
        tr_system_open(&it->sys,
                       .world = simulated ? tr_sim_world(it->sim) : NULL),
        TR_OK);
    assert_int_equal(tr_udp_open(it->sys, &it->a, ANY), TR_OK);
    assert_int_equal(tr_udp_open(it->sys, &it->b, ANY), TR_OK);
    (void)tr_udp_address(it->a, it->at_a, sizeof(it->at_a));
    (void)tr_udp_address(it->b, it->at_b, sizeof(it->at_b));
}

static void place_close(place *it)
{
    tr_udp_close(it->sys, it->a);
    tr_udp_close(it->sys, it->b);
    assert_int_equal(tr_system_close(it->sys, 0), TR_OK);
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

/* ---- outside of actors ---- */

static void check_datagrams(place *it)
{
    char text[16] = "", sender[TR_ADDRESS_SIZE];
    size_t got;

    assert_int_equal(strncmp(it->at_a, "udp://127.0.0.1:", 16), 0);
    assert_int_equal(tr_udp_send(it->sys, it->a, it->at_b, 0, {"one", 3},
                                 {"", 0}, {"two", 3}),
                     TR_OK);
    assert_int_equal(tr_udp_send(it->sys, it->a, it->at_b, 0, {NULL, 0}),
                     TR_OK);
    assert_int_equal(
        tr_udp_receive(it->sys, it->b, text, 16, LONG, &got, sender), TR_OK);
    assert_int_equal(got, 6);
    assert_memory_equal(text, "onetwo", 6);
    assert_string_equal(sender, it->at_a);
    // An empty datagram is one, too.
    assert_int_equal(tr_udp_receive(it->sys, it->b, text, 16, LONG, &got, NULL),
                     TR_OK);
    assert_int_equal(got, 0);
    // The sender's address is where an answer goes.
    assert_int_equal(tr_udp_send(it->sys, it->b, sender, 0, {"back", 4}),
                     TR_OK);
    assert_int_equal(
        tr_udp_receive(it->sys, it->a, text, 16, LONG, &got, sender), TR_OK);
    assert_memory_equal(text, "back", got);
    assert_string_equal(sender, it->at_b);
}

static void check_sizes(place *it)
{
    static char large[TR_UDP_MAX + 1], back[TR_UDP_MAX];
    char text[4], sender[TR_ADDRESS_SIZE];
    size_t got;

    memset(large, 'x', sizeof(large));
    assert_int_equal(tr_udp_send(it->sys, it->a, it->at_b, 0, {"12345678", 8}),
                     TR_OK);
    assert_int_equal(
        tr_udp_receive(it->sys, it->b, text, 4, LONG, &got, sender), TR_ELIMIT);
    assert_int_equal(got, 4);
    assert_memory_equal(text, "1234", 4);
    assert_string_equal(sender, it->at_a);
    assert_int_equal(
        tr_udp_send(it->sys, it->a, it->at_b, 0, {large, TR_UDP_MAX}), TR_OK);
    assert_int_equal(
        tr_udp_receive(it->sys, it->b, back, sizeof(back), LONG, &got, NULL),
        TR_OK);
    assert_int_equal(got, TR_UDP_MAX);
    assert_memory_equal(back, large, TR_UDP_MAX);
    assert_int_equal(
        tr_udp_send(it->sys, it->a, it->at_b, 0, {large, sizeof(large)}),
        TR_EINVAL);
    static const tr_piece many[65];
    assert_int_equal(
        __extension__(tr_udp_send)(it->sys, it->a, it->at_b, 0, many, 65),
        TR_EINVAL);
}

static void check_errors(place *it)
{
    tr_udp *none;
    tr_stream *stream;
    char text[4];
    size_t got;

    assert_int_equal(tr_udp_receive(it->sys, it->b, text, 4, -1, &got, NULL),
                     TR_ETIMEDOUT);
    assert_int_equal(
        tr_udp_receive(it->sys, it->b, text, 4, TR_MS(5), &got, NULL),
        TR_ETIMEDOUT);
    assert_int_equal(tr_udp_open(it->sys, &none, it->at_a), TR_EEXIST);
    assert_null(none);
    assert_non_null(strstr(tr_error_text(it->sys), it->at_a));
    assert_int_equal(tr_udp_open(it->sys, &none, "tcp://127.0.0.1:0"),
                     TR_EINVAL);
    assert_int_equal(tr_udp_open(it->sys, &none, "unix:/x"), TR_EINVAL);
    assert_int_equal(tr_udp_open(it->sys, &none, "7000"), TR_EINVAL);
    assert_int_equal(
        tr_udp_send(it->sys, it->a, "tcp://127.0.0.1:9", 0, {"x", 1}),
        TR_EINVAL);
    // The other family of calls refuses these addresses.
    assert_int_equal(tr_listen(it->sys, &stream, ANY, 0), TR_EINVAL);
    assert_int_equal(tr_connect(it->sys, &stream, it->at_a, LONG), TR_EINVAL);
}

/* Nobody hears of a datagram that nobody takes. */
static void check_lost(place *it)
{
    char text[4];
    size_t got;

    tr_udp_close(it->sys, it->b);
    it->b = NULL;
    assert_int_equal(tr_udp_send(it->sys, it->a, it->at_b, 0, {"x", 1}), TR_OK);
    assert_int_equal(tr_udp_send(it->sys, it->a, it->at_b, 0, {"x", 1}), TR_OK);
    assert_int_equal(tr_udp_send(it->sys, it->a, it->at_a, 0, {"own", 3}),
                     TR_OK);
    assert_int_equal(tr_udp_receive(it->sys, it->a, text, 4, LONG, &got, NULL),
                     TR_OK);
    assert_memory_equal(text, "own", 3);
}

static void check_names(place *it)
{
    char name[TR_ADDRESS_SIZE], text[4];
    size_t got;

    (void)snprintf(name, sizeof(name), "udp://localhost%s",
                   strrchr(it->at_b, ':'));
    assert_int_equal(tr_udp_send(it->sys, it->a, name, 0, {"name", 4}), TR_OK);
    assert_int_equal(tr_udp_receive(it->sys, it->b, text, 4, LONG, &got, NULL),
                     TR_OK);
    assert_memory_equal(text, "name", 4);
}

static void test_outside_threads_use_datagrams(void **state)
{
    (void)state;
    in_both_worlds(check_datagrams);
    in_both_worlds(check_sizes);
    in_both_worlds(check_errors);
    in_both_worlds(check_lost);
    in_both_worlds(check_names);
}

static void test_a_system_closes_sockets_that_are_left(void **state)
{
    (void)state;
    for (int simulated = 0; simulated < 2; simulated++) {
        place it;
        place_open(&it, simulated);
        assert_int_equal(tr_udp_send(it.sys, it.a, it.at_b, 0, {"left", 4}),
                         TR_OK);
        it.a = it.b = NULL;
        place_close(&it);
    }
}

/* ---- in actors ---- */

TR_MESSAGE(Say, (const char *, to), (const char *, text));
TR_MESSAGE(Hang);
TR_MESSAGE(Place, (const char *, address));
TR_REQUEST(Where, Place);
TR_MESSAGE(Answer, (int32_t, err));
TR_REQUEST(Ended, Answer);
TR_REQUEST(Misuse, Answer);

/* Sends every datagram back, and handles messages meanwhile. */
typedef struct Echo {
    tr_udp *socket;
    tr_err err;
    bool over;
    const Ended *asked;
} Echo;

static tr_err echo_answer(tr_ctx *ctx, Echo *self)
{
    if (self->asked == NULL || !self->over) {
        return TR_OK;
    }
    (void)tr_reply(ctx, self->asked, .err = self->err);
    tr_release(ctx, self->asked);
    self->asked = NULL;
    return TR_OK;
}

static tr_err echo_start(tr_ctx *ctx, Echo *self)
{
    return tr_udp_open(ctx, &self->socket, ANY);
}

static tr_err echo_run(tr_ctx *ctx, Echo *self)
{
    char bytes[64], sender[TR_ADDRESS_SIZE];
    size_t got;
    while ((self->err = tr_udp_receive(ctx, self->socket, bytes, sizeof(bytes),
                                       0, &got, sender)) == TR_OK) {
        TR_TRY(tr_udp_send(ctx, self->socket, sender, 0, {bytes, got}));
    }
    self->over = true;
    return echo_answer(ctx, self);
}

static tr_err echo_where(tr_ctx *ctx, Echo *self, const Where *m)
{
    char at[TR_ADDRESS_SIZE];
    return tr_reply(ctx, m,
                    .address = tr_udp_address(self->socket, at, sizeof(at)));
}

static tr_err echo_say(tr_ctx *ctx, Echo *self, const Say *m)
{
    return tr_udp_send(ctx, self->socket, m->to, LONG,
                       {m->text, strlen(m->text)});
}

static tr_err echo_hang_up(tr_ctx *ctx, Echo *self, const Hang *m)
{
    (void)m;
    tr_udp_close(ctx, self->socket);
    self->socket = NULL;
    return TR_OK;
}

static tr_err echo_ended(tr_ctx *ctx, Echo *self, const Ended *m)
{
    self->asked = tr_keep(ctx, m);
    return echo_answer(ctx, self);
}

/* Calls that must be refused while on_run receives. */
static tr_err echo_misuse(tr_ctx *ctx, Echo *self, const Misuse *m)
{
    char text[4];
    size_t got;
    tr_udp *none;
    tr_system *sys = tr_system_of(ctx);
    bool good = tr_udp_receive(ctx, self->socket, text, 4, LONG, &got, NULL) ==
                    TR_EEXIST &&
                tr_udp_receive(sys, self->socket, text, 4, LONG, &got, NULL) ==
                    TR_EWOULDBLOCK &&
                tr_udp_open(sys, &none, ANY) == TR_EWOULDBLOCK;
    return tr_reply(ctx, m, .err = good ? TR_OK : TR_EFAILED);
}

TR_ACTOR(echo, Echo, TR_HOOK(pre_start, echo_start), TR_HOOK(on_run, echo_run),
         TR_ON(Where, echo_where), TR_ON(Say, echo_say),
         TR_ON(Hang, echo_hang_up), TR_ON(Ended, echo_ended),
         TR_ON(Misuse, echo_misuse));

static tr_ref echo_of(place *it, char at[TR_ADDRESS_SIZE])
{
    Place answer;
    tr_ref ref = tr_spawn(it->sys, echo, .joinable = true);
    assert_int_equal(tr_ask(it->sys, ref, &answer, LONG, Where), TR_OK);
    (void)snprintf(at, TR_ADDRESS_SIZE, "%s", answer.address);
    tr_drop(Place, &answer);
    return ref;
}

static void check_echo(place *it)
{
    char at[TR_ADDRESS_SIZE], text[64] = "", sender[TR_ADDRESS_SIZE];
    size_t got;
    Answer answer;
    tr_ref ref = echo_of(it, at);

    assert_int_equal(tr_udp_send(it->sys, it->a, at, 0, {"hello", 5}), TR_OK);
    assert_int_equal(
        tr_udp_receive(it->sys, it->a, text, 64, LONG, &got, sender), TR_OK);
    assert_memory_equal(text, "hello", 5);
    assert_string_equal(sender, at);
    // A handler sends while on_run waits for the same socket.
    tr_tell(it->sys, ref, Say, .to = it->at_b, .text = "told");
    assert_int_equal(
        tr_udp_receive(it->sys, it->b, text, 64, LONG, &got, sender), TR_OK);
    assert_memory_equal(text, "told", 4);
    assert_int_equal(tr_ask(it->sys, ref, &answer, LONG, Misuse), TR_OK);
    assert_int_equal(answer.err, TR_OK);
    tr_drop(Answer, &answer);
    tr_tell(it->sys, ref, Hang);
    assert_int_equal(tr_ask(it->sys, ref, &answer, LONG, Ended), TR_OK);
    assert_int_equal(answer.err, TR_ECLOSED);
    tr_drop(Answer, &answer);
    tr_stop(it->sys, ref);
    assert_int_equal(tr_join(it->sys, ref, LONG, NULL, NULL), TR_OK);
}

/* The address is free again after the end of the actor. */
static void check_end_of_the_actor(place *it)
{
    char at[TR_ADDRESS_SIZE];
    tr_udp *again;
    tr_ref ref = echo_of(it, at);

    assert_int_equal(tr_udp_open(it->sys, &again, at), TR_EEXIST);
    tr_kill(it->sys, ref);
    assert_int_equal(tr_join(it->sys, ref, LONG, NULL, NULL), TR_OK);
    assert_int_equal(tr_udp_open(it->sys, &again, at), TR_OK);
    tr_udp_close(it->sys, again);
}

static void test_actors_use_datagrams(void **state)
{
    (void)state;
    in_both_worlds(check_echo);
    in_both_worlds(check_end_of_the_actor);
}

static void test_a_socket_of_another_system_is_refused(void **state)
{
    (void)state;
    place it;
    tr_system *other;
    char text[4];
    size_t got;

    place_open(&it, false);
    assert_int_equal(tr_system_open(&other), TR_OK);
    assert_int_equal(tr_udp_receive(other, it.a, text, 4, LONG, &got, NULL),
                     TR_EFOREIGN);
    assert_int_equal(tr_udp_send(other, it.a, it.at_b, 0, {"x", 1}),
                     TR_EFOREIGN);
    assert_int_equal(tr_system_close(other, 0), TR_OK);
    place_close(&it);
}

static void test_a_polled_system_has_datagrams(void **state)
{
    (void)state;
    tr_system *sys;
    tr_udp *socket;
    char at[TR_ADDRESS_SIZE], text[4];
    size_t got;

    assert_int_equal(tr_system_open(&sys, .poll = true), TR_OK);
    assert_int_equal(tr_udp_open(sys, &socket, ANY), TR_OK);
    (void)tr_udp_address(socket, at, sizeof(at));
    assert_int_equal(tr_udp_receive(sys, socket, text, 4, TR_MS(1), &got, NULL),
                     TR_ETIMEDOUT);
    assert_int_equal(tr_udp_send(sys, socket, at, 0, {"four", 4}), TR_OK);
    assert_int_equal(tr_udp_receive(sys, socket, text, 4, LONG, &got, NULL),
                     TR_OK);
    assert_memory_equal(text, "four", 4);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

/* ---- between simulated nodes ---- */

#define NODE_PORT "udp://0.0.0.0:700"

enum { DATAGRAMS = 200 };

/* What node 0 has received from node 1. */
typedef struct tally {
    uint32_t count[DATAGRAMS];
    uint32_t received, distinct, late;  // late: after a greater number
    uint32_t greatest;
    bool done;
} tally;

static void tally_add(tally *it, uint32_t number)
{
    assert_in_range(number, 0, DATAGRAMS - 1);
    it->received++;
    it->distinct += it->count[number]++ == 0;
    it->late += number < it->greatest;
    it->greatest = number > it->greatest ? number : it->greatest;
}

typedef struct Sink {
    tally *tally;
} Sink;

static tr_err sink_run(tr_ctx *ctx, Sink *self)
{
    tr_udp *socket;
    uint32_t number;
    size_t got;
    TR_TRY(tr_udp_open(ctx, &socket, NODE_PORT "0"));
    for (;;) {
        TR_TRY(tr_udp_receive(ctx, socket, &number, sizeof(number), 0, &got,
                              NULL));
        assert_int_equal(got, sizeof(number));
        tally_add(self->tally, number);
    }
}

TR_ACTOR(sink, Sink, TR_HOOK(on_run, sink_run));

static tr_err source_run(tr_ctx *ctx, Sink *self)
{
    tr_udp *socket;
    TR_TRY(tr_udp_open(ctx, &socket, NODE_PORT "1"));
    TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    for (uint32_t i = 0; i < DATAGRAMS; i++) {
        TR_TRY(
            tr_udp_send(ctx, socket, "udp://node-0:7000", 0, {&i, sizeof(i)}));
        TR_TRY(tr_sleep(ctx, TR_MS(1)));
    }
    self->tally->done = true;
    return TR_OK;
}

TR_ACTOR(source, Sink, TR_HOOK(on_run, source_run));

static tr_err node_start(tr_system *sys, uint32_t index, void *user)
{
    tr_ref ref = index == 0
                     ? tr_spawn(sys, sink, TR_INIT(sink, .tally = user))
                     : tr_spawn(sys, source, TR_INIT(source, .tally = user));
    return tr_ref_err(ref);
}

static tr_err wait_for_all(tr_sim *sim, void *user)
{
    const tally *it = user;
    while (!it->done) {
        tr_sim_advance(sim, TR_SECONDS(1));
    }
    tr_sim_advance(sim, TR_SECONDS(20));
    return TR_OK;
}

static tally run_nodes(uint64_t seed, tr_faults faults)
{
    tally it = {0};
    faults.size = sizeof(faults);
    tr_sim_options options = {.size = sizeof(options),
                              .seed = seed,
                              .faults = &faults,
                              .node = node_start,
                              .nodes = 2,
                              .workload = wait_for_all,
                              .user = &it};
    assert_int_equal(tr_sim_run(&options), TR_OK);
    return it;
}

static void test_without_faults_every_datagram_comes_once(void **state)
{
    (void)state;
    tally it = run_nodes(1, (tr_faults){0});
    assert_int_equal(it.received, DATAGRAMS);
    assert_int_equal(it.distinct, DATAGRAMS);
    assert_int_equal(it.late, 0);
}

static void test_each_fault_of_datagrams_happens(void **state)
{
    (void)state;
    tally lost = run_nodes(2, (tr_faults){.drop = 0.3});
    assert_in_range(lost.received, 1, DATAGRAMS - 1);
    assert_int_equal(lost.received, lost.distinct);
    tally twice = run_nodes(3, (tr_faults){.duplicate = 0.3});
    assert_int_equal(twice.distinct, DATAGRAMS);
    assert_true(twice.received > DATAGRAMS);
    tally late = run_nodes(4, (tr_faults){.reorder = 0.3, .delay = 0.3});
    assert_int_equal(late.received, DATAGRAMS);
    assert_true(late.late > 0);
    // A damaged datagram is lost, and never received with other bytes.
    tally damaged = run_nodes(5, (tr_faults){.bit_flip = 0.3});
    assert_in_range(damaged.received, 1, DATAGRAMS - 1);
    assert_int_equal(damaged.received, damaged.distinct);
    tally cut = run_nodes(6, (tr_faults){.partition = 0.01});
    assert_true(cut.received < DATAGRAMS);
}

static void test_a_seed_repeats_the_faults_of_datagrams(void **state)
{
    (void)state;
    tr_faults faults = {.drop = 0.2, .duplicate = 0.2, .reorder = 0.2};
    tally first = run_nodes(7, faults);
    tally again = run_nodes(7, faults);
    tally other = run_nodes(8, faults);
    assert_memory_equal(&first, &again, sizeof(first));
    assert_memory_not_equal(first.count, other.count, sizeof(first.count));
}

/* ---- limits of a simulated socket ---- */

/* A socket that nobody reads drops what comes, and then works again. */
static void test_an_unread_socket_drops_datagrams(void **state)
{
    (void)state;
    static char block[50000];
    place it;
    size_t got;
    uint32_t received = 0;

    place_open(&it, true);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(
            tr_udp_send(it.sys, it.a, it.at_b, 0, {block, sizeof(block)}),
            TR_OK);
    }
    tr_sim_advance(it.sim, TR_SECONDS(1));
    while (tr_udp_receive(it.sys, it.b, block, sizeof(block), -1, &got, NULL) ==
           TR_OK) {
        received++;
    }
    assert_in_range(received, 1, 9);
    assert_int_equal(tr_udp_send(it.sys, it.a, it.at_b, 0, {"x", 1}), TR_OK);
    assert_int_equal(
        tr_udp_receive(it.sys, it.b, block, sizeof(block), LONG, &got, NULL),
        TR_OK);
    assert_int_equal(got, 1);
    place_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outside_threads_use_datagrams),
        cmocka_unit_test(test_a_system_closes_sockets_that_are_left),
        cmocka_unit_test(test_actors_use_datagrams),
        cmocka_unit_test(test_a_socket_of_another_system_is_refused),
        cmocka_unit_test(test_a_polled_system_has_datagrams),
        cmocka_unit_test(test_without_faults_every_datagram_comes_once),
        cmocka_unit_test(test_each_fault_of_datagrams_happens),
        cmocka_unit_test(test_a_seed_repeats_the_faults_of_datagrams),
        cmocka_unit_test(test_an_unread_socket_drops_datagrams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
