/*
 * list.h - an intrusive doubly linked list.
 *
 * A tri_link is embedded in each item; tri_container_of leads back to it. The
 * list owns nothing. A link that is all zero is in no list.
 *
 * Threads: none of this is thread-safe.
 */
#ifndef TRI_BASE_LIST_H
#define TRI_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/check.h"

typedef struct tri_link {
    struct tri_link *next, *prev;  // both NULL when in no list
} tri_link;

/* A ring through its head, which is no item. Must not move once in use. */
typedef struct tri_list {
    tri_link head;
} tri_list;

static inline void tri_list_init(tri_list *list)
{
    list->head.next = &list->head;
    list->head.prev = &list->head;
}

static inline bool tri_list_is_empty(const tri_list *list)
{
    return list->head.next == &list->head;
}

static inline bool tri_link_is_linked(const tri_link *link)
{
    return link->next != NULL;
}

/* The first and last item's link, or NULL. */
static inline tri_link *tri_list_first(const tri_list *list)
{
    return tri_list_is_empty(list) ? NULL : list->head.next;
}

static inline tri_link *tri_list_last(const tri_list *list)
{
    return tri_list_is_empty(list) ? NULL : list->head.prev;
}

/* Moves all items of `from` to the end of `to`. */
static inline void tri_list_move(tri_list *to, tri_list *from)
{
    if (!tri_list_is_empty(from)) {
        from->head.next->prev = to->head.prev;
        to->head.prev->next = from->head.next;
        from->head.prev->next = &to->head;
        to->head.prev = from->head.prev;
        tri_list_init(from);
    }
}

/* Puts a free link behind `place`, which is in a list or is its head. */
static inline void tri_link_insert(tri_link *place, tri_link *link)
{
    TRI_CHECK(!tri_link_is_linked(link));
    link->prev = place;
    link->next = place->next;
    place->next->prev = link;
    place->next = link;
}

static inline void tri_list_push_front(tri_list *list, tri_link *link)
{
    tri_link_insert(&list->head, link);
}

static inline void tri_list_push_back(tri_list *list, tri_link *link)
{
    tri_link_insert(list->head.prev, link);
}

/* Takes a link out of whichever list it is in; it must be in one. */
static inline void tri_list_remove(tri_link *link)
{
    TRI_CHECK(tri_link_is_linked(link));
    TRI_CHECK_SLOW(link->next->prev == link);
    TRI_CHECK_SLOW(link->prev->next == link);
    link->next->prev = link->prev;
    link->prev->next = link->next;
    link->next = NULL;
    link->prev = NULL;
}

/* Takes the first link out, or gives NULL. */
static inline tri_link *tri_list_pop_front(tri_list *list)
{
    tri_link *link = tri_list_first(list);

    if (link != NULL) {
        tri_list_remove(link);
    }
    return link;
}

/* Walks with `link`, declared here; the list must not change meanwhile. */
#define TRI_LIST_EACH(link, list)                                              \
    for (tri_link *link = (list)->head.next; link != &(list)->head;            \
         link = link->next)

/* As TRI_LIST_EACH, and `link` itself may be removed on the way. */
#define TRI_LIST_EACH_SAFE(link, list)                                         \
    for (tri_link *link = (list)->head.next, *link##_next = link->next;        \
         link != &(list)->head; link = link##_next, link##_next = link->next)

/* Walks all of the list and checks its links. */
static inline void tri_list_check(const tri_list *list)
{
    const tri_link *link = &list->head;

    do {
        TRI_CHECK(link->next != NULL);
        TRI_CHECK(link->next->prev == link);
        link = link->next;
    } while (link != &list->head);
}

#endif
