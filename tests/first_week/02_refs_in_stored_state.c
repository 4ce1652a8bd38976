/*
 * 02_refs_in_stored_state.c - the ref of a virtual actor is stored as its name
 * and comes back equal; a ref that cannot be stored is refused by the name of
 * its field.
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

TR_MESSAGE(Guest, (const char *, name), (tr_ref, ref));
TR_MESSAGE(Shown, (tr_ref, owner), (tr_ref, guest));
TR_REQUEST(SetOwner, tr_none, (tr_ref, owner));
TR_REQUEST(AddGuest, tr_none, (const char *, name), (tr_ref, ref));
TR_REQUEST(Show, Shown);
TR_MESSAGE(OwnerSet, (tr_ref, owner));
TR_STATE(Room, (tr_ref, owner), (list, Guest, guests));
TR_STATE(Door, (tr_ref, owner));

/* ---- a room saves its state ---- */

static tr_err on_set_owner(tr_ctx *ctx, Room *self, const SetOwner *m)
{
    Room next = *self;
    next.owner = m->owner;
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m);
}

static tr_err on_add_guest(tr_ctx *ctx, Room *self, const AddGuest *m)
{
    Guest guests[] = {{.name = "nobody"}, {.name = m->name, .ref = m->ref}};
    Room next = *self;
    next.guests.at = guests;
    next.guests.count = 2;
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m);
}

static tr_err on_show(tr_ctx *ctx, Room *self, const Show *m)
{
    size_t count = self->guests.count;
    tr_ref none = {0};
    return tr_reply(ctx, m, .owner = self->owner,
                    .guest = count > 0 ? self->guests.at[count - 1].ref : none);
}

TR_ACTOR(room, Room, TR_ON(SetOwner, on_set_owner),
         TR_ON(AddGuest, on_add_guest), TR_ON(Show, on_show));

/* ---- a door stores events ---- */

static void apply_owner(Door *self, const OwnerSet *e)
{
    self->owner = e->owner;
}

static tr_err on_door_owner(tr_ctx *ctx, Door *self, const SetOwner *m)
{
    TR_OR_REFUSE(ctx, m, tr_emit(ctx, self, OwnerSet, .owner = m->owner));
    return tr_reply(ctx, m);
}

static tr_err on_door_show(tr_ctx *ctx, Door *self, const Show *m)
{
    return tr_reply(ctx, m, .owner = self->owner);
}

/* ---- a bell has a reminder with a ref ---- */

static tr_err on_bell_owner(tr_ctx *ctx, Door *self, const SetOwner *m)
{
    (void)self;
    TR_OR_REFUSE(
        ctx, m,
        tr_remind(ctx, "ring", TR_SECONDS(10), 0, OwnerSet, .owner = m->owner));
    return tr_reply(ctx, m);
}

static tr_err on_ring(tr_ctx *ctx, Door *self, const OwnerSet *m)
{
    (void)ctx;
    self->owner = m->owner;
    return TR_OK;
}

TR_ACTOR(bell, Door, TR_ON(SetOwner, on_bell_owner), TR_ON(Show, on_door_show),
         TR_ON_REMINDER(OwnerSet, on_ring));

TR_ACTOR(door, Door, TR_ON(SetOwner, on_door_owner), TR_ON(Show, on_door_show),
         TR_APPLY(OwnerSet, apply_owner));

/* ---- the tests ---- */

typedef struct world {
    tr_storage *store;
    tr_system *sys;
    tr_ref room, door;
} world;

static void open_world(world *w, const tr_serializer *form)
{
    TR_MUST(tr_system_open(&w->sys, .ns = "inn"));
    w->room = tr_spawn(w->sys, room, .name = "room", .storage = w->store,
                       .serializer = form);
    w->door = tr_spawn(w->sys, door, .name = "door", .storage = w->store,
                       .serializer = form);
}

static void assert_owner(world *w, tr_ref ref, tr_ref owner, tr_ref guest)
{
    Shown shown;
    TR_MUST(tr_ask(w->sys, ref, &shown, 0, Show));
    assert_true(tr_ref_eq(shown.owner, owner));
    assert_true(tr_ref_eq(shown.guest, guest));
}

static void survives(const tr_serializer *form)
{
    world w;
    TR_MUST(tr_storage_memory(&w.store));
    open_world(&w, form);
    tr_ref ann = tr_virtual(w.sys, "person", "ann");
    tr_ref bob = tr_virtual(w.sys, "person", "bob");
    TR_MUST(tr_ask(w.sys, w.room, NULL, 0, SetOwner, .owner = ann));
    TR_MUST(tr_ask(w.sys, w.room, NULL, 0, AddGuest, .name = "b", .ref = bob));
    TR_MUST(tr_ask(w.sys, w.door, NULL, 0, SetOwner, .owner = bob));
    TR_MUST(tr_system_close(w.sys, 0));

    // Nothing of this system is virtual before the states are loaded.
    open_world(&w, form);
    TR_MUST(tr_started(w.sys, w.room, 0));
    TR_MUST(tr_started(w.sys, w.door, 0));
    ann = tr_virtual(w.sys, "person", "ann");
    bob = tr_virtual(w.sys, "person", "bob");
    assert_owner(&w, w.room, ann, bob);
    assert_owner(&w, w.door, bob, (tr_ref){0});
    TR_MUST(tr_system_close(w.sys, 0));
    tr_storage_close(w.store);
}

static void test_a_virtual_ref_comes_back_equal(void **state)
{
    (void)state;
    survives(&tr_serializer_json);
    survives(&tr_serializer_binary);
}

static void refuses(const tr_serializer *form)
{
    world w;
    TR_MUST(tr_storage_memory(&w.store));
    open_world(&w, form);
    assert_int_equal(tr_ask(w.sys, w.room, NULL, 0, SetOwner, .owner = w.door),
                     TR_EINVAL);
    assert_non_null(strstr(tr_error_text(w.sys), "owner: "));
    assert_non_null(strstr(tr_error_text(w.sys), "virtual"));
    assert_int_equal(
        tr_ask(w.sys, w.room, NULL, 0, AddGuest, .name = "d", .ref = w.door),
        TR_EINVAL);
    assert_non_null(strstr(tr_error_text(w.sys), "guests[1].ref: "));
    assert_int_equal(tr_ask(w.sys, w.door, NULL, 0, SetOwner, .owner = w.room),
                     TR_EINVAL);
    assert_non_null(strstr(tr_error_text(w.sys), "owner: "));
    assert_owner(&w, w.room, (tr_ref){0}, (tr_ref){0});
    TR_MUST(tr_ask(w.sys, w.room, NULL, 0, SetOwner, .owner = {0}));
    TR_MUST(tr_system_close(w.sys, 0));
    tr_storage_close(w.store);
}

static void test_a_ref_that_cannot_be_stored_names_its_field(void **state)
{
    (void)state;
    refuses(&tr_serializer_json);
    refuses(&tr_serializer_binary);
}

static void test_a_reminder_keeps_a_virtual_ref(void **state)
{
    (void)state;
    tr_sim *sim;
    world w;
    TR_MUST(tr_sim_new(&sim, 3));
    TR_MUST(tr_storage_memory(&w.store));
    TR_MUST(tr_system_open(&w.sys, .world = tr_sim_world(sim)));
    tr_ref b = tr_spawn(w.sys, bell, .name = "bell", .storage = w.store);
    tr_ref ann = tr_virtual(w.sys, "person", "ann");
    assert_int_equal(tr_ask(w.sys, b, NULL, 0, SetOwner, .owner = b),
                     TR_EINVAL);
    assert_non_null(strstr(tr_error_text(w.sys), "owner: "));
    TR_MUST(tr_ask(w.sys, b, NULL, 0, SetOwner, .owner = ann));
    tr_sim_advance(sim, TR_SECONDS(11));
    assert_owner(&w, b, ann, (tr_ref){0});
    TR_MUST(tr_system_close(w.sys, 0));
    tr_storage_close(w.store);
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_virtual_ref_comes_back_equal),
        cmocka_unit_test(test_a_ref_that_cannot_be_stored_names_its_field),
        cmocka_unit_test(test_a_reminder_keeps_a_virtual_ref),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
