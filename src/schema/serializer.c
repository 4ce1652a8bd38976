/*
 * serializer.c - the library's codecs as serializers for stored values.
 *
 * The public header message.h declares them. They have no tri_codec, so refs
 * are written as nobody and pieces come from malloc.
 */
#include <stddef.h>
#include <troupe/message.h>

#include "schema/binary_read.h"
#include "schema/binary_write.h"
#include "schema/json_read.h"
#include "schema/json_write.h"
#include "troupe/base.h"

static size_t write_json(void *user, const tr_type *type, const void *value,
                         void *buf, size_t size)
{
    (void)user;
    return tri_json_write(type, value, buf, size, NULL);
}

static tr_err read_json(void *user, const tr_type *type, void *value,
                        const void *bytes, size_t size)
{
    (void)user;
    return tri_json_read(type, value, bytes, size, NULL, NULL);
}

static size_t write_binary(void *user, const tr_type *type, const void *value,
                           void *buf, size_t size)
{
    (void)user;
    return tri_binary_write(type, value, buf, size, NULL);
}

static tr_err read_binary(void *user, const tr_type *type, void *value,
                          const void *bytes, size_t size)
{
    (void)user;
    return tri_binary_read(type, value, bytes, size, NULL, NULL);
}

const tr_serializer tr_serializer_json = {
    .name = "json", .write = write_json, .read = read_json};

const tr_serializer tr_serializer_binary = {
    .name = "binary", .write = write_binary, .read = read_binary};
