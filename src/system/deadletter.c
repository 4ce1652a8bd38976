/*
 * deadletter.c - messages that nobody handles: counted, kept, told.
 *
 * A ring keeps the newest records (X41); the log tells the first few of each
 * second and how many there were besides; subscribers of tr_dead_letter get
 * each one. A request among them is answered with the error that fits.
 */
#include <stdio.h>
#include <string.h>

#include "system/layers.h"

const char *tr_dead_reason_text(uint32_t reason)
{
    switch (reason) {
#define TR_X(name, number, text)                                               \
    case number:                                                               \
        return text;
        TR_DEAD_REASONS(TR_X)
#undef TR_X
    default:
        return "unknown reason";
    }
}

/* Whose place is known had an actor; where it lives there is no such name. */
static tr_err nobody_there(tr_ref to)
{
    tri_cell *cell = tri_ref_cell(to);
    // Relaxed: an id that is gone does not come back.
    return cell == NULL || (atomic_load_explicit(
                                &cell->id, memory_order_relaxed) == to.id &&
                            !tri_cell_is_zombie(cell))
               ? TR_ENOENT
               : TR_EGONE;
}

static tr_err answer_for(tr_ref to, uint32_t reason)
{
    switch (reason) {
    case TR_DEAD_FULL:
    case TR_DEAD_DROPPED_OLD:
        return TR_EFULL;
    case TR_DEAD_EXPIRED:
        return TR_ETIMEDOUT;
    case TR_DEAD_RESTARTED:
        return TR_ERESTARTED;
    case TR_DEAD_FOREIGN:
        return TR_EFOREIGN;
    case TR_DEAD_CLOSED:
        return TR_ECLOSED;
    case TR_DEAD_NO_MEMORY:
        return TR_ENOMEM;
    case TR_DEAD_UNHANDLED:
        return TR_EUNHANDLED;
    case TR_DEAD_FAILED:
        return TR_EFAILED;
    case TR_DEAD_NO_SUCH_ACTOR:
        return nobody_there(to);
    case TR_DEAD_UNREACHABLE:
        return TR_EUNREACHABLE;
    case TR_DEAD_UNKNOWN:
        return TR_EUNKNOWN;
    case TR_DEAD_FORWARDED:
        return TR_ELIMIT;
    default:
        return TR_EGONE;
    }
}

/* Keeps the record; *silent: how many were not logged before this one. */
static bool keep_record(tr_system *sys, tr_ref to, tr_ref sender,
                        const char *type, uint32_t reason, uint32_t *silent)
{
    tri_layers *layers = tri_layers_of(sys);
    tr_nanos now = sys->world->ops->mono(sys->world);
    tri_lock_take(&layers->dead_lock);
    tri_dead_record *record =
        &layers->dead[layers->dead_count++ % TRI_DEAD_RING];
    record->to = to;
    record->sender = sender;
    snprintf(record->type, sizeof(record->type), "%s", type);
    record->reason = reason;
    record->at = now;
    if (layers->dead_window == 0 || now - layers->dead_window > TR_SECONDS(1)) {
        layers->dead_window = now;
        layers->dead_logged = 0;
    }
    bool told = layers->dead_logged < TRI_DEAD_LOGGED;
    if (told) {
        layers->dead_logged++;
        *silent = layers->dead_silent;
        layers->dead_silent = 0;
    } else {
        layers->dead_silent++;
    }
    tri_lock_drop(&layers->dead_lock);
    return told;
}

static void log_record(tr_system *sys, tr_ref to, const char *type,
                       uint32_t reason, uint32_t silent)
{
    char path[TRI_PATH_MAX], room[TRI_ADVICE_MAX];
    tr_ref_path(sys, to, path, sizeof(path));
    if (silent > 0) {
        tri_logf(sys, TR_LOG_WARN, NULL, NULL,
                 "%u dead letters more were not logged", silent);
    }
    tri_logf(sys, TR_LOG_INFO, NULL, NULL, "dead letter: %s to %s: %s%s", type,
             path, tr_dead_reason_text(reason),
             reason == TR_DEAD_NO_SUCH_ACTOR
                 ? tri_advice(sys, nobody_there(to), to, room, sizeof(room))
                 : "");
}

static bool is_quiet(uint32_t reason)
{
    // Replies nobody waits for and cancelled work are no news by default.
    return reason == TR_DEAD_LATE || reason == TR_DEAD_CANCELLED ||
           reason == TR_DEAD_FAILED;
}

void tri_dead_letter(tri_worker *worker, tr_ref to, tr_msg *msg,
                     uint32_t reason)
{
    tr_system *sys = worker->sys;
    const char *type = msg->node.type != NULL ? msg->node.type->name : "error";
    bool is_event = msg->node.type != NULL &&
                    msg->node.type->schema == tr_dead_letter_tr_type.schema;
    if (msg->node.flags & TRI_MSG_TIMER) {
        type = "timer";
    }
    uint32_t silent = 0;
    bool told = keep_record(sys, to, msg->sender, type, reason, &silent);
    if (told && !is_quiet(reason)) {
        log_record(sys, to, type, reason, silent);
    }
    if (!is_event && tri_event_wanted(sys, &tr_dead_letter_tr_type)) {
        tri_event(worker, &tr_dead_letter_tr_type,
                  &(tr_dead_letter){.to = to,
                                    .sender = msg->sender,
                                    .type = type,
                                    .text = tr_dead_reason_text(reason),
                                    .reason = reason,
                                    .at = sys->world->ops->mono(sys->world)});
    }
    tri_answer_error(worker, msg, answer_for(to, reason),
                     tr_dead_reason_text(reason));
}

void tri_dead_letter_lost(tr_system *sys, tr_ref to, const tr_type *type,
                          uint32_t reason)
{
    uint32_t silent = 0;
    if (keep_record(sys, to, (tr_ref){0}, type->name, reason, &silent)) {
        log_record(sys, to, type->name, reason, silent);
    }
}

/* ---- looking at them ---- */

size_t tr_dead_letters(tr_system *sys, tr_dead_info *out, size_t max)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tri_layers *layers = tri_layers_of(sys);
    tri_lock_take(&layers->dead_lock);
    size_t kept = layers->dead_count < TRI_DEAD_RING
                      ? (size_t)layers->dead_count
                      : TRI_DEAD_RING;
    for (size_t i = 0; i < kept && i < max; i++) {
        const tri_dead_record *record =
            &layers->dead[(layers->dead_count - 1 - i) % TRI_DEAD_RING];
        out[i] = (tr_dead_info){.size = sizeof(out[i]),
                                .to = record->to,
                                .sender = record->sender,
                                .reason = record->reason,
                                .at = record->at};
        memcpy(out[i].type, record->type, sizeof(out[i].type));
    }
    tri_lock_drop(&layers->dead_lock);
    return kept;
}
