/*
 * bus_type.c - what is written and read: values, their types, refs.
 *
 * A type is declared once on a stream, with a table of its fields, and named
 * by the number of its declaration from then on; both sides count. Whether a
 * value of another version fits is decided by the tables, never guessed. Refs
 * cross as names.
 */
#include "cluster/bus_call.h"

#include <stdio.h>

#include "schema/value.h"

enum { NEST_MAX = 8 };

/* ---- refs cross as names ---- */

size_t tri_type_ref_text(void *user, tr_ref ref, char *buf, size_t size)
{
    tri_bus *bus = user;
    tri_cell *cell = tri_ref_cell(ref);
    if ((ref.cell >> 48) != bus->sys->tag || cell == NULL ||
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
    char id[TRI_ID_MAX + 1];
    tr_err err;
    if (size > TRI_ID_MAX) {
        return false;
    }
    memcpy(id, text, size);
    id[size] = '\0';
    tri_virtual *v = tri_bus_record(bus, id, &err);
    *out = v != NULL ? tri_bus_ref(bus, v) : (tr_ref){0};
    return v != NULL;
}

tri_ref_codec tri_type_refs(tri_bus *bus)
{
    return (tri_ref_codec){
        .to_text = tri_type_ref_text, .from_text = ref_from_text, .user = bus};
}

/* ---- types ---- */

/* "name:kind", nested ones in braces: what must fit, and is readable. */
static void write_table(tri_writer *w, const tr_type *type, uint32_t depth)
{
    char text[32];
    for (uint32_t i = 0; i < type->field_count; i++) {
        const tr_field *f = &type->fields[i];
        unsigned char *at = tri_write_room(w, strlen(f->name));
        if (at != NULL) {
            memcpy(at, f->name, strlen(f->name));
        }
        // A field may become optional: its items stay the same.
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

/* Fields are only appended: one table is the beginning of the other. */
static bool fits(const char *a, const char *b)
{
    size_t size = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
    return memcmp(a, b, size) == 0;
}

uint32_t tri_type_declare_as(tri_bus *bus, tri_peer *peer, const char *name,
                             uint64_t schema, const char *table)
{
    uintptr_t known = (uintptr_t)tri_map_get(&peer->out_types, schema);
    if (known != 0 && peer->session.next_number != 0) {
        return (uint32_t)known;
    }
    tri_writer w = tri_bus_item(bus, TRI_ITEM_TYPE);
    tri_write_u64(&w, schema);
    tri_write_text(&w, name);
    tri_write_text(&w, table);
    if (!tri_bus_put(bus, peer->node, &w, NULL)) {
        return 0;
    }
    // Both sides count declarations; a new stream begins at one.
    uint32_t number = ++peer->out_count;
    if (tri_map_put(&peer->out_types, schema, (void *)(uintptr_t)number) !=
        TR_OK) {
        return number;  // it will be declared again
    }
    return number;
}

uint32_t tri_type_declare(tri_bus *bus, tri_peer *peer, const tr_type *type)
{
    if (peer->session.next_number != 0 &&
        tri_map_get(&peer->out_types, type->schema) != NULL) {
        return tri_type_declare_as(bus, peer, type->name, type->schema, "");
    }
    char *table = table_of(bus, type);
    uint32_t number = table != NULL ? tri_type_declare_as(bus, peer, type->name,
                                                          type->schema, table)
                                    : 0;
    free(table);
    return number;
}

char *tri_type_text(tri_bus *bus, tr_bytes bytes, size_t max)
{
    if (bytes.size > max) {
        return NULL;
    }
    char *text = tri_mem_calloc(&bus->sys->mem, bytes.size + 1);
    if (text != NULL && bytes.size > 0) {
        memcpy(text, bytes.at, bytes.size);
    }
    return text;
}

bool tri_call_type(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    tri_known_type type = {.schema = tri_read_u64(r)};
    tr_bytes name = tri_read_bytes(r), table = tri_read_bytes(r);
    if (peer->in_count == peer->in_room && peer->in_room < TRI_TYPES_MAX) {
        uint32_t room = peer->in_room * 2 + 16;
        void *types =
            tri_mem_should_fail(&bus->sys->mem)
                ? NULL
                : realloc(peer->in_types, room * sizeof(*peer->in_types));
        if (types != NULL) {
            peer->in_types = types;
            peer->in_room = room;
        }
    }
    if (peer->in_count == TRI_TYPES_MAX) {
        return true;  // what is of it is refused
    }
    if (peer->in_count == peer->in_room) {
        return false;
    }
    // Its place is counted even if it is none.
    type.name = tri_type_text(bus, name, TRI_ID_MAX);
    type.table = tri_type_text(bus, table, TRI_TABLE_MAX);
    if ((type.name == NULL && name.size <= TRI_ID_MAX) ||
        (type.table == NULL && table.size <= TRI_TABLE_MAX)) {
        free(type.name);
        free(type.table);
        return false;
    }
    peer->in_types[peer->in_count++] = type;
    return true;
}

const tr_handler *tri_type_handler(const tri_kind *kind, const char *name)
{
    const tr_actor_def *def = kind->def;
    for (uint32_t i = 0; i < def->handler_count; i++) {
        if (def->handlers[i].type != NULL &&
            strcmp(def->handlers[i].type->name, name) == 0) {
            return &def->handlers[i];
        }
    }
    return NULL;
}

bool tri_type_fits(tri_bus *bus, const tr_type *type,
                   const tri_known_type *known, char *text, size_t size)
{
    if (type->schema == known->schema) {
        return true;
    }
    char *table = table_of(bus, type);
    bool fit = table != NULL && fits(table, known->table);
    if (!fit) {
        snprintf(text, size, "%s is {%s} here and {%s} there", type->name,
                 table != NULL ? table : "?", known->table);
    }
    free(table);
    return fit;
}

tr_err tri_type_read(tri_bus *bus, const tr_type *type, tr_bytes bytes,
                     void **out, char *text, size_t size)
{
    tri_ref_codec refs = tri_type_refs(bus);
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
