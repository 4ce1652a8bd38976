/*
 * pages.h - memory straight from the kernel, in whole pages.
 *
 * For what malloc does not serve: slabs, fiber stacks, ranges that are
 * reserved long before they are used. Sizes are rounded up to whole pages;
 * addresses given back must lie on a page boundary.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef TRI_BASE_PAGES_H
#define TRI_BASE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

size_t tri_page_size(void);

/*
 * Maps `size` bytes (not 0) of zeros, readable and writable. A page costs
 * memory from its first touch on. The caller owns the range and ends it with
 * tri_pages_unmap. NULL when the kernel refuses.
 */
void *tri_pages_map(size_t size);

/* Unmaps a whole range from tri_pages_map or a part of it, guards included. */
void tri_pages_unmap(void *at, size_t size);

/* Asks for huge pages. Advice: nothing follows if it is refused. */
void tri_pages_huge(void *at, size_t size);

/*
 * Gives the memory back and keeps the range: the next read finds zeros.
 * Memory locked by mlock stays as it was. Guards stay guards.
 */
void tri_pages_discard(void *at, size_t size);

/*
 * Turns the range into a guard: touching it is a SIGSEGV. What it held is
 * lost. False when the kernel refuses (out of mappings or memory); the range
 * is then as it was.
 */
bool tri_pages_guard(void *at, size_t size);

#endif
