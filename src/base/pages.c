/*
 * pages.c - maps and unmaps memory.
 *
 * Guards use MADV_GUARD_INSTALL if the kernel has it: it marks page table
 * entries, so neighbouring ranges stay one mapping. mprotect splits them: each
 * guarded stack then takes two mappings of the 65,530 that a process may have
 * by default (vm.max_map_count).
 */
#include "base/pages.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"

// MADV_GUARD_INSTALL of Linux 6.13, which older C libraries do not define.
#define ADVICE_GUARD_INSTALL 102
// An advice that no kernel knows. A system that accepts it ignores every
// advice; user-mode emulators do.
#define ADVICE_UNKNOWN 12345

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
    // Unmapping the middle of a mapping splits it, which fails at the limit of
    // mappings. Then the range stays reserved, but its memory is given back.
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
    // Older kernels refuse a guard, and all refuse it for locked memory; there
    // mprotect does it.
    bool knows_advice = madvise(at, size, ADVICE_UNKNOWN) != 0;
    return (knows_advice && madvise(at, size, ADVICE_GUARD_INSTALL) == 0) ||
           mprotect(at, size, PROT_NONE) == 0;
}
