/*
 * list.h - an intrusive doubly linked list: the one list of the library.
 *
 * A tri_link is embedded in each item; tri_list_item leads from the link back
 * to the item. An item that is in several lists at once has several links.
 * The list allocates nothing and owns nothing.
 *
 * Memory that is all zero is valid: a zero link is in no list, and a zero list
 * is empty. Only memory that is not zeroed needs tri_link_init and
 * tri_list_init.
 *
 * Invariant: a list that has been used is a ring through its head, so
 * link->next->prev == link for every link of it, and a link is in a list
 * exactly while its `next` is not NULL. The links point to the head, so a list
 * must not move while it has items (tri_list_move takes the items elsewhere).
 *
 * Threads: none of this is thread-safe; the owner of a list locks it.
 */
#ifndef TRI_BASE_LIST_H
#define TRI_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/check.h"

typedef struct tri_link {
    struct tri_link *next, *prev;  // both NULL while in no list
} tri_link;

typedef struct tri_list {
    tri_link head;  // not embedded in an item; `next` is the first link
} tri_list;

/* Returns the item in which `link` is embedded as `member`; NULL for NULL. */
#define tri_list_item(link, type, member)                                      \
    ((type *)tri_link_outer((link), offsetof(type, member)))

static inline void *tri_link_outer(tri_link *link, size_t offset)
{
    return link == NULL ? NULL : (char *)link - offset;
}

static inline void tri_link_init(tri_link *link)
{
    *link = (tri_link){NULL, NULL};
}

static inline void tri_list_init(tri_list *list)
{
    list->head.next = &list->head;
    list->head.prev = &list->head;
}

static inline bool tri_link_is_linked(const tri_link *link)
{
    return link->next != NULL;
}

static inline bool tri_list_is_empty(const tri_list *list)
{
    return list->head.next == NULL || list->head.next == &list->head;
}

/* Returns the first link, or NULL if the list is empty. */
static inline tri_link *tri_list_first(const tri_list *list)
{
    return tri_list_is_empty(list) ? NULL : list->head.next;
}

/* Returns the last link, or NULL if the list is empty. */
static inline tri_link *tri_list_last(const tri_list *list)
{
    return tri_list_is_empty(list) ? NULL : list->head.prev;
}

/* Returns the link after `link`, which is in `list`; NULL after the last. */
static inline tri_link *tri_list_next(const tri_list *list,
                                      const tri_link *link)
{
    TRI_CHECK_SLOW(tri_link_is_linked(link));
    return link->next == &list->head ? NULL : link->next;
}

/* Returns the link before `link`, which is in `list`; NULL before the first. */
static inline tri_link *tri_list_prev(const tri_list *list,
                                      const tri_link *link)
{
    TRI_CHECK_SLOW(tri_link_is_linked(link));
    return link->prev == &list->head ? NULL : link->prev;
}

/*
 * Inserts `link` after `before`, which is in a list, and overwrites what `link`
 * was linked to: for links of a list that is given up as a whole.
 */
static inline void tri_link_relink(tri_link *before, tri_link *link)
{
    TRI_CHECK_SLOW(tri_link_is_linked(before));
    link->prev = before;
    link->next = before->next;
    before->next->prev = link;
    before->next = link;
}

/* Inserts `link`, which is in no list, after `before`, which is in one. */
static inline void tri_link_insert(tri_link *before, tri_link *link)
{
    TRI_CHECK(!tri_link_is_linked(link));
    tri_link_relink(before, link);
}

/* Inserts `link`, which is in no list, before the first. */
static inline void tri_list_push_front(tri_list *list, tri_link *link)
{
    if (list->head.next == NULL) {
        tri_list_init(list);
    }
    tri_link_insert(&list->head, link);
}

/* Inserts `link`, which is in no list, after the last. */
static inline void tri_list_push_back(tri_list *list, tri_link *link)
{
    if (list->head.next == NULL) {
        tri_list_init(list);
    }
    tri_link_insert(list->head.prev, link);
}

/* Takes `link` out of the list it is in; it must be in one. */
static inline void tri_list_remove(tri_link *link)
{
    TRI_CHECK(tri_link_is_linked(link));
    TRI_CHECK_SLOW(link->next->prev == link);
    TRI_CHECK_SLOW(link->prev->next == link);
    link->next->prev = link->prev;
    link->prev->next = link->next;
    tri_link_init(link);
}

/* Takes the first link out and returns it, or NULL if the list is empty. */
static inline tri_link *tri_list_pop_front(tri_list *list)
{
    tri_link *link = tri_list_first(list);

    if (link != NULL) {
        tri_list_remove(link);
    }
    return link;
}

/* Takes the last link out and returns it, or NULL if the list is empty. */
static inline tri_link *tri_list_pop_back(tri_list *list)
{
    tri_link *link = tri_list_last(list);

    if (link != NULL) {
        tri_list_remove(link);
    }
    return link;
}

/* Moves all links of `from` to the end of `to`, in their order. */
static inline void tri_list_move(tri_list *to, tri_list *from)
{
    TRI_CHECK(to != from);
    if (tri_list_is_empty(from)) {
        return;
    }
    if (to->head.next == NULL) {
        tri_list_init(to);
    }
    from->head.next->prev = to->head.prev;
    to->head.prev->next = from->head.next;
    from->head.prev->next = &to->head;
    to->head.prev = from->head.prev;
    tri_list_init(from);
}

/* Returns where a walk begins: the first link, or the head of an empty list. */
static inline tri_link *tri_list_begin(const tri_list *list)
{
    return list->head.next != NULL ? list->head.next
                                   : (tri_link *)(uintptr_t)&list->head;
}

/*
 * Walks the links from first to last; `link` is declared here. The body must
 * not remove `link`. A walk ends at the head, which is one comparison per
 * step; tri_list_next would need two.
 */
#define TRI_LIST_EACH(link, list)                                              \
    for (tri_link *link = tri_list_begin(list); link != &(list)->head;         \
         link = link->next)

/* Like TRI_LIST_EACH; the body may remove `link`, but not the one after it. */
#define TRI_LIST_EACH_SAFE(link, list)                                         \
    for (tri_link *link = tri_list_first(list),                                \
                  *link##_next = tri_list_after(list, link);                   \
         link != NULL;                                                         \
         link = link##_next, link##_next = tri_list_after(list, link))

/* Walks the items whose `member` is in the list; `item` is declared here. */
#define TRI_LIST_EACH_ITEM(item, list, type, member)                           \
    for (type *item = tri_container_of(tri_list_begin(list), type, member);    \
         &item->member != &(list)->head;                                       \
         item = tri_container_of(item->member.next, type, member))

/* tri_list_next that accepts NULL, for TRI_LIST_EACH_SAFE. */
static inline tri_link *tri_list_after(const tri_list *list,
                                       const tri_link *link)
{
    return link == NULL ? NULL : tri_list_next(list, link);
}

/* Walks the whole list and checks the invariant. */
static inline void tri_list_check(const tri_list *list)
{
    const tri_link *link = &list->head;

    if (link->next == NULL) {
        TRI_CHECK(link->prev == NULL);
        return;
    }
    do {
        TRI_CHECK(link->next != NULL);
        TRI_CHECK(link->next->prev == link);
        link = link->next;
    } while (link != &list->head);
}

#endif
