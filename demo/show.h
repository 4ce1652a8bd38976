/*
 * show.h - what the demo prints: progress, events, the report.
 *
 * On a terminal the progress line is overwritten; elsewhere each is a line.
 * Nodes are numbered from 0, as in the log of the library: by their slots.
 */
#ifndef DEMO_SHOW_H
#define DEMO_SHOW_H

#include "ledger.h"

typedef struct Screen {
    bool terminal;
    bool quiet;       // only the last lines are shown
    bool pending;     // a progress line is shown, without newline
    uint64_t before;  // transfers at the last line
    tr_nanos at;      // time of the last line
} Screen;

enum { SHOW_NUMBER = 32 };

/* 1234567 as "1,234,567"; returns buf. */
const char *show_number(char buf[SHOW_NUMBER], uint64_t number);
/* 123456 cents as "1,234.56"; returns buf. */
const char *show_money(char buf[SHOW_NUMBER], int64_t cents);
/* "17 us", "1.7 ms", "1.7 s"; returns buf. */
const char *show_time(char buf[SHOW_NUMBER], tr_nanos nanos);

/* Shows the progress; `now` is the time since the start. */
void show_progress(Screen *screen, const Ledger *ledger, tr_nanos now);
/* Prints a line that stays, at time `now`. */
void show_event(Screen *screen, tr_nanos now, const char *format, ...)
    TR_PRINTF(3, 4);
/* Prints a change of the members, as the member with this index saw it. */
void show_change(Screen *screen, tr_nanos now, uint32_t seen_by,
                 const Record *record);
/* Ends the progress line; the report follows. */
void show_end(Screen *screen);
/* Prints a figure of the report. */
void show_figure(const char *name, const char *format, ...) TR_PRINTF(2, 3);
/* Prints a promise and returns whether it was kept. */
bool show_held(bool held, const char *format, ...) TR_PRINTF(2, 3);

/* Prints the figures and promises that real and simulated nodes share. */
void show_sums(const Ledger *ledger, tr_nanos span);
bool show_promises(const Ledger *ledger);

#endif
