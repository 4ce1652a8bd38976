/*
 * json_read.h - reads values from JSON (RFC 8259). json_write.h describes how
 * values appear.
 *
 * White space may stand anywhere between tokens. null and a missing field leave
 * the field zero; an optional field is then absent. Unknown fields are skipped
 * or refused (tri_codec.unknown). A field that occurs twice is an error,
 * because it is not clear which one counts. A text cannot contain \u0000.
 *
 * Threads: any.
 */
#ifndef TRI_SCHEMA_JSON_READ_H
#define TRI_SCHEMA_JSON_READ_H

#include <stddef.h>

#include "schema/codec.h"
#include "troupe/base.h"

/*
 * Fills *value, which then owns its pieces; tr_drop ends it, or
 * tri_value_release with the mem of `codec`. On failure *value is zero and
 * *error, unless NULL, says why. `codec` may be NULL.
 * Errors: TR_EINVAL (not JSON, or not of this type), TR_ELIMIT, TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_json_read(const tr_type *type, void *value,
                                  const char *json, size_t size,
                                  const tri_codec *codec,
                                  tri_codec_error *error);

#endif
