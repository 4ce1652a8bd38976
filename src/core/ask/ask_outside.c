/*
 * ask_outside.c - tr_ask, and requests from a thread that is no actor.
 *
 * The thread opens an outside box, whose cell is the sender of the request,
 * and waits in it for the reply. After the box has been closed a late reply
 * finds a cell with another id.
 *
 * Threads: any thread that runs no handler of the system; a call with `sys`
 * inside a handler is refused (rule 19 (outside calls in a handler)).
 */
#include <string.h>

#include "base/check.h"
#include "core/ask/ask.h"
#include "core/ask/error_text.h"
#include "core/ask/outside_box.h"
#include "core/caller.h"
#include "core/cell/cell_path.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/life/failure.h"
#include "core/life/lifecycle.h"
#include "core/mail/send.h"
#include "core/run/waiting.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "schema/value.h"
#include "troupe/observe.h"

/* Sets the thread's error text for an ask; as tri_ask_set_error. */
static void set_error(tr_from from, tr_ref to, const tr_type *type,
                      const char *site, tr_err err, const char *text)
{
    char path[TRI_PATH_MAX], room[TRI_ADVICE_MAX];
    tr_system *sys = tri_from_system(from);
    tr_state state = (tr_state_of)(from, to);
    bool here = state != TR_STATE_TERMINATED;
    TRI_CHECK(type != NULL);
    bool more = text != NULL && strcmp(text, tr_strerror(err)) != 0;
    char doing[TRI_WAITING_MAX];
    tri_error_set(NULL, "%s of %s at %s: %s%s%s%s (target %s, %u queued%s)",
                  type->name, sys->up->ref_path(from, to, path, sizeof(path)),
                  site, tr_strerror(err), more ? ": " : "", more ? text : "",
                  tri_advice(sys, err, to, room, sizeof(room)),
                  here ? tri_state_name(state) : "gone",
                  here ? tri_depth(tri_ref_cell(to)) : 0,
                  tri_waiting_text(sys, err, to, doing));
    tri_error_set_reason(NULL, more ? text : tr_strerror(err));
}

/*
 * Moves the reply to *out, whose text the caller owns, or returns the error
 * that it carries. Takes reply.
 */
static tr_err take_reply(tr_from from, tr_ref to, tr_msg *reply,
                         const tr_type *type, void *out, const char *site)
{
    tr_err err = TR_OK;
    TRI_CHECK(reply->item.kind == TRI_ITEM_REPLY);
    if (reply->item.flags & TRI_MSG_ERROR) {
        tri_error_reply *error = (tri_error_reply *)(void *)reply->payload;
        err = error->err;
        set_error(from, to, type, site, err, error->text);
        if (error->reason_at != 0) {
            tri_error_set_reason(NULL, error->text + error->reason_at);
        }
    } else if (reply->item.type->schema != type->reply->schema) {
        err = TR_ESCHEMA;
        set_error(from, to, type, site, err, reply->item.type->name);
    } else if (out != NULL) {
        err = tri_unpack_owned(type->reply, out, reply->payload);
    }
    tri_caller caller = tri_enter(from);
    tri_msg_free(&caller.worker->cache, reply);
    tri_leave(&caller);
    return err;
}

/* Sends a request with the cell of the box as its sender. */
static tr_err send_request(tr_from from, tri_outside_box *box, tr_ref to,
                           tr_nanos deadline, const tr_type *type,
                           const void *payload, const char *site)
{
    TRI_CHECK(box->cell != NULL);
    tri_caller caller = tri_enter(from);
    tr_msg *msg = tri_msg_new(&caller.worker->cache, type, payload, true);
    tr_err err = TR_ENOMEM;
    if (msg != NULL) {
        *tri_msg_ask(msg) =
            (tri_ask){.correlation = 1, .deadline = deadline, .site = site};
        caller.sender = tri_cell_ref(box->sys, box->cell);
        caller.deadline = deadline;
        err = tri_try_send(&caller, to, msg);
        if (err == TR_OK) {
            tri_count(&caller.worker->count.asks);
            box->awaited = tri_ref_cell(to);
        } else {
            tri_msg_free(&caller.worker->cache, msg);
        }
    }
    tri_leave(&caller);
    return tri_ask_delivery_error(to, err);
}

/*
 * Returns the reply, or NULL when the time is over. The actor that is asked
 * has the ref of the box and may send to it, watch it or join it; that mail is
 * dropped.
 */
static tri_item *await_reply(tri_outside_box *box, tr_nanos deadline)
{
    tr_ref self = tri_cell_ref(box->sys, box->cell);
    TRI_CHECK(self.id != 0);
    for (;;) {
        tri_item *item = tri_outside_box_wait(box, deadline);
        if (item == NULL || item->kind == TRI_ITEM_REPLY) {
            return item;
        }
        tri_caller caller = tri_enter_system(box->sys, self);
        tri_outside_box_drop(caller.worker, self, item);
        tri_leave(&caller);
    }
}

/* tr_ask from a thread that is no actor. */
static __attribute__((noinline)) tr_err ask_outside(tr_from from, tr_ref to,
                                                    void *out, tr_nanos timeout,
                                                    const tr_type *type,
                                                    const void *payload,
                                                    const char *site)
{
    if (out != NULL) {
        memset(out, 0, type->reply->size);
    }
    tr_system *sys = tri_from_system(from);
    if (tri_worker_current() != NULL) {  // of this or another system
        tri_error_set(NULL,
                      "%s at %s: waiting as `sys` inside a handler would "
                      "block its worker; use its ctx",
                      type->name, site);
        sys->up->log(from, TR_LOG_ERROR, site,
                     "waiting for %s as `sys` inside a "
                     "handler is refused: use its ctx",
                     type->name);
        return TR_EWOULDBLOCK;
    }
    if (timeout < 0) {
        set_error(from, to, type, site, TR_ETIMEDOUT, NULL);
        return TR_ETIMEDOUT;
    }
    tri_outside_box box;
    TR_TRY(tri_outside_box_open(&box, sys));
    tr_nanos deadline =
        tri_deadline_outside(sys, timeout, sys->options.ask_timeout);
    tr_err err = send_request(from, &box, to, deadline, type, payload, site);
    tri_item *item = NULL;
    if (err == TR_OK) {
        item = await_reply(&box, deadline);
        err = item != NULL ? TR_OK : TR_ETIMEDOUT;
    }
    if (err == TR_ECLOSED) {
        tri_error_set(NULL, "%s at %s: the system is closing or closed",
                      type->name, site);
    } else if (err != TR_OK) {
        set_error(from, to, type, site, err, NULL);
    }
    tri_outside_box_close(&box);
    return item != NULL
               ? take_reply(from, to, tri_msg_from(item), type, out, site)
               : err;
}

tr_err(tr_ask)(tr_from from, tr_ref to, void *out, tr_nanos timeout,
               const tr_type *type, const void *payload, const char *site)
{
    if (type == NULL || type->reply == NULL) {
        tri_misuse(tri_from_is_ctx(from) ? from.ctx : NULL, "tr_ask",
                   type == NULL ? "the type is NULL"
                                : "the type is not a request");
    }
    if (tri_from_is_ctx(from)) {
        return tri_ask_inside(from.ctx, to, out, timeout, type, payload, site);
    }
    return ask_outside(from, to, out, timeout, type, payload, site);
}
