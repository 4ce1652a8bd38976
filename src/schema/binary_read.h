/*
 * binary_read.h - reads values in the compact form, for the wire and for other
 * processes. binary_wire.h describes the form.
 *
 * Threads: any.
 */
#ifndef TRI_SCHEMA_BINARY_READ_H
#define TRI_SCHEMA_BINARY_READ_H

#include <stddef.h>

#include "schema/codec.h"
#include "troupe/base.h"

/*
 * Fills *value, which then owns its pieces; tr_drop ends it, or
 * tri_value_release with the mem of `codec`. On failure *value is zero and
 * *error, unless NULL, says why. `codec` may be NULL.
 * Errors: TR_EINVAL (not a value of this type), TR_ELIMIT, TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_binary_read(const tr_type *type, void *value,
                                    const void *bytes, size_t size,
                                    const tri_codec *codec,
                                    tri_codec_error *error);

#endif
