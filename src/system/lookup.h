/*
 * lookup.h - calls that take an address whose host may be a name.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_LOOKUP_H
#define TRI_SYSTEM_LOOKUP_H

#include "troupe/base.h"

/* What is done with an address; `arg` is its own. */
typedef tr_err (*tri_address_fn)(void *arg, const char *address);

/*
 * Calls fn with the address. If fn returns TR_EINVAL and the address has a
 * name, looks the name up and calls fn with each of its addresses until fn
 * returns TR_OK. Returns what fn returned last.
 * Errors: also TR_ENOENT (no such name), TR_ENOMEM, TR_ELIMIT, TR_EIO.
 */
TR_NODISCARD tr_err tri_lookup_each(tr_ctx *ctx, tr_system *sys,
                                    const char *address, tri_address_fn fn,
                                    void *arg);

#endif
