/*
 * log.h - the lower half of the log: formats one record as one line.
 *
 * A line reads
 *
 *     2026-01-02T03:04:05.678901Z WARN  /user/alice bank.c:42 text
 *
 * that is: wall time in UTC, level, actor ("-" outside of actors), source
 * position without folders ("-" if unknown), text. The system layer decides
 * which levels are logged and which actor is named.
 *
 * Threads: any. One write call writes a whole line, so lines of several threads
 * do not mix. Nothing allocates, so logging works when memory has run out.
 * Ownership: arguments are borrowed for the call.
 * Errors: none; a line that cannot be written is lost.
 */
#ifndef TRI_BASE_LOG_H
#define TRI_BASE_LOG_H

#include <stddef.h>

#include "troupe/base.h"

enum { TRI_LOG_DEBUG, TRI_LOG_INFO, TRI_LOG_WARN, TRI_LOG_ERROR };

/* Maximum size of a line with its newline; a longer line ends in "...". */
#define TRI_LOG_LINE_MAX 2048

/* Receives a record for the program; runs on the thread that logs. */
typedef void (*tri_log_fn)(const tr_log_record *record, void *user);

/* Where records go; all zero: to standard error. */
typedef struct tri_log_sink {
    tri_log_fn fn;
    void *user;
} tri_log_sink;

/*
 * Formats the line, with newline and NUL, into the `size` bytes at `out` (at
 * least 8) and returns its length. Control characters become '?', so that a
 * text cannot forge a second line. `at` is the wall time since 1970.
 */
size_t tri_log_format(char *out, size_t size, int level, tr_nanos at,
                      const char *site, const char *actor, const char *text);

/* Writes a text and a newline to standard error, unchanged. Keeps errno. */
void tri_log_line(const char *text);

/* Writes a text without a newline, as the first part of a line. Keeps errno. */
void tri_log_part(const char *text);

/* Formats a line and writes it to standard error. Keeps errno. */
void tri_log_write(int level, tr_nanos at, const char *site, const char *actor,
                   const char *text);

#endif
