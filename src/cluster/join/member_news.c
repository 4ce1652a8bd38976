/*
 * member_news.c - tells the program and the log how the members change.
 */
#include "cluster/join/member_news.h"

#include <stddef.h>

#include "base/check.h"
#include "base/world.h"
#include "core/caller.h"
#include "core/system.h"
#include "system/events.h"
#include "system/system_log.h"
#include "troupe/cluster.h"
#include "troupe/observe.h"

static void publish(tr_system *sys, tr_member_change what, tri_node node,
                    const char *address)
{
    if (!tri_event_wanted(sys, &tr_member_event_tr_type)) {
        return;
    }
    tri_caller who = tri_enter((tr_from){.sys = sys});
    tri_event(who.worker, &tr_member_event_tr_type,
              &(tr_member_event){.what = what,
                                 .slot = node.slot,
                                 .incarnation = node.incarnation,
                                 .address = address,
                                 .at = sys->world->ops->mono(sys->world)});
    tri_leave(&who);
}

static void tell(tr_system *sys, tr_member_change what, uint32_t slot,
                 const tri_member *member, tri_node self)
{
    static const char *const texts[] = {[TR_MEMBER_UP] = "is up",
                                        [TR_MEMBER_LEAVING] = "is leaving",
                                        [TR_MEMBER_GONE] = "is gone"};
    tri_node node = {slot, member->incarnation};
    TRI_CHECK(what < TR_MEMBER_LOST);
    tri_logf(sys, TR_LOG_INFO, NULL, NULL, "node %u (%s%s) %s", slot,
             member->address, tri_node_is(node, self) ? ", this one" : "",
             texts[what]);
    publish(sys, what, node, member->address);
}

/* Tells of one slot; before is NULL if it was not there. */
static void compare(tr_system *sys, uint32_t slot, const tri_member *before,
                    const tri_member *after, tri_node self)
{
    TRI_CHECK(before != NULL || after != NULL);
    uint64_t was = before != NULL ? before->incarnation : 0;
    uint64_t is = after != NULL ? after->incarnation : 0;
    if (was != 0 && was != is) {
        tell(sys, TR_MEMBER_GONE, slot, before, self);
    }
    if (is != 0 && was != is) {
        tell(sys, TR_MEMBER_UP, slot, after, self);
    }
    if (is != 0 && after->is_leaving && !(was == is && before->is_leaving)) {
        tell(sys, TR_MEMBER_LEAVING, slot, after, self);
    }
}

void tri_member_news(tr_system *sys, const tri_view *before,
                     const tri_view *after, tri_node self)
{
    TRI_CHECK(after != NULL);
    uint32_t slots = before != NULL && before->slots > after->slots
                         ? before->slots
                         : after->slots;
    for (uint32_t i = 0; i < slots; i++) {
        compare(sys, i,
                before != NULL && i < before->slots ? &before->members[i]
                                                    : NULL,
                i < after->slots ? &after->members[i] : NULL, self);
    }
}

void tri_member_news_lost(tr_system *sys, tri_node self)
{
    publish(sys, TR_MEMBER_LOST, self, "");
}
