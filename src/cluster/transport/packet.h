/*
 * packet.h - what one call of a transport carries.
 *
 * A packet belongs to a session (session.h): it names the sender, the
 * incarnation it is meant for, its number in the stream, and what was received
 * in the other direction. A checksum over all of it finds damaged bytes. A
 * packet of data carries one frame (frame.h).
 *
 * Threads: any.
 */
#ifndef TRI_CLUSTER_PACKET_H
#define TRI_CLUSTER_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/transport/wire.h"
#include "troupe/message.h"

enum {
    TRI_WIRE_VERSION = 4,  // 4: the owner of a shard hosts its actors
    TRI_PACKET_HEAD = 64,  // bytes in front of the frame
    TRI_PACKET_MAX = 16 * 1024 * 1024,  // bytes of a frame
};

typedef enum tri_packet_kind {
    TRI_PACKET_SYN = 1,  // asks for the other's incarnation; an ACK answers
    TRI_PACKET_DATA,     // carries a frame
    TRI_PACKET_ACK,
} tri_packet_kind;

typedef struct tri_packet {
    tri_packet_kind kind;
    uint32_t from, to;        // numbers of nodes
    uint64_t incarnation;     // of the sender
    uint64_t to_incarnation;  // of the receiver; 0: not known
    uint64_t revision;        // of the sender's view
    uint32_t stream;          // of the sender, for `number`
    uint32_t ack_stream;      // of the receiver, for `ack`
    uint64_t number;          // of the frame in its stream, from 1
    uint64_t ack;             // all frames up to this one were received
    tr_bytes frame;           // borrowed
} tri_packet;

void tri_packet_write(tri_writer *w, const tri_packet *packet);
/* Returns false if the bytes are not a packet, or damaged. */
bool tri_packet_read(tri_packet *out, const void *bytes, size_t size);

#endif
