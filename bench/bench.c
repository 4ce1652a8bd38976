/*
 * bench.c - clock, memory, latch and verification for the workloads.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void bench_sleep(double seconds)
{
    time_t whole = (time_t)seconds;
    struct timespec t = {.tv_sec = whole,
                         .tv_nsec = (long)((seconds - (double)whole) * 1e9)};
    nanosleep(&t, NULL);
}

double bench_cpu_time(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

int64_t bench_rss(void)
{
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    bench_verify(file != NULL, "no /proc/self/statm");
    int found = fscanf(file, "%ld %ld", &all, &resident);
    fclose(file);
    bench_verify(found == 2, "/proc/self/statm");
    return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

/* Returns the next number of splitmix64; any start value works. */
uint64_t bench_random(uint64_t *dice)
{
    uint64_t x = (*dice += UINT64_C(0x9e3779b97f4a7c15));
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t bench_below(uint64_t dice, uint64_t below)
{
    return ((dice >> 32) * below) >> 32;
}

void bench_begin(bench *b)
{
    pthread_mutex_lock(&b->lock);
    b->begin = bench_now();
    b->ended = false;
    pthread_mutex_unlock(&b->lock);
}

void bench_end(bench *b)
{
    double now = bench_now();
    pthread_mutex_lock(&b->lock);
    b->end = now;
    b->ended = true;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

double bench_wait(bench *b)
{
    pthread_mutex_lock(&b->lock);
    while (!b->ended)
        pthread_cond_wait(&b->changed, &b->lock);
    b->ended = false;
    double seconds = b->end - b->begin;
    pthread_mutex_unlock(&b->lock);
    return seconds;
}

tr_system *bench_open(const bench *b)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .name = "bench", .workers = b->workers));
    return sys;
}

void *bench_alloc(int64_t count, size_t size)
{
    void *memory = calloc((size_t)count, size);
    if (memory == NULL) tr_abort(TR_HERE, "out of memory");
    return memory;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_percentiles(const char *what, double *seconds, int64_t count)
{
    qsort(seconds, (size_t)count, sizeof(*seconds), by_value);
    fprintf(stderr, "# %s p50 %.3f p99 %.3f us\n", what,
            seconds[count / 2] * 1e6, seconds[count * 99 / 100] * 1e6);
}

void bench_verify(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "VERIFY FAILED %s\n", what);
    _exit(3);
}
