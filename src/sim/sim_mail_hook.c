/*
 * sim_mail_hook.c - the hooks of a ledger in its system.
 *
 * Functions of the tri_up table are replaced. Each hook removes the message
 * from the ledger, writes the line of the trace, and calls the function that it
 * replaced, if there was one.
 */
#include "sim/sim_mail_hook.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/check.h"
#include "core/cell/cell_path.h"
#include "core/cell/message.h"
#include "core/run/context.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"
#include "core/up.h"
#include "sim/sim.h"
#include "sim/sim_commit.h"
#include "sim/sim_fault.h"
#include "sim/sim_mail_entry.h"
#include "troupe/base.h"
#include "troupe/message.h"
#include "troupe/system.h"

/* ---- the trace ---- */

/* Writes a line of the event log about a message. */
static void trace_mail(tri_sim_mail *mail, tr_ref to, const tr_msg *msg,
                       const char *event, const char *why)
{
    char path[TRI_PATH_MAX], from[TRI_PATH_MAX], detail[TRI_PATH_MAX + 128];

    if (TRI_LIKELY(mail->sim->trace == NULL)) {
        return;
    }
    tr_ref_path(mail->sys, to, path, sizeof(path));
    from[0] = '\0';
    if (msg->sender.id != 0) {
        tr_ref_path(mail->sys, msg->sender, from, sizeof(from));
    }
    snprintf(detail, sizeof(detail), "%s%s%s%s", why,
             why[0] != '\0' && from[0] != '\0' ? ", " : "",
             from[0] != '\0' ? "from " : "", from);
    const tr_type *type = msg->item.type;  // NULL: an error
    tri_sim_mail_trace(mail, path, event, type != NULL ? type->name : "error",
                       detail);
}

/*
 * Writes a line for an answer that is sent. An error has no sender: it is
 * shown as sent by the actor of the running step.
 */
static void on_answer(tri_worker *worker, tr_ref to, const tr_msg *answer)
{
    char path[TRI_PATH_MAX], asker[TRI_PATH_MAX], detail[TRI_PATH_MAX + 64];
    tri_sim_mail *mail = tri_sim_mail_find(worker->sys);

    if (mail == NULL || mail->sim->trace == NULL) {
        return;
    }
    bool is_error = (answer->item.flags & TRI_MSG_ERROR) != 0;
    const tri_error_reply *error = (const void *)answer->payload;
    snprintf(path, sizeof(path), "%s",
             mail->sim->stepping ? mail->sim->trace_actor : "");
    if (!is_error) {
        tr_ref_path(mail->sys, answer->sender, path, sizeof(path));
    }
    tr_ref_path(mail->sys, to, asker, sizeof(asker));
    snprintf(detail, sizeof(detail), "to %s%s%s", asker, is_error ? ", " : "",
             is_error ? tr_errname(error->err) : "");
    tri_sim_mail_trace(mail, path, "reply",
                       is_error ? "error" : answer->item.type->name, detail);
}

/* ---- hooks of the core's table ---- */

static void on_dead_letter(tri_worker *worker, tr_ref to, tr_msg *msg,
                           uint32_t reason)
{
    tri_sim_mail *mail = tri_sim_mail_find(worker->sys);

    TRI_CHECK(mail != NULL);
    trace_mail(mail, to, msg, "dead", tr_dead_reason_text(reason));
    tri_sim_entry_remove(mail, msg);
    mail->up->dead_letter(worker, to, msg, reason);
}

static void on_unhandled(tri_worker *worker, tri_cell *cell, tr_msg *msg)
{
    tri_sim_mail *mail = tri_sim_mail_find(worker->sys);

    TRI_CHECK(mail != NULL);
    tri_sim_entry_remove(mail, msg);
    mail->up->unhandled(worker, cell, msg);
}

/* Sees a message before its handler, or its interceptors, run. */
static void on_handled(tr_ctx *ctx, tr_msg *msg, uint32_t flags)
{
    tri_sim_mail *mail = tri_sim_mail_find(ctx->sys);

    TRI_CHECK(mail != NULL);
    trace_mail(mail,
               tri_sim_mail_ref(mail, ctx->cell, tri_sim_cell_id(ctx->cell)),
               msg, "handle", "");
    if (TRI_UNLIKELY(mail->sim->trace != NULL) &&
        (msg->item.flags & TRI_MSG_ASK)) {
        // on_answer wants it.
        tri_msg_ask(msg)->answer_flags |= TRI_ANSWER_OBSERVED;
    }
    tri_sim_entry_handled(mail, msg, flags);
}

/* Checks a commit; a fault may turn the answer into an unknown outcome. */
static void on_stored(tr_system *sys, tri_written *written)
{
    tri_sim_mail *mail = tri_sim_mail_find(sys);
    bool may_be_unknown = written->err == TR_OK || written->err == TR_EIO;

    TRI_CHECK(mail != NULL);
    if (may_be_unknown &&
        tri_sim_strikes(mail->sim, TRI_FAULT_unknown_outcome, mail->node)) {
        written->err = TR_EUNKNOWN;
    }
    if (written->err == TR_OK) {
        tri_sim_commit(mail->sim, mail->node, written);
    }
}

void tri_sim_mail_hook(tri_sim_mail *mail)
{
    TRI_CHECK(mail->up == NULL);
    mail->up = mail->sys->up;
    mail->hooked = *mail->up;
    mail->hooked.dead_letter = on_dead_letter;
    mail->hooked.unhandled = on_unhandled;
    mail->hooked.stored = on_stored;
    mail->hooked.answers = on_answer;
    mail->hooked.handles = on_handled;
    mail->sys->up = &mail->hooked;
}

void tri_sim_mail_unhook(tri_sim_mail *mail)
{
    TRI_CHECK(mail->sys->up == &mail->hooked);
    mail->sys->up = mail->up;
}
