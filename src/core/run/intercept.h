/*
 * intercept.h - interceptors: code of the program around handlers.
 *
 * Threads: any.
 */
#ifndef TRI_CORE_RUN_INTERCEPT_H
#define TRI_CORE_RUN_INTERCEPT_H

#include "core/types.h"

/*
 * Returns a copy of a behaviour whose handlers run inside the interceptors of
 * two lists, either of which may be NULL; NULL without memory. The copy is
 * made once for each pair of lists. `plain` must not be a copy itself.
 */
const tri_behaviour *tri_behaviour_wrap(struct tr_system *sys,
                                        const tri_behaviour *plain,
                                        const tr_interceptor *const *outer,
                                        const tr_interceptor *const *inner);

#endif
