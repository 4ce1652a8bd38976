/*
 * member_rows.h - the rows of a cluster in its engine, and a node's copy of
 * them.
 *
 * Under the namespace of a cluster there are
 *
 *     NS/table/cluster       the format, and the number of shards
 *     NS/table/node/0007     the record of the node in slot 7; empty: free
 *     NS/table/shard/0123    the owner of shard 123
 *     NS/beat/0007           a number that the node in slot 7 counts up
 *
 * Rows are written and emptied, never deleted: so one range with the keys that
 * are newer than the copy makes the copy complete, as of one revision. What
 * every node must know soon is under NS/table, which is watched; renewals are
 * not under it.
 *
 * The revision of the table is the highest revision of a row under NS/table.
 * Two nodes with the same revision have the same table.
 *
 * Threads: the owner's alone.
 */
#ifndef TRI_CLUSTER_MEMBERSHIP_MEMBER_ROWS_H
#define TRI_CLUSTER_MEMBERSHIP_MEMBER_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/engine/engine.h"
#include "cluster/membership/view.h"
#include "troupe/base.h"

enum {
    TRI_ROWS_KEY_MAX = 320,     // bytes of a key, with its zero
    TRI_ROWS_VALUE_MAX = 1600,  // bytes of a record, with its zero
    TRI_ROWS_NUMBERS_MAX = 96,  // bytes of the row of a shard, with its zero
    TRI_ROWS_NS_MAX = 256,      // bytes of a namespace
    TRI_ROWS_TEXT_MAX = 256,    // bytes of a reason
};

typedef enum tri_member_phase {
    TRI_MEMBER_PHASE_JOINING,
    TRI_MEMBER_PHASE_UP,
    TRI_MEMBER_PHASE_LEAVING,
} tri_member_phase;

/* What a record says about its node. */
typedef struct tri_member_record {
    uint64_t nonce;  // chosen by the node for one incarnation
    uint64_t incarnation;
    tri_member_phase phase;
    bool is_client;
    char address[TRI_MEMBER_ADDRESS_MAX];
    char kinds[TRI_MEMBER_KINDS_MAX];
} tri_member_record;

/* A slot. */
typedef struct tri_member_row {
    uint64_t revision;         // of the record; 0: it was never written
    uint64_t beat_revision;    // of the beat
    uint64_t beat;             // the number in it
    tri_member_record record;  // incarnation 0: the slot is free
    tr_nanos seen;             // when this copy first had this beat
    bool is_suspect;           // unchanged for so long that the node is dead
} tri_member_row;

typedef struct tri_shard_row {
    uint64_t revision;  // 0: it was never written
    tri_shard_owner owner;
} tri_shard_row;

typedef struct tri_rows {
    char ns[TRI_ROWS_NS_MAX];
    bool is_read;             // the rows have been read
    uint64_t revision;        // the copy is as of this one
    uint64_t table_revision;  // see above
    uint64_t cluster;         // revision of the row of the cluster
    uint32_t slots;           // slots from this one on were never used
    tri_member_row *members;  // TRI_NODES_MAX
    tri_shard_row *shards;    // TRI_SHARDS
} tri_rows;

/* Prepares an empty copy. Errors: TR_ENOMEM, TR_EINVAL (the namespace). */
TR_NODISCARD tr_err tri_rows_init(tri_rows *rows, const char *ns);
void tri_rows_fini(tri_rows *rows);

/* Write a key; `out` has TRI_ROWS_KEY_MAX bytes. */
void tri_rows_key(const tri_rows *rows, char *out, const char *tail);
void tri_rows_node_key(const tri_rows *rows, char *out, uint32_t slot);
void tri_rows_beat_key(const tri_rows *rows, char *out, uint32_t slot);
void tri_rows_shard_key(const tri_rows *rows, char *out, uint32_t shard);

/* Write a value; return its length. `out` has TRI_ROWS_VALUE_MAX bytes. */
size_t tri_rows_write_record(char *out, const tri_member_record *record);
size_t tri_rows_write_beat(char *out, uint64_t nonce, uint64_t beat);
size_t tri_rows_write_shard(char *out, const tri_shard_owner *owner);
size_t tri_rows_write_cluster(char *out);

/*
 * Adds the rows of a range over NS/ that was answered at the time `now`.
 * Errors: TR_EINVAL (written by another version, or with another number of
 * shards): `why` has the text, and the copy is as before in that row.
 */
TR_NODISCARD tr_err tri_rows_merge(tri_rows *rows, const tri_engine_op *op,
                                   tr_nanos now, char why[TRI_ROWS_TEXT_MAX]);

/* True if the slot has this incarnation and it is up or leaving. */
bool tri_rows_is_live(const tri_rows *rows, tri_node node);
/* True if the slot has a node that may be given shards. */
bool tri_rows_is_eligible(const tri_rows *rows, uint32_t slot);
/* Returns the lowest free slot; TRI_NODE_NONE if there is none. */
uint32_t tri_rows_free_slot(const tri_rows *rows);
/* Makes a view of the rows; NULL without memory. The caller holds it. */
tri_view *tri_rows_view(const tri_rows *rows);

#endif
