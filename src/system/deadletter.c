/*
 * deadletter.c - messages that no actor handles: counted, kept, logged and
 * published.
 *
 * A ring keeps the newest records. The log gets the first few of each second
 * and then the number of those left out. Subscribers of tr_dead_letter get
 * every one. A request among them is answered with the error that fits the
 * reason.
 */
#include "system/deadletter.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/world.h"
#include "core/ask/answer.h"
#include "core/ask/error_text.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "schema/pack.h"
#include "schema/print.h"
#include "system/events.h"
#include "system/layers.h"
#include "system/system_log.h"
#include "troupe/message.h"
#include "troupe/observe.h"
#include "troupe/system.h"

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

/*
 * Returns TR_EGONE if the actor that `to` names has ended, and TR_ENOENT if
 * there never was one: `to` is nobody, or a virtual actor that is not hosted.
 */
static tr_err error_of_missing(tr_ref to)
{
    tri_cell *cell = tri_ref_cell(to);
    // Relaxed: ids are never reused, so a stale value only says "gone".
    return cell == NULL || (atomic_load_explicit(
                                &cell->id, memory_order_relaxed) == to.id &&
                            !tri_cell_is_zombie(cell))
               ? TR_ENOENT
               : TR_EGONE;
}

/*
 * Returns the error for the asker of a request that became a dead letter for
 * this reason.
 */
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
        return error_of_missing(to);
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

tr_err tri_dead_letters_init(tri_dead_letters *dead, uint32_t size)
{
    if (size > TRI_DEAD_RING_MAX) {
        tri_error_set(NULL, "tr_system_open: .dead_letters is above %d",
                      TRI_DEAD_RING_MAX);
        return TR_EINVAL;
    }
    dead->size = size != 0 ? size : TRI_DEAD_RING;
    dead->ring = calloc(dead->size, sizeof(*dead->ring));
    return dead->ring != NULL ? TR_OK : TR_ENOMEM;
}

void tri_dead_letters_fini(tri_dead_letters *dead)
{
    free(dead->ring);
    dead->ring = NULL;
}

/*
 * Adds a record to the ring. Returns true if it is to be logged; then
 * *suppressed is the number of records before it that were not.
 */
static bool keep_record(tr_system *sys, tr_ref to, tr_ref sender,
                        const char *type, const char *content, uint32_t reason,
                        uint32_t *suppressed)
{
    TRI_CHECK(type != NULL);
    TRI_CHECK(suppressed != NULL);
    tri_dead_letters *dead = &tri_layers_of(sys)->dead;
    tr_nanos now = sys->world->ops->mono(sys->world);
    tri_lock_take(&dead->lock);
    tri_dead_record *record = &dead->ring[dead->count++ % dead->size];
    record->to = to;
    record->sender = sender;
    snprintf(record->type, sizeof(record->type), "%s", type);
    snprintf(record->content, sizeof(record->content), "%s", content);
    record->reason = reason;
    record->at = now;
    if (dead->window == 0 || now - dead->window > TR_SECONDS(1)) {
        dead->window = now;
        dead->logged = 0;
    }
    bool logged = dead->logged < TRI_DEAD_LOGGED;
    if (logged) {
        dead->logged++;
        *suppressed = dead->suppressed;
        dead->suppressed = 0;
    } else {
        dead->suppressed++;
    }
    tri_lock_drop(&dead->lock);
    return logged;
}

static void log_record(tr_system *sys, tr_ref to, const char *type,
                       uint32_t reason, uint32_t suppressed)
{
    char path[TRI_PATH_MAX], room[TRI_ADVICE_MAX];
    tr_ref_path(sys, to, path, sizeof(path));
    if (suppressed > 0) {
        tri_logf(sys, TR_LOG_WARN, NULL, NULL,
                 "%u dead letters more were not logged", suppressed);
    }
    tri_logf(sys, TR_LOG_INFO, NULL, NULL, "dead letter: %s to %s: %s%s", type,
             path, tr_dead_reason_text(reason),
             reason == TR_DEAD_NO_SUCH_ACTOR
                 ? tri_advice(sys, error_of_missing(to), to, room, sizeof(room))
                 : "");
}

/* True for reasons that are common in a healthy system and not logged. */
static bool is_quiet(uint32_t reason)
{
    return reason == TR_DEAD_LATE || reason == TR_DEAD_CANCELLED ||
           reason == TR_DEAD_FAILED;
}

/* ---- the message itself ---- */

/* The release function of the blob in an event. */
static void copy_free(void *user, void *data, size_t size)
{
    tr_msg *copy = data;
    (void)user, (void)size;
    if (copy->item.flags & TRI_MSG_BLOBS) {
        tri_pack_release(copy->item.type, copy->payload);
    }
    free(copy);
}

/*
 * Returns a copy of the message from malloc, which any thread may free; NULL
 * without memory, or if it is an error.
 */
static tr_msg *copy_of(const tr_msg *msg)
{
    const tr_type *type = msg->item.type;
    if (type == NULL || (msg->item.flags & TRI_MSG_ERROR)) {
        return NULL;
    }
    size_t head = (type->size + 15u) & ~(size_t)15;
    size_t tail = type->var_count > 0 ? tri_pack_size(type, msg->payload) : 0;
    if (tail == SIZE_MAX) {
        return NULL;
    }
    size_t size = sizeof(tr_msg) + head + tail + TRI_BLOCK_ALIGN - 1;
    tr_msg *copy = aligned_alloc(TRI_BLOCK_ALIGN,
                                 size / TRI_BLOCK_ALIGN * TRI_BLOCK_ALIGN);
    if (copy == NULL) {
        return NULL;
    }
    memset(copy, 0, sizeof(*copy));
    copy->item.type = type;
    copy->item.kind = TRI_ITEM_USER;
    copy->sender = msg->sender;
    copy->to_id = msg->to_id;
    if (type->var_count > 0) {
        tri_pack(type, copy->payload, msg->payload, copy->payload + head);
        copy->item.flags = TRI_MSG_BLOBS;
    } else {
        memcpy(copy->payload, msg->payload, type->size);
    }
    return copy;
}

/* Returns a blob that holds a copy of the message, or no blob. */
static tr_blob blob_of(tr_system *sys, const tr_msg *msg)
{
    tr_blob blob = {NULL};
    tr_msg *copy = copy_of(msg);
    // Size 0: the content is for tr_dead_message alone.
    if (copy != NULL &&
        tr_blob_adopt(sys, &blob, copy, 0, copy_free, NULL) != TR_OK) {
        copy_free(NULL, copy, 0);
    }
    return blob;
}

const tr_msg *(tr_dead_message)(tr_blob message)
{
    return tr_blob_bytes(message).at;
}

/* Writes the content of the message, printed, to buf; "" for an error. */
static void print_content(const tr_msg *msg, char *buf, size_t size)
{
    buf[0] = '\0';
    if (msg->item.type != NULL && !(msg->item.flags & TRI_MSG_ERROR)) {
        tri_print(msg->item.type, msg->payload, buf, size, NULL);
    }
}

/* Publishes a dead letter. */
static void publish(tri_worker *worker, tr_ref to, const tr_msg *msg,
                    const char *type, const char *content, uint32_t reason)
{
    tr_system *sys = worker->sys;
    tr_dead_letter letter = {.to = to,
                             .sender = msg->sender,
                             .type = type,
                             .text = tr_dead_reason_text(reason),
                             .reason = reason,
                             .at = sys->world->ops->mono(sys->world),
                             .content = content,
                             .message = blob_of(sys, msg)};
    tri_event(worker, &tr_dead_letter_tr_type, &letter);
    tr_blob_drop(letter.message);
}

void tri_dead_letter(tri_worker *worker, tr_ref to, tr_msg *msg,
                     uint32_t reason)
{
    TRI_CHECK(worker != NULL);
    TRI_CHECK(msg != NULL);
    tr_system *sys = worker->sys;
    const char *type = msg->item.type != NULL ? msg->item.type->name : "error";
    // A dead event about a dead letter is not published: no endless chain.
    bool is_event = msg->item.type != NULL &&
                    msg->item.type->schema == tr_dead_letter_tr_type.schema;
    if (msg->item.flags & TRI_MSG_TIMER) {
        type = "timer";
    }
    uint32_t suppressed = 0;
    char content[TR_DEAD_CONTENT_SIZE];
    print_content(msg, content, sizeof(content));
    bool logged =
        keep_record(sys, to, msg->sender, type, content, reason, &suppressed);
    if (logged && !is_quiet(reason)) {
        log_record(sys, to, type, reason, suppressed);
    }
    if (!is_event && tri_event_wanted(sys, &tr_dead_letter_tr_type)) {
        publish(worker, to, msg, type, content, reason);
    }
    tri_answer_error(worker, msg, answer_for(to, reason),
                     tr_dead_reason_text(reason));
}

void tri_dead_letter_lost(tr_system *sys, tr_ref to, const tr_type *type,
                          uint32_t reason)
{
    TRI_CHECK(type != NULL);
    uint32_t suppressed = 0;
    if (keep_record(sys, to, (tr_ref){0}, type->name, "", reason,
                    &suppressed)) {
        log_record(sys, to, type->name, reason, suppressed);
    }
}

uint64_t tri_dead_letter_count(tr_system *sys)
{
    tri_dead_letters *dead = &tri_layers_of(sys)->dead;
    tri_lock_take(&dead->lock);
    uint64_t count = dead->count;
    tri_lock_drop(&dead->lock);
    return count;
}

/* ---- reading the ring ---- */

size_t tr_dead_letters(tr_system *sys, tr_dead_info *out, size_t max)
{
    TRI_CHECK(out != NULL || max == 0);
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tri_dead_letters *dead = &tri_layers_of(sys)->dead;
    tri_lock_take(&dead->lock);
    size_t kept = dead->count < dead->size ? (size_t)dead->count : dead->size;
    for (size_t i = 0; i < kept && i < max; i++) {
        const tri_dead_record *record =
            &dead->ring[(dead->count - 1 - i) % dead->size];
        out[i] = (tr_dead_info){.size = sizeof(out[i]),
                                .to = record->to,
                                .sender = record->sender,
                                .reason = record->reason,
                                .at = record->at};
        memcpy(out[i].type, record->type, sizeof(out[i].type));
        memcpy(out[i].content, record->content, sizeof(out[i].content));
    }
    tri_lock_drop(&dead->lock);
    return kept;
}
