/*
 * message.c - making and freeing messages.
 *
 * Invariant: item.klass and item.flags of a message are enough to find the
 * beginning of its block and to free it (message.h draws the block).
 */
#include "core/cell/message.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/cell/cache.h"
#include "core/cell/mem.h"
#include "schema/pack.h"

/* Returns a block with room in front for the parts that `flags` name. */
static tr_msg *new_block(tri_cache *cache, const tr_type *type, size_t size,
                         uint8_t flags)
{
    if (size > SIZE_MAX / 4) {
        return NULL;
    }
    size_t front = (flags & TRI_MSG_ASK ? sizeof(tri_ask) : 0) +
                   (flags & TRI_MSG_CONTEXT ? sizeof(tr_context) : 0);
    size_t total = sizeof(tr_msg) + size + front;
    uint32_t klass = total <= TRI_CLASS_TABLE_MAX ? tri_class_by_table(total)
                                                  : tri_class_of(total);
    char *block = klass == TRI_CLASS_BIG ? tri_big_alloc(cache->mem, total)
                                         : tri_cache_alloc(cache, klass);
    if (block == NULL) {
        return NULL;
    }
    tr_msg *msg = (tr_msg *)(void *)(block + front);
    msg->item.next = NULL;
    msg->item.type = type;
    tri_item_mark(&msg->item, TRI_ITEM_USER, klass, flags);
    return msg;
}

tr_msg *tri_msg_new_raw(tri_cache *cache, const tr_type *type, size_t size,
                        bool ask)
{
    return new_block(cache, type, size, ask ? TRI_MSG_ASK : 0);
}

/* Makes a message with a copy of the payload and of all its texts. */
static tr_msg *new_packed(tri_cache *cache, const tr_type *type,
                          const void *payload, uint8_t flags)
{
    TRI_CHECK_SLOW(type != NULL);
    if (TRI_LIKELY(type->var_count == 0)) {
        tr_msg *msg = new_block(cache, type, type->size, flags);
        if (msg != NULL) {
            tri_copy_payload(msg->payload, payload, type->size);
        }
        return msg;
    }
    size_t tail = tri_pack_size(type, payload);
    if (tail == SIZE_MAX) {
        return NULL;
    }
    size_t head = (type->size + 15u) & ~(size_t)15;
    tr_msg *msg = new_block(cache, type, head + tail, flags);
    if (msg != NULL) {
        tri_pack(type, msg->payload, payload, msg->payload + head);
        msg->item.flags |= TRI_MSG_BLOBS;
    }
    return msg;
}

tr_msg *tri_msg_new(tri_cache *cache, const tr_type *type, const void *payload,
                    bool ask)
{
    return new_packed(cache, type, payload, ask ? TRI_MSG_ASK : 0);
}

tr_msg *tri_msg_new_with(tri_cache *cache, const tr_type *type,
                         const void *payload, bool ask,
                         const tr_context *context)
{
    uint8_t flags = (uint8_t)((ask ? TRI_MSG_ASK : 0) |
                              (context != NULL ? TRI_MSG_CONTEXT : 0));
    tr_msg *msg = new_packed(cache, type, payload, flags);
    if (msg != NULL && context != NULL) {
        *tri_msg_context(msg) = *context;
    }
    return msg;
}

void tri_msg_free_slow(tri_cache *cache, tr_msg *msg)
{
    uint8_t flags = msg->item.flags;
    TRI_CHECK((flags & TRI_MSG_TIMER) == 0);  // freed with its timer

    if (flags & TRI_MSG_ERROR) {
        free(((tri_error_reply *)(void *)msg->payload)->text);
    } else if (flags & TRI_MSG_BLOBS) {
        tri_pack_release(msg->item.type, msg->payload);
    }
    void *block = flags & TRI_MSG_CONTEXT ? (void *)tri_msg_context(msg)
                  : flags & TRI_MSG_ASK   ? (void *)tri_msg_ask(msg)
                                          : msg;
    if (msg->item.klass == TRI_CLASS_STACK) {
        return;  // its memory is the frame of tri_handle_on_stack
    }
    if (msg->item.klass == TRI_CLASS_BIG) {
        tri_big_free(cache->mem, block);
    } else {
        tri_cache_free(cache, msg->item.klass, block);
    }
}

void tri_msg_become_error(tr_msg *msg, tr_err err, char *text_taken)
{
    _Static_assert(sizeof(tri_error_reply) + sizeof(tr_msg) + sizeof(tri_ask) <=
                       96,
                   "every request has room for its error");
    TRI_CHECK(msg->item.flags & TRI_MSG_ASK);
    TRI_CHECK((msg->item.flags & TRI_MSG_TIMER) == 0);
    if (msg->item.flags & TRI_MSG_BLOBS) {
        tri_pack_release(msg->item.type, msg->payload);
    }
    tri_error_reply error = {.err = err, .text = text_taken};
    memcpy(msg->payload, &error, sizeof(error));
    msg->item.type = NULL;
    msg->item.kind = TRI_ITEM_REPLY;
    msg->item.flags =
        TRI_MSG_ASK | TRI_MSG_ERROR | (msg->item.flags & TRI_MSG_CONTEXT);
}
