/*
 * frame.h - the kinds of frames that travel between nodes.
 *
 * A frame is the payload of one packet of data: one byte that says its kind,
 * then the fields of that kind, which the file that sends it also reads.
 */
#ifndef TRI_CLUSTER_FRAME_H
#define TRI_CLUSTER_FRAME_H

typedef enum tri_frame_kind {
    TRI_FRAME_HELLO = 1,     // namespace, address, kinds: the first of a stream
    TRI_FRAME_KIND,          // one more kind is hosted
    TRI_FRAME_TYPE,          // declares a message type, before its first use
    TRI_FRAME_MESSAGE,       // an envelope
    TRI_FRAME_RELAYED,       // an envelope, from the owner to the chosen host
    TRI_FRAME_RETURNED,      // ... and back, because it was not handled
    TRI_FRAME_HOSTED_ENDED,  // the activation on the chosen host has ended
    TRI_FRAME_HOSTED_CLEAR,  // the owner sends the host nothing more
    TRI_FRAME_HOSTED_GONE,   // the host has given back what was left
    TRI_FRAME_HOSTED_CONFIRM,  // the owner has raised the epoch: go on in it
    TRI_FRAME_REMINDER,        // a reminder of the owner's shard was changed
    TRI_FRAME_FLUSH,           // a marker behind mail that is under way
    TRI_FRAME_FLUSHED,         // the answer to a marker
    TRI_FRAME_CONTROL,         // stop, poison or kill the activation
    TRI_FRAME_WATCH,           // goes to the owner of the shard
    TRI_FRAME_WATCHING,        // the answer: the actor is active here
    TRI_FRAME_UNWATCH,
    TRI_FRAME_ENDED,  // an actor has ended, to the nodes that watch it
} tri_frame_kind;

#endif
