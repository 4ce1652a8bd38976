/*
 * membership_test.c - nodes join, renew, pause, die, rejoin and leave, through
 * an engine that is slow, down or loses answers.
 */
#include "support/starve.h"
#include "unit/cluster/members.h"

#define LEASE TRI_LEASE_DEFAULT
#define DEAD  (LEASE * 10 / 6)

static int setup(void **state)
{
    *state = troupe_new(11);
    return 0;
}

static int teardown(void **state)
{
    troupe_free(*state);
    return 0;
}

/* Starts nodes 0 to count - 1 and waits until each has its share. */
static void begin_all(troupe *on, int count)
{
    for (int i = 0; i < count; i++) {
        (void)begin(on, i);
    }
    for (int i = 0; i < count; i++) {
        WAIT_FOR(on, TR_SECONDS(5),
                 has_share(&on->players[i], (uint32_t)count));
    }
}

/* ---- joining ---- */

static void test_the_first_node_owns_all_shards(void **state)
{
    troupe *on = *state;
    player *a = begin(on, 0);

    TR_MUST(tri_membership_wait_up(a->membership, TR_SECONDS(2)));
    assert_true(tri_membership_may_act(a->membership));
    WAIT_FOR(on, TR_SECONDS(2), has_share(a, 1));
    // Above the fences that stores may have of a table that was lost.
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        assert_true(a->view->shards[i].epoch > 1000000000);
    }
    assert_int_equal(a->ups, 1);
    assert_true(a->self.incarnation > 0);
}

static void test_nodes_share_the_shards(void **state)
{
    troupe *on = *state;

    begin_all(on, 3);
    player *a = &on->players[0], *b = &on->players[1], *c = &on->players[2];
    assert_true(a->self.slot != b->self.slot && b->self.slot != c->self.slot &&
                a->self.slot != c->self.slot);
    // All see the same: the revision names the table.
    WAIT_FOR(on, TR_SECONDS(2),
             a->view->revision == b->view->revision &&
                 b->view->revision == c->view->revision);
    assert_memory_equal(a->view->shards, c->view->shards,
                        sizeof(a->view->shards));
    assert_string_equal(a->view->members[b->self.slot].address,
                        "127.0.0.1:4000");
}

static void test_only_the_owner_gives_a_live_shard_away(void **state)
{
    troupe *on = *state;
    player *a = begin(on, 0);

    a->is_stubborn = true;
    WAIT_FOR(on, TR_SECONDS(5), has_share(a, 1));
    player *b = begin(on, 1);
    TR_MUST(tri_membership_wait_up(b->membership, TR_SECONDS(2)));
    tr_sim_advance(on->sim, 3 * DEAD);
    assert_int_equal(shards_of(b->view, a->self), TRI_SHARDS);
    // The view says which shards shall go; one of them goes.
    uint32_t shard = 0;
    while (a->view->shards[shard].next != b->self.slot) {
        shard++;
        assert_true(shard < TRI_SHARDS);
    }
    uint64_t epoch = a->view->shards[shard].epoch;
    tri_membership_handed_over(a->membership, shard);
    WAIT_FOR(on, TR_SECONDS(2), shards_of(b->view, b->self) == 1);
    assert_int_equal(b->view->shards[shard].epoch, epoch + 1);
    assert_true(tri_node_is(b->view->shards[shard].node, b->self));
}

static void test_a_client_owns_no_shards(void **state)
{
    troupe *on = *state;
    player *a = begin(on, 0), *b = &on->players[1];

    open_engine(b);
    tri_membership_options options = options_for(b);
    options.is_client = true;
    TR_MUST(tri_membership_start(&b->membership, &options));
    WAIT_FOR(on, TR_SECONDS(5), has_share(a, 1) && b->self.incarnation != 0);
    tr_sim_advance(on->sim, 2 * DEAD);
    assert_true(has_share(a, 1));
    assert_true(tri_membership_may_act(b->membership));
}

static void test_five_dead_entries_do_not_delay_a_join(void **state)
{
    troupe *on = *state;

    for (int i = 0; i < 5; i++) {
        TR_MUST(
            tri_membership_wait_up(begin(on, i)->membership, TR_SECONDS(2)));
    }
    for (int i = 0; i < 5; i++) {
        crash(&on->players[i]);
    }
    player *late = begin(on, 5);
    tr_nanos before = tr_sim_now(on->sim);
    TR_MUST(tri_membership_wait_up(late->membership, TR_SECONDS(2)));
    assert_true(tr_sim_now(on->sim) - before < TR_SECONDS(2));
    // Its shards come when the dead ones are known to be dead.
    WAIT_FOR(on, DEAD + TR_SECONDS(5), has_share(late, 1));
    assert_int_equal(late->death_count, 5);
}

static void test_rows_of_another_version_are_refused(void **state)
{
    troupe *on = *state;
    player *a = &on->players[0];
    char why[256];

    open_engine(a);
    assert_int_equal(cas_text(a->engine, "test/table/cluster", 0, "2 64", NULL),
                     TRI_ENGINE_YES);
    tri_membership_options options = options_for(a);
    TR_MUST(tri_membership_start(&a->membership, &options));
    assert_int_equal(tri_membership_wait_up(a->membership, TR_SECONDS(2)),
                     TR_EINVAL);
    tri_membership_why(a->membership, why, sizeof(why));
    assert_non_null(strstr(why, "another version"));
    assert_int_equal(a->lefts, 1);
}

static void test_a_join_without_an_engine_says_why(void **state)
{
    troupe *on = *state;
    player *a = begin(on, 0);
    char why[256];

    a->trouble.is_down = true;
    assert_int_equal(tri_membership_wait_up(a->membership, TR_SECONDS(3)),
                     TR_ETIMEDOUT);
    tri_membership_why(a->membership, why, sizeof(why));
    assert_non_null(strstr(why, "down"));
    a->trouble.is_down = false;
    TR_MUST(tri_membership_wait_up(a->membership, TR_SECONDS(3)));
}

/* ---- lives and deaths ---- */

static void test_a_quiet_cluster_stays_as_it_is(void **state)
{
    troupe *on = *state;

    begin_all(on, 3);
    tr_sim_advance(on->sim, TR_SECONDS(40));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(on->players[i].fences, 0);
        assert_int_equal(on->players[i].death_count, 0);
        assert_true(tri_membership_may_act(on->players[i].membership));
    }
}

static void test_a_crashed_node_is_dead_when_its_record_is_unchanged(
    void **state)
{
    troupe *on = *state;

    begin_all(on, 3);
    player *a = &on->players[0], *c = &on->players[2];
    tri_node lost = c->self;
    uint32_t shard = 0;
    while (!tri_node_is(a->view->shards[shard].node, lost)) {
        shard++;
    }
    uint64_t epoch = a->view->shards[shard].epoch;
    crash(c);
    // Not before everybody who renewed in time could know of its own death.
    tr_sim_advance(on->sim, LEASE);
    assert_false(knows_dead(a, lost));
    WAIT_FOR(on, DEAD - LEASE + TR_SECONDS(3), knows_dead(a, lost));
    WAIT_FOR(on, TR_SECONDS(3), has_share(a, 2));
    assert_int_equal(a->view->shards[shard].epoch, epoch + 1);
    assert_int_equal(a->death_count, 1);
    // A node of the same name is another incarnation.
    player *again = begin(on, 2);
    TR_MUST(tri_membership_wait_up(again->membership, TR_SECONDS(2)));
    assert_true(again->self.incarnation > lost.incarnation);
}

static void test_a_short_pause_changes_nothing(void **state)
{
    troupe *on = *state;

    begin_all(on, 2);
    tri_sim_node_pause(on->players[1].node, LEASE / 2);
    tr_sim_advance(on->sim, TR_SECONDS(30));
    assert_int_equal(on->players[1].fences, 0);
    assert_int_equal(on->players[0].death_count, 0);
}

/* Longer than the lease, shorter than what others wait for. */
static void test_a_node_that_paused_for_its_lease_rejoins(void **state)
{
    troupe *on = *state;

    begin_all(on, 2);
    player *a = &on->players[0], *b = &on->players[1];
    tri_node before = b->self;
    tri_sim_node_pause(b->node, LEASE + TR_SECONDS(1));
    tr_sim_advance(on->sim, LEASE + TR_MS(1));
    assert_false(tri_membership_may_act(b->membership));
    WAIT_FOR(on, TR_SECONDS(5), b->fences == 1 && b->ups == 2);
    assert_true(b->self.incarnation > before.incarnation);
    WAIT_FOR(on, TR_SECONDS(5), knows_dead(a, before) && has_share(b, 2));
    assert_int_equal(a->fences, 0);
}

static void test_a_node_that_was_declared_dead_rejoins(void **state)
{
    troupe *on = *state;

    begin_all(on, 2);
    player *a = &on->players[0], *b = &on->players[1];
    tri_node before = b->self;
    tri_sim_node_pause(b->node, 3 * DEAD);
    WAIT_FOR(on, DEAD + TR_SECONDS(3), knows_dead(a, before));
    WAIT_FOR(on, TR_SECONDS(3), has_share(a, 1));
    assert_false(tri_membership_may_act(b->membership));
    WAIT_FOR(on, 3 * DEAD, b->fences == 1 && b->ups == 2);
    WAIT_FOR(on, TR_SECONDS(5), has_share(a, 2) && has_share(b, 2));
}

/* Clocks that differ by a fifth fence in time and accuse nobody. */
static void test_clocks_may_differ(void **state)
{
    troupe *on = *state;

    tri_sim_node_set_rate(on->players[0].node, TRI_SIM_RATE_MAX);
    tri_sim_node_set_rate(on->players[1].node, -TRI_SIM_RATE_MAX);
    begin_all(on, 2);
    tr_sim_advance(on->sim, TR_SECONDS(60));
    player *a = &on->players[0], *b = &on->players[1];
    assert_int_equal(a->death_count + b->death_count, 0);
    tri_node before = b->self;
    b->trouble.is_down = true;
    while (!knows_dead(a, before)) {
        tr_sim_advance(on->sim, TR_MS(1));
        assert_true(!knows_dead(a, before) ||
                    !tri_membership_may_act(b->membership));
    }
    assert_int_equal(b->fences, 1);
}

/* ---- the engine ---- */

static void test_without_an_engine_everybody_stops(void **state)
{
    troupe *on = *state;

    begin_all(on, 3);
    for (int i = 0; i < 3; i++) {
        on->players[i].trouble.is_down = true;
    }
    tr_sim_advance(on->sim, LEASE + TR_MS(200));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(on->players[i].fences, 1);
        assert_false(tri_membership_may_act(on->players[i].membership));
    }
    tr_sim_advance(on->sim, TR_SECONDS(30));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(on->players[i].fences, 1);
        on->players[i].trouble.is_down = false;
    }
    for (int i = 0; i < 3; i++) {
        WAIT_FOR(on, TR_SECONDS(10), has_share(&on->players[i], 3));
    }
}

static void test_a_slow_engine_is_no_reason_to_stop(void **state)
{
    troupe *on = *state;

    begin_all(on, 2);
    on->players[0].trouble.slow = on->players[1].trouble.slow = TR_MS(800);
    tr_sim_advance(on->sim, TR_SECONDS(60));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(on->players[i].fences, 0);
        assert_int_equal(on->players[i].death_count, 0);
    }
}

/* The lease counts from before the request, not from its answer. */
static void test_a_slow_answer_does_not_lengthen_the_lease(void **state)
{
    troupe *on = *state;

    begin_all(on, 1);
    player *a = &on->players[0];
    a->trouble.slow = LEASE / 2;
    tr_sim_advance(on->sim, TR_SECONDS(20));
    a->trouble.is_down = true;
    // No renewal is sent from now on that commits.
    tr_nanos now = tr_sim_now(on->sim);
    WAIT_FOR(on, LEASE + TR_MS(200), !tri_membership_may_act(a->membership));
    assert_true(tr_sim_now(on->sim) - now <= LEASE + TR_MS(10));
}

static void lose_answers(troupe *on, loss how)
{
    begin_all(on, 2);
    for (int i = 0; i < 2; i++) {
        on->players[i].trouble.loss = how;
        on->players[i].trouble.every = 2;
    }
    tri_node before = on->players[1].self;
    tr_sim_advance(on->sim, TR_SECONDS(60));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(on->players[i].fences, 0);
        assert_int_equal(on->players[i].death_count, 0);
    }
    assert_true(tri_node_is(on->players[1].self, before));
    // A node joins and its share is handed over in spite of it.
    player *c = begin(on, 2);
    c->trouble.loss = how;
    c->trouble.every = 2;
    WAIT_FOR(on, TR_SECONDS(20), has_share(c, 3));
}

static void test_lost_requests_are_sent_again(void **state)
{
    lose_answers(*state, LOSS_BEFORE);
}

static void test_lost_answers_are_found_by_reading(void **state)
{
    lose_answers(*state, LOSS_AFTER);
}

/* ---- leaving and requests ---- */

static void test_a_node_leaves_in_two_seconds(void **state)
{
    troupe *on = *state;

    begin_all(on, 3);
    player *a = &on->players[0], *c = &on->players[2];
    tri_node gone = c->self;
    tr_nanos before = tr_sim_now(on->sim);
    tri_membership_leave(c->membership);
    TR_MUST(tri_membership_wait_left(c->membership, TR_SECONDS(2)));
    assert_true(tr_sim_now(on->sim) - before < TR_SECONDS(2));
    assert_int_equal(c->lefts, 1);
    WAIT_FOR(on, TR_SECONDS(1), knows_dead(a, gone) && has_share(a, 2));
    assert_int_equal(c->fences, 0);
}

static void test_the_last_node_leaves_at_once(void **state)
{
    troupe *on = *state;

    begin_all(on, 1);
    player *a = &on->players[0];
    tri_membership_leave(a->membership);
    TR_MUST(tri_membership_wait_left(a->membership, TR_SECONDS(2)));
    crash(a);
    // The next one need not wait for anybody's death.
    a = begin(on, 0);
    WAIT_FOR(on, TR_SECONDS(3), has_share(a, 1));
}

static void test_a_node_may_leave_before_it_is_up(void **state)
{
    troupe *on = *state;
    player *a = begin(on, 0);

    tri_membership_leave(a->membership);
    TR_MUST(tri_membership_wait_left(a->membership, TR_SECONDS(2)));
    assert_int_equal(a->lefts, 1);
}

static void test_a_stubborn_node_leaves_after_its_lease(void **state)
{
    troupe *on = *state;

    begin_all(on, 2);
    player *b = &on->players[1];
    b->is_stubborn = true;
    tri_membership_leave(b->membership);
    assert_int_equal(
        tri_membership_wait_left(b->membership, LEASE - TR_SECONDS(1)),
        TR_ETIMEDOUT);
    TR_MUST(tri_membership_wait_left(b->membership, TR_SECONDS(3)));
    WAIT_FOR(on, TR_SECONDS(3), has_share(&on->players[0], 1));
}

static void test_an_owner_may_raise_an_epoch(void **state)
{
    troupe *on = *state;

    begin_all(on, 1);
    player *a = &on->players[0];
    uint64_t epoch = a->view->shards[7].epoch;
    tri_membership_raise_epoch(a->membership, 7, epoch);
    WAIT_FOR(on, TR_SECONDS(2), a->view->shards[7].epoch == epoch + 1);
    // What has been raised already is not raised again.
    tri_membership_raise_epoch(a->membership, 7, epoch);
    tr_sim_advance(on->sim, TR_SECONDS(3));
    assert_int_equal(a->view->shards[7].epoch, epoch + 1);
    assert_true(tri_node_is(a->view->shards[7].node, a->self));
}

/* The next owner has died in the meantime: the owner must not wait for it. */
static void test_a_shard_that_nobody_takes_comes_back(void **state)
{
    troupe *on = *state;
    player *a = begin(on, 0);

    a->is_stubborn = true;
    WAIT_FOR(on, TR_SECONDS(5), has_share(a, 1));
    player *b = begin(on, 1);
    TR_MUST(tri_membership_wait_up(b->membership, TR_SECONDS(2)));
    WAIT_FOR(on, TR_SECONDS(5), a->view->shards[0].next == b->self.slot);
    crash(b);
    WAIT_FOR(on, 2 * DEAD, a->view->shards[0].next == TRI_NODE_NONE);
    uint64_t epoch = a->view->shards[0].epoch;
    tri_membership_handed_over(a->membership, 0);
    WAIT_FOR(on, TR_SECONDS(2), a->view->shards[0].epoch == epoch + 1);
    assert_true(tri_node_is(a->view->shards[0].node, a->self));
    tr_sim_advance(on->sim, TR_SECONDS(3));
    assert_int_equal(a->view->shards[0].epoch, epoch + 1);
}

static void test_kinds_are_known_to_others(void **state)
{
    troupe *on = *state;

    begin_all(on, 2);
    player *a = &on->players[0], *b = &on->players[1];
    TR_MUST(tri_membership_set_kinds(b->membership, "account teller"));
    WAIT_FOR(on, TR_SECONDS(1),
             strcmp(a->view->members[b->self.slot].kinds, "account teller") ==
                 0);
    char *long_text = calloc(1, TRI_MEMBER_KINDS_MAX + 1);
    memset(long_text, 'k', TRI_MEMBER_KINDS_MAX);
    assert_int_equal(tri_membership_set_kinds(b->membership, long_text),
                     TR_ELIMIT);
    free(long_text);
}

static void test_lost_hints_only_delay(void **state)
{
    troupe *on = *state;

    begin_all(on, 2);
    on->players[1].trouble.is_deaf = true;
    uint64_t epoch = on->players[0].view->shards[0].epoch;
    tri_membership_raise_epoch(on->players[0].membership, 0, epoch);
    WAIT_FOR(on, LEASE / 3, on->players[1].view->shards[0].epoch == epoch + 1);
}

/* A peer's packet names a view that no hint has told of. */
static void test_a_refresh_reads_at_once(void **state)
{
    troupe *on = *state;

    begin_all(on, 2);
    player *a = &on->players[0], *b = &on->players[1];
    b->trouble.is_deaf = true;
    uint64_t epoch = a->view->shards[0].epoch;
    tri_membership_raise_epoch(a->membership, 0, epoch);
    WAIT_FOR(on, TR_SECONDS(1), a->view->shards[0].epoch == epoch + 1);
    tri_membership_refresh(b->membership, a->view->revision);
    tr_sim_advance(on->sim, TR_MS(20));
    assert_int_equal(b->view->revision, a->view->revision);
}

/* ---- memory ---- */

static void test_any_allocation_of_starting_may_fail(void **state)
{
    troupe *on = *state;
    player *a = &on->players[0];
    bool failed;
    int64_t n = 0;

    open_engine(a);
    tri_membership_options options = options_for(a);
    do {
        starve_arm(n++);
        tr_err err = tri_membership_start(&a->membership, &options);
        failed = starve_end();
        assert_true(err == TR_OK || (failed && err == TR_ENOMEM));
    } while (a->membership == NULL);
    assert_true(n > 3 || !STARVE_WORKS);
    TR_MUST(tri_membership_wait_up(a->membership, TR_SECONDS(2)));
}

/* In a simulation all threads are this one: the n-th of all fails. */
static void test_any_allocation_of_a_join_may_fail(void **state)
{
    bool failed;
    int64_t n = 0;
    (void)state;

    do {
        troupe *on = troupe_new(3);
        player *a = begin(on, 0);
        starve_arm(n);
        tr_sim_advance(on->sim, TR_SECONDS(3));
        failed = starve_end();
        WAIT_FOR(on, TR_SECONDS(5), has_share(a, 1));
        troupe_free(on);
        n += 1 + n / 2;
    } while (failed);
    assert_true(n > 10 || !STARVE_WORKS);
}

int main(void)
{
#define ON_STAGE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_the_first_node_owns_all_shards),
        ON_STAGE(test_nodes_share_the_shards),
        ON_STAGE(test_only_the_owner_gives_a_live_shard_away),
        ON_STAGE(test_a_client_owns_no_shards),
        ON_STAGE(test_five_dead_entries_do_not_delay_a_join),
        ON_STAGE(test_rows_of_another_version_are_refused),
        ON_STAGE(test_a_join_without_an_engine_says_why),
        ON_STAGE(test_a_quiet_cluster_stays_as_it_is),
        ON_STAGE(test_a_crashed_node_is_dead_when_its_record_is_unchanged),
        ON_STAGE(test_a_short_pause_changes_nothing),
        ON_STAGE(test_a_node_that_paused_for_its_lease_rejoins),
        ON_STAGE(test_a_node_that_was_declared_dead_rejoins),
        ON_STAGE(test_clocks_may_differ),
        ON_STAGE(test_without_an_engine_everybody_stops),
        ON_STAGE(test_a_slow_engine_is_no_reason_to_stop),
        ON_STAGE(test_a_slow_answer_does_not_lengthen_the_lease),
        ON_STAGE(test_lost_requests_are_sent_again),
        ON_STAGE(test_lost_answers_are_found_by_reading),
        ON_STAGE(test_a_node_leaves_in_two_seconds),
        ON_STAGE(test_the_last_node_leaves_at_once),
        ON_STAGE(test_a_node_may_leave_before_it_is_up),
        ON_STAGE(test_a_stubborn_node_leaves_after_its_lease),
        ON_STAGE(test_an_owner_may_raise_an_epoch),
        ON_STAGE(test_a_shard_that_nobody_takes_comes_back),
        ON_STAGE(test_kinds_are_known_to_others),
        ON_STAGE(test_lost_hints_only_delay),
        ON_STAGE(test_a_refresh_reads_at_once),
        ON_STAGE(test_any_allocation_of_starting_may_fail),
        cmocka_unit_test(test_any_allocation_of_a_join_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
