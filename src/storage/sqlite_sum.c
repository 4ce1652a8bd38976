/*
 * sqlite_sum.c - the checksums of rows.
 */
#include "storage/sqlite_sum.h"

#include "base/hash.h"

uint64_t tri_sqlite_sum_hashed(uint64_t key_hash, uint64_t number,
                               tri_store_bytes bytes)
{
    uint64_t sum = tri_hash_mix(key_hash ^ number);

    sum = tri_hash_mix(sum ^ tri_hash_bytes(bytes.at, bytes.size));
    return sum & TRI_STORE_NUMBER_MAX;
}

uint64_t tri_sqlite_sum(tri_store_bytes key, uint64_t number,
                        tri_store_bytes bytes)
{
    return tri_sqlite_sum_hashed(tri_hash_bytes(key.at, key.size), number,
                                 bytes);
}

uint64_t tri_sqlite_event_sum(tri_store_bytes key, uint64_t number,
                              uint64_t upto, tri_store_bytes bytes)
{
    uint64_t sum = tri_sqlite_sum(key, number, bytes);

    return tri_hash_mix(sum ^ upto) & TRI_STORE_NUMBER_MAX;
}

uint64_t tri_sqlite_chain_sum(uint64_t sum, uint64_t prev)
{
    return tri_hash_mix(sum ^ tri_hash_mix(prev)) & TRI_STORE_NUMBER_MAX;
}

bool tri_sqlite_sum_fits(sqlite3_stmt *statement, int column, uint64_t sum)
{
    return sqlite3_column_type(statement, column) == SQLITE_INTEGER &&
           (uint64_t)sqlite3_column_int64(statement, column) == sum;
}
