/*
 * wire_type.c - message types and values on the wire.
 *
 * A type is declared once on a stream, with a table of its fields; from then on
 * it is named by the number of its declaration, which both nodes count. The
 * tables decide whether a value of another version fits. A ref is written as
 * the name of its actor.
 */
#include "cluster/bus/wire_type.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/map.h"
#include "cluster/bus/peer.h"
#include "cluster/transport/frame.h"
#include "cluster/transport/session.h"
#include "cluster/virtual/actor_id.h"
#include "cluster/virtual/virtual.h"
#include "core/cell/cell.h"
#include "core/cell/mem.h"
#include "core/cell/ref.h"
#include "core/system.h"
#include "core/types.h"
#include "schema/binary_read.h"
#include "schema/field.h"

enum { NEST_MAX = 8 };

/* ---- refs are written as names ---- */

size_t tri_wire_type_ref_text(void *user, tr_ref ref, char *buf, size_t size)
{
    tri_bus *bus = user;
    tri_cell *cell = tri_ref_cell(ref);
    if (!tri_ref_is_here(bus->sys, ref) || cell == NULL ||
        !tri_cell_is_virtual(cell)) {
        return 0;
    }
    tri_virtual *v = tri_virtual_of(cell);
    if (v->size <= size) {
        memcpy(buf, v->text, v->size);
    }
    return v->size;
}

static bool ref_from_text(void *user, const char *text, size_t size,
                          tr_ref *out)
{
    tri_bus *bus = user;
    char id[TRI_ACTOR_ID_MAX + 1];
    tr_err err;
    if (size > TRI_ACTOR_ID_MAX) {
        return false;
    }
    memcpy(id, text, size);
    id[size] = '\0';
    *out = tri_bus_keep_ref(bus, id, &err);
    return err == TR_OK;
}

tri_ref_codec tri_wire_type_refs(tri_bus *bus)
{
    return (tri_ref_codec){.to_text = tri_wire_type_ref_text,
                           .from_text = ref_from_text,
                           .user = bus};
}

/* ---- types ---- */

/* Writes "name:kind," for each field, those of nested types in braces. */
static void write_table(tri_writer *w, const tr_type *type, uint32_t depth)
{
    TRI_CHECK(type != NULL && depth <= NEST_MAX);
    char text[32];
    for (uint32_t i = 0; i < type->field_count; i++) {
        const tr_field *f = &type->fields[i];
        unsigned char *at = tri_write_room(w, strlen(f->name));
        if (at != NULL) {
            memcpy(at, f->name, strlen(f->name));
        }
        // A field may become optional: its value stays the same.
        tr_field value = *f;
        if (f->kind == TR_KIND_OPTIONAL) {
            value = tri_field_element(f);
        }
        snprintf(text, sizeof(text), ":%u", value.kind);
        if (f->kind == TR_KIND_FIXED || f->kind == TR_KIND_ARRAY) {
            snprintf(text, sizeof(text), ":%u.%u", f->kind, f->element & 0xffu);
        }
        at = tri_write_room(w, strlen(text));
        if (at != NULL) {
            memcpy(at, text, strlen(text));
        }
        if (f->type != NULL && depth < NEST_MAX) {
            tri_write_u8(w, '{');
            write_table(w, f->type, depth + 1);
            tri_write_u8(w, '}');
        }
        tri_write_u8(w, ',');
    }
}

static char *table_of(tri_bus *bus, const tr_type *type)
{
    tri_writer w = {.mem = &bus->sys->mem};
    write_table(&w, type, 0);
    tri_write_u8(&w, '\0');
    if (w.failed) {
        free(w.bytes);
        return NULL;
    }
    return (char *)w.bytes;
}

/* True if one table is the beginning of the other. */
static bool fits(const char *a, const char *b)
{
    size_t size = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
    return memcmp(a, b, size) == 0;
}

uint32_t tri_wire_type_declare_as(tri_bus *bus, tri_peer *peer,
                                  const char *name, uint64_t schema,
                                  const char *table)
{
    TRI_CHECK(name != NULL && table != NULL);
    uintptr_t known = (uintptr_t)tri_map_get(&peer->out_types, schema);
    if (known != 0 && peer->session.next_number != 0) {
        return (uint32_t)known;
    }
    tri_writer w = tri_peer_frame(bus, TRI_FRAME_TYPE);
    tri_write_u64(&w, schema);
    tri_write_text(&w, name);
    tri_write_text(&w, table);
    if (!tri_peer_put_slot(bus, peer->node, &w)) {
        return 0;
    }
    // Both nodes count declarations; a new stream begins at one.
    uint32_t number = ++peer->out_count;
    if (tri_map_put(&peer->out_types, schema, (void *)(uintptr_t)number) !=
        TR_OK) {
        return number;  // the next use declares it again
    }
    return number;
}

uint32_t tri_wire_type_declare(tri_bus *bus, tri_peer *peer,
                               const tr_type *type)
{
    if (peer->session.next_number != 0 &&
        tri_map_get(&peer->out_types, type->schema) != NULL) {
        return tri_wire_type_declare_as(bus, peer, type->name, type->schema,
                                        "");
    }
    char *table = table_of(bus, type);
    uint32_t number = table != NULL
                          ? tri_wire_type_declare_as(bus, peer, type->name,
                                                     type->schema, table)
                          : 0;
    free(table);
    return number;
}

char *tri_wire_type_copy_text(tri_bus *bus, tr_bytes bytes, size_t max)
{
    TRI_CHECK(bytes.at != NULL || bytes.size == 0);
    if (bytes.size > max) {
        return NULL;
    }
    char *text = tri_mem_calloc(&bus->sys->mem, bytes.size + 1);
    if (text != NULL && bytes.size > 0) {
        memcpy(text, bytes.at, bytes.size);
    }
    return text;
}

/* Makes room for one more declared type, if there is memory. */
static void grow_types(tri_bus *bus, tri_peer *peer)
{
    TRI_CHECK(peer->in_count <= peer->in_room);
    if (peer->in_count < peer->in_room || peer->in_room >= TRI_WIRE_TYPES_MAX) {
        return;
    }
    uint32_t room = peer->in_room * 2 + 16;
    void *types = tri_mem_should_fail(&bus->sys->mem)
                      ? NULL
                      : realloc(peer->in_types, room * sizeof(*peer->in_types));
    if (types != NULL) {
        peer->in_types = types;
        peer->in_room = room;
    }
}

bool tri_wire_type_on_declaration(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    tri_wire_type type = {.schema = tri_read_u64(r)};
    tr_bytes name = tri_read_bytes(r), table = tri_read_bytes(r);
    grow_types(bus, peer);
    if (peer->in_count == TRI_WIRE_TYPES_MAX) {
        return true;  // messages of this type are refused
    }
    if (peer->in_count == peer->in_room) {
        return false;
    }
    // A declaration that is not valid is counted, too.
    type.name = tri_wire_type_copy_text(bus, name, TRI_ACTOR_ID_MAX);
    type.table = tri_wire_type_copy_text(bus, table, TRI_WIRE_TABLE_MAX);
    if ((type.name == NULL && name.size <= TRI_ACTOR_ID_MAX) ||
        (type.table == NULL && table.size <= TRI_WIRE_TABLE_MAX)) {
        free(type.name);
        free(type.table);
        return false;
    }
    peer->in_types[peer->in_count++] = type;
    return true;
}

const tr_handler *tri_wire_type_handler(const tri_kind *kind, const char *name)
{
    const tr_actor_def *def = kind->def;
    TRI_CHECK(name != NULL);
    for (uint32_t i = 0; i < def->handler_count; i++) {
        if (def->handlers[i].type != NULL &&
            strcmp(def->handlers[i].type->name, name) == 0) {
            return &def->handlers[i];
        }
    }
    return NULL;
}

bool tri_wire_type_fits(tri_bus *bus, const tr_type *type,
                        const tri_wire_type *declared, char *text, size_t size)
{
    if (type->schema == declared->schema) {
        return true;
    }
    TRI_CHECK(declared->table != NULL);
    char *table = table_of(bus, type);
    bool fit = table != NULL && fits(table, declared->table);
    if (!fit) {
        snprintf(text, size, "%s is {%s} here and {%s} there", type->name,
                 table != NULL ? table : "?", declared->table);
    }
    free(table);
    return fit;
}

tr_err tri_wire_type_read(tri_bus *bus, const tr_type *type, tr_bytes bytes,
                          void **out, char *text, size_t size)
{
    tri_ref_codec refs = tri_wire_type_refs(bus);
    tri_codec codec = {.refs = &refs};
    tri_codec_error error = {.text = ""};
    *out = tri_mem_calloc(&bus->sys->mem, type->size + 1u);
    if (*out == NULL) {
        return TR_ENOMEM;
    }
    tr_err err =
        tri_binary_read(type, *out, bytes.at, bytes.size, &codec, &error);
    if (err != TR_OK) {
        snprintf(text, size, "%s: %s", type->name, error.text);
        free(*out);
        *out = NULL;
    }
    return err == TR_EINVAL ? TR_ESCHEMA : err;
}
