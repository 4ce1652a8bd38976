/*
 * log.h - the log's lowest half: one record becomes one line.
 *
 * A line reads
 *
 *     2026-01-02T03:04:05.678901Z WARN  /user/alice bank.c:42 text
 *
 * that is, wall time in UTC, level, actor ("-" outside of actors), source
 * position without its folders ("-" if unknown), text. What is higher (which
 * level is wanted, which actor speaks) is decided above.
 *
 * Threads: any. A line is written by one call, so lines of several threads do
 * not mix. Nothing allocates, so it works when memory is out.
 * Ownership: everything is borrowed for the call.
 * Errors: none; a line that cannot be written is lost.
 */
#ifndef TRI_BASE_LOG_H
#define TRI_BASE_LOG_H

#include <stddef.h>

#include "troupe/base.h"

enum { TRI_LOG_DEBUG, TRI_LOG_INFO, TRI_LOG_WARN, TRI_LOG_ERROR };

/* Bytes of the longest line, with its newline; a longer one ends in "...". */
#define TRI_LOG_LINE_MAX 2048

/* Takes a record for the program; runs on the thread that logs. */
typedef void (*tri_log_fn)(const tr_log_record *record, void *user);

/* Where records go; a zeroed one means standard error. */
typedef struct tri_log_sink {
    tri_log_fn fn;
    void *user;
} tri_log_sink;

/*
 * Writes the line, with newline and zero, into the `size` bytes at `out` and
 * returns its length. Control characters become '?', so that a text cannot
 * forge a second line. `at` is wall time since 1970. size is at least 8.
 */
size_t tri_log_format(char *out, size_t size, int level, tr_nanos at,
                      const char *site, const char *actor, const char *text);

/* Writes a text and a newline to standard error, as they are. Keeps errno. */
void tri_log_line(const char *text);

/* The same without the newline: the rest of the line follows. */
void tri_log_part(const char *text);

/* Writes the line to standard error. Keeps errno. */
void tri_log_write(int level, tr_nanos at, const char *site, const char *actor,
                   const char *text);

#endif
