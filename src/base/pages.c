/*
 * pages.c - the one file that maps memory.
 *
 * Invariant: a guard never costs a mapping where the kernel can avoid it.
 * MADV_GUARD_INSTALL marks page table entries, so neighbouring ranges stay
 * one mapping; mprotect splits them, two mappings for each guarded stack, of
 * the 65,530 that a process may have by default (vm.max_map_count).
 */
#include "base/pages.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"

// MADV_GUARD_INSTALL of Linux 6.13, newer than the C libraries we build with.
#define ADVICE_GUARD_INSTALL 102
// An advice that means nothing. Whoever takes it takes any, without heed:
// user-mode emulators do.
#define ADVICE_NONSENSE 12345

static bool is_page_aligned(const void *at)
{
    return ((uintptr_t)at & (tri_page_size() - 1)) == 0;
}

size_t tri_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

void *tri_pages_map(size_t size)
{
    TRI_CHECK(size > 0);

    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

void tri_pages_unmap(void *at, size_t size)
{
    TRI_CHECK(is_page_aligned(at));
    if (munmap(at, size) == 0) {
        return;
    }
    // Taking a piece out of the middle makes one mapping more, which can be
    // one too many: then the address range is lost, but not its memory.
    TRI_CHECK(errno == ENOMEM);
    tri_pages_discard(at, size);
}

void tri_pages_huge(void *at, size_t size)
{
    TRI_CHECK(is_page_aligned(at));
    (void)madvise(at, size, MADV_HUGEPAGE);
}

void tri_pages_discard(void *at, size_t size)
{
    TRI_CHECK(is_page_aligned(at));
    (void)madvise(at, size, MADV_DONTNEED);
}

bool tri_pages_guard(void *at, size_t size)
{
    TRI_CHECK(is_page_aligned(at));
    // Refused by older kernels and for locked memory; mprotect serves both.
    bool heeds = madvise(at, size, ADVICE_NONSENSE) != 0;
    return (heeds && madvise(at, size, ADVICE_GUARD_INSTALL) == 0) ||
           mprotect(at, size, PROT_NONE) == 0;
}
