/*
 * bus_call.h - what the files of messages between nodes ask of each other.
 *
 * Threads: the turns of the bus.
 */
#ifndef TRI_CLUSTER_BUS_CALL_H
#define TRI_CLUSTER_BUS_CALL_H

#include "cluster/bus.h"
#include "schema/binary.h"

enum { TRI_TABLE_MAX = 64 * 1024 };  // bytes of a type's table

/* ---- bus_type.c ---- */

/* How refs are written and read in a payload. */
tri_ref_codec tri_type_refs(tri_bus *bus);
/* The name of a virtual actor; its size, written if it fits. 0: it is none. */
size_t tri_type_ref_text(void *bus, tr_ref ref, char *buf, size_t size);
/* Declares the type on the peer's stream if need be; 0: no memory. */
uint32_t tri_type_declare(tri_bus *bus, tri_peer *peer, const tr_type *type);
/* The same of a type that is only passed on. */
uint32_t tri_type_declare_as(tri_bus *bus, tri_peer *peer, const char *name,
                             uint64_t schema, const char *table);
/* A copy that the caller owns; NULL: more than max, or no memory. */
char *tri_type_text(tri_bus *bus, tr_bytes bytes, size_t max);
/* The handler of a kind for a type of that name, or NULL. */
const tr_handler *tri_type_handler(const tri_kind *kind, const char *name);
/* Can a value of the type there be read here? If not, text says why. */
bool tri_type_fits(tri_bus *bus, const tr_type *type,
                   const tri_known_type *known, char *text, size_t size);
/* Reads the payload; the caller frees *out, after releasing its pieces. */
tr_err tri_type_read(tri_bus *bus, const tr_type *type, tr_bytes bytes,
                     void **out, char *text, size_t size);

/* ---- bus_answer.c ---- */

/* The answer to a request of ours has come. */
void tri_call_complete(tri_bus *bus, tri_peer *peer, const tri_envelope *e);

#endif
