/*
 * persist.c - state that survives: loading it at start, saving it in a turn.
 */
#include "system/layers.h"

tr_err tri_state_load(tr_ctx *ctx, void *self)
{
    (void)self;
    tri_error_set(ctx, "this system has no storage");
    return TR_ESTORAGE;
}
