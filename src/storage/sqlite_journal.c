/*
 * sqlite_journal.c - the index of states that are not folded yet.
 *
 * Invariant: the map has one entry for each key, and `entries` has those that
 * have a row. An entry without a row is claimed; readers and folds ignore it,
 * because its row, 0, is not after any `folded`.
 */
#include "storage/sqlite_journal.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"

#define BUFFER_MIN     4096
#define SPARE_MAX      4096  // larger buffers are not kept for the next state
#define END_CLAIMS_MAX 64    // claims ended while the lock is held once

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

static void entry_free(tri_journal_entry *entry)
{
    if (entry != NULL) {
        TRI_CHECK(!entry->pinned);
        TRI_CHECK(!entry->claimed);
        free(entry->bytes);
        free(entry->next_bytes);
        free(entry);
    }
}

void tri_journal_check(tri_journal *journal)
{
    size_t count = 0, claimed = 0;
    uint64_t size = 0;
    const tri_journal_entry *it;

    tri_lock_take(&journal->lock);
    for (tri_map_iter i = tri_map_iter_begin(&journal->map);
         (it = tri_map_iter_next(&journal->map, &i)) != NULL;) {
        TRI_CHECK(it->row > 0 || it->claimed);
        TRI_CHECK(tri_link_is_linked(&it->link) == (it->row > 0));
        TRI_CHECK(it->size <= it->capacity);
        claimed += it->row == 0;
        size += it->size;
    }
    TRI_LIST_EACH (link, &journal->entries) {
        count++;
    }
    TRI_CHECK(count + claimed == tri_map_count(&journal->map));
    TRI_CHECK(size == journal->size);
    tri_lock_drop(&journal->lock);
}

void tri_journal_fini(tri_journal *journal)
{
    tri_link *link;

    tri_journal_check(journal);
    while ((link = tri_list_pop_front(&journal->entries)) != NULL) {
        entry_free(tri_container_of(link, tri_journal_entry, link));
    }
    tri_map_fini(&journal->map);
}

/* Adds an entry without a row. Returns NULL if there is no memory. */
static tri_journal_entry *entry_add(tri_journal *journal, uint64_t hash,
                                    tri_store_bytes key)
{
    tri_journal_entry *entry = calloc(1, sizeof(*entry) + key.size);

    tri_lock_assert_held(&journal->lock);
    if (entry == NULL) {
        return NULL;
    }
    if (key.size > 0) {
        memcpy(entry->key, key.at, key.size);
    }
    entry->key_size = key.size;
    entry->hash = hash;
    if (tri_map_put_hashed(&journal->map, hash, entry->key, key.size, entry) !=
        TR_OK) {
        free(entry);
        return NULL;
    }
    return entry;
}

static void entry_remove(tri_journal *journal, tri_journal_entry *entry)
{
    tri_lock_assert_held(&journal->lock);
    TRI_CHECK(tri_map_remove_hashed(&journal->map, entry->hash, entry->key,
                                    entry->key_size) == entry);
}

tr_err tri_journal_stage(tri_journal_entry *entry, uint64_t row,
                         uint64_t version, tri_store_bytes bytes)
{
    TRI_CHECK(entry->claimed);
    TRI_CHECK(row > 0);
    if (entry->next_capacity < bytes.size + 1) {
        void *grown = realloc(entry->next_bytes, bytes.size + 1);
        if (grown == NULL) {
            return TR_ENOMEM;
        }
        entry->next_bytes = grown;
        entry->next_capacity = bytes.size + 1;
    }
    if (bytes.size > 0) {
        memcpy(entry->next_bytes, bytes.at, bytes.size);
    }
    entry->next_row = row;
    entry->next_version = version;
    entry->next_size = bytes.size;
    return TR_OK;
}

/*
 * Gives the entry another state and moves it to the end of the list. Returns
 * the buffer of the old state. Two threads may put the same rows at the same
 * time, so the list is only roughly sorted by row. That does no harm: a prune
 * stops at a row that is too new, and the next prune goes on from there.
 */
static void *set_state(tri_journal *journal, tri_journal_entry *entry,
                       uint64_t row, uint64_t version, void *bytes, size_t size)
{
    void *old = entry->bytes;

    tri_lock_assert_held(&journal->lock);
    if (entry->row > 0) {
        tri_list_remove(&entry->link);
    }
    tri_list_push_back(&journal->entries, &entry->link);
    journal->size += size;
    journal->size -= entry->size;
    entry->row = row;
    entry->version = version;
    entry->bytes = bytes;
    entry->size = size;
    return old;
}

/*
 * Replaces the state of the entry by the staged one. Returns a buffer for the
 * caller to free, or NULL.
 */
static void *put_staged(tri_journal *journal, tri_journal_entry *entry)
{
    size_t capacity = entry->capacity;
    void *old = set_state(journal, entry, entry->next_row, entry->next_version,
                          entry->next_bytes, entry->next_size);

    // A small buffer is kept for the next state to be staged.
    bool keep = capacity <= SPARE_MAX;
    entry->capacity = entry->next_capacity;
    entry->next_bytes = keep ? old : NULL;
    entry->next_capacity = keep ? capacity : 0;
    return keep ? NULL : old;
}

tr_err tri_journal_put(tri_journal *journal, tri_store_bytes key, uint64_t row,
                       uint64_t version, tri_store_bytes bytes)
{
    uint64_t hash = tri_hash_bytes(key.at, key.size);
    void *own = malloc(bytes.size + 1);

    TRI_CHECK(row > 0);
    if (own == NULL) {
        return TR_ENOMEM;
    }
    if (bytes.size > 0) {
        memcpy(own, bytes.at, bytes.size);
    }
    tri_lock_take(&journal->lock);
    tri_journal_entry *entry =
        tri_map_get_hashed(&journal->map, hash, key.at, key.size);
    if (entry == NULL) {
        entry = entry_add(journal, hash, key);
    }
    tr_err err = entry == NULL ? TR_ENOMEM : TR_OK;
    if (entry != NULL && entry->row < row) {
        own = set_state(journal, entry, row, version, own, bytes.size);
        entry->capacity = bytes.size + 1;
    }
    tri_lock_drop(&journal->lock);
    free(own);
    return err;
}

/* Puts the entry into `claims`, unless it is there already. */
static void claim(tri_journal_entry *entry, tri_list *claims)
{
    if (!entry->claimed) {
        entry->claimed = true;
        entry->next_row = 0;
        tri_list_push_back(claims, &entry->claim);
    }
}

tri_journal_entry *tri_journal_claim(tri_journal *journal, tri_store_bytes key,
                                     uint64_t folded, tri_list *claims,
                                     bool *known, uint64_t *version)
{
    uint64_t hash = tri_hash_bytes(key.at, key.size);

    *known = false;
    *version = 0;
    tri_lock_take(&journal->lock);
    tri_journal_entry *entry =
        tri_map_get_hashed(&journal->map, hash, key.at, key.size);
    if (entry != NULL) {
        claim(entry, claims);
        bool staged = entry->next_row > 0;
        *known = staged || entry->row > folded;
        *version = staged ? entry->next_version : entry->version;
    }
    tri_lock_drop(&journal->lock);
    return entry;
}

tri_journal_entry *tri_journal_claim_new(tri_journal *journal,
                                         tri_store_bytes key, tri_list *claims)
{
    uint64_t hash = tri_hash_bytes(key.at, key.size);

    tri_lock_take(&journal->lock);
    // Searches again: the reader may have put a row of another process.
    tri_journal_entry *entry =
        tri_map_get_hashed(&journal->map, hash, key.at, key.size);
    if (entry == NULL) {
        entry = entry_add(journal, hash, key);
    }
    if (entry != NULL) {
        claim(entry, claims);
    }
    tri_lock_drop(&journal->lock);
    return entry;
}

/*
 * Ends one claim. *old: a buffer to free, or NULL. Returns the entry if it has
 * no row: it is out of the index, and the caller frees it.
 */
static tri_journal_entry *end_claim(tri_journal *journal,
                                    tri_journal_entry *entry, bool committed,
                                    void **old)
{
    tri_lock_assert_held(&journal->lock);
    *old = NULL;
    if (committed && entry->next_row > entry->row) {
        *old = put_staged(journal, entry);
    }
    entry->next_row = 0;
    entry->claimed = false;
    if (entry->row > 0) {
        return NULL;
    }
    entry_remove(journal, entry);
    return entry;
}

void tri_journal_end_claims(tri_journal *journal, tri_list *claims,
                            bool committed)
{
    void *bytes[END_CLAIMS_MAX];
    tri_journal_entry *entries[END_CLAIMS_MAX];

    while (!tri_list_is_empty(claims)) {
        uint32_t count = 0;
        tri_link *link;
        tri_lock_take(&journal->lock);
        while (count < END_CLAIMS_MAX &&
               (link = tri_list_pop_front(claims)) != NULL) {
            entries[count] = end_claim(
                journal, tri_container_of(link, tri_journal_entry, claim),
                committed, &bytes[count]);
            count++;
        }
        tri_lock_drop(&journal->lock);
        for (uint32_t i = 0; i < count; i++) {
            free(bytes[i]);
            entry_free(entries[i]);
        }
    }
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

/* Returns the entry of the key, or NULL if it has no row after `folded`. */
static tri_journal_entry *find(tri_journal *journal, tri_store_bytes key,
                               uint64_t folded)
{
    tri_lock_assert_held(&journal->lock);
    tri_journal_entry *entry =
        tri_map_get_bytes(&journal->map, key.at, key.size);
    return entry != NULL && entry->row > folded ? entry : NULL;
}

bool tri_journal_load(tri_journal *journal, tri_store_op *op, uint64_t folded)
{
    tri_lock_take(&journal->lock);
    const tri_journal_entry *entry = find(journal, op->key, folded);
    if (entry != NULL && entry->version > 0) {
        (void)tri_store_set_state(op, entry->bytes, entry->size,
                                  entry->version);
    }
    tri_lock_drop(&journal->lock);
    return entry != NULL;
}

static bool is_prunable(tri_link *link, uint64_t folded)
{
    const tri_journal_entry *entry =
        tri_container_of(link, tri_journal_entry, link);

    return entry->row <= folded && !entry->pinned && !entry->claimed;
}

void tri_journal_prune(tri_journal *journal, uint64_t folded)
{
    tri_link *link;

    for (;;) {
        // The lock is dropped after each entry, so that the writer waits
        // for one removal at most.
        tri_lock_take(&journal->lock);
        link = tri_list_first(&journal->entries);
        if (link == NULL || !is_prunable(link, folded)) {
            break;
        }
        tri_journal_entry *entry =
            tri_container_of(link, tri_journal_entry, link);
        tri_list_remove(link);
        entry_remove(journal, entry);
        journal->size -= entry->size;
        tri_lock_drop(&journal->lock);
        entry_free(entry);
    }
    tri_lock_drop(&journal->lock);
}

/* ---- folding ---- */

/* Sorts entries by key. */
static int compare_keys(const void *a, const void *b)
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
        TRI_LIST_EACH (link, &journal->entries) {
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
        // Neighbours in the table `state` are then written together.
        qsort(entries, *count, sizeof(tri_journal_entry *), compare_keys);
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

/* Makes the buffer at least `size` bytes long. False: no memory. */
static bool grow(void **buffer, size_t *capacity, size_t size)
{
    if (size <= *capacity) {
        return true;
    }
    size = (size_t)TRI_MAX(size, BUFFER_MIN);
    void *grown = realloc(*buffer, size);
    if (grown == NULL) {
        return false;
    }
    *buffer = grown;
    *capacity = size;
    return true;
}

tr_err tri_journal_copy(tri_journal *journal, const tri_journal_entry *entry,
                        uint64_t folded, uint64_t upto, void **buffer,
                        size_t *capacity, uint64_t *version, size_t *size)
{
    tr_err err = TR_OK;

    tri_lock_take(&journal->lock);
    TRI_CHECK(entry->pinned);
    if (entry->row <= folded || entry->row > upto) {
        err = TR_ENOENT;
    } else if (!grow(buffer, capacity, entry->size + 1)) {
        err = TR_ENOMEM;
    } else {
        memcpy(*buffer, entry->bytes, entry->size);
        *version = entry->version;
        *size = entry->size;
    }
    tri_lock_drop(&journal->lock);
    return err;
}
