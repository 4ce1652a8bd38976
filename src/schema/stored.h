/*
 * stored.h - a value as it lies in a store.
 *
 * A state in JSON is the JSON alone. All else has a head of one word that a
 * person can read, then a space, then the value:
 *
 *   {"cents":5}                        a state
 *   Account/binary <bytes>             a state in another form
 *   Account@120 {"cents":5}            a snapshot, made of events up to 120
 *   Account@120#5c09e1f2 {"cents":5}   the same, of a store that chains events
 *   Deposited {"cents":5}              an event
 *   Deposited/binary <bytes>           an event in another form
 *
 * The head says which serializer wrote the value; it may be another one than
 * the actor writes with today. JSON and the compact form are always known.
 *
 * Threads: any.
 */
#ifndef TRI_SCHEMA_STORED_H
#define TRI_SCHEMA_STORED_H

#include "schema/codec.h"

/* Longest name of a type or a serializer. */
#define TRI_STORED_NAME_MAX 32

/* For tri_stored_make: instead of the number of a snapshot's last event. */
#define TRI_STORED_STATE UINT64_MAX
#define TRI_STORED_EVENT (UINT64_MAX - 1)

/* What was found; data is borrowed. */
typedef struct tri_stored {
    char type[TRI_STORED_NAME_MAX + 1];        // "" for a state in JSON
    char serializer[TRI_STORED_NAME_MAX + 1];  // "json"
    uint64_t number;                           // of a snapshot, else 0
    uint64_t chain;                            // of a snapshot, or 0
    const void *data;
    size_t size;
} tri_stored;

/* A name that can stand in a head: letters, digits, '-', '_'. */
bool tri_stored_name_ok(const char *name);

/*
 * Writes head and value into memory from malloc, which the caller owns. On
 * failure *out is NULL. Errors: TR_ENOMEM, TR_ELIMIT (too large), TR_EINVAL
 * (the serializer cannot write it, or its name is none).
 */
TR_NODISCARD tr_err tri_stored_make(const tr_serializer *serializer,
                                    const tr_type *type, const void *value,
                                    uint64_t number, void **out, size_t *size);

/*
 * The same for a snapshot: the events up to `number` are those that the store
 * knows by `chain`; 0: it does not say.
 */
TR_NODISCARD tr_err tri_stored_snapshot(const tr_serializer *serializer,
                                        const tr_type *type, const void *value,
                                        uint64_t number, uint64_t chain,
                                        void **out, size_t *size);

/* Reads the head. Errors: TR_EINVAL; error says why. */
TR_NODISCARD tr_err tri_stored_open(tri_stored *out, const void *bytes,
                                    size_t size, tri_codec_error *error);

/*
 * Reads the value, with pieces from mem. `own` is tried beside those that are
 * always known. On failure *value is zero, and error says why.
 * Errors: TR_EINVAL (not of this type, unknown serializer), TR_ELIMIT,
 * TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_stored_read(const tri_stored *stored,
                                    const tr_serializer *own,
                                    const tr_type *type, void *value,
                                    const tri_allocator *mem,
                                    tri_codec_error *error);

#endif
