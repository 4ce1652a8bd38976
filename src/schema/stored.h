/*
 * stored.h - the form in which a store keeps a value.
 *
 * A state in JSON is stored as that JSON. Every other value has a head of one
 * word that a person can read, then a space, then the value:
 *
 *   {"cents":5}                        a state
 *   Account/binary <bytes>             a state in another form
 *   Account@120 {"cents":5}            a snapshot after event 120
 *   Account@120#5c09e1f2 {"cents":5}   the same, if the store chains events
 *   Deposited {"cents":5}              an event
 *   Deposited/binary <bytes>           an event in another form
 *
 * The head names the serializer that wrote the value, which may differ from the
 * one that the actor uses today. JSON and the compact form can always be read.
 *
 * Threads: any.
 */
#ifndef TRI_SCHEMA_STORED_H
#define TRI_SCHEMA_STORED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/allocator.h"
#include "schema/codec.h"
#include "troupe/base.h"
#include "troupe/message.h"

/* The longest name of a type or a serializer. */
#define TRI_STORED_NAME_MAX 32

/* For tri_stored_make, in place of the number of a snapshot's last event. */
#define TRI_STORED_STATE UINT64_MAX
#define TRI_STORED_EVENT (UINT64_MAX - 1)

/* A stored value whose head has been read; data is borrowed. */
typedef struct tri_stored {
    char type[TRI_STORED_NAME_MAX + 1];        // "" for a state in JSON
    char serializer[TRI_STORED_NAME_MAX + 1];  // "json"
    uint64_t number;                           // last event of a snapshot, or 0
    uint64_t chain;                            // chain of a snapshot, or 0
    const void *data;
    size_t size;
} tri_stored;

/* How the values of an actor are stored. */
typedef struct tri_stored_form {
    const tr_serializer *serializer;  // NULL only for reading: the library's
    tri_ref_codec refs;  // for the library's serializers; to_text NULL: none
} tri_stored_form;

/* Returns true if a head may contain the name: letters, digits, '-', '_'. */
bool tri_stored_name_ok(const char *name);

/*
 * Writes head and value into memory from malloc, which the caller frees. On
 * failure *out is NULL and *error says why. Errors: TR_ENOMEM, TR_ELIMIT (too
 * large), TR_EINVAL (the serializer cannot write the value without changing
 * it, or a head cannot contain its name).
 */
TR_NODISCARD tr_err tri_stored_make(const tri_stored_form *form,
                                    const tr_type *type, const void *value,
                                    uint64_t number, void **out, size_t *size,
                                    tri_codec_error *error);

/*
 * Like tri_stored_make, for a snapshot after event `number`. `chain` is the
 * store's checksum of the events up to there, or 0 if the store has none.
 */
TR_NODISCARD tr_err tri_stored_snapshot(const tri_stored_form *form,
                                        const tr_type *type, const void *value,
                                        uint64_t number, uint64_t chain,
                                        void **out, size_t *size,
                                        tri_codec_error *error);

/* Reads the head. Errors: TR_EINVAL, with the reason in *error. */
TR_NODISCARD tr_err tri_stored_open(tri_stored *out, const void *bytes,
                                    size_t size, tri_codec_error *error);

/*
 * Reads the value, with pieces from mem, if the form's serializer or one of the
 * library's serializers wrote it. NULL: a form without one, and without refs.
 * On failure *value is zero and *error says
 * why. Errors: TR_EINVAL (not of this type, unknown serializer), TR_ELIMIT,
 * TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_stored_read(const tri_stored *stored,
                                    const tri_stored_form *form,
                                    const tr_type *type, void *value,
                                    const tri_allocator *mem,
                                    tri_codec_error *error);

#endif
