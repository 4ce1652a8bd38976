/*
 * id.h - the name of a virtual actor: namespace::kind/key.
 *
 * No field is empty; all are made of letters, digits, '-' and '_', so neither
 * "::" nor '/' can be part of one, and the text means the same triple
 * wherever it is read (VA1 to VA6).
 *
 * Threads: any.
 */
#ifndef TRI_CLUSTER_ID_H
#define TRI_CLUSTER_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "troupe/base.h"

enum { TRI_ID_MAX = 256 };  // characters in all, without the NUL

typedef struct tri_actor_id {
    uint16_t size;     // of the text
    uint16_t kind_at;  // where the kind begins; the namespace is in front
    uint16_t key_at;
    char text[TRI_ID_MAX + 1];
} tri_actor_id;

/*
 * Both say in *why, a static text, what is wrong.
 * Errors: TR_EINVAL; *out is then empty.
 */
TR_NODISCARD tr_err tri_id_make(tri_actor_id *out, const char *ns,
                                const char *kind, const char *key,
                                const char **why);
TR_NODISCARD tr_err tri_id_parse(tri_actor_id *out, const char *text,
                                 const char **why);

/* Whether the text can be a namespace or a kind; if not, *why. */
bool tri_id_is_field(const char *text, const char **why);

#endif
