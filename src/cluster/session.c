/*
 * session.c - numbered, acknowledged, sent again, taken once.
 *
 * The receiver takes only the number it waits for and forgets the others, so
 * it keeps nothing; the sender sends all that is not acknowledged again. So it
 * may also refuse one that it has no memory for, and gets it later. A
 * link that reorders makes that slower, never wrong.
 *
 * Invariant: items are in `first` in the order of their numbers; those before
 * `unsent` were sent in this stream at least once. The peer's life is known
 * before any of them is sent.
 */
#include "cluster/session.h"

#include "base/check.h"

void tri_session_init(tri_session *s, const tri_session_ops *ops, tri_mem *mem,
                      uint32_t here, uint64_t life, uint32_t there)
{
    TRI_CHECK(life != 0);
    memset(s, 0, sizeof(*s));
    s->ops = ops;
    s->mem = mem;
    s->here = here;
    s->there = there;
    s->life = life;
    s->lost_after = TRI_SESSION_LOST;
    s->resend_at = s->waiting_since = TR_FOREVER;
}

static void send_packet(tri_session *s, tri_packet_kind kind,
                        const tri_out *out)
{
    tri_packet packet = {.kind = kind,
                         .from = s->here,
                         .to = s->there,
                         .life = s->life,
                         .to_life =
                             kind == TRI_PACKET_ACK ? s->in_life : s->peer,
                         .stream = s->stream,
                         .ack_stream = s->in_stream,
                         .ack = s->in_number};
    if (kind == TRI_PACKET_DATA && s->in_life != s->peer) {
        packet.ack_stream = 0;  // what we have received was another's
    }
    if (out != NULL) {
        packet.number = out->number;
        packet.item = (tr_bytes){out->bytes, out->size};
    }
    s->ops->send(s, &packet);
}

/* A list that the session has let go of. */
static void give_back(tri_session *s, tri_out *out)
{
    while (out != NULL) {
        tri_out *next = out->next;
        s->ops->done(s, out->tag, false, out->sent);
        free(out);
        out = next;
    }
}

/* Gives back all that is left; a new stream begins with the next item. */
static void end_stream(tri_session *s, bool goodbye)
{
    tri_out *out = s->first;
    s->first = s->last = s->unsent = NULL;
    s->count = s->under_way = 0;
    s->peer = 0;
    s->resend_at = s->waiting_since = TR_FOREVER;
    s->next_number = 0;
    s->ops->lost(s, goodbye);
    give_back(s, out);
}

void tri_session_leave(tri_session *s)
{
    end_stream(s, true);
}

void tri_session_fini(tri_session *s)
{
    // Who hears that an item is given back may put another: an answer.
    while (s->first != NULL) {
        tri_out *out = s->first;
        s->first = s->last = s->unsent = NULL;
        s->count = 0;
        give_back(s, out);
    }
}

bool tri_session_is_full(const tri_session *s)
{
    _Static_assert(TRI_SESSION_RESERVE > 2 * TRI_SESSION_WINDOW &&
                       TRI_SESSION_RESERVE < TRI_SESSION_QUEUE,
                   "room for the answers to all that is under way");
    return s->count >= TRI_SESSION_QUEUE - TRI_SESSION_RESERVE;
}

tr_err tri_session_put(tri_session *s, const void *bytes, size_t size,
                       void *tag, tr_nanos now)
{
    if (s->count >= TRI_SESSION_QUEUE || size > TRI_PACKET_MAX) {
        return TR_ELIMIT;
    }
    if (s->next_number == 0) {
        s->stream++;
        s->next_number = 1;
        if (!s->ops->begin(s)) {
            s->next_number = 0;  // nothing was said in it
            return TR_ENOMEM;
        }
    }
    tri_out *out =
        tri_mem_should_fail(s->mem) ? NULL : malloc(sizeof(*out) + size);
    if (out == NULL) {
        return TR_ENOMEM;
    }
    *out = (tri_out){
        .tag = tag, .number = s->next_number++, .size = (uint32_t)size};
    if (size > 0) {
        memcpy(out->bytes, bytes, size);
    }
    if (s->last != NULL) {
        s->last->next = out;
    } else {
        s->first = out;
    }
    s->last = out;
    s->count++;
    if (s->unsent == NULL) {
        s->unsent = out;
    }
    if (s->waiting_since == TR_FOREVER) {
        s->waiting_since = now;
        s->pause = TRI_SESSION_RESEND;
    }
    return TR_OK;
}

static void heard(tri_session *s, uint64_t life)
{
    if (s->ops->heard != NULL) {
        s->ops->heard(s, life);
    }
}

/* All up to the number were received. */
static void acknowledged(tri_session *s, uint64_t number, tr_nanos now)
{
    bool any = false;
    while (s->first != NULL && s->first != s->unsent &&
           s->first->number <= number) {
        tri_out *out = s->first;
        s->first = out->next;
        if (s->first == NULL) {
            s->last = NULL;
        }
        s->count--;
        s->under_way--;
        any = true;
        s->ops->done(s, out->tag, true, true);
        free(out);
    }
    if (any) {
        s->pause = TRI_SESSION_RESEND;
        s->resend_at = s->under_way > 0 ? now + s->pause : TR_FOREVER;
        s->waiting_since = s->first != NULL ? now : TR_FOREVER;
        heard(s, s->peer);
    }
}

/* Somebody who lives there now has answered. */
static void answered(tri_session *s, const tri_packet *p, tr_nanos now)
{
    if (s->peer != 0 && s->peer != p->life) {
        end_stream(s, false);  // it was an earlier life's
    }
    if (s->next_number == 0) {
        return;  // nothing has been said to it
    }
    if (s->peer == 0) {
        s->peer = p->life;
        s->resend_at = TR_FOREVER;
        s->waiting_since = s->first != NULL ? now : TR_FOREVER;
    }
    // Only what is acknowledged counts as an answer: of two that hear each
    // other in one direction only, both must give up.
    if (p->ack_stream == s->stream && p->to_life == s->life) {
        acknowledged(s, p->ack, now);
    }
}

static void received(tri_session *s, const tri_packet *p)
{
    if (p->to_life != s->life ||
        (p->life == s->in_life && p->stream < s->in_stream)) {
        return;  // meant for an earlier life, or of an earlier stream
    }
    if (p->life > s->in_life || p->stream > s->in_stream) {
        s->in_life = p->life;
        s->in_stream = p->stream;
        s->in_number = 0;
    }
    s->ack_due = true;
    if (p->number == s->in_number + 1 && s->ops->take(s, p->item)) {
        s->in_number++;
        heard(s, p->life);
    }
}

/* Of a life that has left, or is followed by another, nothing counts. */
static bool is_over(const tri_session *s, uint64_t life)
{
    return life <= s->left || life < s->in_life || life < s->peer;
}

void tri_session_packet(tri_session *s, const tri_packet *p, tr_nanos now)
{
    if (p->from != s->there || p->to != s->here || is_over(s, p->life)) {
        return;
    }
    if (p->kind == TRI_PACKET_BYE) {
        s->left = p->life;
        end_stream(s, true);
        return;
    }
    if (p->kind == TRI_PACKET_SYN || p->to_life != s->life) {
        // It does not know us: tell it who we are.
        if (p->life > s->in_life) {
            s->in_life = p->life;
            s->in_stream = 0;
            s->in_number = 0;
        }
        s->ack_due = p->life == s->in_life;
    }
    answered(s, p, now);
    if (p->kind == TRI_PACKET_DATA) {
        received(s, p);
    }
}

static void send_new(tri_session *s, tr_nanos now)
{
    while (s->unsent != NULL && s->under_way < TRI_SESSION_WINDOW) {
        tri_out *out = s->unsent;
        s->unsent = out->next;
        out->sent = true;
        s->under_way++;
        send_packet(s, TRI_PACKET_DATA, out);
        s->ack_due = false;
        if (s->resend_at == TR_FOREVER) {
            s->resend_at = now + s->pause;
        }
    }
}

static void send_again(tri_session *s, tr_nanos now)
{
    for (tri_out *out = s->first; out != s->unsent; out = out->next) {
        send_packet(s, TRI_PACKET_DATA, out);
        s->ack_due = false;
    }
    s->pause =
        s->pause * 2 > TRI_SESSION_SLOWEST ? TRI_SESSION_SLOWEST : s->pause * 2;
    s->resend_at = now + s->pause;
}

void tri_session_pump(tri_session *s, tr_nanos now)
{
    if (s->first != NULL && s->waiting_since != TR_FOREVER &&
        now - s->waiting_since >= s->lost_after) {
        end_stream(s, false);
    }
    if (s->first != NULL && s->peer == 0) {
        if (s->resend_at == TR_FOREVER || now >= s->resend_at) {
            if (s->resend_at != TR_FOREVER) {
                s->pause = s->pause * 2 > TRI_SESSION_SLOWEST
                               ? TRI_SESSION_SLOWEST
                               : s->pause * 2;
            }
            send_packet(s, TRI_PACKET_SYN, NULL);
            s->resend_at = now + s->pause;
        }
    } else if (s->first != NULL) {
        if (s->under_way > 0 && now >= s->resend_at) {
            send_again(s, now);
        }
        send_new(s, now);
    }
    if (s->ack_due) {
        s->ack_due = false;
        send_packet(s, TRI_PACKET_ACK, NULL);
    }
}

tr_nanos tri_session_next(const tri_session *s)
{
    tr_nanos lost = s->first != NULL && s->waiting_since != TR_FOREVER
                        ? s->waiting_since + s->lost_after
                        : TR_FOREVER;
    tr_nanos again = s->first != NULL ? s->resend_at : TR_FOREVER;
    return lost < again ? lost : again;
}

void tri_session_bye(tri_session *s)
{
    send_packet(s, TRI_PACKET_BYE, NULL);
}
