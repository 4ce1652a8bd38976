/*
 * id.c - making and reading the names of virtual actors.
 */
#include "cluster/id.h"

#include <string.h>

#include "base/check.h"

/* One bit for each of the characters that a field may have. */
static const uint64_t allowed[4] = {
    UINT64_C(0x03ff200000000000),  // '-', '0' to '9'
    UINT64_C(0x07fffffe87fffffe),  // 'A' to 'Z', '_', 'a' to 'z'
};

static bool is_allowed(unsigned char c)
{
    return allowed[c / 64] >> c % 64 & 1;
}

/* Appends a field; false: it is not one, or there is no room. */
static bool add_field(tri_actor_id *id, const char *field, const char **why)
{
    char *begin = id->text + id->size, *at = begin;
    const char *end = id->text + TRI_ID_MAX;
    while (is_allowed((unsigned char)*field) && at < end) {
        *at++ = *field++;
    }
    if (*field != '\0') {
        *why = is_allowed((unsigned char)*field)
                   ? "the whole name is longer than 256 characters"
                   : "a field has a character other than letters, digits, "
                     "'-' and '_'";
        return false;
    }
    if (at == begin) {
        *why = "a field is empty";
        return false;
    }
    id->size = (uint16_t)(at - id->text);
    return true;
}

static bool add_mark(tri_actor_id *id, const char *mark, const char **why)
{
    size_t size = strlen(mark);
    if (id->size + size > TRI_ID_MAX) {
        *why = "the whole name is longer than 256 characters";
        return false;
    }
    memcpy(id->text + id->size, mark, size);
    id->size = (uint16_t)(id->size + size);
    return true;
}

static tr_err refuse(tri_actor_id *out)
{
    memset(out, 0, sizeof(*out));
    return TR_EINVAL;
}

tr_err tri_id_make(tri_actor_id *out, const char *ns, const char *kind,
                   const char *key, const char **why)
{
    TRI_CHECK(ns != NULL);
    out->size = 0;
    *why = "a field is missing";
    if (kind == NULL || key == NULL || !add_field(out, ns, why) ||
        !add_mark(out, "::", why)) {
        return refuse(out);
    }
    out->kind_at = out->size;
    if (!add_field(out, kind, why) || !add_mark(out, "/", why)) {
        return refuse(out);
    }
    out->key_at = out->size;
    if (!add_field(out, key, why)) {
        return refuse(out);
    }
    out->text[out->size] = '\0';
    *why = NULL;
    return TR_OK;
}

/* Copies what is before the mark; NULL: the mark is not there. */
static const char *cut(char *field, const char *text, const char *mark)
{
    const char *end = strstr(text, mark);
    if (end == NULL || end - text > TRI_ID_MAX) {
        return NULL;
    }
    memcpy(field, text, (size_t)(end - text));
    field[end - text] = '\0';
    return end + strlen(mark);
}

tr_err tri_id_parse(tri_actor_id *out, const char *text, const char **why)
{
    char ns[TRI_ID_MAX + 1], kind[TRI_ID_MAX + 1];
    TRI_CHECK(text != NULL);
    const char *rest = cut(ns, text, "::");
    if (rest == NULL) {
        *why = "there is no '::' behind a namespace";
        return refuse(out);
    }
    rest = cut(kind, rest, "/");
    if (rest == NULL) {
        *why = "there is no '/' behind a kind";
        return refuse(out);
    }
    return tri_id_make(out, ns, kind, rest, why);
}

bool tri_id_is_field(const char *text, const char **why)
{
    tri_actor_id id = {0};
    *why = "a field is missing";
    return text != NULL && add_field(&id, text, why);
}
