/*
 * type_compare.c - compares two type descriptions field by field.
 *
 * Reply types are compared by name and schema hash only, because types may
 * reply to each other in a cycle. They are compared in full when they are used
 * as messages themselves.
 */
#include "schema/type_compare.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "schema/field.h"
#include "troupe/message.h"

/* Where two types differ; field is NULL if they differ as a whole. */
typedef struct difference {
    const tr_type *type;
    const tr_field *field;
    const char *what;
} difference;

/* Stores a difference. Returns false. */
static bool differ(difference *out, const tr_type *type, const tr_field *field,
                   const char *what)
{
    *out = (difference){type, field, what};
    return false;
}

static bool same_type(const tr_type *a, const tr_type *b, unsigned depth,
                      difference *out);

static bool same_field(const tr_type *type, const tr_field *a,
                       const tr_field *b, unsigned depth, difference *out)
{
    if (strcmp(a->name, b->name) != 0) return differ(out, type, a, "name");
    if (a->kind != b->kind) return differ(out, type, a, "kind");
    if (a->element != b->element) return differ(out, type, a, "elements");
    if (a->size != b->size) return differ(out, type, a, "size");
    if (a->offset != b->offset) return differ(out, type, a, "offset");
    if ((a->type == NULL) != (b->type == NULL))
        return differ(out, type, a, "type");
    return a->type == NULL || same_type(a->type, b->type, depth + 1, out);
}

static bool same_reply(const tr_type *a, const tr_type *b)
{
    if (a == NULL || b == NULL) return a == b;
    return a->schema == b->schema && strcmp(a->name, b->name) == 0;
}

static bool same_type(const tr_type *a, const tr_type *b, unsigned depth,
                      difference *out)
{
    if (a == b) return true;
    if (depth > TRI_DEPTH_MAX) return differ(out, a, NULL, "depth");
    if (strcmp(a->name, b->name) != 0) return differ(out, a, NULL, "name");
    if (a->field_count != b->field_count)
        return differ(out, a, NULL, "number of fields");
    for (size_t i = 0; i < a->field_count; i++) {
        if (!same_field(a, &a->fields[i], &b->fields[i], depth, out))
            return false;
    }
    if (a->size != b->size) return differ(out, a, NULL, "size");
    if (a->var_count != b->var_count)
        return differ(out, a, NULL, "number of pointers");
    if (a->schema != b->schema) return differ(out, a, NULL, "schema");
    if (!same_reply(a->reply, b->reply)) return differ(out, a, NULL, "reply");
    return true;
}

bool tri_type_same(const tr_type *a, const tr_type *b)
{
    difference ignored;

    TRI_CHECK(a != NULL);
    TRI_CHECK(b != NULL);
    return same_type(a, b, 0, &ignored);
}

const char *tri_type_difference(const tr_type *a, const tr_type *b, char *buf,
                                size_t size)
{
    difference found;

    TRI_CHECK(a != NULL);
    TRI_CHECK(b != NULL);
    TRI_CHECK(buf != NULL);
    TRI_CHECK(size > 0);
    buf[0] = '\0';
    if (!same_type(a, b, 0, &found)) {
        snprintf(buf, size, "%s%s%s: %s", found.type->name,
                 found.field == NULL ? "" : ".",
                 found.field == NULL ? "" : found.field->name, found.what);
    }
    return buf;
}
