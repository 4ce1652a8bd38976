/*
 * top_level.c - actors of the program beside /user (tr_top_level).
 *
 * They are children of the root: /user ends without them. shutdown.c ends them
 * when /user has ended, the youngest first.
 */
#include "system/top_level.h"

#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "core/ask/error_text.h"
#include "core/life/family.h"
#include "core/life/spawn.h"
#include "core/system.h"
#include "system/layers.h"
#include "system/system_log.h"
#include "troupe/actor.h"
#include "troupe/observe.h"
#include "troupe/system.h"

static tri_top_levels *tops_of(tr_system *sys)
{
    return &tri_layers_of(sys)->top_levels;
}

/* True if the name may be a top level: a name that the library does not use. */
static bool is_free_name(const char *name)
{
    static const char *const reserved[] = {"user", "system", "temp",
                                           "deadLetters", "virtual"};
    if (name == NULL || tri_name_check(name) != TR_OK) {
        return false;
    }
    for (size_t i = 0; i < TRI_COUNT_OF(reserved); i++) {
        if (strcmp(name, reserved[i]) == 0) {
            return false;
        }
    }
    return true;
}

/*
 * Reserves a place for a ref. Errors: TR_ECLOSED (the tree is in use),
 * TR_ELIMIT.
 */
static tr_err reserve(tri_top_levels *tops, uint32_t *index)
{
    tr_err err = TR_OK;
    tri_lock_take(&tops->lock);
    if (tops->closed) {
        err = TR_ECLOSED;
    } else if (tops->count == TRI_TOP_LEVELS_MAX) {
        err = TR_ELIMIT;
    } else {
        *index = tops->count++;
        tops->refs[*index] = (tr_ref){0};
    }
    tri_lock_drop(&tops->lock);
    return err;
}

/* Fills a place that was reserved; gives it back if the spawn has failed. */
static void fill(tri_top_levels *tops, uint32_t index, tr_ref ref)
{
    tri_lock_take(&tops->lock);
    TRI_CHECK(index < tops->count);
    tops->refs[index] = ref;
    if (ref.cell == 0 && index + 1 == tops->count) {
        tops->count--;
    }
    tri_lock_drop(&tops->lock);
}

tr_ref(tr_top_level)(tr_system *sys, const tr_actor_def *def,
                     const tr_spawn_options *options)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    const char *name = options != NULL ? options->name : NULL;
    if (!is_free_name(name)) {
        tri_error_set(
            NULL, "/%s cannot be a top level: it is reserved, or not a name",
            name != NULL ? name : "");
        return (tr_ref){0, TR_EINVAL};
    }
    uint32_t index = 0;
    tr_err err = reserve(tops_of(sys), &index);
    if (err != TR_OK) {
        tri_error_set(NULL, "tr_top_level: /%s cannot be a top level: %s", name,
                      err == TR_ELIMIT
                          ? "there are too many"
                          : "it must come before the first tr_lookup, "
                            "tr_system_run or tr_poll");
        tri_logf(sys, TR_LOG_WARN, NULL, NULL, "%s", tri_error_outside());
        return (tr_ref){0, (uint64_t)err};
    }
    tr_ref ref = tri_spawn_at((tr_from){.sys = sys}, sys->root, def, options);
    fill(tops_of(sys), index, ref);
    return ref;
}

void tri_top_levels_close(tr_system *sys)
{
    tri_top_levels *tops = tops_of(sys);
    tri_lock_take(&tops->lock);
    tops->closed = true;
    tri_lock_drop(&tops->lock);
}
