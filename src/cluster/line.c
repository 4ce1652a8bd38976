/*
 * line.c - who may load its state now, and who stands in line.
 *
 * Whoever waits for a store has a stack, and there are max_parked of those for
 * everything in a system. So only `max` activations load at a time.
 *
 * Invariant: while anybody stands in line somebody loads, and whoever leaves
 * calls the next one. Those who must load, whatever the line says (mail was
 * left at the end of a life), count all the same.
 */
#include "cluster/catalog.h"

void tri_line_count(tri_line *line)
{
    tri_lock_take(&line->lock);
    line->loading++;
    tri_lock_drop(&line->lock);
}

bool tri_line_join(tri_line *line, tri_virtual *v)
{
    TRI_CHECK(!v->waits);
    tri_lock_take(&line->lock);
    bool full = line->loading >= line->max;
    if (full) {
        v->line_next = NULL;
        v->waits = 1;
        if (line->first == NULL) {
            line->first = v;
        } else {
            line->last->line_next = v;
        }
        line->last = v;
    }
    tri_lock_drop(&line->lock);
    return full;
}

bool tri_line_leave(tri_line *line)
{
    tri_lock_take(&line->lock);
    TRI_CHECK(line->loading > 0);
    line->loading--;
    bool waiting = line->first != NULL;
    tri_lock_drop(&line->lock);
    return waiting;
}

tri_virtual *tri_line_next(tri_line *line)
{
    tri_virtual *v = NULL;
    tri_lock_take(&line->lock);
    if (line->loading < line->max && line->first != NULL) {
        v = line->first;
        line->first = v->line_next;
    }
    tri_lock_drop(&line->lock);
    return v;
}
