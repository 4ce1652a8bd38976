/*
 * postgres_wire.h - parameters and results in PostgreSQL's binary format.
 *
 * Texts and bytes are borrowed from the caller until the statement was passed
 * to libpq, which copies them. Numbers and arrays are copied at once.
 */
#ifndef TRI_STORAGE_POSTGRES_WIRE_H
#define TRI_STORAGE_POSTGRES_WIRE_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/postgres_sql.h"
#include "storage/store_op.h"

/* The parameters of one statement; reused for the next one. */
typedef struct tri_pg_params {
    char *buffer;  // of numbers and arrays
    size_t used, capacity;
    bool failed;  // no memory
    int count;
    size_t starts[TRI_PG_PARAMS_MAX];         // in the buffer
    const void *borrowed[TRI_PG_PARAMS_MAX];  // NULL: in the buffer
    const char *values[TRI_PG_PARAMS_MAX];    // set by tri_pg_finish
    int sizes[TRI_PG_PARAMS_MAX];
} tri_pg_params;

void tri_pg_params_fini(tri_pg_params *params);

/* Begins the parameters of a new statement. */
void tri_pg_begin(tri_pg_params *params);
/* Each tri_pg_add... adds one parameter. */
void tri_pg_add4(tri_pg_params *params, uint32_t number);
void tri_pg_add8(tri_pg_params *params, uint64_t number);
void tri_pg_add_bytes(tri_pg_params *params, tri_store_bytes bytes);
/* Begins an array; exactly `count` calls of tri_pg_put... must follow. */
void tri_pg_add_array(tri_pg_params *params, Oid element, uint32_t count);
void tri_pg_put4(tri_pg_params *params, uint32_t number);
void tri_pg_put8(tri_pg_params *params, uint64_t number);
void tri_pg_put_bytes(tri_pg_params *params, tri_store_bytes bytes);
/* Sets values and sizes. Returns false if there was no memory. */
bool tri_pg_finish(tri_pg_params *params);

#define TRI_PG_OID_BYTEA 17
#define TRI_PG_OID_INT8  20
#define TRI_PG_OID_INT4  23

/* Returns a number of 1, 4 or 8 bytes; 0 for NULL. */
uint64_t tri_pg_number(const PGresult *result, int row, int column);
/* Returns the bytes, borrowed from the result. */
tri_store_bytes tri_pg_bytes(const PGresult *result, int row, int column);

/* A position in an array; NULL counts as an empty array. */
typedef struct tri_pg_walk {
    const unsigned char *at, *end;
    uint32_t left;
} tri_pg_walk;

tri_pg_walk tri_pg_walk_begin(const PGresult *result, int row, int column);
/* Reads the next element. Returns false after the last one. */
bool tri_pg_walk_next(tri_pg_walk *walk, tri_store_bytes *element);
/* Returns the number in an element. */
uint64_t tri_pg_number_of(tri_store_bytes element);

#endif
