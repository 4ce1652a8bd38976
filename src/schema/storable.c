/*
 * storable.c - finds what a stored form cannot keep, before it is written.
 */
#include "schema/storable.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "schema/decoding.h"
#include "schema/field.h"
#include "schema/utf8.h"

typedef struct check {
    const tri_ref_codec *refs;
    bool utf8;
    tri_codec_error *error;
} check;

static tr_err check_message(const check *c, const tr_type *type,
                            const char *value, const tri_codec_path *up,
                            uint32_t depth);

/* Reports the field at `path`. Returns err. */
TR_PRINTF(4, 5)
static tr_err fail(const check *c, tr_err err, const tri_codec_path *path,
                   const char *format, ...)
{
    tri_text text;
    va_list args;

    c->error->at = 0;
    tri_text_init(&text, c->error->text, sizeof(c->error->text));
    tri_codec_path_write(&text, path);
    va_start(args, format);
    tri_text_add_v(&text, format, args);
    va_end(args);
    return err;
}

/*
 * Not inlined: check_field calls itself for nested messages, and its frames
 * must not contain this buffer.
 */
__attribute__((noinline)) static tr_err check_ref(const check *c,
                                                  const char *at,
                                                  const tri_codec_path *path)
{
    char text[TRI_REF_TEXT_MAX];
    tr_ref ref;

    memcpy(&ref, at, sizeof(ref));
    if (ref.cell == 0 ||
        (c->refs != NULL &&
         c->refs->to_text(c->refs->user, ref, text, sizeof(text)) > 0)) {
        return TR_OK;
    }
    return fail(c, TR_EINVAL, path,
                "only the ref of a virtual actor can be stored");
}

static tr_err check_text(const check *c, const char *at,
                         const tri_codec_path *path)
{
    const char *text = tri_load_pointer(at);
    size_t size = text == NULL || !c->utf8 ? 0 : strlen(text);

    for (size_t i = 0; i < size;) {
        size_t bytes = tri_utf8_size(text + i, size - i);
        if (bytes == 0) {
            return fail(c, TR_EINVAL, path,
                        "not UTF-8 at byte %zu; use tr_bytes for other bytes",
                        i);
        }
        i += bytes;
    }
    return TR_OK;
}

/* Returns true for kinds that every form keeps: numbers, bool and bytes. */
static bool is_kept(unsigned kind)
{
    return kind < TR_KIND_REF || kind == TR_KIND_BYTES || kind == TR_KIND_BLOB;
}

/* Checks a field or an element. */
static tr_err check_field(const check *c, const tr_field *field, const char *at,
                          const tri_codec_path *path, uint32_t depth)
{
    if (is_kept(field->kind)) return TR_OK;
    if (field->kind == TR_KIND_REF) return check_ref(c, at, path);
    if (field->kind == TR_KIND_TEXT) return check_text(c, at, path);
    if (field->kind == TR_KIND_NESTED)
        return check_message(c, field->type, at, path, depth + 1);

    tr_field element = tri_field_element(field);
    tri_seq seq = tri_field_elements(field, &element, at);

    if (is_kept(element.kind)) return TR_OK;
    for (size_t i = 0; i < seq.count; i++) {
        tri_codec_path place = {.up = path, .index = i};
        TR_TRY(check_field(c, &element, (const char *)seq.at + i * element.size,
                           field->kind == TR_KIND_OPTIONAL ? path : &place,
                           depth));
    }
    return TR_OK;
}

static tr_err check_message(const check *c, const tr_type *type,
                            const char *value, const tri_codec_path *up,
                            uint32_t depth)
{
    if (depth > TRI_DEPTH_MAX) {
        return fail(c, TR_ELIMIT, up, "nested deeper than %u", TRI_DEPTH_MAX);
    }
    for (size_t i = 0; i < type->field_count; i++) {
        const tr_field *field = &type->fields[i];
        tri_codec_path path = {.up = up, .name = field->name};
        TR_TRY(check_field(c, field, value + field->offset, &path, depth));
    }
    return TR_OK;
}

tr_err tri_storable_check(const tr_type *type, const void *value,
                          const tri_ref_codec *refs, bool utf8,
                          tri_codec_error *error)
{
    TRI_CHECK(type != NULL);
    TRI_CHECK(value != NULL || type->field_count == 0);
    TRI_CHECK(error != NULL);
    check c = {.refs = refs, .utf8 = utf8, .error = error};

    return check_message(&c, type, value, NULL, 1);
}
