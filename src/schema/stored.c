/*
 * stored.c - writes and reads values in the form in which stores keep them.
 *
 * A serializer of the program knows no tri_allocator: it reads a value with
 * pieces from malloc, as tr_json_read does, and tri_stored_read copies it. The
 * library's own codecs allocate straight from the caller's allocator.
 */
#include "schema/stored.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "schema/binary_read.h"
#include "schema/binary_write.h"
#include "schema/json_read.h"
#include "schema/json_write.h"
#include "schema/storable.h"
#include "schema/value.h"

/* Most values fit into this; a larger one is written twice. */
#define FIRST_GUESS 256
/* Type, '@', number, '#', chain, '/', serializer, ' ', and a NUL. */
#define HEAD_MAX (2 * TRI_STORED_NAME_MAX + 41)

/* ---- heads ---- */

static bool is_name(const char *at, size_t size)
{
    if (size == 0 || size > TRI_STORED_NAME_MAX) return false;
    for (size_t i = 0; i < size; i++) {
        char c = at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || c == '-' || c == '_')) {
            return false;
        }
    }
    return true;
}

bool tri_stored_name_ok(const char *name)
{
    return name != NULL && is_name(name, strlen(name));
}

/* Writes the head; an empty one for a state in JSON. */
static void write_head(char head[HEAD_MAX], const tr_serializer *serializer,
                       const tr_type *type, uint64_t number, uint64_t chain)
{
    bool is_json = strcmp(serializer->name, tr_serializer_json.name) == 0;
    tri_text text;

    tri_text_init(&text, head, HEAD_MAX);
    if (is_json && number == TRI_STORED_STATE) return;
    tri_text_add(&text, "%s", type->name);
    if (number < TRI_STORED_EVENT) tri_text_add(&text, "@%" PRIu64, number);
    if (chain != 0) tri_text_add(&text, "#%" PRIx64, chain);
    if (!is_json) tri_text_add(&text, "/%s", serializer->name);
    tri_text_add(&text, " ");
}

tr_err tri_stored_make(const tri_stored_form *form, const tr_type *type,
                       const void *value, uint64_t number, void **out,
                       size_t *size, tri_codec_error *error)
{
    return tri_stored_snapshot(form, type, value, number, 0, out, size, error);
}

static tr_err fail_write(tri_codec_error *error, tr_err err)
{
    *error = (tri_codec_error){.at = 0};
    snprintf(error->text, sizeof(error->text), "%s", tr_strerror(err));
    return err;
}

/* Returns the refs of a form, or NULL if it has none. */
static const tri_ref_codec *refs_of(const tri_stored_form *form)
{
    return form != NULL && form->refs.to_text != NULL ? &form->refs : NULL;
}

/* Checks that the library's serializers keep the value as it is. */
static tr_err check_value(const tri_stored_form *form, const tr_type *type,
                          const void *value, tri_codec_error *error)
{
    bool is_json = form->serializer == &tr_serializer_json;

    if (!is_json && form->serializer != &tr_serializer_binary) {
        return TR_OK;  // the program's own: it decides
    }
    return tri_storable_check(type, value, refs_of(form), is_json, error);
}

/* Calls the serializer; the library's own get the refs of the form. */
static size_t write_value(const tri_stored_form *form, const tr_type *type,
                          const void *value, void *buf, size_t size)
{
    const tr_serializer *serializer = form->serializer;
    tri_codec codec = {.refs = refs_of(form)};

    if (serializer == &tr_serializer_json) {
        return tri_json_write(type, value, buf, size, &codec);
    }
    if (serializer == &tr_serializer_binary) {
        return tri_binary_write(type, value, buf, size, &codec);
    }
    return serializer->write(serializer->user, type, value, buf, size);
}

/* Writes the value behind `skip` bytes, in a block that is large enough. */
static tr_err write_block(const tri_stored_form *form, const tr_type *type,
                          const void *value, size_t skip, void **out,
                          size_t *size)
{
    for (size_t room = FIRST_GUESS;;) {
        char *buf = malloc(skip + room);
        if (buf == NULL) return TR_ENOMEM;

        size_t length = write_value(form, type, value, buf + skip, room);
        if (length < room) {
            *out = buf;
            *size = skip + length;
            return TR_OK;
        }
        free(buf);
        if (length == SIZE_MAX) return TR_EINVAL;
        if (length > TRI_CODEC_SIZE_MAX) return TR_ELIMIT;
        room = length + 1;
    }
}

tr_err tri_stored_snapshot(const tri_stored_form *form, const tr_type *type,
                           const void *value, uint64_t number, uint64_t chain,
                           void **out, size_t *size, tri_codec_error *error)
{
    TRI_CHECK(form->serializer != NULL);
    TRI_CHECK(type != NULL);
    TRI_CHECK(out != NULL);
    char head[HEAD_MAX];

    *out = NULL;
    *size = 0;
    if (!tri_stored_name_ok(form->serializer->name)) {
        return fail_write(error, TR_EINVAL);
    }
    TR_TRY(check_value(form, type, value, error));
    write_head(head, form->serializer, type, number, chain);
    tr_err err = write_block(form, type, value, strlen(head), out, size);
    if (err != TR_OK) return fail_write(error, err);
    memcpy(*out, head, strlen(head));
    return TR_OK;
}

/* Reports a head that cannot be read. */
static tr_err fail_head(tri_codec_error *error)
{
    error->at = 0;
    snprintf(error->text, sizeof(error->text),
             "it does not begin with the name of a type, at byte 0");
    return TR_EINVAL;
}

/* Reads the digits after '@'. Returns false if they are not a number. */
static bool read_decimal(const char *at, const char *end, uint64_t *out)
{
    uint64_t value = 0;

    if (at == end || end - at > 19) return false;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9') return false;
        value = value * 10 + (uint64_t)(*at - '0');
    }
    *out = value;
    return true;
}

/* Reads the lower-case hexadecimal digits after '#'. */
static bool read_chain(const char *at, const char *end, uint64_t *out)
{
    uint64_t value = 0;

    if (at == end || end - at > 16) return false;
    for (; at < end; at++) {
        bool is_digit = *at >= '0' && *at <= '9';
        if (!is_digit && (*at < 'a' || *at > 'f')) return false;
        value = value << 4 | (uint64_t)(is_digit ? *at - '0' : *at - 'a' + 10);
    }
    *out = value;
    return true;
}

/* Reads the number of a snapshot: "@120" or "@120#5c09e1f2". */
static bool read_number(const char *at, const char *end, tri_stored *out)
{
    const char *chain = memchr(at, '#', (size_t)(end - at));

    return read_decimal(at + 1, chain != NULL ? chain : end, &out->number) &&
           (chain == NULL || read_chain(chain + 1, end, &out->chain));
}

/* Copies a name. Returns false if it cannot be in a head. */
static bool take_name(char *out, const char *at, const char *end)
{
    if (!is_name(at, (size_t)(end - at))) return false;
    memcpy(out, at, (size_t)(end - at));
    out[end - at] = '\0';
    return true;
}

tr_err tri_stored_open(tri_stored *out, const void *bytes, size_t size,
                       tri_codec_error *error)
{
    TRI_CHECK(bytes != NULL || size == 0);
    TRI_CHECK(error != NULL);
    const char *at = bytes;
    size_t most = size < HEAD_MAX ? size : HEAD_MAX;
    const char *space = size == 0 ? NULL : memchr(at, ' ', most);

    *out = (tri_stored){.serializer = "json", .data = bytes, .size = size};
    if (size > 0 && (*at == '{' || *at == ' ' || *at == '\t' || *at == '\n' ||
                     *at == '\r')) {
        return TR_OK;  // JSON without a head
    }
    if (space == NULL) return fail_head(error);

    const char *slash = memchr(at, '/', (size_t)(space - at));
    const char *end = slash != NULL ? slash : space;
    const char *count = memchr(at, '@', (size_t)(end - at));

    if (!take_name(out->type, at, count != NULL ? count : end) ||
        (count != NULL && !read_number(count, end, out)) ||
        (slash != NULL && !take_name(out->serializer, slash + 1, space))) {
        return fail_head(error);
    }
    out->data = space + 1;
    out->size = size - (size_t)(space + 1 - at);
    return TR_OK;
}

/* ---- values ---- */

/* Reads with the program's serializer, then copies to memory from mem. */
static tr_err read_with(const tr_serializer *own, const tri_stored *stored,
                        const tr_type *type, void *value,
                        const tri_allocator *mem, tri_codec_error *error)
{
    void *made = calloc(1, type->size + 1);
    if (made == NULL) return TR_ENOMEM;

    tr_err err = own->read(own->user, type, made, stored->data, stored->size);
    if (err != TR_OK) {
        snprintf(error->text, sizeof(error->text),
                 "serializer %s cannot read it: %s", own->name,
                 tr_strerror(err));
    } else {
        err = tri_value_copy(type, value, made, mem);
        (tr_drop)(type, made);
    }
    free(made);
    return err;
}

tr_err tri_stored_read(const tri_stored *stored, const tri_stored_form *form,
                       const tr_type *type, void *value,
                       const tri_allocator *mem, tri_codec_error *error)
{
    TRI_CHECK(stored != NULL);
    TRI_CHECK(type != NULL);
    TRI_CHECK(error != NULL);
    const tr_serializer *own = form != NULL ? form->serializer : NULL;
    tri_codec codec = {.mem = mem, .refs = refs_of(form)};

    *error = (tri_codec_error){.at = 0};
    if (type->size > 0) memset(value, 0, type->size);
    if (stored->type[0] != '\0' && strcmp(stored->type, type->name) != 0) {
        snprintf(error->text, sizeof(error->text), "it is a %s, not a %s",
                 stored->type, type->name);
        return TR_EINVAL;
    }
    if (own != NULL && strcmp(own->name, stored->serializer) == 0 &&
        own != &tr_serializer_json && own != &tr_serializer_binary) {
        return read_with(own, stored, type, value, mem, error);
    }
    if (strcmp(stored->serializer, tr_serializer_json.name) == 0)
        return tri_json_read(type, value, stored->data, stored->size, &codec,
                             error);
    if (strcmp(stored->serializer, tr_serializer_binary.name) == 0)
        return tri_binary_read(type, value, stored->data, stored->size, &codec,
                               error);
    snprintf(error->text, sizeof(error->text),
             "it was written by the serializer %s, which this actor does not "
             "have",
             stored->serializer);
    return TR_EINVAL;
}
