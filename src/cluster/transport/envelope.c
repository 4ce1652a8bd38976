/*
 * envelope.c - checks, writes and reads envelopes.
 *
 * Invariant: the reader trusts nothing: it compares lengths with the bytes that
 * are there, and texts with the limits of names.
 */
#include "cluster/transport/envelope.h"

#include <string.h>

#include "base/check.h"

static bool is_id(const char *text)
{
    tri_actor_id id;
    const char *why;
    return tri_actor_id_parse(&id, text, &why) == TR_OK;
}

tr_err tri_envelope_check(const tri_envelope *e, const char **why)
{
    TRI_CHECK(e != NULL && why != NULL);
    *why = NULL;
    if (e->direction < TRI_REQUEST || e->direction > TRI_ONE_WAY) {
        *why = "it has no direction";
    } else if (e->direction == TRI_REQUEST && e->ttl_ms == 0) {
        *why = "a request has no time to live";
    } else if ((e->direction != TRI_ONE_WAY) != (e->correlation != 0)) {
        *why = "its correlation does not fit its direction";
    } else if (e->flags & ~(unsigned)TRI_FLAGS_ALL) {
        *why = "it has unknown flags";
    } else if ((e->flags & TRI_FLAG_ALWAYS_INTERLEAVE) &&
               !(e->flags & TRI_FLAG_READ_ONLY)) {
        *why = "it interleaves and is not read-only";
    } else if ((e->flags & TRI_FLAG_IS_LOCAL_ONLY) && e->forwards > 0) {
        *why = "a local message was passed on";
    } else if (e->direction != TRI_RESPONSE && !is_id(e->target)) {
        *why = "its target is not a virtual actor";
    } else if (e->sender[0] != '\0' && !is_id(e->sender)) {
        *why = "its sender is not a virtual actor";
    }
    if (*why != NULL) {
        return TR_EINVAL;
    }
    if (e->forwards > TRI_FORWARDS_MAX) {
        *why = "it was passed on too often";
        return TR_ELIMIT;
    }
    return TR_OK;
}

void tri_envelope_write(tri_writer *w, const tri_envelope *e)
{
    TRI_CHECK(e->direction >= TRI_REQUEST && e->direction <= TRI_ONE_WAY);
    TRI_CHECK(e->forwards <= TRI_FORWARDS_MAX);
    tri_write_u8(w, e->direction);
    tri_write_u8(w, e->forwards);
    tri_write_u16(w, e->flags);
    tri_write_u32(w, e->target_node);
    tri_write_u32(w, e->sender_node);
    tri_write_u64(w, e->correlation);
    tri_write_u32(w, e->ttl_ms);
    tri_write_u32(w, e->type);
    tri_write_u32(w, e->err);
    for (uint32_t i = 0; i < e->forwards; i++) {
        tri_write_u32(w, e->path[i].slot);
        tri_write_u64(w, e->path[i].incarnation);
    }
    tri_write_text(w, e->target);
    tri_write_text(w, e->sender);
    tri_write_bytes(w, e->payload.at, e->payload.size);
}

bool tri_envelope_read(tri_reader *r, tri_envelope *out)
{
    TRI_CHECK(r->at <= r->end);
    out->direction = tri_read_u8(r);
    out->forwards = tri_read_u8(r);
    out->flags = tri_read_u16(r);
    out->target_node = tri_read_u32(r);
    out->sender_node = tri_read_u32(r);
    out->correlation = tri_read_u64(r);
    out->ttl_ms = tri_read_u32(r);
    out->type = tri_read_u32(r);
    out->err = tri_read_u32(r);
    if (out->forwards > TRI_FORWARDS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < out->forwards; i++) {
        out->path[i].slot = tri_read_u32(r);
        out->path[i].incarnation = tri_read_u64(r);
    }
    tri_read_text(r, out->target, TRI_ACTOR_ID_MAX);
    tri_read_text(r, out->sender, TRI_ACTOR_ID_MAX);
    out->payload = tri_read_bytes(r);
    return !r->failed && r->at == r->end;
}

tri_envelope tri_envelope_answer(const tri_envelope *request)
{
    TRI_CHECK(request->direction == TRI_REQUEST);
    tri_envelope answer = {.direction = TRI_RESPONSE,
                           .target_node = request->sender_node,
                           .sender_node = request->target_node,
                           .correlation = request->correlation};
    memcpy(answer.target, request->sender, sizeof(answer.target));
    memcpy(answer.sender, request->target, sizeof(answer.sender));
    return answer;
}
