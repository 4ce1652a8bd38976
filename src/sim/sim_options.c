/*
 * sim_options.c - checks and copies the options of a run.
 *
 * Invariant: a value that makes no sense is refused, never taken for another
 * one: a probability above 1 is a mistake, not certainty.
 */
#include "sim/sim_options.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/log.h"
#include "base/options.h"
#include "base/world.h"
#include "sim/sim.h"
#include "sim/sim_fault.h"
#include "troupe/base.h"

#define LIMIT_DEFAULT     TR_MINUTES(60)
#define QUIET_DEFAULT     TR_SECONDS(60)
#define STEP_COST_DEFAULT INT64_C(1000)

/* Returns true if the span is one; 0 stands for the default. */
static bool is_span(const char *name, tr_nanos span, tri_text *why)
{
    if (span < 0) {
        tri_text_add(why,
                     "%s is %" PRId64 " ns: it must not be negative "
                     "(0: the default)",
                     name, span);
    }
    return span >= 0;
}

static bool is_chance(const char *name, double p, tri_text *why)
{
    bool is_valid = p >= 0.0 && p <= 1.0;  // false if p is a NaN

    if (!is_valid) {
        tri_text_add(why,
                     "tr_faults: .%s is %g: a probability is from 0.0 "
                     "to 1.0",
                     name, p);
    }
    return is_valid;
}

static bool take_faults(tr_faults *own, const tr_faults *faults, tri_text *why)
{
    if (!tri_options_copy(own, sizeof(*own), sizeof(size_t), faults)) {
        tri_text_add(why, "tr_faults: .size is not sizeof(tr_faults), or of a "
                          "newer version");
        return false;
    }
#define TRI_X(name)                                                            \
    if (!is_chance(#name, own->name, why)) {                                   \
        return false;                                                          \
    }
    TRI_SIM_FAULTS(TRI_X)
#undef TRI_X
    return is_span("tr_faults: .delay_max", own->delay_max, why) &&
           is_span("tr_faults: .pause_max", own->pause_max, why);
}

bool tri_sim_options_take(tr_sim_options *own, tr_faults *faults,
                          const tr_sim_options *options, tri_text *why)
{
    if (!tri_options_copy(own, sizeof(*own),
                          TRI_SIZE_THROUGH(tr_sim_options, limit), options)) {
        tri_text_add(why, "tr_sim_options: .size is not "
                          "sizeof(tr_sim_options), or of a newer version");
        return false;
    }
    if (own->nodes > TRI_SIM_NODES_MAX) {
        tri_text_add(
            why, "tr_sim_options: .nodes is %" PRIu32 ", above the limit of %u",
            own->nodes, (unsigned)TRI_SIM_NODES_MAX);
        return false;
    }
    if (!is_span("tr_sim_options: .limit", own->limit, why) ||
        !is_span("tr_sim_options: .quiet_time", own->quiet_time, why) ||
        !take_faults(faults, own->faults, why)) {
        return false;
    }
    own->faults = faults;
    own->nodes = own->nodes > 0 ? own->nodes : 1;
    own->check_every = own->check_every > 0 ? own->check_every : 1;
    own->limit = own->limit > 0 ? own->limit : LIMIT_DEFAULT;
    own->quiet_time = own->quiet_time > 0 ? own->quiet_time : QUIET_DEFAULT;
    own->step_cost = own->step_cost != 0 ? own->step_cost : STEP_COST_DEFAULT;
    return true;
}

bool tri_sim_options_check(const tr_sim_options *options)
{
    char line[TRI_SIM_LINE_MAX];
    tri_text why;
    tr_sim_options own;
    tr_faults faults;
    tri_world *world = tri_world_posix();

    tri_text_init(&why, line, sizeof(line));
    bool ok = tri_sim_options_take(&own, &faults, options, &why);
    if (!ok) {
        // At the real time: there is no run, and no virtual clock.
        tri_log_write(TRI_LOG_ERROR, world->ops->wall(world), NULL, "sim",
                      line);
    }
    return ok;
}
