/*
 * sim_error.c - whose the text of the last error is.
 *
 * Invariant: error_mark is the count of error texts (tr_error_mark) when a
 * thread was last entered or left; a higher count means a newer text.
 */
#include "sim/sim_error.h"

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "core/ask/error_text.h"
#include "sim/sim.h"
#include "sim/sim_thread.h"

void tri_sim_error_before_thread(tr_sim *sim)
{
    uint64_t mark = tr_error_mark();

    if (mark != sim->error_mark) {
        sim->error_by = 0;  // written by a handler or by main
    }
    sim->error_mark = mark;
}

void tri_sim_error_after_thread(tr_sim *sim, const tri_thread *thread)
{
    uint64_t mark = tr_error_mark();

    TRI_CHECK(sim->running == thread);
    if (mark != sim->error_mark) {
        sim->error_by = (uint64_t)thread->id + 1;
    }
    sim->error_mark = mark;
}

const char *tri_sim_error_text(const tr_sim *sim)
{
    if (sim->running == NULL ||
        (tr_error_mark() == sim->error_mark &&
         sim->error_by != (uint64_t)sim->running->id + 1)) {
        return "";
    }
    return tri_error_outside();
}
