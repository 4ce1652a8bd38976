/*
 * storable.h - finds what a stored form cannot keep, before it is written.
 *
 * The writers of JSON and of the compact form cannot fail: a ref without a name
 * becomes nobody, and JSON replaces bytes that are not UTF-8. A value that is
 * stored must come back as it was, so it is checked first.
 *
 * Threads: any; nothing here has state.
 */
#ifndef TRI_SCHEMA_STORABLE_H
#define TRI_SCHEMA_STORABLE_H

#include <stdbool.h>

#include "schema/codec.h"
#include "troupe/base.h"

/*
 * Returns TR_OK if every ref in *value has a text (refs; NULL: none has) and,
 * if `utf8` is set, every text is UTF-8. If not, *error names the field.
 * Errors: TR_EINVAL, TR_ELIMIT (nested deeper than TRI_DEPTH_MAX).
 */
TR_NODISCARD tr_err tri_storable_check(const tr_type *type, const void *value,
                                       const tri_ref_codec *refs, bool utf8,
                                       tri_codec_error *error);

#endif
