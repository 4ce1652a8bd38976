/*
 * binary_write.h - writes values in the compact form, for the wire and for
 * other processes. binary_wire.h describes the form.
 *
 * Threads: any.
 */
#ifndef TRI_SCHEMA_BINARY_WRITE_H
#define TRI_SCHEMA_BINARY_WRITE_H

#include <stddef.h>

#include "schema/codec.h"
#include "troupe/base.h"

/*
 * Writes *value and returns the length it needs. If that is more than size,
 * the contents of buf are useless. Uses only the refs of `codec`, which may be
 * NULL.
 */
size_t tri_binary_write(const tr_type *type, const void *value, void *buf,
                        size_t size, const tri_codec *codec);

#endif
