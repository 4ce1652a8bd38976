/*
 * guardian_test.c - the top of the tree, paths, names (GD1..GD15, SV23..SV29,
 * X19, X39..X41). Covers TE8 and TE9.
 */
#include <stdatomic.h>

#include "support/fixture.h"

#include "support/core.h"

/* ---- the tree ---- */

static void top_of_the_tree(stage *s)
{
    static const char *const paths[] = {"/", "/user", "/system", "/temp",
                                        "/deadLetters"};
    char buf[TR_PATH_SIZE];
    for (int i = 0; i < 5; i++) {
        tr_ref ref = tr_lookup(s->sys, paths[i]);
        assert_int_equal(tr_ref_err(ref), TR_OK);
        assert_int_equal(tr_started(s->sys, ref, 0), TR_OK);
        assert_string_equal(tr_ref_path(s->sys, ref, buf, sizeof(buf)),
                            paths[i]);
        tr_actor_info info = {.size = sizeof(info)};
        assert_int_equal(tr_actor_info_of(s->sys, ref, &info), TR_OK);
        assert_string_equal(info.path, paths[i]);
        // GD5: the root has no parent, the others have it.
        assert_true(tr_ref_eq(info.parent,
                              i == 0 ? TR_NOBODY : tr_lookup(s->sys, "/")));
    }
    assert_int_equal(tr_ref_err(tr_lookup(s->sys, "/nowhere")), TR_ENOENT);
    assert_int_equal(tr_ref_err(tr_lookup(s->sys, "")), TR_EINVAL);
}

static void test_GD1_GD2_GD4_GD5_GD15_C11_the_top_of_the_tree(void **state)
{
    (void)state;
    everywhere(top_of_the_tree);
}

static void paths_and_refs(stage *s)
{
    char buf[TR_PATH_SIZE];
    tr_ref a = PLAY(s, "a", ());
    tr_ref b = CHILD(s, a, "b", ());
    tr_ref c = CHILD(s, b, NULL, ());
    assert_string_equal(tr_ref_path(s->sys, b, buf, sizeof(buf)), "/user/a/b");
    assert_true(tr_ref_eq(tr_lookup(s->sys, "/user/a/b"), b));
    assert_true(tr_ref_eq(tr_lookup(s->sys, "a/b"), b));  // below /user
    // One without a name is found by what its path says.
    (void)tr_ref_path(s->sys, c, buf, sizeof(buf));
    assert_true(tr_ref_eq(tr_lookup(s->sys, buf), c));
    assert_int_equal(tr_ref_err(tr_lookup(s->sys, "/user/a/x")), TR_ENOENT);
    assert_string_equal(tr_ref_path(s->sys, TR_NOBODY, buf, sizeof(buf)),
                        "nobody");
    tr_stop(s->sys, a);
    (void)joined(s, a);
    assert_int_equal(tr_ref_err(tr_lookup(s->sys, "/user/a/b")), TR_ENOENT);
    assert_non_null(strstr(tr_ref_path(s->sys, b, buf, sizeof(buf)), "gone"));
    // GD10: who waits outside is shown below /temp.
    assert_non_null(
        strstr(tr_ref_path(s->sys, s->to, buf, sizeof(buf)), "/temp/$"));
    assert_true(tr_ref_eq(tr_lookup(s->sys, buf), s->to));
    strcat(buf, "/x");
    assert_int_equal(tr_ref_err(tr_lookup(s->sys, buf)), TR_ENOENT);
    assert_int_equal(tr_ref_err(tr_lookup(s->sys, "/temp/$0")), TR_ENOENT);
    assert_int_equal(tr_ref_err(tr_lookup(s->sys, "/temp/x")), TR_ENOENT);
    // Only as long as he waits.
    tr_probe *other;
    assert_int_equal(tr_probe_new(&other, s->sys), TR_OK);
    tr_ref waits = tr_probe_ref(other);
    assert_non_null(
        strstr(tr_ref_path(s->sys, waits, buf, sizeof(buf)), "/temp/$"));
    tr_probe_free(other);
    assert_int_equal(tr_ref_err(tr_lookup(s->sys, buf)), TR_ENOENT);
    assert_non_null(
        strstr(tr_ref_path(s->sys, waits, buf, sizeof(buf)), "gone$"));
}

static void test_GD9_GD10_C13_paths_and_refs(void **state)
{
    (void)state;
    everywhere(paths_and_refs);
}

/* A player among the library's own actors. */
static tr_ref play_in_system(stage *s, const char *name,
                             const tr_supervision *policy)
{
    tri_caller who = tri_enter((tr_from){.sys = s->sys});
    tr_ref ref = tri_spawn_under(&who, s->sys->system, &player,
                                 TR_OPTIONS(tr_spawn_options, .name = name,
                                            .supervision = policy, AS_(s, ())),
                                 0);
    tri_leave(&who);
    return ref;
}

static void spawned_below_user(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    tr_actor_info info = {.size = sizeof(info)};
    assert_int_equal(tr_actor_info_of(s->sys, a, &info), TR_OK);
    assert_true(tr_ref_eq(info.parent, tr_lookup(s->sys, "/user")));
}

static void test_SP1_SP21_GD11_X19_spawn_is_below_user(void **state)
{
    (void)state;
    everywhere(spawned_below_user);
}

static uint32_t children_of(stage *s, const char *path)
{
    static tr_actor_info all[64];
    tr_ref parent = tr_lookup(s->sys, path);
    uint32_t found = 0;
    all[0].size = sizeof(all[0]);
    size_t count = tr_actors(s->sys, all, 64);
    assert_true(count <= 64);
    for (size_t i = 0; i < count; i++) {
        found += tr_ref_eq(all[i].parent, parent);
    }
    return found;
}

static void on_note(void *user, const tr_type *type, const void *event)
{
    (void)user;
    (void)type;
    (void)event;
}

static void library_below_system(stage *s)
{
    uint32_t mine = children_of(s, "/user"), own = children_of(s, "/system");
    // The library makes an actor that gets the events.
    assert_int_equal(tr_on_event(s->sys, Note, on_note, NULL), TR_OK);
    assert_int_equal(children_of(s, "/system"), own + 1);
    assert_int_equal(children_of(s, "/user"), mine);
}

static void test_SP22_the_librarys_actors_are_below_system(void **state)
{
    (void)state;
    everywhere(library_below_system);
}

/* ---- extra top levels ---- */

static void top_levels(stage *s)
{
    tr_ref a = tr_top_level(s->sys, player, .name = "extra", AS_(s, ()));
    assert_int_equal(tr_ref_err(a), TR_OK);
    tr_ref again = tr_top_level(s->sys, player, .name = "extra", AS_(s, ()));
    assert_int_equal(tr_ref_err(again), TR_EEXIST);
    tr_ref b = CHILD(s, a, "b", ());
    static const char *const bad[] = {"user", "system", "temp", "deadLetters",
                                      "",     "a/b",    "$x",   "white space",
                                      NULL};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tr_ref ref = tr_top_level(s->sys, player, .name = bad[i], AS_(s, ()));
        assert_int_equal(tr_ref_err(ref), TR_EINVAL);
    }
    assert_true(tr_ref_eq(tr_lookup(s->sys, "/extra"), a));
    assert_true(tr_ref_eq(tr_lookup(s->sys, "/extra/b"), b));
    // The tree is in use now: the window is closed, and that is logged.
    tr_ref late = tr_top_level(s->sys, player, .name = "late", AS_(s, ()));
    assert_int_equal(tr_ref_err(late), TR_ECLOSED);
    assert_true(stage_logged(s, "/late cannot be a top level"));
}

static void test_GD3_GD7_GD8_GD9_X39_extra_top_levels(void **state)
{
    (void)state;
    everywhere(top_levels);
}

/* ---- dead letters have a place ---- */

static void dead_letters_place(stage *s)
{
    tr_probe_subscribe(s->probe, tr_dead_letter);
    tr_probe_subscribe(s->probe, tr_unhandled);
    tr_tell(s->sys, tr_lookup(s->sys, "/deadLetters"), Strange);
    const tr_dead_letter *dead =
        tr_expect(s->probe, patience(s), tr_dead_letter);
    assert_string_equal(dead->type, "Strange");
    quiet(s);
    // A guardian takes no mail: that is a dead letter as well.
    tr_tell(s->sys, tr_lookup(s->sys, "/user"), Strange);
    (void)tr_expect(s->probe, patience(s), tr_unhandled);
    (void)tr_expect(s->probe, patience(s), tr_dead_letter);
}

static void test_DL9_X41_mail_to_dead_letters_is_a_dead_letter(void **state)
{
    (void)state;
    everywhere(dead_letters_place);
}

/* ---- policies at the top ---- */

static void users_policy(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    watch_end(s, a);
    tr_tell(s->sys, a, Fail);
    assert_int_equal(ended(s, a), TR_FAILED);  // /user stops its children
    // Those of others have the system's policy.
    tr_ref b = PLAY(s, "b", ());
    tr_ref c = CHILD(s, b, "c", ());
    tr_tell(s->sys, c, Fail);
    assert_int_equal(gotten(s, c).incarnation, 2);
    // And a policy of its own goes before.
    tr_ref d = PLAY(s, "d", (), .supervision = TR_SUPERVISE());
    tr_tell(s->sys, d, Fail);
    assert_int_equal(gotten(s, d).incarnation, 2);
}

static void test_SV24_GD12_the_policy_of_user_is_configured(void **state)
{
    (void)state;
    with_options(
        TR_OPTIONS(tr_system_options, .workers = 2,
                   .user_supervision = TR_SUPERVISE(.on_failure = TR_STOP)),
        users_policy);
}

static void escalation_ends_all(stage *s)
{
    s->failure = TR_EUSER;
    tr_ref other = PLAY(s, "other", (.says = POST_STOP));
    assert_int_equal(tr_started(s->sys, other, 0), TR_OK);
    tr_ref a = PLAY(s, "a", (),
                    .supervision = TR_SUPERVISE(.on_failure = TR_ESCALATE));
    watch_end(s, other);
    tr_tell(s->sys, a, Fail);
    heard(s, "other post_stop");
    assert_int_equal(ended(s, other), TR_STOPPED);
    assert_int_equal(tr_ref_err(PLAY(s, "late", ())), TR_ECLOSED);
    assert_true(stage_logged(s, "a guardian has failed: the system ends"));
}

static void test_SV23_SV29_GD6_an_escalation_to_the_top_ends_the_system(
    void **state)
{
    (void)state;
    everywhere(escalation_ends_all);
}

/* No policy of the program makes the root restart a guardian. */
static void root_is_fixed(stage *s)
{
    s->failure = TR_EUSER;
    tr_ref b = play_in_system(s, "b", TR_SUPERVISE(.on_failure = TR_ESCALATE));
    tr_ref a = PLAY(s, "a", (.says = POST_STOP));
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    watch_end(s, b);
    tr_tell(s->sys, b, Fail);
    (void)ended(s, b);
    heard(s, "a post_stop");  // the whole system ends
    assert_false(stage_logged(s, "decision: restart"));
}

static void test_SV25_SV26_SV28_guardians_are_never_restarted(void **state)
{
    (void)state;
    with_options(
        TR_OPTIONS(tr_system_options, .workers = 2,
                   .supervision = TR_SUPERVISE(.max_restarts = 50),
                   .user_supervision = TR_SUPERVISE(.max_restarts = 50)),
        root_is_fixed);
}

/* The scope of a policy does not reach from /user to /system. */
static void escalation_spares_system(stage *s)
{
    s->failure = TR_EUSER;
    tr_ref user = tr_lookup(s->sys, "/user");
    tr_ref a = PLAY(s, "a", (),
                    .supervision = TR_SUPERVISE(.on_failure = TR_ESCALATE));
    watch_end(s, a);
    tr_tell(s->sys, a, Fail);
    (void)ended(s, a);
    (void)joined(s, user);
    quiet(s);
    assert_int_equal(tr_ref_err(tr_lookup(s->sys, "/system")), TR_OK);
}

static void test_SV23_a_scope_does_not_reach_other_guardians(void **state)
{
    (void)state;
    with_options(
        TR_OPTIONS(tr_system_options, .workers = 2,
                   .supervision = TR_SUPERVISE(.scope = TR_ALL_FOR_ONE),
                   .user_supervision = TR_SUPERVISE(.scope = TR_ALL_FOR_ONE)),
        escalation_spares_system);
}

/* The end of /user, for whatever reason, is the end of the system. */
static void user_ends(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    watch_end(s, a);
    tri_caller who = tri_enter((tr_from){.sys = s->sys});
    tri_signal(who.worker, s->sys->user, s->sys->user_id, TRI_SIG_STOP);
    tri_leave(&who);
    (void)ended(s, a);
    tr_ref user = {tri_cell_ref(s->sys, s->sys->user).cell, s->sys->user_id};
    (void)joined(s, user);
    // Acquire: pairs with tri_shutdown_begin.
    while (s->sim == NULL &&
           !atomic_load_explicit(&s->sys->terminating, memory_order_acquire)) {
    }
    assert_int_equal(tr_ref_err(PLAY(s, "late", ())), TR_ECLOSED);
    assert_int_equal(tr_ref_err(tr_lookup(s->sys, "/system")), TR_OK);
}

static void test_DW27_the_end_of_user_ends_the_system(void **state)
{
    (void)state;
    everywhere(user_ends);
}

/*
 * An outside thread that has found the system open spawns when /user has ended
 * meanwhile: the spawn fails, and nothing of it is left behind.
 */
static void spawn_too_late(stage *s)
{
    tri_caller who = tri_enter((tr_from){.sys = s->sys});
    tri_signal(who.worker, s->sys->user, s->sys->user_id, TRI_SIG_STOP);
    tri_leave(&who);
    tr_ref user = {tri_cell_ref(s->sys, s->sys->user).cell, s->sys->user_id};
    (void)joined(s, user);
    // Acquire: pairs with tri_cell_free.
    while (atomic_load_explicit(&s->sys->user->id, memory_order_acquire) ==
           s->sys->user_id) {
        if (s->sim != NULL) {
            tr_sim_advance(s->sim, TR_MS(1));
        }
    }
    for (int i = 0; i < 3; i++) {
        who = tri_enter((tr_from){.sys = s->sys});
        tr_ref late = tri_spawn_under(
            &who, s->sys->user, &player,
            TR_OPTIONS(tr_spawn_options, .name = i < 2 ? "late" : NULL), 0);
        tri_leave(&who);
        assert_int_equal(tr_ref_err(late), TR_ESTOPPED);
    }
}

static void test_SP23_a_spawn_that_races_with_the_end_of_user(void **state)
{
    (void)state;
    everywhere(spawn_too_late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_GD1_GD2_GD4_GD5_GD15_C11_the_top_of_the_tree),
        cmocka_unit_test(test_GD9_GD10_C13_paths_and_refs),
        cmocka_unit_test(test_SP1_SP21_GD11_X19_spawn_is_below_user),
        cmocka_unit_test(test_SP22_the_librarys_actors_are_below_system),
        cmocka_unit_test(test_GD3_GD7_GD8_GD9_X39_extra_top_levels),
        cmocka_unit_test(test_DL9_X41_mail_to_dead_letters_is_a_dead_letter),
        cmocka_unit_test(test_SV24_GD12_the_policy_of_user_is_configured),
        cmocka_unit_test(
            test_SV23_SV29_GD6_an_escalation_to_the_top_ends_the_system),
        cmocka_unit_test(test_SV25_SV26_SV28_guardians_are_never_restarted),
        cmocka_unit_test(test_SV23_a_scope_does_not_reach_other_guardians),
        cmocka_unit_test(test_DW27_the_end_of_user_ends_the_system),
        cmocka_unit_test(test_SP23_a_spawn_that_races_with_the_end_of_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
