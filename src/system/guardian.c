/*
 * guardian.c - the actors at the top of the tree.
 *
 * A guardian that fails ends, and then the root ends the system. /user, /system
 * and /temp supervise what is below them; /deadLetters is only a place in the
 * tree. Outside threads that ask also have paths below /temp, but no actors.
 */
#include "system/guardian.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/props.h"
#include "core/cell/ref.h"
#include "core/life/family.h"
#include "core/life/spawn.h"
#include "core/system.h"
#include "system/layers.h"
#include "troupe/system.h"

static const tr_actor_def guardian = {
    .size = sizeof(tr_actor_def), .name = "guardian", .state_size = 0};

/* What a guardian is spawned as. */
typedef struct plan {
    const tr_actor_def *def;
    tr_spawn_options options;
    uint32_t flags;
} plan;

static plan plan_of(const char *name)
{
    return (plan){.def = &guardian,
                  .options = {.size = sizeof(tr_spawn_options),
                              .name = name,
                              .stop_timeout = TR_FOREVER / 4},
                  .flags = TRI_CELL_SYSTEM};
}

/* /user has the policy by which it supervises its children. */
static plan plan_of_user(const tr_system_options *o)
{
    plan user = plan_of("user");
    user.options.supervision = o->user_supervision;
    if (o->guardian != NULL) {  // an actor of the program, not of the library
        user.def = o->guardian;
        user.options.init = o->init;
        user.options.init_type = o->init_type;
        user.options.init_size = o->init_size;
        user.flags = 0;
    }
    return user;
}

/*
 * Spawns one guardian. *out is its cell also if its extension is missing.
 * Errors: TR_EINVAL (definition and first state do not fit), TR_ENOMEM.
 */
static tr_err spawn_guardian(tr_system *sys, tri_cell *parent,
                             const plan *guardian_plan, tri_cell **out,
                             uint64_t *id)
{
    TRI_CHECK(out != NULL);
    TRI_CHECK(id != NULL);
    tri_caller who = tri_enter((tr_from){.sys = sys});
    tr_ref ref = tri_spawn_under(&who, parent, guardian_plan->def,
                                 &guardian_plan->options, guardian_plan->flags);
    *out = tri_ref_cell(ref);
    *id = ref.id;
    // With its extension from the start: so closing needs no memory.
    tr_err err = *out == NULL                             ? (tr_err)ref.id
                 : tri_ext_need(who.worker, *out) == NULL ? TR_ENOMEM
                                                          : TR_OK;
    tri_leave(&who);
    return err;
}

tr_err tri_guardians_spawn(tr_system *sys)
{
    TRI_CHECK(sys->root == NULL);
    plan root = plan_of(NULL), system = plan_of("system");
    plan letters = plan_of("deadLetters"), temp = plan_of("temp");
    plan user = plan_of_user(&sys->options);
    uint64_t id;
    TR_TRY(spawn_guardian(sys, NULL, &root, &sys->root, &sys->root_id));
    TR_TRY(
        spawn_guardian(sys, sys->root, &system, &sys->system, &sys->system_id));
    TR_TRY(spawn_guardian(sys, sys->root, &letters,
                          &tri_layers_of(sys)->guardians.dead_letters, &id));
    TR_TRY(spawn_guardian(sys, sys->root, &temp, &sys->temp, &sys->temp_id));
    // The last one: one of the program runs at once, and uses the others.
    return spawn_guardian(sys, sys->root, &user, &sys->user, &sys->user_id);
}

static void free_guardian(tr_system *sys, tri_cell *cell)
{
    tri_ext_free(sys->outside, cell);
    free((void *)(uintptr_t)cell->name);
    tri_props_drop(cell->props);
}

void tri_guardians_free(tr_system *sys)
{
    tri_ext *ext = sys->root != NULL ? tri_ext_of(sys->root) : NULL;
    tri_cell *child;
    while (ext != NULL && (child = tri_child_oldest(ext)) != NULL) {
        tri_list_remove(&child->sibling);
        free_guardian(sys, child);
    }
    if (sys->root != NULL) {
        free_guardian(sys, sys->root);
    }
}

bool tri_guardians_exist(tr_system *sys)
{
    return sys->user != NULL;  // the last one
}

bool tri_guardian_is_dead_letters(tr_system *sys, const tri_cell *cell)
{
    return tri_layers_of(sys)->guardians.dead_letters == cell;
}
