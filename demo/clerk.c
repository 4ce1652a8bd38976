/*
 * clerk.c - counts transfers and sorts their times into buckets.
 *
 * Sixteen buckets for each power of two: a percentile is off by 6 % at most.
 */
#include "bank.h"

static uint32_t bucket_of(int64_t nanos)
{
    uint64_t n = nanos < 16 ? 16 : (uint64_t)nanos;
    uint32_t power = 63 - (uint32_t)__builtin_clzll(n);
    return power * 16 + (uint32_t)(n >> (power - 4) & 15);
}

/* Where the bucket begins. */
static int64_t bucket_start(uint32_t bucket)
{
    uint32_t power = bucket / 16;
    return (int64_t)((16 + (uint64_t)(bucket % 16)) << power >> 4);
}

static int64_t percentile(const Sums *sums, uint64_t percent)
{
    uint64_t left = sums->transfers * percent / 100;
    for (uint32_t i = 0; i < BANK_BUCKETS; i++) {
        if (sums->buckets[i] > left) {
            return bucket_start(i);
        }
        left -= sums->buckets[i];
    }
    return 0;
}

static tr_err on_done(tr_ctx *ctx, Clerk *self, const Done *m)
{
    (void)ctx;
    switch (m->err) {
    case TR_OK:
        self->sums.transfers++;
        self->sums.buckets[bucket_of(m->nanos)]++;
        break;
    case TR_EINVAL:   // not enough money
    case TR_EFAILED:  // the two accounts waited for each other
        self->sums.refused++;
        break;
    default:
        self->sums.unanswered++;
        break;
    }
    return TR_OK;
}

static tr_err on_count(tr_ctx *ctx, Clerk *self, const Count *m)
{
    const Sums *sums = &self->sums;
    return tr_reply(ctx, m, .transfers = sums->transfers,
                    .refused = sums->refused, .unanswered = sums->unanswered,
                    .p50 = percentile(sums, 50), .p99 = percentile(sums, 99));
}

TR_ACTOR_PUBLIC(clerk, Clerk, TR_ON(Done, on_done), TR_ON(Count, on_count));
