/*
 * member_rows.c - keys and values of the rows, and merging what was read.
 *
 * Values are texts, numbers with spaces between them, so that a person can
 * read a cluster with the tools of its engine.
 */
#include "cluster/membership/member_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { FORMAT = 1, DIGITS = 4, DECIMAL = 10 };

#define NODES  "/table/node/"
#define SHARDS "/table/shard/"
#define BEATS  "/beat/"

_Static_assert(TRI_NODES_MAX <= 10000 && TRI_SHARDS <= 10000,
               "keys have four digits");

tr_err tri_rows_init(tri_rows *rows, const char *ns)
{
    *rows = (tri_rows){0};
    if (ns == NULL || ns[0] == '\0' || strlen(ns) >= sizeof(rows->ns)) {
        return TR_EINVAL;
    }
    (void)snprintf(rows->ns, sizeof(rows->ns), "%s", ns);
    // Slots that are never used cost no memory: their pages stay zero.
    rows->members = calloc(TRI_NODES_MAX, sizeof(*rows->members));
    rows->shards = calloc(TRI_SHARDS, sizeof(*rows->shards));
    if (rows->members == NULL || rows->shards == NULL) {
        tri_rows_fini(rows);
        return TR_ENOMEM;
    }
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        rows->shards[i].owner.node.slot = TRI_NODE_NONE;
        rows->shards[i].owner.next = TRI_NODE_NONE;
    }
    return TR_OK;
}

void tri_rows_fini(tri_rows *rows)
{
    free(rows->members);
    free(rows->shards);
    *rows = (tri_rows){0};
}

/* ---- keys ---- */

void tri_rows_key(const tri_rows *rows, char *out, const char *tail)
{
    int length = snprintf(out, TRI_ROWS_KEY_MAX, "%s%s", rows->ns, tail);

    TRI_CHECK(length < TRI_ROWS_KEY_MAX);
}

static void numbered_key(const tri_rows *rows, char *out, const char *tail,
                         uint32_t number)
{
    int length = snprintf(out, TRI_ROWS_KEY_MAX, "%s%s%04" PRIu32, rows->ns,
                          tail, number);

    TRI_CHECK(length < TRI_ROWS_KEY_MAX);
}

void tri_rows_node_key(const tri_rows *rows, char *out, uint32_t slot)
{
    numbered_key(rows, out, NODES, slot);
}

void tri_rows_beat_key(const tri_rows *rows, char *out, uint32_t slot)
{
    numbered_key(rows, out, BEATS, slot);
}

void tri_rows_shard_key(const tri_rows *rows, char *out, uint32_t shard)
{
    numbered_key(rows, out, SHARDS, shard);
}

/* If the key is the namespace, `tail` and a number, sets *out to it. */
static bool has_number(const tri_rows *rows, const char *key, const char *tail,
                       uint32_t below, uint32_t *out)
{
    size_t ns = strlen(rows->ns), size = strlen(tail);
    char *end;

    if (strncmp(key, rows->ns, ns) != 0 || strncmp(key + ns, tail, size) != 0 ||
        strlen(key + ns + size) != DIGITS) {
        return false;
    }
    unsigned long number = strtoul(key + ns + size, &end, DECIMAL);
    *out = (uint32_t)number;
    return *end == '\0' && number < below;
}

/* ---- values ---- */

size_t tri_rows_write_record(char *out, const tri_member_record *record)
{
    int length =
        snprintf(out, TRI_ROWS_VALUE_MAX, "%d %d %" PRIu64 " %" PRIu64 " %s %s",
                 (int)record->phase, record->is_client ? 1 : 0, record->nonce,
                 record->incarnation, record->address, record->kinds);

    TRI_CHECK(length > 0 && length < TRI_ROWS_VALUE_MAX);
    return (size_t)length;
}

size_t tri_rows_write_beat(char *out, uint64_t nonce, uint64_t beat)
{
    return (size_t)snprintf(out, TRI_ROWS_VALUE_MAX, "%" PRIu64 " %" PRIu64,
                            nonce, beat);
}

size_t tri_rows_write_shard(char *out, const tri_shard_owner *owner)
{
    return (size_t)snprintf(
        out, TRI_ROWS_VALUE_MAX, "%" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu32,
        owner->node.slot, owner->node.incarnation, owner->epoch, owner->next);
}

size_t tri_rows_write_cluster(char *out)
{
    return (size_t)snprintf(out, TRI_ROWS_VALUE_MAX, "%d %d", FORMAT,
                            TRI_SHARDS);
}

/* Reads a number and the space after it. Returns false if there is none. */
static bool take_number(const char **at, uint64_t *out)
{
    char *end;

    *out = strtoull(*at, &end, DECIMAL);
    if (end == *at || (*end != ' ' && *end != '\0')) {
        return false;
    }
    *at = *end == ' ' ? end + 1 : end;
    return true;
}

static bool read_record(const char *text, tri_member_record *out)
{
    uint64_t phase, is_client;

    *out = (tri_member_record){0};
    if (!take_number(&text, &phase) || phase > TRI_MEMBER_PHASE_LEAVING ||
        !take_number(&text, &is_client) || !take_number(&text, &out->nonce) ||
        !take_number(&text, &out->incarnation)) {
        return false;
    }
    const char *end = strchr(text, ' ');
    if (end == NULL || (size_t)(end - text) >= sizeof(out->address) ||
        strlen(end + 1) >= sizeof(out->kinds)) {
        return false;
    }
    out->phase = (tri_member_phase)phase;
    out->is_client = is_client != 0;
    memcpy(out->address, text, (size_t)(end - text));
    (void)snprintf(out->kinds, sizeof(out->kinds), "%s", end + 1);
    return true;
}

static bool read_shard(const char *text, tri_shard_owner *out)
{
    uint64_t slot, next;

    if (!take_number(&text, &slot) ||
        !take_number(&text, &out->node.incarnation) ||
        !take_number(&text, &out->epoch) || !take_number(&text, &next)) {
        return false;
    }
    out->node.slot = (uint32_t)slot;
    out->next = (uint32_t)next;
    return (slot < TRI_NODES_MAX || slot == TRI_NODE_NONE) &&
           (next < TRI_NODES_MAX || next == TRI_NODE_NONE);
}

/* ---- merging ---- */

static bool merge_node(tri_rows *rows, uint32_t slot, const char *text,
                       uint64_t revision)
{
    tri_member_row *row = &rows->members[slot];
    tri_member_record record = {0};

    if (text[0] != '\0' && !read_record(text, &record)) {
        return false;
    }
    if (text[0] != '\0' && record.incarnation == 0) {
        record.incarnation = revision;  // the commit that created it
    }
    row->record = record;
    row->revision = revision;
    return true;
}

static bool merge_beat(tri_rows *rows, uint32_t slot, const char *text,
                       uint64_t revision, tr_nanos now)
{
    tri_member_row *row = &rows->members[slot];
    uint64_t nonce;

    row->beat = 0;
    if (text[0] != '\0' &&
        (!take_number(&text, &nonce) || !take_number(&text, &row->beat))) {
        return false;
    }
    row->beat_revision = revision;
    row->seen = now;
    row->is_suspect = false;
    return true;
}

/* Returns false if the row is not one that this version writes. */
static bool merge_row(tri_rows *rows, const tri_engine_row *row,
                      const char *text, tr_nanos now)
{
    uint32_t number;
    char key[TRI_ROWS_KEY_MAX], expected[TRI_ROWS_VALUE_MAX];

    if (has_number(rows, row->key, BEATS, TRI_NODES_MAX, &number)) {
        rows->slots = number >= rows->slots ? number + 1 : rows->slots;
        return merge_beat(rows, number, text, row->revision, now);
    }
    if (row->revision > rows->table_revision) {
        rows->table_revision = row->revision;
    }
    if (has_number(rows, row->key, NODES, TRI_NODES_MAX, &number)) {
        rows->slots = number >= rows->slots ? number + 1 : rows->slots;
        return merge_node(rows, number, text, row->revision);
    }
    if (has_number(rows, row->key, SHARDS, TRI_SHARDS, &number)) {
        rows->shards[number].revision = row->revision;
        return read_shard(text, &rows->shards[number].owner);
    }
    tri_rows_key(rows, key, "/table/cluster");
    if (strcmp(row->key, key) == 0) {
        rows->cluster = row->revision;
        (void)tri_rows_write_cluster(expected);
        return strcmp(text, expected) == 0;
    }
    return false;
}

tr_err tri_rows_merge(tri_rows *rows, const tri_engine_op *op, tr_nanos now,
                      char why[TRI_ROWS_TEXT_MAX])
{
    char text[TRI_ROWS_VALUE_MAX];
    tr_err err = TR_OK;

    TRI_CHECK(op->answer == TRI_ENGINE_YES);
    TRI_LIST_EACH_ITEM (row, &op->rows, tri_engine_row, link) {
        bool fits = row->size < sizeof(text);
        if (fits) {
            memcpy(text, row->value, row->size);
            text[row->size] = '\0';
            fits = merge_row(rows, row, text, now);
        }
        if (!fits) {
            (void)snprintf(why, TRI_ROWS_TEXT_MAX,
                           "the engine's row %s was written by another version "
                           "of Troupe, or for another number of shards: use "
                           "another namespace, or that version",
                           row->key);
            err = TR_EINVAL;
        }
    }
    rows->is_read = true;
    rows->revision = op->revision;
    return err;
}

/* ---- asking ---- */

bool tri_rows_is_live(const tri_rows *rows, tri_node node)
{
    if (node.slot >= rows->slots || node.incarnation == 0) {
        return false;
    }
    const tri_member_record *record = &rows->members[node.slot].record;
    return record->incarnation == node.incarnation &&
           record->phase != TRI_MEMBER_PHASE_JOINING;
}

bool tri_rows_is_eligible(const tri_rows *rows, uint32_t slot)
{
    return slot < rows->slots && rows->members[slot].record.incarnation != 0 &&
           rows->members[slot].record.phase == TRI_MEMBER_PHASE_UP &&
           !rows->members[slot].record.is_client;
}

uint32_t tri_rows_free_slot(const tri_rows *rows)
{
    for (uint32_t i = 0; i < TRI_NODES_MAX; i++) {
        if (rows->members[i].record.incarnation == 0) {
            return i;
        }
    }
    return TRI_NODE_NONE;
}

static void copy_member(tri_member *to, const tri_member_record *from)
{
    to->incarnation = from->incarnation;
    to->is_leaving = from->phase == TRI_MEMBER_PHASE_LEAVING;
    to->is_client = from->is_client;
    (void)snprintf(to->address, sizeof(to->address), "%s", from->address);
    (void)snprintf(to->kinds, sizeof(to->kinds), "%s", from->kinds);
}

tri_view *tri_rows_view(const tri_rows *rows)
{
    tri_view *view = tri_view_new(rows->table_revision, rows->slots);

    if (view == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < rows->slots; i++) {
        const tri_member_record *record = &rows->members[i].record;
        if (record->incarnation != 0 &&
            record->phase != TRI_MEMBER_PHASE_JOINING) {
            copy_member(&view->members[i], record);
        }
    }
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_shard_owner *owner = &view->shards[i];
        *owner = rows->shards[i].owner;
        if (!tri_rows_is_live(rows, owner->node)) {
            owner->node = (tri_node){.slot = TRI_NODE_NONE};
            owner->next = TRI_NODE_NONE;
        }
    }
    return view;
}
