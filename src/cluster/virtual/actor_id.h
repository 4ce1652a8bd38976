/*
 * actor_id.h - the name of a virtual actor: namespace::kind/key.
 *
 * Each field has at least one character and consists of letters, digits, '-'
 * and '_'. So no field contains "::" or '/', and a text is read back as the
 * same three fields everywhere.
 *
 * Threads: any.
 */
#ifndef TRI_CLUSTER_ACTOR_ID_H
#define TRI_CLUSTER_ACTOR_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "troupe/base.h"

enum { TRI_ACTOR_ID_MAX = 256 };  // characters of the text, without the NUL

typedef struct tri_actor_id {
    uint16_t size;     // of the text, without the NUL
    uint16_t kind_at;  // where the kind begins; the namespace is in front
    uint16_t key_at;   // where the key begins
    char text[TRI_ACTOR_ID_MAX + 1];
} tri_actor_id;

/*
 * Makes an id of three fields. On an error *out is empty and *why a static
 * text that says what is wrong. Errors: TR_EINVAL.
 */
TR_NODISCARD tr_err tri_actor_id_make(tri_actor_id *out, const char *ns,
                                      const char *kind, const char *key,
                                      const char **why);
/* Reads an id from its text; as tri_actor_id_make. */
TR_NODISCARD tr_err tri_actor_id_parse(tri_actor_id *out, const char *text,
                                       const char **why);

/* True if the text can be a namespace or a kind; if not, *why says why. */
bool tri_actor_id_is_field(const char *text, const char **why);

#endif
