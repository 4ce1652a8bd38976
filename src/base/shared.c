/*
 * shared.c - a list with a lock; a world has few shared objects.
 */
#include "base/shared.h"

#include <string.h>

#include "base/check.h"

/* Returns the object of that name, or NULL. The lock is held. */
static tri_shared_object *find(tri_shared *shared, const char *name)
{
    tri_shared_object *object = shared->first;

    tri_lock_assert_held(&shared->lock);
    while (object != NULL && strcmp(object->name, name) != 0) {
        object = object->next;
    }
    return object;
}

tri_shared_object *tri_shared_hold(tri_shared *shared, tri_shared_object *made)
{
    TRI_CHECK(made->name != NULL);
    TRI_CHECK(made->free != NULL);
    tri_lock_take(&shared->lock);
    tri_shared_object *object = find(shared, made->name);
    if (object == NULL) {
        object = made;
        object->holds = 0;
        object->next = shared->first;
        shared->first = object;
    }
    object->holds++;
    tri_lock_drop(&shared->lock);
    if (object != made) {
        made->free(made);
    }
    return object;
}

/* Takes the object out of the list. The lock is held. */
static void unlink_object(tri_shared *shared, tri_shared_object *object)
{
    tri_shared_object **at = &shared->first;

    tri_lock_assert_held(&shared->lock);
    while (*at != object) {
        TRI_CHECK(*at != NULL);
        at = &(*at)->next;
    }
    *at = object->next;
}

void tri_shared_drop(tri_shared *shared, tri_shared_object *object)
{
    tri_lock_take(&shared->lock);
    TRI_CHECK(object->holds > 0);
    bool is_last = --object->holds == 0 && !shared->keeps;
    if (is_last) {
        unlink_object(shared, object);
    }
    tri_lock_drop(&shared->lock);
    if (is_last) {
        object->free(object);
    }
}

void tri_shared_fini(tri_shared *shared)
{
    tri_lock_take(&shared->lock);
    tri_shared_object *object = shared->first;
    shared->first = NULL;
    tri_lock_drop(&shared->lock);
    while (object != NULL) {
        tri_shared_object *next = object->next;
        object->free(object);
        object = next;
    }
}
