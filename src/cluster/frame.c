/*
 * frame.c - writing and reading packets and envelopes.
 *
 * Invariant: a reader takes nothing on trust: lengths are compared with what
 * is there, texts with the limits of ids, kinds with those that exist.
 */
#include "cluster/frame.h"

#include "base/check.h"
#include "base/hash.h"

#define MAGIC UINT16_C(0x5442)

/* Over all but itself; the sum stands at the end of the head. */
static uint32_t sum_of(const unsigned char *bytes, size_t size)
{
    uint64_t head = tri_hash_bytes(bytes, TRI_PACKET_HEAD - 4);
    uint64_t rest =
        tri_hash_bytes(bytes + TRI_PACKET_HEAD, size - TRI_PACKET_HEAD);
    uint64_t both = head * 31 + rest;
    return (uint32_t)(both ^ both >> 32);
}

void tri_packet_write(tri_writer *w, const tri_packet *p)
{
    size_t begin = w->size;
    TRI_CHECK(p->item.size <= TRI_PACKET_MAX);
    tri_write_u16(w, MAGIC);
    tri_write_u8(w, TRI_WIRE_VERSION);
    tri_write_u8(w, (uint8_t)p->kind);
    tri_write_u16(w, (uint16_t)p->from);
    tri_write_u16(w, (uint16_t)p->to);
    tri_write_u64(w, p->life);
    tri_write_u64(w, p->to_life);
    tri_write_u32(w, p->stream);
    tri_write_u32(w, p->ack_stream);
    tri_write_u64(w, p->number);
    tri_write_u64(w, p->ack);
    tri_write_u32(w, (uint32_t)p->item.size);
    tri_write_u32(w, 0);
    unsigned char *at = tri_write_room(w, p->item.size);
    if (at != NULL && p->item.size > 0) {
        memcpy(at, p->item.at, p->item.size);
    }
    if (!w->failed) {
        TRI_CHECK(w->size - begin == TRI_PACKET_HEAD + p->item.size);
        uint32_t sum = sum_of(w->bytes + begin, w->size - begin);
        for (size_t i = 0; i < 4; i++) {
            w->bytes[begin + TRI_PACKET_HEAD - 4 + i] =
                (unsigned char)(sum >> 8 * i);
        }
    }
}

bool tri_packet_read(tri_packet *out, const void *bytes, size_t size)
{
    tri_reader r = {.at = bytes, .end = (const unsigned char *)bytes + size};
    if (size < TRI_PACKET_HEAD || size - TRI_PACKET_HEAD > TRI_PACKET_MAX) {
        return false;
    }
    uint16_t magic = tri_read_u16(&r);
    uint8_t version = tri_read_u8(&r);
    out->kind = (tri_packet_kind)tri_read_u8(&r);
    out->from = tri_read_u16(&r);
    out->to = tri_read_u16(&r);
    out->life = tri_read_u64(&r);
    out->to_life = tri_read_u64(&r);
    out->stream = tri_read_u32(&r);
    out->ack_stream = tri_read_u32(&r);
    out->number = tri_read_u64(&r);
    out->ack = tri_read_u64(&r);
    size_t item = tri_read_u32(&r);
    uint32_t sum = tri_read_u32(&r);
    out->item = (tr_bytes){r.at, item};
    return magic == MAGIC && version == TRI_WIRE_VERSION &&
           out->kind >= TRI_PACKET_SYN && out->kind <= TRI_PACKET_BYE &&
           item == (size_t)(r.end - r.at) && sum == sum_of(bytes, size);
}

static bool is_id(const char *text)
{
    tri_actor_id id;
    const char *why;
    return tri_id_parse(&id, text, &why) == TR_OK;
}

tr_err tri_envelope_check(const tri_envelope *e, const char **why)
{
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
        *why = "its target is no virtual actor";
    } else if (e->sender[0] != '\0' && !is_id(e->sender)) {
        *why = "its sender is no virtual actor";
    }
    if (*why != NULL) {
        return TR_EINVAL;
    }
    if (e->forwards > TRI_FORWARDS_MAX || e->returns > TRI_RETURNS_MAX) {
        *why = "it was passed on too often";
        return TR_ELIMIT;
    }
    return TR_OK;
}

void tri_envelope_write(tri_writer *w, const tri_envelope *e)
{
    tri_write_u8(w, e->direction);
    tri_write_u8(w, e->forwards);
    tri_write_u8(w, e->returns);
    tri_write_u16(w, e->flags);
    tri_write_u32(w, e->target_node);
    tri_write_u32(w, e->sender_node);
    tri_write_u64(w, e->correlation);
    tri_write_u32(w, e->ttl_ms);
    tri_write_u32(w, e->type);
    tri_write_u32(w, e->err);
    tri_write_u64(w, e->place);
    tri_write_u64(w, e->place_life);
    tri_write_u64(w, e->through);
    tri_write_u64(w, e->moved);
    tri_write_u32(w, e->moved_node);
    tri_write_text(w, e->target);
    tri_write_text(w, e->sender);
    tri_write_bytes(w, e->payload.at, e->payload.size);
}

bool tri_envelope_read(tri_reader *r, tri_envelope *out)
{
    out->direction = tri_read_u8(r);
    out->forwards = tri_read_u8(r);
    out->returns = tri_read_u8(r);
    out->flags = tri_read_u16(r);
    out->target_node = tri_read_u32(r);
    out->sender_node = tri_read_u32(r);
    out->correlation = tri_read_u64(r);
    out->ttl_ms = tri_read_u32(r);
    out->type = tri_read_u32(r);
    out->err = tri_read_u32(r);
    out->place = tri_read_u64(r);
    out->place_life = tri_read_u64(r);
    out->through = tri_read_u64(r);
    out->moved = tri_read_u64(r);
    out->moved_node = tri_read_u32(r);
    tri_read_text(r, out->target, TRI_ID_MAX);
    tri_read_text(r, out->sender, TRI_ID_MAX);
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
