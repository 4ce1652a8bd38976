/*
 * kind_metrics.c - the numbers of each kind of actor, added up and written.
 *
 * Each worker counts its own (core/cell/tally.h). They are read while they
 * change, so a sum over workers is not from one moment. Within one worker's
 * histogram the count is the sum of the buckets as they were read.
 */
#include "system/kind_metrics.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "core/cell/tally.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"
#include "troupe/observe.h"

static uint64_t peek(_Atomic(uint64_t) *counter)
{
    // Relaxed: a statistic.
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void add_samples(tri_samples *from, tr_kind_metrics *to)
{
    to->time_sum += peek(&from->time_sum);
    to->depth_sum += peek(&from->depth_sum);
    for (uint32_t i = 0; i < TR_TIME_BUCKETS; i++) {
        uint64_t count = peek(&from->times[i]);
        to->times[i] += count;
        to->samples += count;
    }
    for (uint32_t i = 0; i < TR_DEPTH_BUCKETS; i++) {
        to->depths[i] += peek(&from->depths[i]);
    }
}

static void add_worker(tri_tally *from, uint32_t kind, tr_kind_metrics *to)
{
    tri_kind_lives *lives = &from->lives[kind];
    to->messages += peek(&from->messages[kind]);
    to->actors -= peek(&lives->ended);  // below zero until tri_kind_sum adds
                                        // what was spawned
    to->spawned += peek(&lives->spawned);
    to->failures += peek(&lives->failures);
    to->restarts += peek(&lives->restarts);
    // Acquire: pairs with tri_tally_sample, for the zeros.
    tri_samples *samples =
        atomic_load_explicit(&from->samples[kind], memory_order_acquire);
    if (samples != NULL) {
        add_samples(samples, to);
    }
}

bool tri_kind_sum(tr_system *sys, uint32_t kind, tr_kind_metrics *out)
{
    TRI_CHECK(kind < tri_kind_count(sys));
    TRI_CHECK(out != NULL);
    memset(out, 0, sizeof(*out));
    out->size = sizeof(*out);
    out->kind = sys->kinds[kind];
    // Acquire, both: pair with tri_worker_new.
    uint32_t count =
        atomic_load_explicit(&sys->worker_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        add_worker(&worker->tally, kind, out);
    }
    out->actors += out->spawned;
    // Below zero: an actor was spawned by a worker that was read before, and
    // has ended on one that was read later.
    out->actors = (int64_t)out->actors < 0 ? 0 : out->actors;
    return out->spawned + out->messages > 0;
}

uint32_t tri_kind_count(tr_system *sys)
{
    // Acquire: pairs with tri_kind_number, for the names.
    return atomic_load_explicit(&sys->kind_count, memory_order_acquire);
}

uint64_t tri_messages_count(tr_system *sys)
{
    uint64_t sum = 0;
    uint32_t kinds = tri_kind_count(sys);
    // Acquire, both: pair with tri_worker_new.
    uint32_t count =
        atomic_load_explicit(&sys->worker_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        for (uint32_t kind = 0; kind < kinds; kind++) {
            sum += peek(&worker->tally.messages[kind]);
        }
    }
    return sum;
}

size_t tr_metrics_kinds(tr_system *sys, tr_kind_metrics *out, size_t max)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    TRI_CHECK(out != NULL || max == 0);
    // A caller built with another version of the header has a struct of
    // another size.
    size_t size = max > 0 ? out->size : 0;
    size_t found = 0;
    uint32_t kinds = tri_kind_count(sys);
    for (uint32_t kind = 0; kind < kinds; kind++) {
        tr_kind_metrics sum;
        if (!tri_kind_sum(sys, kind, &sum)) {
            continue;
        }
        if (found < max) {
            char *to = (char *)out + found * size;
            sum.size = size;
            memset(to, 0, size);
            memcpy(to, &sum, TRI_MIN(size, sizeof(sum)));
        }
        found++;
    }
    return found;
}

/* ---- quantiles ---- */

/*
 * Returns the first bucket up to which at least `share` of the samples are
 * counted.
 */
static uint32_t bucket_of(const uint64_t *buckets, uint32_t count,
                          uint64_t samples, double share)
{
    TRI_CHECK(count > 0);
    double wanted = share * (double)samples;
    uint64_t sum = 0;
    uint32_t i = 0;
    for (; i < count - 1; i++) {
        sum += buckets[i];
        if (sum > 0 && (double)sum >= wanted) {
            break;
        }
    }
    return i;
}

tr_nanos tr_time_quantile(const tr_kind_metrics *kind, double share)
{
    TRI_CHECK(kind != NULL);
    return kind->samples == 0
               ? 0
               : tr_time_bound(bucket_of(kind->times, TR_TIME_BUCKETS,
                                         kind->samples, share));
}

uint64_t tr_depth_quantile(const tr_kind_metrics *kind, double share)
{
    TRI_CHECK(kind != NULL);
    return kind->samples == 0
               ? 0
               : tr_depth_bound(bucket_of(kind->depths, TR_DEPTH_BUCKETS,
                                          kind->samples, share));
}

/* ---- as Prometheus text ---- */

enum {
    TEXT_FIRST = 256,  // ns: the lowest bound that is written
    TEXT_DEPTH_MAX = 1 << 16,
};
#define TEXT_LAST ((tr_nanos)1 << 35)  // 34 s: the highest bound

typedef struct page {
    tri_text *text;
    tr_system *sys;
    const char *label;  // the system's name, escaped
} page;

/* Writes one line for each kind; `field` is an offset in tr_kind_metrics. */
static void write_counter(page *p, const char *metric, const char *type,
                          const char *help, size_t field)
{
    TRI_CHECK(field + sizeof(uint64_t) <= sizeof(tr_kind_metrics));
    uint32_t kinds = tri_kind_count(p->sys);
    tri_text_add(p->text,
                 "# HELP troupe_kind_%s %s\n# TYPE troupe_kind_%s %s\n", metric,
                 help, metric, type);
    for (uint32_t kind = 0; kind < kinds; kind++) {
        tr_kind_metrics sum;
        if (tri_kind_sum(p->sys, kind, &sum)) {
            uint64_t value;
            memcpy(&value, (const char *)&sum + field, sizeof(value));
            tri_text_add(p->text,
                         "troupe_kind_%s{system=\"%s\",kind=\"%s\"} %llu\n",
                         metric, p->label, sum.kind, (unsigned long long)value);
        }
    }
}

static void write_bucket(page *p, const char *metric,
                         const tr_kind_metrics *sum, double bound,
                         uint64_t below)
{
    tri_text_add(p->text,
                 "troupe_kind_%s_bucket{system=\"%s\",kind=\"%s\","
                 "le=\"%.12g\"} %llu\n",
                 metric, p->label, sum->kind, bound, (unsigned long long)below);
}

/* Writes the last bucket, the sum and the count of a histogram. */
static void write_end(page *p, const char *metric, const tr_kind_metrics *sum,
                      double total)
{
    unsigned long long count = (unsigned long long)sum->samples;
    tri_text_add(p->text,
                 "troupe_kind_%s_bucket{system=\"%s\",kind=\"%s\","
                 "le=\"+Inf\"} %llu\n"
                 "troupe_kind_%s_sum{system=\"%s\",kind=\"%s\"} %.12g\n"
                 "troupe_kind_%s_count{system=\"%s\",kind=\"%s\"} %llu\n",
                 metric, p->label, sum->kind, count, metric, p->label,
                 sum->kind, total, metric, p->label, sum->kind, count);
}

/* Writes the buckets whose bounds are powers of two. */
static void write_times(page *p, const char *metric, const tr_kind_metrics *sum)
{
    uint64_t below = 0;
    for (uint32_t i = 0; i < TR_TIME_BUCKETS - 1; i++) {
        tr_nanos bound = tr_time_bound(i);
        below += sum->times[i];
        if (bound >= TEXT_FIRST && bound <= TEXT_LAST &&
            (bound & (bound - 1)) == 0) {
            write_bucket(p, metric, sum, (double)bound / 1e9, below);
        }
    }
    write_end(p, metric, sum, (double)sum->time_sum / 1e9);
}

static void write_depths(page *p, const char *metric,
                         const tr_kind_metrics *sum)
{
    uint64_t below = 0;
    for (uint32_t i = 0; i < TR_DEPTH_BUCKETS - 1; i++) {
        uint64_t bound = tr_depth_bound(i);
        below += sum->depths[i];
        if (bound <= TEXT_DEPTH_MAX) {
            write_bucket(p, metric, sum, (double)bound, below);
        }
    }
    write_end(p, metric, sum, (double)sum->depth_sum);
}

static void write_histogram(page *p, const char *metric, const char *help,
                            void (*lines)(page *, const char *,
                                          const tr_kind_metrics *))
{
    uint32_t kinds = tri_kind_count(p->sys);
    tri_text_add(p->text,
                 "# HELP troupe_kind_%s %s\n"
                 "# TYPE troupe_kind_%s histogram\n",
                 metric, help, metric);
    for (uint32_t kind = 0; kind < kinds; kind++) {
        tr_kind_metrics sum;
        if (tri_kind_sum(p->sys, kind, &sum)) {
            lines(p, metric, &sum);
        }
    }
}

void tri_kinds_write(tri_text *text, tr_system *sys, const char *label)
{
    TRI_CHECK(text != NULL);
    TRI_CHECK(label != NULL);
    page p = {.text = text, .sys = sys, .label = label};
#define COUNTER(metric, type, field, help)                                     \
    write_counter(&p, metric, type, help, offsetof(tr_kind_metrics, field))
    COUNTER("actors", "gauge", actors, "actors alive, by kind");
    COUNTER("actors_spawned_total", "counter", spawned,
            "actors spawned, by kind");
    COUNTER("messages_total", "counter", messages, "messages handled, by kind");
    COUNTER("failures_total", "counter", failures, "turns failed, by kind");
    COUNTER("restarts_total", "counter", restarts, "restarts, by kind");
#undef COUNTER
    write_histogram(&p, "handler_seconds",
                    "handlers from call to return, waits included; samples",
                    write_times);
    write_histogram(&p, "mailbox_depth",
                    "messages waiting behind the one handled; samples",
                    write_depths);
}
