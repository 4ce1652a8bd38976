/*
 * log.c - formats a record as a line and writes it to standard error.
 *
 * Invariant: line.length <= line.room, and after `room` there are always two
 * bytes for the newline and the NUL. put_char drops what does not fit, so its
 * callers never check for space.
 */
#include "base/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"

#define NANOS_PER_SECOND INT64_C(1000000000)
#define NANOS_PER_MICRO  INT64_C(1000)
#define SECONDS_PER_DAY  INT64_C(86400)
#define DAYS_PER_ERA     INT64_C(146097)  // 400 years of the calendar
#define DAYS_BEFORE_1970 INT64_C(719468)  // since 1 March of the year 0
#define LINE_SIZE_MIN    8

typedef struct line {
    char *at;
    size_t length;
    size_t room;  // size of the buffer minus two
    bool cut;     // something did not fit
} line;

static void put_char(line *it, char c)
{
    if (it->length == it->room) {
        it->cut = true;
        return;
    }
    it->at[it->length++] = c;
}

/* Adds a text; control characters become '?'. */
static void put_text(line *it, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        // Bytes above 0x7f belong to UTF-8 characters and are kept.
        put_char(it, c < 0x20 || c == 0x7f ? '?' : *text);
    }
}

/* Adds the last `digits` decimal digits of a number, with leading zeros. */
static void put_number(line *it, int64_t value, int digits)
{
    int64_t unit = 1;

    for (int i = 1; i < digits; i++) {
        unit *= 10;
    }
    for (; unit > 0; unit /= 10) {
        put_char(it, (char)('0' + value / unit % 10));
    }
}

/*
 * Adds the date of a day since 1970. The computation counts years from 1 March,
 * so that the leap day is the last day of a year and one formula gives the
 * lengths of the months. 400 years always have the same number of days.
 */
static void put_date(line *it, int64_t day)
{
    int64_t since = day + DAYS_BEFORE_1970;
    int64_t era = since / DAYS_PER_ERA;
    int64_t rest = since % DAYS_PER_ERA;
    int64_t year = (rest - rest / 1460 + rest / 36524 - rest / 146096) / 365;
    int64_t in_year = rest - (365 * year + year / 4 - year / 100);
    int64_t from_march = (5 * in_year + 2) / 153;
    int64_t month_day = in_year - (153 * from_march + 2) / 5 + 1;
    int64_t month = from_march < 10 ? from_march + 3 : from_march - 9;

    put_number(it, year + era * 400 + (month <= 2), 4);
    put_char(it, '-');
    put_number(it, month, 2);
    put_char(it, '-');
    put_number(it, month_day, 2);
}

static void put_time(line *it, tr_nanos at)
{
    tr_nanos wall = at < 0 ? 0 : at;
    int64_t seconds = wall / NANOS_PER_SECOND;
    int64_t of_day = seconds % SECONDS_PER_DAY;

    put_date(it, seconds / SECONDS_PER_DAY);
    put_char(it, 'T');
    put_number(it, of_day / 3600, 2);
    put_char(it, ':');
    put_number(it, of_day / 60 % 60, 2);
    put_char(it, ':');
    put_number(it, of_day % 60, 2);
    put_char(it, '.');
    put_number(it, wall % NANOS_PER_SECOND / NANOS_PER_MICRO, 6);
    put_char(it, 'Z');
}

/* Returns a name of five characters, so that the next field is aligned. */
static const char *level_name(int level)
{
    static const char *const names[] = {[TRI_LOG_DEBUG] = "DEBUG",
                                        [TRI_LOG_INFO] = "INFO ",
                                        [TRI_LOG_WARN] = "WARN ",
                                        [TRI_LOG_ERROR] = "ERROR"};

    if (level < TRI_LOG_DEBUG || level > TRI_LOG_ERROR) {
        return "?    ";
    }
    return names[level];
}

static const char *without_folders(const char *site)
{
    const char *slash = strrchr(site, '/');

    return slash == NULL ? site : slash + 1;
}

size_t tri_log_format(char *out, size_t size, int level, tr_nanos at,
                      const char *site, const char *actor, const char *text)
{
    TRI_CHECK(out != NULL);
    TRI_CHECK(size >= LINE_SIZE_MIN);
    line it = {.at = out, .room = size - 2};

    put_time(&it, at);
    put_char(&it, ' ');
    put_text(&it, level_name(level));
    put_char(&it, ' ');
    put_text(&it, actor == NULL ? "-" : actor);
    put_char(&it, ' ');
    put_text(&it, site == NULL ? "-" : without_folders(site));
    put_char(&it, ' ');
    put_text(&it, text == NULL ? "" : text);
    if (it.cut) {
        memcpy(out + it.room - 3, "...", 3);
    }
    out[it.length] = '\n';
    out[it.length + 1] = '\0';
    return it.length + 1;
}

/*
 * Writes to standard error and keeps errno. A short write is not continued: by
 * then another thread may have written a line.
 */
static void write_stderr(const char *bytes, size_t length)
{
    int saved = errno;
    ssize_t put;

    do {
        put = write(STDERR_FILENO, bytes, length);
    } while (put < 0 && errno == EINTR);
    errno = saved;
}

void tri_log_part(const char *text)
{
    write_stderr(text, strlen(text));
}

void tri_log_line(const char *text)
{
    TRI_CHECK(text != NULL);
    char buffer[TRI_LOG_LINE_MAX];
    size_t length = strnlen(text, sizeof(buffer) - 1);

    memcpy(buffer, text, length);
    buffer[length] = '\n';
    write_stderr(buffer, length + 1);
}

void tri_log_write(int level, tr_nanos at, const char *site, const char *actor,
                   const char *text)
{
    char buffer[TRI_LOG_LINE_MAX + 1];
    size_t length =
        tri_log_format(buffer, sizeof(buffer), level, at, site, actor, text);

    write_stderr(buffer, length);
}
