/*
 * ref.h - the two parts of tr_ref.cell: the address of the cell in the low 48
 * bits, the tag of its system above.
 *
 * Threads: any.
 */
#ifndef TRI_CORE_CELL_REF_H
#define TRI_CORE_CELL_REF_H

#include "core/types.h"

/* Returns the address in the ref; 0 if the ref names no actor. */
static inline uintptr_t tri_ref_pointer(tr_ref ref)
{
    return (uintptr_t)(ref.cell & UINT64_C(0xffffffffffff));
}

/*
 * Returns the cell. Only for a ref of the caller's system (tri_ref_is_here):
 * the memory of another system may be unmapped.
 */
static inline tri_cell *tri_ref_cell(tr_ref ref)
{
    return (tri_cell *)tri_ref_pointer(ref);
}

#endif
