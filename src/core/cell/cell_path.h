/*
 * cell_path.h - the path of an actor as text: /user/bank/$1f.
 *
 * Threads: a thread that keeps the cell and its parents alive: the owner of
 * the cell, or a holder of the lock of its family.
 */
#ifndef TRI_CORE_CELL_CELL_PATH_H
#define TRI_CORE_CELL_CELL_PATH_H

#include "core/types.h"

enum {
    TRI_PATH_MAX = 512,   // bytes of a path, with the zero
    TRI_SHOWN_MAX = 256,  // bytes of a message that is shown as text
};

/*
 * Writes the path of a cell, cut to size - 1 bytes, and a zero. NULL is the
 * root, as in "/". size must not be 0.
 */
void tri_path_write(tr_system *sys, tri_cell *cell, char *buf, size_t size);

#endif
