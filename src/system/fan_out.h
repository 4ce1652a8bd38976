/*
 * fan_out.h - how much may wait at one of many receivers, and what is beyond.
 *
 * Whoever sends to many receivers (events.c, topics.c, router.c) does not wait
 * for one that is slow (rule 61 (a publisher never waits)).
 *
 * Threads: any thread that may use the worker of the call.
 */
#ifndef TRI_SYSTEM_FAN_OUT_H
#define TRI_SYSTEM_FAN_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/types.h"
#include "troupe/base.h"
#include "troupe/system.h"

/* The limit and overflow of one subscriber: tr_fan_out, with its defaults. */
typedef struct tri_fan_out {
    uint32_t limit;
    uint8_t overflow;  // tr_overflow
} tri_fan_out;

/* The fan-out of subscribers that have not asked for another. */
extern const tri_fan_out tri_fan_out_default;

/*
 * Fills *out from options, with `limit` in place of 0. Errors: TR_EINVAL, with
 * an error text of ctx.
 */
tr_err tri_fan_out_take(tr_ctx *ctx, const tr_fan_out *options, uint32_t limit,
                        tri_fan_out *out);

/*
 * Returns true if a message may be sent to the subscriber. If not, the
 * overflow has been carried out, and the caller counts the message as lost.
 */
bool tri_fan_out_admits(tri_worker *worker, tr_ref to, tri_fan_out fan_out);

#endif
