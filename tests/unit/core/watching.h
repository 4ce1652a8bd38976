/*
 * watching.h - players that watch (support/fixture.h), and who watches them.
 */
#ifndef TEST_UNIT_CORE_WATCHING_H
#define TEST_UNIT_CORE_WATCHING_H

#include "support/fixture.h"

#include <stdatomic.h>

#include "support/core.h"

/* The watch has begun when this returns. */
static inline void watch_it(stage *s, tr_ref watcher, tr_ref target)
{
    tr_tell(s->sys, watcher, Watch, .ref = target);
    (void)gotten(s, watcher);
}

static inline void unwatch_it(stage *s, tr_ref watcher, tr_ref target)
{
    tr_tell(s->sys, watcher, Watch, .ref = target, .stop = true);
    (void)gotten(s, watcher);
}

/*
 * Returns how many watchers ref has. The answer to gotten shows that ref has
 * received everything that was sent to it before.
 */
static inline uint32_t watchers_of(stage *s, tr_ref ref)
{
    (void)gotten(s, ref);
    tri_ext *ext =
        atomic_load_explicit(&tri_ref_cell(ref)->ext, memory_order_acquire);
    uint32_t count = 0;
    if (ext == NULL) {
        return 0;
    }
    TRI_LIST_EACH (link, &ext->watch.watchers) {
        count++;
    }
    return count;
}

#endif
