/*
 * pages.h - memory from the kernel, in whole pages.
 *
 * For uses that malloc does not serve: slabs, fiber stacks, and ranges that are
 * reserved long before they are used. Sizes are rounded up to whole pages;
 * addresses passed in must be on a page boundary.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef TRI_BASE_PAGES_H
#define TRI_BASE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

size_t tri_page_size(void);

/*
 * Maps `size` bytes (not 0) of zeros, readable and writable. A page takes
 * memory from its first access on. The caller owns the range and ends it with
 * tri_pages_unmap. Returns NULL if the kernel refuses.
 */
void *tri_pages_map(size_t size);

/* Unmaps a whole range from tri_pages_map or a part of it, guards included. */
void tri_pages_unmap(void *at, size_t size);

/* Advises the kernel to use huge pages; the kernel may ignore it. */
void tri_pages_huge(void *at, size_t size);

/*
 * Gives the memory of the range back and keeps the addresses: the next read
 * finds zeros. Memory locked by mlock is unchanged. Guards remain.
 */
void tri_pages_discard(void *at, size_t size);

/*
 * Makes the range a guard: an access raises SIGSEGV, and its contents are lost.
 * Returns false, with the range unchanged, if the kernel refuses (no mappings
 * or no memory left).
 */
bool tri_pages_guard(void *at, size_t size);

#endif
