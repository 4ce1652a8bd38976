/*
 * names_fuzz.c - the readers of actors' names and nodes' addresses take any
 * text.
 *
 * What is accepted has one spelling: written again it is the same text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/bus/node.h"
#include "cluster/virtual/actor_id.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_id(const char *text)
{
    tri_actor_id id, second;
    const char *why = NULL;
    if (tri_actor_id_parse(&id, text, &why) != TR_OK) {
        TRI_CHECK(why != NULL && id.size == 0);
        return;
    }
    TRI_CHECK(strcmp(id.text, text) == 0 && id.size == strlen(text));
    char ns[TRI_ACTOR_ID_MAX + 1], kind[TRI_ACTOR_ID_MAX + 1];
    snprintf(ns, sizeof(ns), "%.*s", id.kind_at - 2, id.text);
    snprintf(kind, sizeof(kind), "%.*s", id.key_at - id.kind_at - 1,
             id.text + id.kind_at);
    TRI_CHECK(tri_actor_id_is_field(ns, &why) &&
              tri_actor_id_is_field(kind, &why));
    TRI_CHECK(tri_actor_id_make(&second, ns, kind, id.text + id.key_at, &why) ==
              TR_OK);
    TRI_CHECK(strcmp(second.text, id.text) == 0);
    TRI_CHECK(second.kind_at == id.kind_at && second.key_at == id.key_at);
}

static void read_node(const char *text)
{
    tri_node_id id, second;
    const char *why = NULL;
    char written[TRI_NODE_TEXT];
    if (tri_node_parse(&id, text, &why) != TR_OK) {
        TRI_CHECK(why != NULL);
        return;
    }
    size_t length = tri_node_write(&id, written);
    TRI_CHECK(length < sizeof(written) && strlen(written) == length);
    TRI_CHECK(tri_node_parse(&second, written, &why) == TR_OK);
    TRI_CHECK(tri_node_same(&id, &second));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    TRI_CHECK(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    read_id(text);
    read_node(text);
    free(text);
    return 0;
}
