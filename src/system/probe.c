/*
 * probe.c - an outside box with a ref, for tests and bridges; and watching on
 * behalf of another actor (tr_watch_for).
 *
 * Threads: one thread at a time reads a probe; any may send to it.
 */
#include "system/probe.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/text.h"
#include "base/world.h"
#include "core/ask/answer.h"
#include "core/ask/error_text.h"
#include "core/ask/outside_box.h"
#include "core/ask/probe.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/life/watch.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"
#include "schema/print.h"
#include "system/events.h"
#include "system/layers.h"
#include "system/system_log.h"
#include "troupe/message.h"
#include "troupe/observe.h"
#include "troupe/supervise.h"
#include "troupe/test.h"

bool tri_probes_are_open(tr_system *sys)
{
    tri_probes *probes = &tri_layers_of(sys)->probes;
    tri_lock_take(&probes->lock);
    bool any = !tri_list_is_empty(&probes->open);
    tri_lock_drop(&probes->lock);
    return any;
}

void tri_probes_free_all(tr_system *sys)
{
    tri_probes *probes = &tri_layers_of(sys)->probes;
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    for (;;) {
        tri_lock_take(&probes->lock);
        tri_link *first = tri_list_first(&probes->open);
        tri_lock_drop(&probes->lock);
        if (first == NULL) {
            return;
        }
        tr_probe_free(tri_list_item(first, tr_probe, link));
    }
}

/* Puts the probe into the list of open probes, or takes it out. */
static void set_open(tr_probe *probe, bool open)
{
    tri_probes *probes = &tri_layers_of(probe->box.sys)->probes;
    tri_lock_take(&probes->lock);
    if (open) {
        tri_list_push_back(&probes->open, &probe->link);
    } else {
        tri_list_remove(&probe->link);
    }
    tri_lock_drop(&probes->lock);
}

tr_err tr_probe_new(tr_probe **out, tr_system *sys)
{
    TRI_CHECK(out != NULL);
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    *out = NULL;
    tr_probe *probe = tri_mem_calloc(&sys->mem, sizeof(*probe));
    if (probe == NULL) {
        return TR_ENOMEM;
    }
    probe->magic = TRI_PROBE_MAGIC;
    tr_err err = tri_outside_box_open(&probe->box, sys);
    if (err != TR_OK) {
        free(probe);
        return err;
    }
    set_open(probe, true);
    *out = probe;
    return TR_OK;
}

/* Ends the loan of the last message; a request without a reply gets an error. */
static void drop_last(tr_probe *probe)
{
    TRI_CHECK(probe->magic == TRI_PROBE_MAGIC);
    if (probe->last == NULL) {
        return;
    }
    tri_caller who = tri_enter((tr_from){.probe = probe});
    tr_msg *msg = tri_msg_from(probe->last);
    if ((msg->item.flags & (TRI_MSG_ASK | TRI_MSG_ANSWERED)) == TRI_MSG_ASK) {
        tri_answer_error(who.worker, msg, TR_ENOREPLY, NULL);
    } else {
        tri_msg_free(&who.worker->cache, msg);
    }
    tri_leave(&who);
    probe->last = NULL;
}

static void unwatch_all(tr_probe *probe)
{
    tri_caller who = tri_enter((tr_from){.probe = probe});
    tri_unwatch_all(who.worker, probe->box.cell);
    tri_leave(&who);
}

void tr_probe_free(tr_probe *probe)
{
    if (probe == NULL) {
        return;
    }
    drop_last(probe);
    unwatch_all(probe);
    tri_events_unsubscribe_all(probe->box.sys, tr_probe_ref(probe));
    set_open(probe, false);
    tri_outside_box_close(&probe->box);
    probe->magic = 0;
    free(probe);
}

tr_ref tr_probe_ref(tr_probe *probe)
{
    TRI_CHECK(probe->magic == TRI_PROBE_MAGIC);
    return tri_cell_ref(probe->box.sys, probe->box.cell);
}

/* ---- watching ---- */

void tr_probe_watch(tr_probe *probe, tr_ref ref)
{
    TRI_CHECK(probe->magic == TRI_PROBE_MAGIC);
    // No turn owns the probe's cell: its map of watches is changed directly,
    // under the lock of tri_enter.
    tri_caller who = tri_enter((tr_from){.probe = probe});
    tr_err err =
        tri_watch_ref(who.worker, who.sys, probe->box.cell, ref, false);
    tri_leave(&who);
    if (err != TR_OK) {
        tr_abort("tr_probe_watch", "out of memory");
    }
}

/* Starts a watch, or ends it if `on` is false. */
static tr_err set_watch(tri_caller *who, tri_cell *watcher, tr_ref ref, bool on)
{
    if (!on) {
        tri_unwatch_ref(who->worker, watcher, ref);
        return TR_OK;
    }
    return tri_watch_ref(who->worker, who->sys, watcher, ref, false);
}

/*
 * For a probe or a thread that asks: its watches are protected by the lock of
 * the outside worker.
 */
static tr_err set_watch_outside(tri_caller *who, tr_ref watcher, tr_ref ref,
                                bool on)
{
    tr_err err = TR_OK;
    tri_cell *cell = tri_ref_cell(watcher);
    if (!who->locked) {
        tri_lock_take(&who->sys->outside_lock);
    }
    // Relaxed: the id of an outside box changes under the lock.
    if (atomic_load_explicit(&cell->id, memory_order_relaxed) == watcher.id) {
        err = set_watch(who, cell, ref, on);
    }
    if (!who->locked) {
        tri_lock_drop(&who->sys->outside_lock);
    }
    return err;
}

/* Starts or ends a watch of `ref` for the actor, probe or thread `watcher`. */
static void set_watch_for(tr_from from, tr_ref watcher, tr_ref ref, bool on)
{
    tri_caller who = tri_enter(from);
    tri_cell *cell = tri_ref_cell(watcher);
    tr_system *sys = who.sys;
    tr_err err = TR_OK;
    if (!tri_ref_is_here(sys, watcher)) {
        // Nobody, or from another system: nothing can be delivered to it.
    } else if (who.ctx != NULL && tr_ref_eq(who.sender, watcher)) {
        err = set_watch(&who, cell, ref, on);
    } else if (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
               TRI_CELL_OUTSIDE) {  // Relaxed: fixed at birth.
        err = set_watch_outside(&who, watcher, ref, on);
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
    set_watch_for(from, watcher, ref, true);
}

void(tr_unwatch_for)(tr_from from, tr_ref watcher, tr_ref ref)
{
    set_watch_for(from, watcher, ref, false);
}

void(tr_probe_subscribe)(tr_probe *probe, const tr_type *type)
{
    if (tri_events_subscribe(probe->box.sys, type, tr_probe_ref(probe)) !=
        TR_OK) {
        tr_abort("tr_probe_subscribe", "out of memory");
    }
}

/* ---- expecting ---- */

/*
 * Makes the message tr_terminated out of a notice, which it takes. Returns
 * NULL if the watch has ended meanwhile or there is no memory.
 */
static tri_item *terminated_message(tr_probe *probe, tri_watch *watch)
{
    tri_cell *cell = probe->box.cell;
    tri_caller who = tri_enter((tr_from){.probe = probe});
    tri_ext *ext = tri_ext_of(cell);
    tri_watching *watching =
        ext != NULL ? tri_map_get(&ext->watch.watching, watch->key) : NULL;
    tri_item *item = NULL;
    if (watching != NULL && watching->watch == watch) {
        tri_map_remove(&ext->watch.watching, watch->key);
        free(watching);
        tr_terminated notice = {.actor = watch->target,
                                .reason = watch->reason};
        tr_msg *msg = tri_msg_new(&who.worker->cache, &tr_terminated_tr_type,
                                  &notice, false);
        if (msg != NULL) {
            msg->sender = (tr_ref){0};
            item = &msg->item;
        }
    }
    free(watch);
    tri_leave(&who);
    return item;
}

/* Returns the next message, or NULL at the deadline. Drops all other items. */
static tri_item *next_message(tr_probe *probe, tr_nanos deadline)
{
    for (;;) {
        tri_item *item = tri_outside_box_wait(&probe->box, deadline);
        if (item == NULL || item->kind == TRI_ITEM_USER ||
            item->kind == TRI_ITEM_REPLY) {
            return item;
        }
        if (item->kind == TRI_ITEM_TERMINATED) {
            item = terminated_message(probe, (tri_watch *)(void *)item);
            if (item != NULL) {
                return item;
            }
            continue;
        }
        tri_caller who = tri_enter((tr_from){.probe = probe});
        tri_outside_box_drop(who.worker, tr_probe_ref(probe), item);
        tri_leave(&who);
    }
}

static tr_nanos deadline_for(tr_probe *probe, tr_nanos timeout)
{
    return tri_deadline_outside(probe->box.sys, timeout, TR_SECONDS(3));
}

/* Adds the message that came instead, and its sender if that is known. */
static void show_got(tr_probe *probe, const tri_item *got, tri_text *out)
{
    char shown[TRI_SHOWN_MAX], path[TRI_PATH_MAX];
    const tr_msg *msg = tri_msg_from((tri_item *)(uintptr_t)got);
    if (got->flags & TRI_MSG_ERROR) {
        const tri_error_reply *error = (const void *)msg->payload;
        tri_text_add(out, "an error, %s%s%s", tr_errname(error->err),
                     error->text != NULL ? ": " : "",
                     error->text != NULL ? error->text : "");
    } else if (got->type == NULL) {
        tri_text_add(out, "a message without a type");
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
                                const char *wanted, const tri_item *got)
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
    TRI_CHECK(type != NULL);
    drop_last(probe);
    tri_item *item = next_message(probe, deadline_for(probe, timeout));
    if (item == NULL || item->type == NULL ||
        item->type->schema != type->schema) {
        fail_at(probe, site, type->name, item);
    }
    probe->last = item;
    return tri_msg_from(item)->payload;
}

const tr_msg *(tr_expect_any)(tr_probe *probe, tr_nanos timeout,
                              const char *site)
{
    drop_last(probe);
    tri_item *item = next_message(probe, deadline_for(probe, timeout));
    if (item == NULL) {
        fail_at(probe, site, "a message", item);
    }
    probe->last = item;
    return tri_msg_from(item);
}

void(tr_expect_nothing)(tr_probe *probe, tr_nanos span, const char *site)
{
    drop_last(probe);
    tri_world *world = probe->box.sys->world;
    tri_item *item = next_message(probe, world->ops->mono(world) + span);
    if (item != NULL) {
        fail_at(probe, site, "nothing", item);
    }
}

tr_err(tr_probe_reply)(tr_probe *probe, const void *m, const void *payload)
{
    tr_msg *msg = tri_msg_of(m);
    TRI_CHECK(probe->magic == TRI_PROBE_MAGIC);
    if (probe->last == NULL || tri_msg_from(probe->last) != msg) {
        tri_error_set(NULL, "tr_probe_reply: the message is not the last one "
                            "that this probe has returned");
        return TR_EINVAL;
    }
    tri_caller who = tri_enter((tr_from){.probe = probe});
    tr_err err =
        tri_answer_borrow(who.worker, msg, tr_probe_ref(probe), payload);
    tri_leave(&who);
    return err;
}
