/*
 * scalar.h - loads and stores the value of a field: numbers of any width, and
 * blobs.
 *
 * A field table gives the size of a number; these functions move it between
 * memory and the widest type of its kind. The widest case comes first, because
 * most numbers have it.
 *
 * Threads: any; nothing here has state.
 */
#ifndef TRI_SCHEMA_SCALAR_H
#define TRI_SCHEMA_SCALAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "troupe/message.h"

/* Loads a signed number of `size` bytes. */
static inline int64_t tri_load_int(const void *at, size_t size)
{
    if (TRI_LIKELY(size == sizeof(int64_t))) {
        int64_t v;
        memcpy(&v, at, sizeof(v));
        return v;
    }
    if (size == sizeof(int32_t)) {
        int32_t v;
        memcpy(&v, at, sizeof(v));
        return v;
    }
    if (size == sizeof(int16_t)) {
        int16_t v;
        memcpy(&v, at, sizeof(v));
        return v;
    }
    TRI_CHECK_SLOW(size == sizeof(int8_t));
    int8_t v;
    memcpy(&v, at, sizeof(v));
    return v;
}

/* Loads an unsigned number of `size` bytes. */
static inline uint64_t tri_load_uint(const void *at, size_t size)
{
    if (TRI_LIKELY(size == sizeof(uint64_t))) {
        uint64_t v;
        memcpy(&v, at, sizeof(v));
        return v;
    }
    if (size == sizeof(uint32_t)) {
        uint32_t v;
        memcpy(&v, at, sizeof(v));
        return v;
    }
    if (size == sizeof(uint16_t)) {
        uint16_t v;
        memcpy(&v, at, sizeof(v));
        return v;
    }
    TRI_CHECK_SLOW(size == sizeof(uint8_t));
    uint8_t v;
    memcpy(&v, at, sizeof(v));
    return v;
}

/*
 * Stores a number. Returns false if it does not fit; the stored bytes are then
 * meaningless.
 */
static inline bool tri_store_int(void *at, size_t size, int64_t value)
{
    if (TRI_LIKELY(size == sizeof(value))) {
        memcpy(at, &value, sizeof(value));
        return true;
    }
    if (size == sizeof(int32_t)) {
        int32_t v = (int32_t)value;
        memcpy(at, &v, sizeof(v));
        return v == value;
    }
    if (size == sizeof(int16_t)) {
        int16_t v = (int16_t)value;
        memcpy(at, &v, sizeof(v));
        return v == value;
    }
    TRI_CHECK_SLOW(size == sizeof(int8_t));
    int8_t v = (int8_t)value;
    memcpy(at, &v, sizeof(v));
    return v == value;
}

/* Like tri_store_int, for an unsigned number. */
static inline bool tri_store_uint(void *at, size_t size, uint64_t value)
{
    if (TRI_LIKELY(size == sizeof(value))) {
        memcpy(at, &value, sizeof(value));
        return true;
    }
    if (size == sizeof(uint32_t)) {
        uint32_t v = (uint32_t)value;
        memcpy(at, &v, sizeof(v));
        return v == value;
    }
    if (size == sizeof(uint16_t)) {
        uint16_t v = (uint16_t)value;
        memcpy(at, &v, sizeof(v));
        return v == value;
    }
    TRI_CHECK_SLOW(size == sizeof(uint8_t));
    uint8_t v = (uint8_t)value;
    memcpy(at, &v, sizeof(v));
    return v == value;
}

/* Loads a float or a double, by its size. */
static inline double tri_load_float(const void *at, size_t size)
{
    if (size == sizeof(float)) {
        float v;
        memcpy(&v, at, sizeof(v));
        return (double)v;
    }
    TRI_CHECK_SLOW(size == sizeof(double));
    double v;
    memcpy(&v, at, sizeof(v));
    return v;
}

/* Stores a float or a double, by its size. */
static inline void tri_store_float(void *at, size_t size, double value)
{
    if (size == sizeof(float)) {
        float v = (float)value;
        memcpy(at, &v, sizeof(v));
    } else {
        TRI_CHECK_SLOW(size == sizeof(double));
        memcpy(at, &value, sizeof(value));
    }
}

/* Loads a blob. Does not change its holds. */
static inline tr_blob tri_load_blob(const void *at)
{
    tr_blob blob;

    memcpy(&blob, at, sizeof(blob));
    return blob;
}

/* Stores a blob. Does not change its holds. */
static inline void tri_store_blob(void *at, tr_blob blob)
{
    memcpy(at, &blob, sizeof(blob));
}

#endif
