/*
 * cell_path.c - writes the path of an actor from the names of its parents.
 *
 * Invariant: the text in the buffer ends with a zero after every step, so a
 * path that does not fit is cut and never overruns.
 */
#include "core/cell/cell_path.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/cell/cell.h"
#include "core/system.h"

/*
 * Appends as much of `text` as fits, and a zero; returns the new length.
 * Without snprintf, because each save of a state writes a path.
 */
static size_t append_text(char *buf, size_t size, size_t length,
                          const char *text)
{
    TRI_CHECK(length < size);
    size_t more = strnlen(text, size - length - 1);
    memcpy(buf + length, text, more);
    buf[length + more] = '\0';
    return length + more;
}

void tri_path_write(tr_system *sys, tri_cell *cell, char *buf, size_t size)
{
    TRI_CHECK(buf != NULL && size > 0);
    if (cell == NULL || cell == sys->root) {
        (void)append_text(buf, size, 0, "/");
        return;
    }
    if (tri_cell_is_virtual(cell)) {
        (void)append_text(buf, size, 0, cell->name);
        return;
    }
    tri_cell *parent = tri_cell_parent(cell);
    size_t length = 0;
    if (parent != NULL && parent != sys->root) {
        tri_path_write(sys, parent, buf, size);
        length = strlen(buf);
    }
    if (length + 1 >= size) {
        return;
    }
    if (cell->name != NULL) {
        length = append_text(buf, size, length, "/");
        (void)append_text(buf, size, length, cell->name);
    } else {
        // Relaxed: the cell is alive.
        snprintf(buf + length, size - length, "/$%llx",
                 (unsigned long long)atomic_load_explicit(
                     &cell->id, memory_order_relaxed));
    }
}
