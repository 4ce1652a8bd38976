/*
 * frame_fuzz.c - the readers of packets and envelopes take any bytes.
 *
 * The first byte chooses the reader. What it accepts must have the same fields
 * when it is written and read again. A fuzzer does not find the checksum of a
 * packet, so a packet is also made from the input: it must be read as it was
 * written, and be refused with one bit changed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/transport/envelope.h"
#include "cluster/transport/packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_same_packet(const tri_packet *a, const tri_packet *b)
{
    TRI_CHECK(a->kind == b->kind && a->from == b->from && a->to == b->to);
    TRI_CHECK(a->incarnation == b->incarnation &&
              a->to_incarnation == b->to_incarnation);
    TRI_CHECK(a->stream == b->stream && a->ack_stream == b->ack_stream);
    TRI_CHECK(a->number == b->number && a->ack == b->ack);
    TRI_CHECK(a->frame.size == b->frame.size);
    TRI_CHECK(a->frame.size == 0 ||
              memcmp(a->frame.at, b->frame.at, a->frame.size) == 0);
}

static void packet_again(const tri_packet *packet)
{
    tri_packet second;
    tri_writer w = {0};
    tri_packet_write(&w, packet);
    TRI_CHECK(!w.failed);
    TRI_CHECK(tri_packet_read(&second, w.bytes, w.size));
    expect_same_packet(packet, &second);
    free(w.bytes);
}

static void read_packet(const uint8_t *data, size_t size)
{
    tri_packet packet;
    if (tri_packet_read(&packet, data, size)) {
        packet_again(&packet);
    }
}

/* The first bytes are the fields, two say which bit is changed. */
static void make_packet(const uint8_t *data, size_t size)
{
    tri_reader r = {.at = data, .end = data + size};
    tri_packet packet = {
        .kind = (tri_packet_kind)(TRI_PACKET_SYN + tri_read_u8(&r) % 4),
        .from = tri_read_u16(&r),
        .to = tri_read_u16(&r),
        .incarnation = tri_read_u64(&r),
        .to_incarnation = tri_read_u64(&r),
        .stream = tri_read_u32(&r),
        .ack_stream = tri_read_u32(&r),
        .number = tri_read_u64(&r),
        .ack = tri_read_u64(&r),
    };
    size_t bit = tri_read_u16(&r);
    if (r.failed) {
        return;
    }
    packet.frame = (tr_bytes){r.at, (size_t)(r.end - r.at)};
    packet_again(&packet);

    tri_packet second;
    tri_writer w = {0};
    tri_packet_write(&w, &packet);
    TRI_CHECK(!w.failed);
    w.bytes[bit / 8 % w.size] ^= (unsigned char)(1 << bit % 8);
    TRI_CHECK(!tri_packet_read(&second, w.bytes, w.size));
    free(w.bytes);
}

static void read_envelope(const uint8_t *data, size_t size)
{
    tri_envelope first, second;
    const char *why;
    tri_reader r = {.at = data, .end = data + size};
    if (!tri_envelope_read(&r, &first)) {
        return;
    }
    TRI_CHECK((tri_envelope_check(&first, &why) == TR_OK) == (why == NULL));
    tri_writer w = {0};
    tri_envelope_write(&w, &first);
    TRI_CHECK(!w.failed);
    TRI_CHECK(w.size == size && memcmp(w.bytes, data, size) == 0);
    r = (tri_reader){.at = w.bytes, .end = w.bytes + w.size};
    TRI_CHECK(tri_envelope_read(&r, &second));
    TRI_CHECK(strcmp(first.target, second.target) == 0);
    TRI_CHECK(strcmp(first.sender, second.sender) == 0);
    TRI_CHECK(first.payload.size == second.payload.size);
    free(w.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    switch (data[0] % 3) {
    case 0:
        read_packet(data + 1, size - 1);
        break;
    case 1:
        make_packet(data + 1, size - 1);
        break;
    default:
        read_envelope(data + 1, size - 1);
        break;
    }
    return 0;
}
