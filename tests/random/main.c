/*
 * main.c - the tester of random programs: runs seeds for some time, or one
 * seed again; a program that fails is reduced and printed.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shrink.h"

enum { BATCH = 20 };

static const char usage[] =
    "usage: random [OPTION...]\n"
    "  --mode threads|poll|sim|all  default all\n"
    "  --seconds N     run new seeds for N seconds\n"
    "  --first N       the first of them; default: the time\n"
    "  --seed N        run this seed, --repeat times (default 1)\n"
    "  --rest N        seconds until a program is at rest; default 20\n"
    "  --without LIST  leave these numbers out: 3,7-9\n"
    "  --kept FILE     run the seeds of the file: mode, seed, what it was\n"
    "  --log           print the log of the systems\n"
    "  --print         print the program of --seed, do not run it\n"
    "  --no-shrink     do not reduce a program that fails\n";

typedef struct arguments {
    bool modes[MODES];
    uint32_t seconds;
    uint64_t first, seed;
    uint32_t repeat;
    uint32_t rest;
    bool one, print, no_shrink, log;
    const char *kept;
    without without;
} arguments;

static void wrong(const char *what)
{
    fprintf(stderr, "random: %s\n%s", what, usage);
    exit(2);
}

static void read_without(without *w, const char *list)
{
    while (*list != '\0') {
        char *end;
        unsigned long from = strtoul(list, &end, 10), to = from;
        if (*end == '-') {
            to = strtoul(end + 1, &end, 10);
        }
        if (end == list || to >= NUMBERS) {
            wrong("--without: not a list of numbers");
        }
        for (; from <= to; from++) {
            w->out[from] = true;
        }
        list = *end == ',' ? end + 1 : end;
    }
}

static bool read_mode(bool modes[MODES], const char *name)
{
    bool found = false;

    for (int i = 0; i < MODES; i++) {
        modes[i] =
            strcmp(name, "all") == 0 || strcmp(name, mode_name((mode)i)) == 0;
        found |= modes[i];
    }
    return found;
}

static void read_arguments(arguments *a, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--print") == 0) {
            a->print = true;
            continue;
        }
        if (strcmp(name, "--log") == 0) {
            a->log = true;
            continue;
        }
        if (strcmp(name, "--no-shrink") == 0) {
            a->no_shrink = true;
            continue;
        }
        const char *value = i + 1 < argc ? argv[++i] : "";
        if (strcmp(name, "--mode") == 0 && read_mode(a->modes, value)) {
            continue;
        } else if (strcmp(name, "--seconds") == 0) {
            a->seconds = (uint32_t)atoi(value);
        } else if (strcmp(name, "--first") == 0) {
            a->first = strtoull(value, NULL, 10);
        } else if (strcmp(name, "--seed") == 0) {
            a->one = true;
            a->seed = strtoull(value, NULL, 10);
        } else if (strcmp(name, "--repeat") == 0) {
            a->repeat = (uint32_t)atoi(value);
        } else if (strcmp(name, "--rest") == 0) {
            a->rest = (uint32_t)atoi(value);
        } else if (strcmp(name, "--without") == 0) {
            read_without(&a->without, value);
        } else if (strcmp(name, "--kept") == 0) {
            a->kept = value;
        } else {
            wrong(name);
        }
    }
}

static void print_without(const without *w)
{
    const char *comma = "";

    for (uint32_t i = 0; i < NUMBERS; i++) {
        uint32_t to = i;
        if (!w->out[i]) {
            continue;
        }
        while (to + 1 < NUMBERS && w->out[to + 1]) {
            to++;
        }
        printf("%s%u", comma, i);
        if (to > i) {
            printf("-%u", to);
        }
        comma = ",";
        i = to;
    }
}

/* Reports a failure and reduces its program. */
static void report(const arguments *a, uint64_t seed, mode m, const char *how)
{
    static without w;
    static plan p;

    printf("random: FAILED: --mode %s --seed %" PRIu64 ": %s\n", mode_name(m),
           seed, how);
    if (a->no_shrink) {
        return;
    }
    w = a->without;
    shrink(seed, m, &w, how);
    plan_make(&p, seed, m, &w);
    plan_print(&p, stdout);
    printf("random: again: --mode %s --seed %" PRIu64 " --repeat 100 "
           "--without ",
           mode_name(m), seed);
    print_without(&w);
    printf("\n");
    fflush(stdout);
}

/* Runs one seed; true if it passed. */
static bool run_one(const arguments *a, mode m, uint64_t seed)
{
    char how[64];
    uint64_t at;
    batch b = {.first = seed,
               .count = 1,
               .repeat = a->repeat,
               .mode = m,
               .rest_seconds = a->rest,
               .log = a->log,
               .without = &a->without};

    if (batch_run(&b, &at, how)) {
        return true;
    }
    report(a, seed, m, how);
    return false;
}

/*
 * Runs a batch, after a failure the rest of it. A batch that fails at its end
 * has leaked memory: then its seeds are run one by one.
 */
static uint32_t run_batch(const arguments *a, mode m, uint64_t first)
{
    uint64_t end = first + BATCH, at;
    uint32_t failed = 0;
    char how[64];

    while (first < end) {
        batch b = {.first = first,
                   .count = (uint32_t)(end - first),
                   .repeat = 1,
                   .mode = m,
                   .rest_seconds = a->rest,
                   .log = a->log,
                   .without = &a->without};
        if (batch_run(&b, &at, how)) {
            break;
        }
        report(a, at, m, how);
        failed++;
        first = at + 1;
    }
    return failed;
}

/* Runs the seeds of a file that once failed. */
static uint32_t run_kept(const arguments *a, uint32_t *runs)
{
    // Unbuffered: a child that exits must not move the offset of a
    // list that its parent has read ahead.
    FILE *file = fopen(a->kept, "r");
    char line[256], name[16];
    uint32_t failed = 0;
    uint64_t seed;

    if (file == NULL) {
        wrong("--kept: cannot read the file");
    }
    setvbuf(file, NULL, _IONBF, 0);
    while (fgets(line, sizeof(line), file) != NULL) {
        bool modes[MODES];
        if (line[0] == '#' || sscanf(line, "%15s %" SCNu64, name, &seed) != 2) {
            continue;
        }
        if (!read_mode(modes, name)) {
            wrong("--kept: no such mode");
        }
        for (int m = 0; m < MODES; m++) {
            if (modes[m]) {
                ++*runs;
                failed += !run_one(a, (mode)m, seed);
            }
        }
    }
    fclose(file);
    return failed;
}

static uint32_t run_fresh(const arguments *a, uint32_t *runs)
{
    time_t end = time(NULL) + a->seconds;
    uint32_t failed = 0;

    printf("random: seeds from %" PRIu64 " for %u s\n", a->first, a->seconds);
    for (uint64_t seed = a->first; time(NULL) < end; seed += BATCH) {
        for (int m = 0; m < MODES; m++) {
            if (a->modes[m]) {
                failed += run_batch(a, (mode)m, seed);
                *runs += BATCH;
            }
        }
    }
    return failed;
}

int main(int argc, char **argv)
{
    static arguments a = {.modes = {true, true, true}, .repeat = 1, .rest = 20};
    uint32_t failed = 0, runs = 0;

    a.first = (uint64_t)time(NULL) * 1000;
    read_arguments(&a, argc, argv);
    for (int m = 0; a.one && m < MODES; m++) {
        static plan p;
        plan_make(&p, a.seed, (mode)m, &a.without);
        if (a.modes[m] && a.print) {
            plan_print(&p, stdout);
        } else if (a.modes[m]) {
            runs += a.repeat;
            failed += !run_one(&a, (mode)m, a.seed);
        }
    }
    if (a.kept != NULL) {
        failed += run_kept(&a, &runs);
    }
    if (a.seconds > 0) {
        failed += run_fresh(&a, &runs);
    }
    if (!a.print) {
        printf("random: %u programs, %u failed\n", runs, failed);
    }
    return failed > 0;
}
