/*
 * bus_place_test.c - places, lives and markers, as another node tells of them.
 *
 * What is stale comes to a bus that knows better, or does not know yet.
 */
#include "played_peer.h"

/* With the name of a counter whose shard the node owns. */
static void open_owned(peer *f, uint32_t owner, char *text, size_t size)
{
    open_peer(f, "shop");
    last_counted = 0;
    name_at(owner, "counter", 0, text, size);
}

/*
 * A node that follows its messages and gets others that say the actor is to
 * begin there has heard of that place: it does not give way to a node that
 * knows no more. What has come to it would leave again, and those behind it
 * would be before it when it came back.
 */
static void test_X30_MS4_DI11_mail_says_where_its_actor_is(void **state)
{
    enum { JOIN = 2 };
    peer f;
    char text[64];
    (void)state;
    open_owned(&f, 1, text, sizeof(text));
    declare(&f, &Count_tr_type, "");
    tr_tell(f.sys, tr_virtual_named(f.sys, text), Count, .number = 3);
    run(&f, 20);
    answer_question(&f, 1, 1);
    assert_int_equal(f.tells, 1);
    // Another activation than we knew: a marker follows the first message.
    tri_writer w = item(&f, TRI_ITEM_MOVED);
    tri_write_u32(&w, 1);
    tri_write_u64(&w, (uint64_t)place(2));
    tri_write_u64(&w, f.session.life);
    tri_write_u64(&w, 0);
    tri_write_text(&w, text);
    put(&f, &w);
    run(&f, 20);
    assert_int_equal(f.markers, 1);
    assert_int_equal(f.heard, place(2));
    hand_over(&f, text, 4, (Count){.number = 1});
    // The marker is answered by one who has heard of the same place.
    w = item(&f, TRI_ITEM_FLUSHED);
    tri_write_u64(&w, f.marker);
    tri_write_u64(&w, (uint64_t)place(4));
    tri_write_u8(&w, JOIN);
    put(&f, &w);
    run(&f, 20);
    assert_int_equal(f.tells, 1);  // nothing has left again
    assert_int_equal(f.markers, 2);
    assert_int_equal(f.heard, place(4));
    hand_over(&f, text, 4, (Count){.number = 2});
    run(&f, 20);
    // Behind them comes what we had sent, and the marker.
    hand_over(&f, text, 4, (Count){.number = 3});
    w = item(&f, TRI_ITEM_FLUSH);
    tri_write_u32(&w, 0);
    tri_write_u64(&w, f.marker);
    tri_write_u8(&w, 1);
    tri_write_text(&w, text);
    tri_write_u64(&w, (uint64_t)place(4));
    put(&f, &w);
    run(&f, 20);
    answer_question(&f, 0, 4);
    assert_int_equal(last_counted, 3);
    assert_int_equal(f.tells, 1);
    close_peer(&f);
}

/* ---- places that are given back ---- */

/*
 * The owner tells another node to begin the actor here, and is asked to stop
 * it before the mail that begins it has come: nobody is there, so the place is
 * free. The mail must not begin it at that place any more, since the owner
 * knows nothing of it, and would begin it anywhere once more.
 */
static void test_DI2_DI3_VA16_an_owner_takes_a_place_back(void **state)
{
    peer f;
    char text[64];
    tri_place found;
    (void)state;
    open_owned(&f, 0, text, sizeof(text));
    declare(&f, &Count_tr_type, "");
    tri_writer w = item(&f, TRI_ITEM_PLACE);
    tri_write_u64(&w, 7);
    tri_write_u8(&w, false);
    tri_write_text(&w, text);
    put(&f, &w);
    run(&f, 20);
    assert_int_equal(f.placed, place(1));
    tr_stop(f.sys, tr_virtual_named(f.sys, text));
    run(&f, 20);
    tri_directory *directory = &tri_cluster_of(f.sys)->directory;
    assert_false(tri_directory_lookup(directory, text, strlen(text), &found));
    hand_over(&f, text, 1, (Count){.number = 1});
    run(&f, 20);
    assert_int_equal(last_counted, 1);  // and it is not lost
    assert_true(tri_directory_lookup(directory, text, strlen(text), &found));
    assert_int_equal(found.number, place(2));
    assert_int_equal(route_of(&f, text)->here, found.number);
    close_peer(&f);
}

/* The same on a node that is not the owner. */
static void test_DI2_DI3_VA16_a_place_given_back_is_used(void **state)
{
    peer f;
    char text[64];
    (void)state;
    open_owned(&f, 1, text, sizeof(text));
    declare(&f, &Count_tr_type, "");
    tr_stop(f.sys, tr_virtual_named(f.sys, text));
    run(&f, 20);
    assert_int_equal(f.questions, 1);
    answer_question(&f, 0, 1);
    assert_int_equal(f.gone, place(1));
    hand_over(&f, text, 1, (Count){.number = 1});
    run(&f, 20);
    assert_int_equal(route_of(&f, text)->here, 0);
    assert_int_equal(f.questions, 2);  // where is it now?
    answer_question(&f, 0, 2);
    assert_int_equal(last_counted, 1);
    assert_int_equal(route_of(&f, text)->here, place(2));
    close_peer(&f);
}

/* A life of a node that sends mail for the nth name, and asks where it is. */
static void ask_in_life(peer *f, uint64_t life, int nth, char *text,
                        size_t size)
{
    open_life(f, "shop", life);
    last_counted = 0;
    name_at(1, "counter", nth, text, size);
    tr_tell(f->sys, tr_virtual_named(f->sys, text), Count, .number = 1);
    run(f, 20);
    assert_int_equal(f->questions, 1);
}

static void test_VA13_DI2_an_answer_to_an_earlier_life(void **state)
{
    peer f;
    char text[64];
    (void)state;
    ask_in_life(&f, 1, 0, text, sizeof(text));
    uint64_t earlier = f.question;
    close_peer(&f);

    ask_in_life(&f, 2, 1, text, sizeof(text));
    uint64_t question = f.question;
    f.question = earlier;
    answer_question(&f, 0, 1);  // of the other one
    assert_int_equal(last_counted, 0);
    assert_int_equal(route_of(&f, text)->here, 0);
    f.question = question;
    answer_question(&f, 0, 2);
    assert_int_equal(last_counted, 1);
    assert_int_equal(route_of(&f, text)->here, place(2));
    close_peer(&f);
}

/*
 * Mail to a node that has died may come to its next life, sent by one who has
 * heard of the place late. It is no place of that life: the owner has given
 * the actor to another node since.
 */
static void test_DI2_VA15_X34_a_place_of_an_earlier_life(void **state)
{
    peer f;
    char text[64];
    (void)state;
    open_life(&f, "shop", 2);
    last_counted = 0;
    name_at(1, "counter", 0, text, sizeof(text));
    declare(&f, &Count_tr_type, "");
    hand_over_to(&f, 1, text, 1, (Count){.number = 1});
    run(&f, 20);
    assert_int_equal(f.questions, 1);  // where is it now?
    assert_int_equal(last_counted, 0);
    assert_int_equal(route_of(&f, text)->here, 0);
    // An owner who has not heard of this life either is told.
    answer_for_life(&f, 1, 0, 1);
    assert_int_equal(f.gone, place(1));
    assert_int_equal(last_counted, 0);
    run(&f, 20);
    assert_int_equal(f.questions, 2);
    answer_question(&f, 0, 2);
    assert_int_equal(last_counted, 1);
    assert_int_equal(route_of(&f, text)->here, place(2));
    close_peer(&f);
}

static uint32_t found_on(peer *f, const char *text, tri_place *found)
{
    tri_directory *directory = &tri_cluster_of(f->sys)->directory;
    return tri_directory_lookup(directory, text, strlen(text), found)
               ? found->node
               : UINT32_MAX;
}

/* A node greets in its next life: it has nothing of the one before. */
static void test_DI9_X34_the_next_life_of_a_node_has_no_places(void **state)
{
    peer f;
    char text[64];
    tri_place found;
    (void)state;
    open_peer(&f, "shop");
    name_at(0, "far", 0, text, sizeof(text));
    tr_tell(f.sys, tr_virtual_named(f.sys, text), Plus, .a = 1);
    run(&f, 20);
    assert_int_equal(f.tells, 1);
    assert_int_equal(found_on(&f, text, &found), 1);
    assert_int_equal(found.life, 1);
    begin_session(&f, 2);
    assert_int_equal(found_on(&f, text, &found), UINT32_MAX);
    tr_tell(f.sys, tr_virtual_named(f.sys, text), Plus, .a = 1);
    run(&f, 20);
    assert_int_equal(f.tells, 2);
    assert_int_equal(found_on(&f, text, &found), 1);
    assert_int_equal(found.life, 2);
    close_peer(&f);
}

/* What is active here of an owner's shards is told to its next life, too. */
static void test_DI8_X34_the_next_life_of_an_owner_gets_claims(void **state)
{
    peer f;
    char text[64];
    (void)state;
    open_owned(&f, 1, text, sizeof(text));
    tr_tell(f.sys, tr_virtual_named(f.sys, text), Count, .number = 1);
    run(&f, 20);
    answer_question(&f, 0, 1);
    assert_int_equal(last_counted, 1);
    assert_int_equal(f.claims, 0);
    begin_session(&f, 2);
    assert_int_equal(f.claims, 1);
    assert_int_equal(f.claimed, place(1));
    close_peer(&f);
}

/* ---- watches, stops, and what waits ---- */

TR_MESSAGE(Guard, (tr_ref, actor), (bool, on));

static tr_err on_guard(tr_ctx *ctx, void *self, const Guard *m)
{
    (void)self;
    if (m->on) {
        tr_watch(ctx, m->actor);
    } else {
        tr_unwatch(ctx, m->actor);
    }
    return TR_OK;
}

static tr_err on_end(tr_ctx *ctx, void *self, const tr_terminated *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}

TR_ACTOR(guardian, void, TR_ON(Guard, on_guard), TR_ON(tr_terminated, on_end));

/* The owner cannot say yet. */
static void answer_later(peer *f)
{
    tri_writer w = item(f, TRI_ITEM_PLACED);
    tri_write_u64(&w, f->question);
    tri_write_u32(&w, TR_EWOULDBLOCK);
    tri_write_u8(&w, 0);
    tri_write_u32(&w, 0);
    tri_write_u64(&w, 0);
    tri_write_u64(&w, 0);
    put(f, &w);
}

/* How long one has asked in vain counts for those who wait, not for others. */
static void test_X8_X30_each_question_has_its_own_time(void **state)
{
    enum { HOLD = TRI_ROUTE_HOLD / TR_MS(5) };  // steps
    peer f;
    char text[64];
    tr_dead_info letters[4] = {0};
    (void)state;
    open_owned(&f, 1, text, sizeof(text));
    tr_ref actor = tr_virtual_named(f.sys, text);
    tr_ref who = tr_spawn(f.sys, guardian);
    tr_tell(f.sys, who, Guard, .actor = actor, .on = true);
    run(&f, 4);
    assert_int_equal(f.questions, 1);
    answer_later(&f);
    run(&f, 2);
    tr_tell(f.sys, who, Guard, .actor = actor, .on = false);
    run(&f, HOLD + 40);
    assert_int_equal(f.questions, 1);  // nobody wants to know any more
    tr_tell(f.sys, actor, Count, .number = 1);
    run(&f, 4);
    assert_int_equal(f.questions, 2);
    answer_later(&f);
    run(&f, 40);
    assert_int_equal(tr_dead_letters(f.sys, letters, 4), 0);
    assert_int_equal(f.questions, 3);
    answer_question(&f, 0, 1);
    assert_int_equal(last_counted, 1);
    close_peer(&f);
}

/* Who is told to end behind a message ends, also if that began it. */
static void test_X10_AC7_a_stop_behind_the_first_message(void **state)
{
    peer f;
    char text[64];
    (void)state;
    open_owned(&f, 1, text, sizeof(text));
    tr_ref actor = tr_virtual_named(f.sys, text);
    tr_tell(f.sys, actor, Count, .number = 1);
    tr_poison(f.sys, actor);
    run(&f, 20);
    answer_question(&f, 0, 1);
    assert_int_equal(last_counted, 1);
    assert_int_equal(f.gone, place(1));
    assert_int_equal(route_of(&f, text)->here, 0);
    close_peer(&f);
}

static void moved_from(peer *f, const char *text, uint32_t count,
                       uint64_t loser)
{
    tri_writer w = item(f, TRI_ITEM_MOVED);
    tri_write_u32(&w, 1);
    tri_write_u64(&w, (uint64_t)place(count));
    tri_write_u64(&w, f->session.life);
    tri_write_u64(&w, loser);
    tri_write_text(&w, text);
    put(f, &w);
}

static void moved(peer *f, const char *text, uint32_t count)
{
    moved_from(f, text, count, 0);
}

/* That a claim has lost is said of one activation; the next is not meant. */
static void test_DI8_DI10_only_the_loser_ends(void **state)
{
    peer f;
    char text[64];
    (void)state;
    open_owned(&f, 1, text, sizeof(text));
    tr_tell(f.sys, tr_virtual_named(f.sys, text), Count, .number = 1);
    run(&f, 20);
    answer_question(&f, 0, 3);
    assert_int_equal(route_of(&f, text)->here, place(3));
    moved_from(&f, text, 1, (uint64_t)place(2));  // it has ended since
    run(&f, 20);
    assert_int_equal(route_of(&f, text)->here, place(3));
    moved_from(&f, text, 4, (uint64_t)place(3));
    run(&f, 20);
    assert_int_equal(route_of(&f, text)->here, 0);
    assert_int_equal(f.gone, place(3));
    close_peer(&f);
}

/*
 * A message of this node's earlier life comes home, and is held while a marker
 * follows what this life has sent, which is nothing. News of another place do
 * not end that, or what is held would stay for ever.
 */
static void test_X30_X34_news_while_gathering(void **state)
{
    enum { ALL = 0 };
    peer f;
    char text[64];
    unsigned char bytes[64];
    Count told = {.number = 1};
    (void)state;
    open_life(&f, "shop", 2);
    name_at(1, "far", 0, text, sizeof(text));
    tr_ref actor = tr_virtual_named(f.sys, text);
    tr_tell(f.sys, tr_spawn(f.sys, guardian), Guard, .actor = actor,
            .on = true);
    run(&f, 20);
    answer_question(&f, 1, 1);
    declare(&f, &Count_tr_type, "");
    size_t size =
        tri_binary_write(&Count_tr_type, &told, bytes, sizeof(bytes), NULL);
    tri_envelope e = {.direction = TRI_ONE_WAY,
                      .type = 1,
                      .forwards = 1,
                      .through = 3,
                      .payload = {bytes, size}};
    snprintf(e.target, sizeof(e.target), "%s", text);
    tri_writer w = item(&f, TRI_ITEM_MESSAGE);
    tri_envelope_write(&w, &e);
    put(&f, &w);
    run(&f, 20);
    assert_int_equal(f.markers, 1);
    tr_tell(f.sys, actor, Count, .number = 2);
    moved(&f, text, 2);
    run(&f, 20);
    w = item(&f, TRI_ITEM_FLUSHED);
    tri_write_u64(&w, f.marker);
    tri_write_u64(&w, (uint64_t)place(2));
    tri_write_u8(&w, ALL);
    put(&f, &w);
    run(&f, 40);
    assert_int_equal(f.tells, 2);
    close_peer(&f);
}

TR_ACTOR(pool, void, TR_ON(Count, on_count));

/* Mail that waits for a host of its kind, which is this node then. */
static void test_AC14_X30_workers_are_hosted_here_at_last(void **state)
{
    peer f;
    char text[64];
    tr_dead_info letters[4] = {0};
    (void)state;
    open_peer(&f, "shop");
    last_counted = 0;
    f.bus->peers[1]->greeted = false;  // it may still host something
    name_at(0, "pool", 0, text, sizeof(text));
    tr_ref actor = tr_virtual_named(f.sys, text);
    tr_tell(f.sys, actor, Count, .number = 1);
    run(&f, 20);
    assert_int_equal(tr_host(f.sys, pool, .workers = 2), TR_OK);
    run(&f, 40);
    assert_int_equal(tr_dead_letters(f.sys, letters, 4), 0);
    assert_int_equal(last_counted, 1);
    close_peer(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_X30_MS4_DI11_mail_says_where_its_actor_is),
        cmocka_unit_test(test_DI2_DI3_VA16_an_owner_takes_a_place_back),
        cmocka_unit_test(test_DI2_DI3_VA16_a_place_given_back_is_used),
        cmocka_unit_test(test_VA13_DI2_an_answer_to_an_earlier_life),
        cmocka_unit_test(test_DI2_VA15_X34_a_place_of_an_earlier_life),
        cmocka_unit_test(test_DI9_X34_the_next_life_of_a_node_has_no_places),
        cmocka_unit_test(test_DI8_X34_the_next_life_of_an_owner_gets_claims),
        cmocka_unit_test(test_DI8_DI10_only_the_loser_ends),
        cmocka_unit_test(test_X8_X30_each_question_has_its_own_time),
        cmocka_unit_test(test_X10_AC7_a_stop_behind_the_first_message),
        cmocka_unit_test(test_X30_X34_news_while_gathering),
        cmocka_unit_test(test_AC14_X30_workers_are_hosted_here_at_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
