/*
 * bus_kind.c - who hosts which kinds of virtual actors.
 *
 * What other nodes host is known from what they say: all of it in their hello,
 * and each kind that is hosted later in an item of its own. A node that has
 * left or greets anew is forgotten first. Any thread may look, so the table
 * has a lock; only the turns of the bus write.
 */
#include "cluster/bus_peer.h"

#include "base/log.h"
#include "system/layers.h"

static bool kind_is(const void *value, const void *key, size_t size)
{
    const tri_bus_kind *kind = value;
    return strlen(kind->name) == size && memcmp(kind->name, key, size) == 0;
}

void tri_bus_kinds_init(tri_bus *bus)
{
    tri_map_init(&bus->kinds, kind_is, NULL);
}

bool tri_bus_kind_of(tri_bus *bus, const char *name, size_t size,
                     uint64_t *nodes, bool *stateless)
{
    tri_lock_take(&bus->kinds_lock);
    tri_bus_kind *kind = tri_map_get_bytes(&bus->kinds, name, size);
    *nodes = kind != NULL ? kind->nodes : 0;
    *stateless = kind != NULL && kind->stateless;
    tri_lock_drop(&bus->kinds_lock);
    return kind != NULL;
}

bool tri_bus_kind_note(tri_bus *bus, uint32_t node, const char *name,
                       bool stateless)
{
    size_t size = strlen(name);
    tri_lock_take(&bus->kinds_lock);
    tri_bus_kind *kind = tri_map_get_bytes(&bus->kinds, name, size);
    if (kind == NULL) {
        kind = tri_mem_calloc(&bus->sys->mem, sizeof(*kind) + size + 1);
        if (kind != NULL) {
            memcpy(kind->name, name, size);
            if (tri_map_put_bytes(&bus->kinds, kind->name, size, kind) !=
                TR_OK) {
                free(kind);
                kind = NULL;
            }
        }
    }
    if (kind != NULL) {
        kind->nodes |= UINT64_C(1) << node;
        kind->stateless = stateless;
    }
    tri_lock_drop(&bus->kinds_lock);
    if (kind == NULL) {
        tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                 "out of memory: kind %s of node %u is not known", name, node);
    }
    return kind != NULL;
}

void tri_bus_kinds_forget(tri_bus *bus, uint32_t node)
{
    tri_bus_kind *kind;
    tri_lock_take(&bus->kinds_lock);
    for (tri_map_iter it = tri_map_iter_begin(&bus->kinds);
         (kind = tri_map_iter_next(&bus->kinds, &it)) != NULL;) {
        kind->nodes &= ~(UINT64_C(1) << node);
    }
    tri_lock_drop(&bus->kinds_lock);
}

bool tri_bus_announce(tri_bus *bus)
{
    bool all = true;
    tri_lock_take(&bus->cluster->kinds_lock);
    tri_kind *kind = bus->cluster->first_kind;  // none is taken away
    tri_lock_drop(&bus->cluster->kinds_lock);
    for (; kind != NULL; kind = kind->next) {
        bool stateless = kind->workers > 0;
        all = tri_bus_kind_note(bus, bus->here, kind->name, stateless) && all;
        for (uint32_t i = 0; i < bus->nodes; i++) {
            if (i == bus->here || (kind->told >> i & 1)) {
                continue;
            }
            tri_writer w = tri_bus_item(bus, TRI_ITEM_KIND);
            tri_write_text(&w, kind->name);
            tri_write_u8(&w, stateless);
            if (tri_bus_put(bus, i, &w, NULL)) {
                kind->told |= UINT64_C(1) << i;
            } else {
                all = false;
            }
        }
    }
    return all;
}
