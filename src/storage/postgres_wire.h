/*
 * postgres_wire.h - parameters and results in PostgreSQL's binary format.
 *
 * All that is not a number or an array is borrowed from the caller until the
 * statement was handed to libpq, which copies it.
 */
#ifndef TRI_STORAGE_POSTGRES_WIRE_H
#define TRI_STORAGE_POSTGRES_WIRE_H

#include <libpq-fe.h>

#include "storage/postgres_sql.h"
#include "storage/storage.h"

/* The parameters of one statement; used again for the next one. */
typedef struct tri_pg_params {
    char *room;  // numbers and arrays lie here
    size_t used, capacity;
    bool failed;  // no memory
    int count;
    size_t starts[TRI_PG_PARAMS_MAX];         // in the room
    const void *borrowed[TRI_PG_PARAMS_MAX];  // instead, unless NULL
    const char *values[TRI_PG_PARAMS_MAX];    // set by finish
    int sizes[TRI_PG_PARAMS_MAX];
} tri_pg_params;

void tri_pg_params_fini(tri_pg_params *params);

void tri_pg_begin(tri_pg_params *params);
void tri_pg_add4(tri_pg_params *params, uint32_t number);
void tri_pg_add8(tri_pg_params *params, uint64_t number);
void tri_pg_add_bytes(tri_pg_params *params, tri_store_bytes bytes);
/* Begins an array of `count`; exactly as many puts follow. */
void tri_pg_add_array(tri_pg_params *params, Oid element, uint32_t count);
void tri_pg_put4(tri_pg_params *params, uint32_t number);
void tri_pg_put8(tri_pg_params *params, uint64_t number);
void tri_pg_put_bytes(tri_pg_params *params, tri_store_bytes bytes);
/* Sets values and sizes. False: there was no memory. */
bool tri_pg_finish(tri_pg_params *params);

#define TRI_PG_OID_BYTEA 17
#define TRI_PG_OID_INT8  20
#define TRI_PG_OID_INT4  23

/* A number of 1, 4 or 8 bytes; 0 if it is NULL. */
uint64_t tri_pg_number(const PGresult *result, int row, int column);
/* Borrowed from the result. */
tri_store_bytes tri_pg_bytes(const PGresult *result, int row, int column);

/* Walks an array; NULL is an empty one. */
typedef struct tri_pg_walk {
    const unsigned char *at, *end;
    uint32_t left;
} tri_pg_walk;

tri_pg_walk tri_pg_walk_begin(const PGresult *result, int row, int column);
/* False: that was the last one. */
bool tri_pg_walk_next(tri_pg_walk *walk, tri_store_bytes *element);
/* A number as an element holds it. */
uint64_t tri_pg_number_of(tri_store_bytes element);

#endif
