/*
 * sqlite_journal.c - the index of what is not folded yet.
 *
 * Invariant: the map and the list hold the same entries, one for each key,
 * and map.count + promised puts fit into the map without allocating.
 */
#include "storage/sqlite_journal.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define ROOM_MIN 4096

static bool entry_is(const void *value, const void *key, size_t size)
{
    const tri_journal_entry *it = value;

    return it->key_size == size && memcmp(it->key, key, size) == 0;
}

void tri_journal_init(tri_journal *journal)
{
    memset(journal, 0, sizeof(*journal));
    tri_lock_init(&journal->lock);
    tri_map_init(&journal->map, entry_is, NULL);
    tri_list_init(&journal->entries);
}

void tri_journal_fini(tri_journal *journal)
{
    tri_link *link;

    while ((link = tri_list_pop_front(&journal->entries)) != NULL) {
        tri_journal_entry_free(tri_container_of(link, tri_journal_entry, link));
    }
    tri_map_fini(&journal->map);
}

tri_journal_entry *tri_journal_entry_new(tri_store_bytes key,
                                         tri_store_bytes bytes)
{
    tri_journal_entry *entry = calloc(1, sizeof(*entry) + key.size);

    if (entry == NULL) {
        return NULL;
    }
    entry->bytes = malloc(bytes.size + 1);
    if (entry->bytes == NULL) {
        free(entry);
        return NULL;
    }
    if (key.size > 0) {
        memcpy(entry->key, key.at, key.size);
    }
    if (bytes.size > 0) {
        memcpy(entry->bytes, bytes.at, bytes.size);
    }
    entry->key_size = key.size;
    entry->size = bytes.size;
    return entry;
}

void tri_journal_entry_free(tri_journal_entry *entry)
{
    if (entry != NULL) {
        TRI_CHECK(!entry->pinned);
        free(entry->bytes);
        free(entry);
    }
}

tr_err tri_journal_promise(tri_journal *journal, uint32_t count)
{
    tri_lock_take(&journal->lock);
    uint32_t all = tri_map_count(&journal->map) + journal->promised + count;
    tr_err err = tri_map_reserve(&journal->map, all);
    if (err == TR_OK) {
        journal->promised += count;
    }
    tri_lock_drop(&journal->lock);
    return err;
}

void tri_journal_unpromise(tri_journal *journal, uint32_t count)
{
    tri_lock_take(&journal->lock);
    TRI_CHECK(journal->promised >= count);
    journal->promised -= count;
    tri_lock_drop(&journal->lock);
}

/* Moves the newer state from `entry` into `held`. */
static void replace(tri_journal *journal, tri_journal_entry *held,
                    tri_journal_entry *entry)
{
    void *bytes = held->bytes;

    journal->size -= held->size;
    journal->size += entry->size;
    held->row = entry->row;
    held->version = entry->version;
    held->bytes = entry->bytes;
    held->size = entry->size;
    entry->bytes = bytes;
    // Two threads may put the same rows at the same time, so the list is not
    // quite in order; prune stops at a newer row and goes on the next time.
    tri_list_remove(&held->link);
    tri_list_push_back(&journal->entries, &held->link);
}

void tri_journal_put(tri_journal *journal, tri_journal_entry *entry)
{
    TRI_CHECK(entry->row > 0);
    tri_lock_take(&journal->lock);
    TRI_CHECK(journal->promised > 0);
    journal->promised--;
    tri_journal_entry *held =
        tri_map_get_bytes(&journal->map, entry->key, entry->key_size);
    if (held == NULL) {
        TRI_CHECK(tri_map_put_bytes(&journal->map, entry->key, entry->key_size,
                                    entry) == TR_OK);
        tri_list_push_back(&journal->entries, &entry->link);
        journal->size += entry->size;
        entry = NULL;
    } else if (held->row < entry->row) {
        replace(journal, held, entry);
    }
    tri_lock_drop(&journal->lock);
    tri_journal_entry_free(entry);
}

void tri_journal_set_known(tri_journal *journal, uint64_t row)
{
    tri_lock_take(&journal->lock);
    journal->known = TRI_MAX(journal->known, row);
    tri_lock_drop(&journal->lock);
}

uint64_t tri_journal_known(tri_journal *journal)
{
    tri_lock_take(&journal->lock);
    uint64_t known = journal->known;
    tri_lock_drop(&journal->lock);
    return known;
}

uint64_t tri_journal_size(tri_journal *journal)
{
    tri_lock_take(&journal->lock);
    uint64_t size = journal->size;
    tri_lock_drop(&journal->lock);
    return size;
}

/* NULL: not here, or folded. */
static tri_journal_entry *find(tri_journal *journal, tri_store_bytes key,
                               uint64_t folded)
{
    tri_lock_assert_held(&journal->lock);
    tri_journal_entry *entry =
        tri_map_get_bytes(&journal->map, key.at, key.size);
    return entry != NULL && entry->row > folded ? entry : NULL;
}

bool tri_journal_version(tri_journal *journal, tri_store_bytes key,
                         uint64_t folded, uint64_t *version)
{
    tri_lock_take(&journal->lock);
    const tri_journal_entry *entry = find(journal, key, folded);
    if (entry != NULL) {
        *version = entry->version;
    }
    tri_lock_drop(&journal->lock);
    return entry != NULL;
}

bool tri_journal_load(tri_journal *journal, tri_store_op *op, uint64_t folded)
{
    tri_lock_take(&journal->lock);
    const tri_journal_entry *entry = find(journal, op->key, folded);
    if (entry != NULL && entry->version > 0) {
        (void)tri_store_give(op, entry->bytes, entry->size, entry->version);
    }
    tri_lock_drop(&journal->lock);
    return entry != NULL;
}

static bool is_prunable(tri_link *link, uint64_t folded)
{
    const tri_journal_entry *entry =
        tri_container_of(link, tri_journal_entry, link);

    return entry->row <= folded && !entry->pinned;
}

void tri_journal_prune(tri_journal *journal, uint64_t folded)
{
    tri_link *link;

    for (;;) {
        // One by one, so that the writer never waits for all of them.
        tri_lock_take(&journal->lock);
        link = tri_list_first(&journal->entries);
        if (link == NULL || !is_prunable(link, folded)) {
            break;
        }
        tri_journal_entry *entry =
            tri_container_of(link, tri_journal_entry, link);
        tri_list_remove(link);
        TRI_CHECK(tri_map_remove_bytes(&journal->map, entry->key,
                                       entry->key_size) == entry);
        journal->size -= entry->size;
        tri_lock_drop(&journal->lock);
        tri_journal_entry_free(entry);
    }
    tri_lock_drop(&journal->lock);
}

/* ---- folding ---- */

static int compare(const void *a, const void *b)
{
    const tri_journal_entry *left = *(tri_journal_entry *const *)a;
    const tri_journal_entry *right = *(tri_journal_entry *const *)b;
    size_t common = (size_t)TRI_MIN(left->key_size, right->key_size);
    int order = memcmp(left->key, right->key, common);

    if (order != 0) {
        return order;
    }
    return left->key_size < right->key_size ? -1 : 1;
}

tri_journal_entry **tri_journal_pin(tri_journal *journal, uint64_t folded,
                                    uint64_t *upto, size_t *count)
{
    *count = 0;
    tri_lock_take(&journal->lock);
    size_t all = tri_map_count(&journal->map);
    *upto = journal->known;
    tri_journal_entry **entries =
        all == 0 ? NULL : malloc(all * sizeof(*entries));
    if (entries != NULL) {
        TRI_LIST_EACH(link, &journal->entries)
        {
            tri_journal_entry *it =
                tri_container_of(link, tri_journal_entry, link);
            if (it->row > folded && it->row <= *upto) {
                TRI_CHECK(!it->pinned);
                it->pinned = true;
                entries[(*count)++] = it;
            }
        }
    }
    tri_lock_drop(&journal->lock);
    if (*count > 0) {
        // Neighbours in the table by key are then written together.
        qsort(entries, *count, sizeof(tri_journal_entry *), compare);
    }
    return entries;
}

void tri_journal_unpin(tri_journal *journal, tri_journal_entry **entries,
                       size_t count)
{
    tri_lock_take(&journal->lock);
    for (size_t i = 0; i < count; i++) {
        TRI_CHECK(entries[i]->pinned);
        entries[i]->pinned = false;
    }
    tri_lock_drop(&journal->lock);
}

static bool grow(void **room, size_t *room_size, size_t size)
{
    if (size <= *room_size) {
        return true;
    }
    size = (size_t)TRI_MAX(size, ROOM_MIN);
    void *grown = realloc(*room, size);
    if (grown == NULL) {
        return false;
    }
    *room = grown;
    *room_size = size;
    return true;
}

tr_err tri_journal_copy(tri_journal *journal, const tri_journal_entry *entry,
                        uint64_t folded, uint64_t upto, void **room,
                        size_t *room_size, uint64_t *version, size_t *size)
{
    tr_err err = TR_OK;

    tri_lock_take(&journal->lock);
    TRI_CHECK(entry->pinned);
    if (entry->row <= folded || entry->row > upto) {
        err = TR_ENOENT;
    } else if (!grow(room, room_size, entry->size + 1)) {
        err = TR_ENOMEM;
    } else {
        memcpy(*room, entry->bytes, entry->size);
        *version = entry->version;
        *size = entry->size;
    }
    tri_lock_drop(&journal->lock);
    return err;
}
