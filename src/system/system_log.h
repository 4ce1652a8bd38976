/*
 * system_log.h - lines of a system's log.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_SYSTEM_LOG_H
#define TRI_SYSTEM_SYSTEM_LOG_H

#include "troupe/base.h"

/*
 * Writes a line if its level is enabled, to the program's log function or to
 * standard error. site and path may be NULL.
 */
void tri_logf(tr_system *sys, int level, const char *site, const char *path,
              const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
