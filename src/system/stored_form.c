/*
 * stored_form.c - how the actors of a system store values: refs as names.
 */
#include "system/stored_form.h"

#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "core/cell/cell.h"
#include "core/cell/props.h"
#include "core/cell/ref.h"
#include "core/run/context.h"
#include "core/system.h"
#include "core/up.h"
#include "schema/codec.h"

static size_t ref_to_text(void *user, tr_ref ref, char *buf, size_t size)
{
    tr_system *sys = user;
    tri_cell *cell = tri_ref_cell(ref);
    char name[TRI_REF_TEXT_MAX + 1];

    if (cell == NULL || !tri_ref_is_here(sys, ref) ||
        !tri_cell_is_virtual(cell) ||
        !tri_virtual_ops_of(sys)->name(sys, cell, ref.id, name, sizeof(name))) {
        return 0;
    }
    size_t length = strlen(name);
    if (length <= size) {
        memcpy(buf, name, length);
    }
    return length;
}

static bool ref_from_text(void *user, const char *text, size_t size,
                          tr_ref *out)
{
    tr_system *sys = user;
    char name[TRI_REF_TEXT_MAX + 1];

    if (size > TRI_REF_TEXT_MAX) {
        return false;
    }
    memcpy(name, text, size);
    name[size] = '\0';
    *out = sys->virtual_named((tr_from){.sys = sys}, name);
    return out->cell != 0;
}

tri_stored_form tri_stored_form_of(tr_system *sys,
                                   const tr_serializer *serializer)
{
    TRI_CHECK(sys->virtual_named != NULL);
    return (tri_stored_form){
        .serializer = serializer != NULL ? serializer : &tr_serializer_json,
        .refs = {
            .to_text = ref_to_text, .from_text = ref_from_text, .user = sys}};
}

tri_stored_form tri_state_form(tr_ctx *ctx)
{
    const tri_props *props = ctx->cell->props;
    return tri_stored_form_of(ctx->sys,
                              props != NULL ? props->serializer : NULL);
}
