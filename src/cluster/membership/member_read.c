/*
 * member_read.c - reading the rows of the cluster, and telling what has
 * changed.
 *
 * A read asks for what is newer than the copy. It begins when the engine hints
 * at a change, after every write, and every lease / 6, because hints may be
 * missing.
 */
#include "cluster/membership/member_parts.h"

/* Tells which incarnations of the view before are not in this one. */
static void tell_dead(tri_membership *it, const tri_view *before,
                      const tri_view *view)
{
    for (uint32_t i = 0; before != NULL && i < before->slots; i++) {
        tri_node node = {i, before->members[i].incarnation};
        if (node.incarnation != 0 && !tri_view_has(view, node)) {
            it->calls->dead(it->user, node);
        }
    }
}

/* Tells a new view, if the table has changed; later if there is no memory. */
void tri_member_publish(tri_membership *it)
{
    if (it->published == it->rows.table_revision) {
        return;
    }
    tri_view *view = tri_rows_view(&it->rows);
    if (view == NULL) {
        return;
    }
    it->published = view->revision;
    tri_lock_take(&it->lock);
    tri_view *before = it->view;
    it->view = view;
    tri_lock_drop(&it->lock);
    tell_dead(it, before, view);
    it->calls->view_changed(it->user, view);
    tri_view_drop(before);
}

/* Marks the nodes whose beat was unchanged for too long at the time `sent`. */
static void mark_suspects(tri_membership *it, tr_nanos sent)
{
    tr_nanos limit = it->lease / TRI_LEASE_RENEWALS * TRI_LEASE_DEAD;

    for (uint32_t i = 0; i < it->rows.slots; i++) {
        tri_member_row *row = &it->rows.members[i];
        row->is_suspect =
            row->record.incarnation != 0 && sent - row->seen >= limit;
    }
}

/* Ends for good: this version cannot be a member of that cluster. */
static void refuse(tri_membership *it, const char *text)
{
    tri_member_set_why(it, text);
    it->is_refused = true;
    if (tri_member_state_of(it) != TRI_MEMBER_LEFT) {
        tri_member_own_end(it);
        tri_member_set_state(it, TRI_MEMBER_LEFT);
    }
}

void tri_member_read_answered(tri_membership *it, tr_nanos now)
{
    char why[TRI_ROWS_TEXT_MAX];
    uint64_t before = it->rows.table_revision;

    if (it->read.op.answer != TRI_ENGINE_YES) {
        it->needs_read = true;
        it->read_retry = now + it->lease / TRI_LEASE_RETRIES;
        return;
    }
    tr_err err = tri_rows_merge(&it->rows, &it->read.op, now, why);
    tri_engine_op_fini(&it->read.op);
    it->read_due = now + tri_member_renewal_span(it);
    if (err != TR_OK) {
        refuse(it, why);
        return;
    }
    if (it->rows.table_revision != before) {
        it->table_changed = now;
    }
    mark_suspects(it, it->read.sent);
    if (it->read_resolves && it->is_cas_unknown) {
        tri_member_own_resolve(it, now);
    }
}

void tri_member_read_step(tri_membership *it, tr_nanos now)
{
    if (it->is_stopping || it->read.is_busy || now < it->read_retry ||
        !(it->needs_read || now >= it->read_due)) {
        return;
    }
    it->needs_read = false;
    // A read that began before the answer came cannot show whether the CAS
    // has committed.
    it->read_resolves = it->is_cas_unknown;
    it->read.op = (tri_engine_op){.call = TRI_ENGINE_RANGE,
                                  .key = it->prefix,
                                  .after = it->rows.revision};
    tri_member_task_submit(&it->read, now);
}
