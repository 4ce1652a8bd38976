/*
 * system_log.c - lines of a system's log: level, place, actor and text.
 *
 * A system writes to the function in its options, or else to standard error.
 */
#include "system/system_log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "base/world.h"
#include "core/caller.h"
#include "core/cell/cell_path.h"
#include "core/run/context.h"
#include "core/system.h"
#include "troupe/observe.h"
#include "troupe/system.h"

enum { LINE_MAX_BYTES = 1024 };  // a longer text is cut

/* Returns the lowest level that is logged. */
static int lowest_level(tr_system *sys)
{
    // Relaxed: a number; lines of other threads need no order with it.
    return atomic_load_explicit(&sys->log_level, memory_order_relaxed);
}

int tr_log_level_set(tr_system *sys, int level)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    // Relaxed: as lowest_level.
    return atomic_exchange_explicit(&sys->log_level, level,
                                    memory_order_relaxed);
}

static void log_v(tr_system *sys, int level, const char *site, const char *path,
                  const char *format, va_list args)
{
    TRI_CHECK(format != NULL);
    if (level < lowest_level(sys)) {
        return;
    }
    char text[LINE_MAX_BYTES];
    vsnprintf(text, sizeof(text), format, args);
    if (sys->options.log != NULL) {
        tr_log_record record = {.size = sizeof(record),
                                .level = level,
                                .at = sys->world->ops->mono(sys->world),
                                .site = site,
                                .path = path,
                                .text = text};
        sys->options.log(sys->options.log_user, &record);
        return;
    }
    tri_log_write(level, sys->world->ops->wall(sys->world), site, path, text);
}

void tri_logf(tr_system *sys, int level, const char *site, const char *path,
              const char *format, ...)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    va_list args;
    va_start(args, format);
    log_v(sys, level, site, path, format, args);
    va_end(args);
}

void(tr_log)(tr_from from, int level, const char *site, const char *format, ...)
{
    tr_system *sys = tri_from_system(from);
    bool inside = tri_from_is_ctx(from);
    if (level < lowest_level(sys)) {
        return;
    }
    char path[TRI_PATH_MAX];
    if (inside) {
        tri_path_write(sys, from.ctx->cell, path, sizeof(path));
    }
    va_list args;
    va_start(args, format);
    log_v(sys, level, site, inside ? path : NULL, format, args);
    va_end(args);
}
