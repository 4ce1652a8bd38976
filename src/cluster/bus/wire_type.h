/*
 * wire_type.h - message types and values on the wire.
 *
 * Threads: the turns of the bus.
 */
#ifndef TRI_CLUSTER_WIRE_TYPE_H
#define TRI_CLUSTER_WIRE_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/bus/bus.h"
#include "cluster/transport/wire.h"
#include "cluster/virtual/kind.h"
#include "schema/codec.h"
#include "troupe/actor.h"
#include "troupe/base.h"
#include "troupe/message.h"

struct tri_peer;

enum {
    TRI_WIRE_TYPES_MAX = 4096,       // types one peer may declare
    TRI_WIRE_TABLE_MAX = 64 * 1024,  // bytes of a type's field table
};

/* A type that a peer has declared, as texts. */
typedef struct tri_wire_type {
    char *name;
    char *table;  // its fields; fields are only appended between versions
    uint64_t schema;
} tri_wire_type;

/* ---- types ---- */

/*
 * Returns the number of the type on the stream to the peer, after declaring it
 * if needed; 0: no memory.
 */
uint32_t tri_wire_type_declare(tri_bus *bus, struct tri_peer *peer,
                               const tr_type *type);
/* The same for a type of a message that is only passed on. */
uint32_t tri_wire_type_declare_as(tri_bus *bus, struct tri_peer *peer,
                                  const char *name, uint64_t schema,
                                  const char *table);
/* A peer declares a type: TRI_FRAME_TYPE. Returns false without memory. */
bool tri_wire_type_on_declaration(tri_bus *bus, struct tri_peer *peer,
                                  tri_reader *r);
/* Returns a copy of a text; NULL: more than `max` bytes, or no memory. */
char *tri_wire_type_copy_text(tri_bus *bus, tr_bytes bytes, size_t max);
/* Returns the handler of a kind for a type of that name, or NULL. */
const tr_handler *tri_wire_type_handler(const tri_kind *kind, const char *name);

/* ---- values ---- */

/*
 * True if a value of the declared type can be read as `type`; if not, `text`
 * says why.
 */
bool tri_wire_type_fits(tri_bus *bus, const tr_type *type,
                        const tri_wire_type *declared, char *text, size_t size);
/*
 * Reads a value; the caller releases its pieces and frees *out. On an error
 * `text` says why. Errors: TR_ESCHEMA, TR_ENOMEM.
 */
tr_err tri_wire_type_read(tri_bus *bus, const tr_type *type, tr_bytes bytes,
                          void **out, char *text, size_t size);
/* Returns how refs are written and read inside values: as names. */
tri_ref_codec tri_wire_type_refs(tri_bus *bus);
/*
 * Returns the size of the name of a virtual actor, 0 for any other ref; writes
 * the name if it fits. `user` is the bus.
 */
size_t tri_wire_type_ref_text(void *user, tr_ref ref, char *buf, size_t size);

#endif
