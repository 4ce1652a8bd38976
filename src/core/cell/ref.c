/*
 * ref.c - comparing refs, and the error in a ref that names no actor.
 *
 * Invariant: if ref.cell is 0, ref.id holds an error code, or 0 (TR_NOBODY).
 */
#include "core/cell/ref.h"

bool tr_ref_eq(tr_ref a, tr_ref b)
{
    // If both name no actor they are equal, whatever their error codes.
    return a.cell == b.cell && (a.id == b.id || a.cell == 0);
}

tr_err tr_ref_err(tr_ref ref)
{
    return ref.cell == 0 ? (tr_err)ref.id : TR_OK;
}

bool tr_ref_is_nobody(tr_ref ref)
{
    return tri_ref_cell(ref) == NULL;
}
