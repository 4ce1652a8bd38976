/*
 * sim_error.h - whose the text of the last error is.
 *
 * All threads of a simulated world are one real thread, and the text of the
 * last error (tr_error_text) is kept for each real thread. So the world notes
 * which of its threads wrote the text last.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_ERROR_H
#define TRI_SIM_SIM_ERROR_H

#include "base/world.h"
#include "troupe/base.h"

/* Called around each run of a thread, from tri_sim_thread_enter. */
void tri_sim_error_before_thread(tr_sim *sim);
void tri_sim_error_after_thread(tr_sim *sim, const tri_thread *thread);

/* Returns tr_error_text if the running thread wrote it, else "". */
const char *tri_sim_error_text(const tr_sim *sim);

#endif
