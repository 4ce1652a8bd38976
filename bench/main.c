/*
 * main.c - troupe-bench: runs one workload and prints one figure.
 *
 *   troupe-bench --list
 *   troupe-bench WORKLOAD [--workers N] [--scale X] [--seed S]
 *                         [--count N] [--width W] [--seconds S]
 *
 * Standard output gets the line `workload value unit`, standard error gets
 * details, each after a `#`. The exit status is 0, 2 for a wrong command line,
 * 3 if a count of the workload does not match.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"

#define CLOSE_TIMEOUT     TR_SECONDS(60)
#define SUSTAINED_SECONDS 60.0  // without --seconds; multiplied by --scale

static const bench_workload *const groups[] = {
    bench_messages, bench_meetings, bench_spawns, bench_asks,
    bench_timers,   bench_cpu,      bench_crowds, bench_sustained,
    bench_codecs,   bench_virtuals,
#if defined(BENCH_SQLITE)
    bench_sqlite,
#endif
#if defined(BENCH_POSTGRES)
    bench_postgres,
#endif
};
#define GROUP_COUNT (sizeof(groups) / sizeof(groups[0]))

static const bench_workload *find(const char *name)
{
    for (size_t g = 0; g < GROUP_COUNT; g++)
        for (const bench_workload *it = groups[g]; it->name != NULL; it++)
            if (strcmp(it->name, name) == 0) return it;
    return NULL;
}

static int list(void)
{
    for (size_t g = 0; g < GROUP_COUNT; g++)
        for (const bench_workload *it = groups[g]; it->name != NULL; it++)
            puts(it->name);
    return 0;
}

static int usage(void)
{
    fputs("usage: troupe-bench --list\n"
          "       troupe-bench WORKLOAD [--workers N] [--scale X] [--seed S]\n"
          "                    [--count N] [--width W] [--seconds S]\n\n",
          stderr);
    for (size_t g = 0; g < GROUP_COUNT; g++)
        for (const bench_workload *it = groups[g]; it->name != NULL; it++)
            fprintf(stderr, "%-24s %-13s %s\n", it->name, it->unit, it->what);
    return 2;
}

/* With a seed: chooses a size between half and one and a half of the usual. */
static int64_t drawn(bench *b, double usual)
{
    if (b->seed != 0)
        usual *= 0.5 + (double)bench_below(bench_random(&b->dice), 1000) / 1e3;
    return usual < 1 ? 1 : (int64_t)usual;
}

/* Fills in *b from the command line; returns false if that is wrong. */
static bool read_options(bench *b, int argc, char **argv)
{
    for (int i = 2; i < argc; i += 2) {
        if (i + 1 == argc) return false;
        const char *key = argv[i], *value = argv[i + 1];
        char *rest;
        double number = strtod(value, &rest);
        if (*rest != '\0' || rest == value || !(number >= 0)) return false;
        if (strcmp(key, "--workers") == 0)
            b->workers = (uint32_t)number;
        else if (strcmp(key, "--scale") == 0)
            b->scale = number;
        else if (strcmp(key, "--seed") == 0)
            b->seed = (uint64_t)number;
        else if (strcmp(key, "--count") == 0)
            b->n = (int64_t)number;
        else if (strcmp(key, "--width") == 0)
            b->w = (int64_t)number;
        else if (strcmp(key, "--seconds") == 0)
            b->seconds = number;
        else
            return false;
    }
    return true;
}

static void choose_sizes(bench *b, const bench_workload *workload)
{
    b->dice = b->seed;
    int64_t n = drawn(b, (double)workload->n * b->scale);
    int64_t w = drawn(b, (double)workload->w);
    b->n = b->n > 0 ? b->n : n;
    b->w = b->w > 0 ? b->w : w;
    if (b->seconds == 0) b->seconds = SUSTAINED_SECONDS * b->scale;
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static void report_process(const bench *b)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    fprintf(stderr, "# n %" PRId64 " w %" PRId64 " workers %" PRIu32 "\n", b->n,
            b->w, b->workers);
    fprintf(stderr, "# peak_rss_mb %.1f user %.2f sys %.2f\n",
            (double)used.ru_maxrss / 1024, seconds_of(used.ru_utime),
            seconds_of(used.ru_stime));
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) return list();
    const bench_workload *workload = argc < 2 ? NULL : find(argv[1]);
    bench b = {
        .workload = argc < 2 ? "" : argv[1],
        .workers = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
        .scale = 1,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
    };
    if (workload == NULL || !read_options(&b, argc, argv)) return usage();
    choose_sizes(&b, workload);
    b.sys = bench_open(&b);
    double value = workload->run(&b);
    printf("%s %.6g %s\n", workload->name, value, workload->unit);
    fflush(stdout);
    report_process(&b);
    double closing = bench_now();
    TR_MUST(tr_system_close(b.sys, CLOSE_TIMEOUT));
    fprintf(stderr, "# close_ms %.3f\n", (bench_now() - closing) * 1e3);
    return 0;
}
