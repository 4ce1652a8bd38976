/*
 * show.c - numbers for people.
 */
#include "show.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *show_number(char buf[SHOW_NUMBER], uint64_t number)
{
    char plain[SHOW_NUMBER];
    int length = snprintf(plain, sizeof(plain), "%" PRIu64, number);
    char *out = buf;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            *out++ = ',';
        }
        *out++ = plain[i];
    }
    *out = '\0';
    return buf;
}

const char *show_money(char buf[SHOW_NUMBER], int64_t cents)
{
    uint64_t value = cents < 0 ? -(uint64_t)cents : (uint64_t)cents;
    buf[0] = '-';
    show_number(buf + (cents < 0), value / 100);
    size_t used = strlen(buf);
    snprintf(buf + used, SHOW_NUMBER - used, ".%02d", (int)(value % 100));
    return buf;
}

const char *show_time(char buf[SHOW_NUMBER], tr_nanos nanos)
{
    double value = (double)nanos;
    if (nanos < TR_MS(1)) {
        snprintf(buf, SHOW_NUMBER, "%.0f us", value / 1e3);
    } else if (nanos < TR_SECONDS(1)) {
        snprintf(buf, SHOW_NUMBER, "%.1f ms", value / 1e6);
    } else {
        snprintf(buf, SHOW_NUMBER, "%.1f s", value / 1e9);
    }
    return buf;
}

/* ---- while it runs ---- */

void show_progress(Screen *screen, const Ledger *ledger, tr_nanos now)
{
    char total[SHOW_NUMBER], rate[SHOW_NUMBER], failures[SHOW_NUMBER];
    char p50[SHOW_NUMBER], p99[SHOW_NUMBER];
    if (screen->quiet) {
        return;
    }
    Figures figures = ledger_figures(ledger);
    double seconds = (double)(now - screen->at) / 1e9;
    double done = (double)(ledger->acknowledged - screen->before);
    show_number(rate, seconds > 0 ? (uint64_t)(done / seconds) : 0);
    printf("%s%6.1f s %11s transfers %7s/s  p50 %s, p99 %s, %s failures%s",
           screen->terminal ? "\r" : "", (double)now / 1e9,
           show_number(total, ledger->acknowledged), rate,
           show_time(p50, ledger_percentile(ledger, 50)),
           show_time(p99, ledger_percentile(ledger, 99)),
           show_number(failures, figures.failures),
           screen->terminal ? "\033[K" : "\n");
    fflush(stdout);
    screen->pending = screen->terminal;
    screen->before = ledger->acknowledged;
    screen->at = now;
}

static void end_progress(Screen *screen)
{
    if (screen->pending) {
        putchar('\n');
        screen->pending = false;
    }
}

void show_event(Screen *screen, tr_nanos now, const char *format, ...)
{
    va_list args;
    if (screen->quiet) {
        return;
    }
    end_progress(screen);
    printf("%6.1f s  ", (double)now / 1e9);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

void show_change(Screen *screen, tr_nanos now, uint32_t seen_by,
                 const Record *record)
{
    static const char *const texts[] = {[TR_MEMBER_UP] = "is up",
                                        [TR_MEMBER_LEAVING] = "is leaving",
                                        [TR_MEMBER_GONE] = "is gone"};
    tr_member_change what = record->change.what;
    if (what == TR_MEMBER_LOST) {
        show_event(screen, now,
                   "member %" PRIu32 " has lost its lease and joins again",
                   record->change.slot);
    } else if (seen_by == BANK_CLIENT) {
        show_event(screen, now, "member %" PRIu32 " (%s) %s",
                   record->change.slot, record->change.address, texts[what]);
    }
}

void show_end(Screen *screen)
{
    end_progress(screen);
    putchar('\n');
}

/* ---- the report ---- */

void show_figure(const char *name, const char *format, ...)
{
    va_list args;
    printf("%-12s", name);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

bool show_held(bool held, const char *format, ...)
{
    va_list args;
    printf("  %-4s ", held ? "yes" : "NO");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    return held;
}

void show_sums(const Ledger *ledger, tr_nanos span)
{
    char a[SHOW_NUMBER], b[SHOW_NUMBER];
    Figures figures = ledger_figures(ledger);
    double seconds = (double)span / 1e9;
    show_number(b, (uint64_t)((double)ledger->acknowledged / seconds));
    show_figure("transfers", "%s acknowledged, %s/s",
                show_number(a, ledger->acknowledged), b);
    show_figure("time", "p50 %s, p99 %s, until the debit is on the disk",
                show_time(a, ledger_percentile(ledger, 50)),
                show_time(b, ledger_percentile(ledger, 99)));
    show_figure("failures", "%s of tellers and accounts, restarted",
                show_number(a, figures.failures));
    show_figure("half done", "%s transfers, by failures and kills, completed",
                show_number(a, figures.resumed));
    show_figure("money", "%s of %s", show_money(a, ledger->audit.cents),
                show_money(b, ledger_money(ledger)));
    putchar('\n');
}

bool show_promises(const Ledger *ledger)
{
    const Audit *a = &ledger->audit;
    bool all = a->seen == ledger->accounts;
    bool right =
        show_held(all && a->cents == ledger_money(ledger) && a->wrong == 0,
                  "money is conserved to the cent");
    right &=
        show_held(all && a->short_of == 0 && a->sent >= ledger->acknowledged,
                  "no acknowledged transfer is lost");
    right &= show_held(all && a->owed == 0 && a->sent == a->received,
                       "no transfer is half done, or done twice");
    right &= show_held(all && a->overdrawn == 0, "no account is overdrawn");
    right &=
        show_held(ledger->missing == 0, "every teller that failed is back");
    return right;
}
