/*
 * fan_out.c - decides whether one of many receivers gets a message.
 */
#include "system/fan_out.h"

#include "base/check.h"
#include "base/options.h"
#include "core/ask/error_text.h"
#include "core/cell/cell.h"
#include "core/cell/ref.h"
#include "core/life/signal.h"
#include "core/types.h"
#include "troupe/base.h"
#include "troupe/system.h"

enum { LIMIT_DEFAULT = 32768 };  // messages that wait at a receiver

const tri_fan_out tri_fan_out_default = {LIMIT_DEFAULT, TR_OVERFLOW_DROP_NEW};

tr_err tri_fan_out_take(tr_ctx *ctx, const tr_fan_out *options, uint32_t limit,
                        tri_fan_out *out)
{
    tr_fan_out o;
    TRI_CHECK(options != NULL && limit > 0);
    if (!tri_options_copy(&o, sizeof(o), TRI_SIZE_THROUGH(tr_fan_out, overflow),
                          options)) {
        return TR_EINVAL;
    }
    if (o.overflow != TR_OVERFLOW_FAIL && o.overflow != TR_OVERFLOW_DROP_NEW &&
        o.overflow != TR_OVERFLOW_STOP) {
        tri_error_set(ctx, "a publisher does not wait and drops nothing old: "
                           "overflow is FAIL, DROP_NEW or STOP");
        return TR_EINVAL;
    }
    *out = (tri_fan_out){.limit = o.limit != 0 ? o.limit : limit,
                         .overflow = (uint8_t)o.overflow};
    return TR_OK;
}

bool tri_fan_out_admits(tri_worker *worker, tr_ref to, tri_fan_out fan_out)
{
    tri_cell *cell = tri_ref_cell(to);
    TRI_CHECK(fan_out.limit > 0);
    if (cell == NULL || tri_depth(cell) < fan_out.limit) {
        return true;
    }
    if (fan_out.overflow == TR_OVERFLOW_STOP) {
        tri_signal(worker, cell, to.id, TRI_SIG_STOP);
    }
    return false;
}
