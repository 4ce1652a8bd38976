/*
 * packet.c - writes and reads packets.
 *
 * Invariant: the reader trusts nothing: it compares lengths with the bytes that
 * are there, and the kind with those that exist.
 */
#include "cluster/transport/packet.h"

#include <string.h>

#include "base/check.h"
#include "base/hash.h"

#define MAGIC UINT16_C(0x5442)

/* Returns the sum of all bytes but the last four of the head, where it is. */
static uint32_t sum_of(const unsigned char *bytes, size_t size)
{
    TRI_CHECK(size >= TRI_PACKET_HEAD);
    uint64_t head = tri_hash_bytes(bytes, TRI_PACKET_HEAD - 4);
    uint64_t rest =
        tri_hash_bytes(bytes + TRI_PACKET_HEAD, size - TRI_PACKET_HEAD);
    uint64_t both = head * 31 + rest;
    return (uint32_t)(both ^ both >> 32);
}

void tri_packet_write(tri_writer *w, const tri_packet *p)
{
    size_t begin = w->size;
    TRI_CHECK(p->kind >= TRI_PACKET_SYN && p->kind <= TRI_PACKET_ACK);
    TRI_CHECK(p->frame.size <= TRI_PACKET_MAX);
    tri_write_u16(w, MAGIC);
    tri_write_u8(w, TRI_WIRE_VERSION);
    tri_write_u8(w, (uint8_t)p->kind);
    tri_write_u16(w, (uint16_t)p->from);
    tri_write_u16(w, (uint16_t)p->to);
    tri_write_u64(w, p->incarnation);
    tri_write_u64(w, p->to_incarnation);
    tri_write_u64(w, p->revision);
    tri_write_u32(w, p->stream);
    tri_write_u32(w, p->ack_stream);
    tri_write_u64(w, p->number);
    tri_write_u64(w, p->ack);
    tri_write_u32(w, (uint32_t)p->frame.size);
    tri_write_u32(w, 0);
    unsigned char *at = tri_write_room(w, p->frame.size);
    if (at != NULL && p->frame.size > 0) {
        memcpy(at, p->frame.at, p->frame.size);
    }
    if (!w->failed) {
        TRI_CHECK(w->size - begin == TRI_PACKET_HEAD + p->frame.size);
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
    out->incarnation = tri_read_u64(&r);
    out->to_incarnation = tri_read_u64(&r);
    out->revision = tri_read_u64(&r);
    out->stream = tri_read_u32(&r);
    out->ack_stream = tri_read_u32(&r);
    out->number = tri_read_u64(&r);
    out->ack = tri_read_u64(&r);
    size_t frame = tri_read_u32(&r);
    uint32_t sum = tri_read_u32(&r);
    out->frame = (tr_bytes){r.at, frame};
    return magic == MAGIC && version == TRI_WIRE_VERSION &&
           out->kind >= TRI_PACKET_SYN && out->kind <= TRI_PACKET_ACK &&
           frame == (size_t)(r.end - r.at) && sum == sum_of(bytes, size);
}
