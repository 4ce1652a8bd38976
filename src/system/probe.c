/*
 * probe.c - an outside mailbox with a ref, for tests and bridges.
 *
 * Threads: one thread at a time reads a probe; anybody may send to it.
 */
#include "core/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "core/mailbox.h"
#include "schema/print.h"
#include "system/layers.h"

tr_err tr_probe_new(tr_probe **out, tr_system *sys)
{
    *out = NULL;
    tr_probe *probe = tri_mem_calloc(&sys->mem, sizeof(*probe));
    if (probe == NULL) {
        return TR_ENOMEM;
    }
    probe->magic = TRI_PROBE_MAGIC;
    tr_err err = tri_mailbox_open(&probe->box, sys);
    if (err != TR_OK) {
        free(probe);
        return err;
    }
    // Relaxed: a count, looked at by whoever closes the system.
    atomic_fetch_add_explicit(&tri_layers_of(sys)->probes, 1,
                              memory_order_relaxed);
    *out = probe;
    return TR_OK;
}

static void drop_last(tr_probe *probe)
{
    if (probe->last == NULL) {
        return;
    }
    tri_actor_from who = tri_enter((tr_from){.probe = probe});
    tr_msg *msg = tri_msg_from(probe->last);
    if (msg->node.flags & TRI_MSG_ASK) {
        tri_answer_error(who.worker, msg, TR_ENOREPLY, NULL);
    } else {
        tri_msg_free(&who.worker->cache, msg);
    }
    tri_leave(&who);
    probe->last = NULL;
}

void tr_probe_free(tr_probe *probe)
{
    if (probe == NULL) {
        return;
    }
    drop_last(probe);
    tri_probe_unwatch_all(probe);
    tri_unsubscribe_ref(probe->box.sys, tr_probe_ref(probe));
    // Relaxed: as in tr_probe_new.
    atomic_fetch_sub_explicit(&tri_layers_of(probe->box.sys)->probes, 1,
                              memory_order_relaxed);
    tri_mailbox_close(&probe->box);
    probe->magic = 0;
    free(probe);
}

tr_ref tr_probe_ref(tr_probe *probe)
{
    return tri_cell_ref(probe->box.sys, probe->box.cell);
}

/* ---- watching ---- */

/* The probe's cell is nobody's turn: its map of watches is used directly. */
static tr_err watch_for_probe(tr_probe *probe, tr_ref target)
{
    tri_actor_from who = tri_enter((tr_from){.probe = probe});
    tr_err err =
        tri_watch_ref(who.worker, who.sys, probe->box.cell, target, false);
    tri_leave(&who);
    return err;
}

void tr_probe_watch(tr_probe *probe, tr_ref ref)
{
    if (watch_for_probe(probe, ref) != TR_OK) {
        tr_abort("tr_probe_watch", "out of memory");
    }
}

void tri_probe_unwatch_all(tr_probe *probe)
{
    tri_actor_from who = tri_enter((tr_from){.probe = probe});
    tri_unwatch_all(who.worker, probe->box.cell);
    tri_leave(&who);
}

static tr_err watch_or_not(tri_actor_from *who, tri_cell *watcher, tr_ref ref,
                           bool on)
{
    if (!on) {
        tri_unwatch_ref(who->worker, watcher, ref);
        return TR_OK;
    }
    return tri_watch_ref(who->worker, who->sys, watcher, ref, false);
}

/* A probe, or a thread that asks: its watches are under the outside's lock. */
static tr_err for_outsider(tri_actor_from *who, tr_ref watcher, tr_ref ref,
                           bool on)
{
    tr_err err = TR_OK;
    tri_cell *cell = tri_ref_cell(watcher);
    if (!who->locked) {
        tri_lock_take(&who->sys->outside_lock);
    }
    // Relaxed: it changes under the lock.
    if (atomic_load_explicit(&cell->id, memory_order_relaxed) == watcher.id) {
        err = watch_or_not(who, cell, ref, on);
    }
    if (!who->locked) {
        tri_lock_drop(&who->sys->outside_lock);
    }
    return err;
}

static void on_behalf(tr_from from, tr_ref watcher, tr_ref ref, bool on)
{
    tri_actor_from who = tri_enter(from);
    tri_cell *cell = tri_ref_cell(watcher);
    tr_system *sys = who.sys;
    tr_err err = TR_OK;
    if ((watcher.cell >> 48) != sys->tag) {
        // Nobody, or of another system: there is no one to tell.
    } else if (who.ctx != NULL && tr_ref_eq(who.sender, watcher)) {
        err = watch_or_not(&who, cell, ref, on);
    } else if (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
               TRI_CELL_OUTSIDE) {  // Relaxed: fixed at birth.
        err = for_outsider(&who, watcher, ref, on);
    } else {
        err = tri_watch_request(who.worker, sys, watcher, ref, on);
    }
    tri_leave(&who);
    if (err != TR_OK) {
        tri_logf(sys, TR_LOG_ERROR, NULL, NULL,
                 "out of memory for a %s on behalf of another",
                 on ? "watch" : "tr_unwatch_for");
    }
}

void(tr_watch_for)(tr_from from, tr_ref watcher, tr_ref ref)
{
    on_behalf(from, watcher, ref, true);
}

void(tr_unwatch_for)(tr_from from, tr_ref watcher, tr_ref ref)
{
    on_behalf(from, watcher, ref, false);
}

void(tr_probe_subscribe)(tr_probe *probe, const tr_type *type)
{
    if (tri_subscribe_ref(probe->box.sys, type, tr_probe_ref(probe)) != TR_OK) {
        tr_abort("tr_probe_subscribe", "out of memory");
    }
}

/* ---- expecting ---- */

/* A notice of an end as the message it stands for; NULL: not expected. */
static tri_node *terminated_message(tr_probe *probe, tri_watch *watch)
{
    tri_cell *cell = probe->box.cell;
    tri_actor_from who = tri_enter((tr_from){.probe = probe});
    tri_ext *ext = tri_ext_of(cell);
    tri_watching *watching =
        ext != NULL ? tri_map_get(&ext->watching, watch->key) : NULL;
    tri_node *node = NULL;
    if (watching != NULL && watching->watch == watch) {
        tri_map_remove(&ext->watching, watch->key);
        free(watching);
        tr_terminated notice = {.actor = watch->target,
                                .reason = watch->reason};
        tr_msg *msg = tri_msg_new(&who.worker->cache, &tr_terminated_tr_type,
                                  &notice, false);
        if (msg != NULL) {
            msg->sender = (tr_ref){0};
            node = &msg->node;
        }
    }
    free(watch);
    tri_leave(&who);
    return node;
}

static tri_node *next_message(tr_probe *probe, tr_nanos deadline)
{
    for (;;) {
        tri_node *node = tri_mailbox_wait(&probe->box, deadline);
        if (node == NULL || node->kind == TRI_NODE_USER ||
            node->kind == TRI_NODE_REPLY) {
            return node;
        }
        if (node->kind == TRI_NODE_TERMINATED) {
            node = terminated_message(probe, (tri_watch *)(void *)node);
            if (node != NULL) {
                return node;
            }
            continue;
        }
        tri_actor_from who = tri_enter((tr_from){.probe = probe});
        tri_mailbox_drop(who.worker, tr_probe_ref(probe), node);
        tri_leave(&who);
    }
}

static tr_nanos deadline_for(tr_probe *probe, tr_nanos timeout)
{
    return tri_deadline_outside(probe->box.sys, timeout, TR_SECONDS(3));
}

/* What came, and of whom, as far as that is known. */
static void show_got(tr_probe *probe, const tri_node *got, tri_text *out)
{
    char shown[TRI_SHOWN_MAX], path[TRI_PATH_MAX];
    const tr_msg *msg = tri_msg_from((tri_node *)(uintptr_t)got);
    if (got->flags & TRI_MSG_ERROR) {
        const tri_error_reply *error = (const void *)msg->payload;
        tri_text_add(out, "an error, %s%s%s", tr_errname(error->err),
                     error->text != NULL ? ": " : "",
                     error->text != NULL ? error->text : "");
    } else if (got->type == NULL) {
        tri_text_add(out, "what has no type");
    } else {
        tri_print(got->type, msg->payload, shown, sizeof(shown), NULL);
        tri_text_add(out, "%s", shown);
    }
    if (msg->sender.cell != 0) {
        tr_ref_path(probe, msg->sender, path, sizeof(path));
        tri_text_add(out, " from %s", path);
    }
}

static TR_NORETURN void fail_at(tr_probe *probe, const char *site,
                                const char *wanted, const tri_node *got)
{
    char text[2 * TRI_SHOWN_MAX + TRI_PATH_MAX];
    tri_text out;
    tri_text_init(&out, text, sizeof(text));
    tri_text_add(&out, "expected %s, got ", wanted);
    if (got != NULL) {
        show_got(probe, got, &out);
    } else {
        tri_text_add(&out, "nothing in time");
    }
    tr_abort(site, text);
}

const void *(tr_expect)(tr_probe *probe, tr_nanos timeout, const tr_type *type,
                        const char *site)
{
    drop_last(probe);
    tri_node *node = next_message(probe, deadline_for(probe, timeout));
    if (node == NULL || node->type == NULL ||
        node->type->schema != type->schema) {
        fail_at(probe, site, type->name, node);
    }
    probe->last = node;
    return tri_msg_from(node)->payload;
}

const tr_msg *(tr_expect_any)(tr_probe *probe, tr_nanos timeout,
                              const char *site)
{
    drop_last(probe);
    tri_node *node = next_message(probe, deadline_for(probe, timeout));
    if (node == NULL) {
        fail_at(probe, site, "a message", node);
    }
    probe->last = node;
    return tri_msg_from(node);
}

void(tr_expect_nothing)(tr_probe *probe, tr_nanos span, const char *site)
{
    drop_last(probe);
    tri_world *world = probe->box.sys->world;
    tri_node *node = next_message(probe, world->ops->mono(world) + span);
    if (node != NULL) {
        fail_at(probe, site, "nothing", node);
    }
}
