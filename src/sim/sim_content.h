/*
 * sim_content.h - the bytes of a simulated file, in chunks.
 *
 * A chunk that was never written does not exist and reads as zeros. Chunks do
 * not move while the content lives, so an address in one can be a map.
 *
 * Threads: none of this is thread-safe.
 * Ownership: a content owns its chunks; bytes are copied in and out.
 */
#ifndef TRI_SIM_SIM_CONTENT_H
#define TRI_SIM_SIM_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRI_SIM_CHUNK ((size_t)64 * 1024)

/* Defined here because an inode embeds two. All zero: empty. */
typedef struct tri_content {
    char **chunks;   // NULL: a chunk of zeros
    uint64_t count;  // of chunks
    uint64_t size;
} tri_content;

/* Writes and grows as needed. False: no memory; a part may be written. */
bool tri_content_write(tri_content *it, const char *at, size_t size,
                       uint64_t offset);
/* Returns how many bytes were there to read. */
size_t tri_content_read(const tri_content *it, char *at, size_t size,
                        uint64_t offset);
/* Bytes that are cut off are zero if it grows again. False: no memory. */
bool tri_content_resize(tri_content *it, uint64_t size);
/* Makes `to` equal to `from`, in its own chunks. False: no memory. */
bool tri_content_copy(tri_content *to, const tri_content *from);
/* Returns the address of a range within one chunk (a check); NULL: no memory. */
void *tri_content_at(tri_content *it, uint64_t offset, size_t size);
void tri_content_fini(tri_content *it);

#endif
