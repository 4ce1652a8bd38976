/*
 * actor_id.c - makes and reads the names of virtual actors.
 */
#include "cluster/virtual/actor_id.h"

#include <string.h>

#include "base/check.h"

/* One bit for each character that a field may contain. */
static const uint64_t allowed[4] = {
    UINT64_C(0x03ff200000000000),  // '-', '0' to '9'
    UINT64_C(0x07fffffe87fffffe),  // 'A' to 'Z', '_', 'a' to 'z'
};

static bool is_allowed(unsigned char c)
{
    return allowed[c / 64] >> c % 64 & 1;
}

/* Appends a field. Returns false, with *why, if it is not valid or too long. */
static bool add_field(tri_actor_id *id, const char *field, const char **why)
{
    TRI_CHECK_SLOW(id->size <= TRI_ACTOR_ID_MAX);
    char *to = id->text + id->size;
    size_t room = (size_t)TRI_ACTOR_ID_MAX - id->size, size = 0;
    while (is_allowed((unsigned char)field[size]) && size < room) {
        to[size] = field[size];
        size++;
    }
    if (field[size] != '\0') {
        *why = is_allowed((unsigned char)field[size])
                   ? "the whole name is longer than 256 characters"
                   : "a field has a character other than letters, digits, "
                     "'-' and '_'";
        return false;
    }
    if (size == 0) {
        *why = "a field is empty";
        return false;
    }
    id->size = (uint16_t)(id->size + size);
    return true;
}

/* Appends "::" or "/". Returns false, with *why, if the id gets too long. */
static inline bool add_mark(tri_actor_id *id, const char *mark,
                            const char **why)
{
    TRI_CHECK_SLOW(id->size <= TRI_ACTOR_ID_MAX);
    size_t size = strlen(mark);
    if (id->size + size > TRI_ACTOR_ID_MAX) {
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

tr_err tri_actor_id_make(tri_actor_id *out, const char *ns, const char *kind,
                         const char *key, const char **why)
{
    TRI_CHECK(out != NULL && ns != NULL && why != NULL);
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

/*
 * Copies the text before the mark into `field`. Returns what follows the mark,
 * or NULL if the mark is missing or the field too long.
 */
static const char *split(char *field, const char *text, const char *mark)
{
    const char *end = strstr(text, mark);
    if (end == NULL || end - text > TRI_ACTOR_ID_MAX) {
        return NULL;
    }
    memcpy(field, text, (size_t)(end - text));
    field[end - text] = '\0';
    return end + strlen(mark);
}

tr_err tri_actor_id_parse(tri_actor_id *out, const char *text, const char **why)
{
    char ns[TRI_ACTOR_ID_MAX + 1], kind[TRI_ACTOR_ID_MAX + 1];
    TRI_CHECK(out != NULL && text != NULL && why != NULL);
    const char *rest = split(ns, text, "::");
    if (rest == NULL) {
        *why = "there is no '::' after a namespace";
        return refuse(out);
    }
    rest = split(kind, rest, "/");
    if (rest == NULL) {
        *why = "there is no '/' after a kind";
        return refuse(out);
    }
    return tri_actor_id_make(out, ns, kind, rest, why);
}

bool tri_actor_id_is_field(const char *text, const char **why)
{
    TRI_CHECK(why != NULL);
    tri_actor_id id = {0};
    *why = "a field is missing";
    return text != NULL && add_field(&id, text, why);
}
