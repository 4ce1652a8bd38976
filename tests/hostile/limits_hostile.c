/*
 * limits_hostile.c - a process that has used up its address space, mappings,
 * threads or descriptors: calls return errors, nothing crashes or hangs, and
 * what was there before goes on.
 */
#include "../support/sanitizer.h"
#include "child.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

TR_MESSAGE(Pong, (uint64_t, number));
TR_REQUEST(Ping, Pong, (uint64_t, number));
TR_REQUEST(Relay, Pong, (tr_ref, to));
TR_MESSAGE(Load, (tr_bytes, bytes));

typedef struct Server {
    uint64_t loads;
} Server;

static tr_err on_ping(tr_ctx *ctx, Server *self, const Ping *m)
{
    (void)self;
    return tr_reply(ctx, m, .number = m->number);
}

/* Waits on a stack of its own. */
static tr_err on_relay(tr_ctx *ctx, Server *self, const Relay *m)
{
    Pong pong;

    (void)self;
    TR_OR_REFUSE(ctx, m,
                 tr_ask(ctx, m->to, &pong, TR_SECONDS(20), Ping, .number = 7));
    return tr_reply(ctx, m, .number = pong.number);
}

static tr_err on_load(tr_ctx *ctx, Server *self, const Load *m)
{
    (void)ctx;
    self->loads += m->bytes.size > 0;
    return TR_OK;
}

TR_ACTOR(server, Server, TR_ON(Ping, on_ping), TR_ON(Relay, on_relay),
         TR_ON(Load, on_load));

static void quiet(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

static tr_system *open_system(void)
{
    tr_system *sys;

    TR_MUST(tr_system_open(&sys, .workers = 2, .log = quiet));
    return sys;
}

static void set_limit(__rlimit_resource_t what, rlim_t value)
{
    struct rlimit limit = {.rlim_cur = value, .rlim_max = value};

    MUST_BE(setrlimit(what, &limit) == 0);
}

static void ping(tr_system *sys, tr_ref to)
{
    Pong pong;

    tr_err err = tr_ask(sys, to, &pong, TR_SECONDS(30), Ping, .number = 3);
    if (err != TR_OK) {
        fprintf(stderr, "%s: %s\n", tr_errname(err), tr_error_text(sys));
    }
    MUST_BE(err == TR_OK);
    MUST_BE(pong.number == 3);
}

/* ---- address space ---- */

static rlim_t address_space(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    MUST_BE(file != NULL && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void fill_address_space(void)
{
    tr_system *sys = open_system();
    tr_ref old = tr_spawn(sys, server);
    char *bytes = calloc(1, 1 << 16);
    uint32_t refused = 0;
    size_t reserve = 8 << 20;
    void *kept =
        mmap(NULL, reserve, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MUST_BE(kept != MAP_FAILED);
    ping(sys, old);
    set_limit(RLIMIT_AS, address_space() + (8 << 20));
    // Spawns and large messages until both are refused.
    for (int i = 0; i < 5000000 && refused < 100; i++) {
        tr_ref ref = tr_spawn(sys, server);
        tr_err err = tr_ref_err(ref);
        MUST_BE(err == TR_OK || err == TR_ENOMEM);
        if (err == TR_OK) {
            err = tr_try_tell(sys, ref, Load, .bytes = {bytes, 1 << 16});
            MUST_BE(err == TR_OK || err == TR_ENOMEM || err == TR_EGONE);
        }
        refused += err == TR_ENOMEM;
    }
    MUST_BE(refused > 0);
    // With some room again everything works as before.
    MUST_BE(munmap(kept, reserve) == 0);
    ping(sys, old);
    MUST_BE(tr_system_close(sys, TR_SECONDS(60)) == TR_OK);
    free(bytes);
}

static void test_a_full_address_space_refuses_and_goes_on(void **state)
{
    (void)state;
    if (UNDER_SANITIZER) {
        skip();  // the shadow memory needs terabytes of address space
    }
    in_child(fill_address_space);
}

/* ---- mappings ---- */

enum { PAGES = 1 << 17, RELAYS = 2000 };

/* Takes all mappings that there are; returns how many. */
static uint32_t take_mappings(void **pages)
{
    uint32_t count = 0;

    // Neighbours differ in their rights, so each is a mapping of its own.
    while (count < PAGES) {
        int rights = count % 2 == 0 ? PROT_READ : PROT_NONE;
        void *page =
            mmap(NULL, 4096, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) {
            return count;
        }
        pages[count++] = page;
    }
    return count;
}

static void fill_mappings(void)
{
    static void *pages[PAGES];
    tr_system *sys = open_system();
    tr_ref one = tr_spawn(sys, server), two = tr_spawn(sys, server);
    Pong pong;

    ping(sys, one);
    ping(sys, two);
    uint32_t count = take_mappings(pages);
    MUST_BE(count > 1000 && count < PAGES);
    // Each relay that waits at the same time needs a stack.
    for (int i = 0; i < RELAYS; i++) {
        tr_ref ref = tr_spawn(sys, server);
        MUST_BE(tr_ref_err(ref) == TR_OK || tr_ref_err(ref) == TR_ENOMEM);
        tr_tell(sys, ref, Relay, .to = two);
    }
    tr_err err = tr_ask(sys, one, &pong, TR_SECONDS(30), Relay, .to = two);
    // There may be a stack of a relay that has ended. If not, the asker gets
    // the relay's error, even if there is no memory for the answer.
    MUST_BE(err == TR_OK || err == TR_ENOMEM || err == TR_ELIMIT);
    for (uint32_t i = 0; i < count; i++) {
        munmap(pages[i], 4096);
    }
    // With room again everything works as before.
    ping(sys, two);
    MUST_BE(tr_ask(sys, one, &pong, TR_SECONDS(30), Relay, .to = two) == TR_OK);
    MUST_BE(tr_system_close(sys, TR_SECONDS(60)) == TR_OK);
}

static void test_without_mappings_waits_are_refused(void **state)
{
    (void)state;
    if (UNDER_SANITIZER) {
        skip();  // they map memory themselves and abort if they cannot
    }
    in_child(fill_mappings);
}

/* ---- threads ---- */

static void open_without_threads(void)
{
    tr_system *sys = NULL;

    become_nobody();
    set_limit(RLIMIT_NPROC, 0);
    tr_err err = tr_system_open(&sys, .workers = 2, .log = quiet);
    MUST_BE(err != TR_OK && sys == NULL);
    // A polled system needs none.
    TR_MUST(tr_system_open(&sys, .poll = true, .log = quiet));
    ping(sys, tr_spawn(sys, server));
    tr_ref ref = tr_spawn(sys, server, .dispatcher = "pinned");
    MUST_BE(tr_ref_err(ref) == TR_OK);
    MUST_BE(tr_system_close(sys, 0) == TR_OK);
}

static void run_out_of_threads(void)
{
    become_nobody();
    tr_system *sys = open_system();
    tr_ref old = tr_spawn(sys, server);
    uint32_t refused = 0;

    ping(sys, old);
    set_limit(RLIMIT_NPROC, 0);
    for (int i = 0; i < 4; i++) {
        tr_ref ref = tr_spawn(sys, server, .dispatcher = "pinned");
        MUST_BE(tr_ref_err(ref) == TR_OK || tr_ref_err(ref) == TR_ELIMIT ||
                tr_ref_err(ref) == TR_ENOMEM);
        refused += tr_ref_err(ref) != TR_OK;
    }
    MUST_BE(refused == 4);
    ping(sys, old);
    MUST_BE(tr_system_close(sys, 0) == TR_OK);
}

static void test_without_threads_open_and_spawn_say_so(void **state)
{
    (void)state;
    if (UNDER_SANITIZER) {
        skip();  // they start threads themselves
    }
    in_child(open_without_threads);
    in_child(run_out_of_threads);
}

/* ---- descriptors ---- */

static void use_up_descriptors(void)
{
    tr_system *sys = open_system();
    tr_ref old = tr_spawn(sys, server);
    tr_system *second = NULL, *polled = NULL;
    tr_storage *store = NULL;

    ping(sys, old);
    set_limit(RLIMIT_NOFILE, 32);
    while (dup(STDERR_FILENO) >= 0) {
    }
    ping(sys, old);
    MUST_BE(tr_storage_sqlite(&store, "/tmp/troupe-hostile.db") == TR_ESTORAGE);
    // What needs a descriptor fails, the rest works.
    tr_err err = tr_system_open(&second, .workers = 1, .log = quiet);
    if (err == TR_OK) {
        ping(second, tr_spawn(second, server));
        MUST_BE(tr_system_close(second, 0) == TR_OK);
    }
    err = tr_system_open(&polled, .poll = true, .log = quiet);
    if (err == TR_OK) {
        ping(polled, tr_spawn(polled, server));
        MUST_BE(tr_system_close(polled, 0) == TR_OK);
    }
    MUST_BE(tr_system_close(sys, 0) == TR_OK);
}

static void test_without_descriptors_stores_say_so(void **state)
{
    (void)state;
    in_child(use_up_descriptors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_address_space_refuses_and_goes_on),
        cmocka_unit_test(test_without_mappings_waits_are_refused),
        cmocka_unit_test(test_without_threads_open_and_spawn_say_so),
        cmocka_unit_test(test_without_descriptors_stores_say_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
