/*
 * session.c - numbers frames, repeats them until they are acknowledged, and
 * takes each one once.
 *
 * The receiver takes only the frame with the next number and drops all others,
 * so it keeps nothing; the sender repeats everything that is not acknowledged.
 * So the receiver may also leave a frame that it has no memory for, and gets it
 * later. A transport that reorders makes this slower, never wrong.
 *
 * Invariant: frames are in the list `first` in the order of their numbers;
 * those before `unsent` were sent in this stream at least once, and under_way
 * counts them. The peer's incarnation is known before any of them is sent.
 */
#include "cluster/transport/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

void tri_session_init(tri_session *s, const tri_session_ops *ops, tri_mem *mem,
                      uint32_t here, uint64_t incarnation, uint32_t there)
{
    TRI_CHECK(s != NULL && ops != NULL && mem != NULL);
    TRI_CHECK(incarnation != 0);
    TRI_CHECK(here != there);
    memset(s, 0, sizeof(*s));
    s->ops = ops;
    s->mem = mem;
    s->here = here;
    s->there = there;
    s->incarnation = incarnation;
    s->repeat_at = TR_FOREVER;
}

static void send_packet(tri_session *s, tri_packet_kind kind,
                        const tri_session_frame *frame)
{
    tri_packet packet = {
        .kind = kind,
        .from = s->here,
        .to = s->there,
        .incarnation = s->incarnation,
        .to_incarnation = kind == TRI_PACKET_ACK ? s->in_incarnation : s->peer,
        .stream = s->stream,
        .ack_stream = s->in_stream,
        .ack = s->in_number};
    if (kind == TRI_PACKET_DATA && s->in_incarnation != s->peer) {
        packet.ack_stream = 0;  // another incarnation's frames were received
    }
    if (frame != NULL) {
        packet.number = frame->number;
        packet.frame = (tr_bytes){frame->bytes, frame->size};
    }
    s->ops->send(s, &packet);
}

/* Tells the owner of a list of frames that were not received, and frees it. */
static void give_back(tri_session *s, tri_session_frame *frame)
{
    while (frame != NULL) {
        tri_session_frame *next = frame->next;
        s->ops->done(s, frame->tag, false, frame->sent);
        free(frame);
        frame = next;
    }
}

/* Gives back all frames; the next one begins a new stream. */
static void end_stream(tri_session *s)
{
    TRI_CHECK((s->first == NULL) == (s->count == 0));
    tri_session_frame *frame = s->first;
    s->first = s->last = s->unsent = NULL;
    s->count = s->under_way = 0;
    s->peer = 0;
    s->repeat_at = TR_FOREVER;
    s->next_number = 0;
    s->ops->lost(s);
    give_back(s, frame);
}

void tri_session_peer_gone(tri_session *s, uint64_t incarnation)
{
    TRI_CHECK(incarnation != 0);
    s->left = incarnation > s->left ? incarnation : s->left;
    end_stream(s);
}

void tri_session_restart(tri_session *s, uint32_t here, uint64_t incarnation)
{
    TRI_CHECK(incarnation > s->incarnation && here != s->there);
    s->here = here;
    s->incarnation = incarnation;
    // In another slot the peer has another session with us, whose streams are
    // counted from the start.
    s->in_incarnation = 0;
    s->in_stream = 0;
    s->in_number = 0;
    end_stream(s);
}

void tri_session_fini(tri_session *s)
{
    // The owner may put an answer when it hears that a frame is given back.
    while (s->first != NULL) {
        tri_session_frame *frame = s->first;
        s->first = s->last = s->unsent = NULL;
        s->count = 0;
        give_back(s, frame);
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
                       void *tag)
{
    TRI_CHECK(bytes != NULL || size == 0);
    if (s->count >= TRI_SESSION_QUEUE || size > TRI_PACKET_MAX) {
        return TR_ELIMIT;
    }
    if (s->next_number == 0) {
        s->stream++;
        s->next_number = 1;
        if (!s->ops->begin(s)) {
            s->next_number = 0;  // the stream is empty
            return TR_ENOMEM;
        }
    }
    tri_session_frame *frame =
        tri_mem_should_fail(s->mem) ? NULL : malloc(sizeof(*frame) + size);
    if (frame == NULL) {
        return TR_ENOMEM;
    }
    *frame = (tri_session_frame){
        .tag = tag, .number = s->next_number++, .size = (uint32_t)size};
    if (size > 0) {
        memcpy(frame->bytes, bytes, size);
    }
    if (s->last != NULL) {
        s->last->next = frame;
    } else {
        s->first = frame;
    }
    s->last = frame;
    s->count++;
    if (s->unsent == NULL) {
        s->unsent = frame;
    }
    if (s->count == 1) {
        s->pause = TRI_SESSION_REPEAT;
    }
    return TR_OK;
}

/* Returns when frames that were sent now are repeated. */
static tr_nanos repeat_after(const tri_session *s, tr_nanos now)
{
    return s->is_connected_way ? TR_FOREVER : now + s->pause;
}

/* Frees the frames up to the number: they were received. */
static void acknowledged(tri_session *s, uint64_t number, tr_nanos now)
{
    bool any = false;
    while (s->first != NULL && s->first != s->unsent &&
           s->first->number <= number) {
        tri_session_frame *frame = s->first;
        s->first = frame->next;
        if (s->first == NULL) {
            s->last = NULL;
        }
        TRI_CHECK(s->count > 0 && s->under_way > 0);
        s->count--;
        s->under_way--;
        any = true;
        s->ops->done(s, frame->tag, true, true);
        free(frame);
    }
    if (any) {
        s->pause = TRI_SESSION_REPEAT;
        s->repeat_at = s->under_way > 0 ? repeat_after(s, now) : TR_FOREVER;
    }
}

/* Learns from a packet of the present incarnation of the other node. */
static void answered(tri_session *s, const tri_packet *p, tr_nanos now)
{
    if (s->peer != 0 && s->peer != p->incarnation) {
        end_stream(s);  // it led to an earlier incarnation
    }
    if (s->next_number == 0) {
        return;  // no stream leads to it
    }
    if (s->peer == 0) {
        s->peer = p->incarnation;
        s->repeat_at = TR_FOREVER;
    }
    if (p->ack_stream == s->stream && p->to_incarnation == s->incarnation) {
        acknowledged(s, p->ack, now);
    }
}

/*
 * Takes the frame of a packet if it is the next of its stream; others are
 * dropped. Returns false only if it is the next one and its receiver did not
 * take it, for want of memory; then it is sent again.
 */
static bool received(tri_session *s, const tri_packet *p)
{
    if (p->to_incarnation != s->incarnation ||
        (p->incarnation == s->in_incarnation && p->stream < s->in_stream)) {
        return true;  // for an earlier incarnation, or of an earlier stream
    }
    if (p->incarnation > s->in_incarnation || p->stream > s->in_stream) {
        s->in_incarnation = p->incarnation;
        s->in_stream = p->stream;
        s->in_number = 0;
    }
    s->ack_due = true;
    if (p->number != s->in_number + 1) {
        return true;
    }
    bool taken = s->ops->take(s, p->frame);
    s->in_number += taken;
    return taken;
}

/* True if the incarnation has left or was followed by another. */
static bool is_over(const tri_session *s, uint64_t incarnation)
{
    return incarnation <= s->left || incarnation < s->in_incarnation ||
           incarnation < s->peer;
}

bool tri_session_receive(tri_session *s, const tri_packet *p, tr_nanos now)
{
    TRI_CHECK(p->kind >= TRI_PACKET_SYN && p->kind <= TRI_PACKET_ACK);
    if (p->from != s->there || p->to != s->here || is_over(s, p->incarnation)) {
        return true;
    }
    if (p->kind == TRI_PACKET_SYN || p->to_incarnation != s->incarnation) {
        // The other node does not know our incarnation: acknowledge, which
        // says it.
        if (p->incarnation > s->in_incarnation) {
            s->in_incarnation = p->incarnation;
            s->in_stream = 0;
            s->in_number = 0;
        }
        s->ack_due = p->incarnation == s->in_incarnation;
    }
    answered(s, p, now);
    return p->kind != TRI_PACKET_DATA || received(s, p);
}

static void send_new(tri_session *s, tr_nanos now)
{
    TRI_CHECK(s->peer != 0);
    while (s->unsent != NULL && s->under_way < TRI_SESSION_WINDOW &&
           (s->ops->has_room == NULL || s->ops->has_room(s))) {
        tri_session_frame *frame = s->unsent;
        s->unsent = frame->next;
        frame->sent = true;
        s->under_way++;
        send_packet(s, TRI_PACKET_DATA, frame);
        s->ack_due = false;
        if (s->repeat_at == TR_FOREVER) {
            s->repeat_at = repeat_after(s, now);
        }
    }
}

static void double_pause(tri_session *s)
{
    s->pause = s->pause * 2 > TRI_SESSION_REPEAT_MAX ? TRI_SESSION_REPEAT_MAX
                                                     : s->pause * 2;
}

/* Sends all frames that are not acknowledged once more. */
static void repeat_unacknowledged(tri_session *s, tr_nanos now)
{
    TRI_CHECK(s->peer != 0);
    for (tri_session_frame *frame = s->first; frame != s->unsent;
         frame = frame->next) {
        send_packet(s, TRI_PACKET_DATA, frame);
        s->ack_due = false;
    }
    double_pause(s);
    s->repeat_at = repeat_after(s, now);
}

void tri_session_reconnected(tri_session *s, tr_nanos now)
{
    if (s->peer != 0 && s->under_way > 0) {
        s->repeat_at = now;
    }
    s->ack_due = s->in_incarnation != 0;  // the last one may be lost
}

/* Asks for the other node's incarnation, if it is time. */
static void send_syn(tri_session *s, tr_nanos now)
{
    TRI_CHECK(s->peer == 0);
    if (s->repeat_at != TR_FOREVER && now < s->repeat_at) {
        return;
    }
    if (s->repeat_at != TR_FOREVER) {
        double_pause(s);
    }
    send_packet(s, TRI_PACKET_SYN, NULL);
    s->repeat_at = now + s->pause;
}

void tri_session_pump(tri_session *s, tr_nanos now)
{
    if (s->first != NULL && s->peer == 0) {
        send_syn(s, now);
    } else if (s->first != NULL) {
        if (s->under_way > 0 && now >= s->repeat_at) {
            repeat_unacknowledged(s, now);
        }
        send_new(s, now);
    }
    if (s->ack_due) {
        s->ack_due = false;
        send_packet(s, TRI_PACKET_ACK, NULL);
    }
}

tr_nanos tri_session_due(const tri_session *s)
{
    return s->first != NULL ? s->repeat_at : TR_FOREVER;
}
