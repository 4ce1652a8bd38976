/*
 * member_state.c - the table of this node's own state: what each event does in
 * each state. That another node is dead is decided in member_read.c and written
 * by member_write.c.
 */
#include "cluster/membership/member_state.h"

#include <stdbool.h>

#include "base/check.h"

typedef struct entry {
    bool is_set;
    tri_member_step step;
} entry;

#define DO(event, state, what)                                                 \
    [TRI_MEMBER_##event] = {true, {TRI_MEMBER_##state, TRI_MEMBER_##what}}

static const entry table[TRI_MEMBER_STATES][TRI_MEMBER_EVENTS] = {
    [TRI_MEMBER_OUT] =
        {
            DO(TURN, CREATING, CREATE),
            DO(LEAVE, LEFT, END),
        },
    // Without a record there is no lease that could end. A record that is
    // created after it was not found belongs to nobody, and is declared dead.
    [TRI_MEMBER_CREATING] =
        {
            DO(YES, JOINING, BEGIN),
            DO(NO, OUT, READ),
            DO(UNKNOWN, CREATING, READ),
            DO(LOST, OUT, NOTHING),
        },
    [TRI_MEMBER_JOINING] =
        {
            DO(TURN, JOINING, RENEW),
            DO(YES, UP, RISE),
            DO(NO, JOINING, READ),
            DO(UNKNOWN, JOINING, READ),
            DO(FOUND, JOINING, NOTHING),
            DO(LOST, OUT, FENCE),
            DO(LATE, OUT, FENCE),
            DO(LEAVE, REMOVING, REMOVE),
        },
    [TRI_MEMBER_UP] =
        {
            DO(TURN, UP, RENEW),
            DO(YES, UP, EXTEND),
            DO(NO, UP, READ),
            DO(UNKNOWN, UP, READ),
            DO(FOUND, UP, NOTHING),
            DO(LOST, OUT, FENCE),
            DO(LATE, OUT, FENCE),
            DO(LEAVE, LEAVING, RENEW),
        },
    // A leaving node that loses its lease has left: its shards go to others
    // as those of a dead node do.
    [TRI_MEMBER_LEAVING] =
        {
            DO(TURN, LEAVING, RENEW),
            DO(YES, LEAVING, EXTEND),
            DO(NO, LEAVING, READ),
            DO(UNKNOWN, LEAVING, READ),
            DO(FOUND, LEAVING, NOTHING),
            DO(LOST, LEFT, END),
            DO(LATE, LEFT, END),
            DO(EMPTY, REMOVING, REMOVE),
        },
    [TRI_MEMBER_REMOVING] =
        {
            DO(YES, LEFT, END),
            DO(NO, REMOVING, READ),
            DO(UNKNOWN, REMOVING, READ),
            DO(FOUND, REMOVING, REMOVE),
            DO(LOST, LEFT, END),
            DO(LATE, LEFT, END),
        },
};

tri_member_step tri_member_next(tri_member_state state, tri_member_event event)
{
    TRI_CHECK(state < TRI_MEMBER_STATES);
    TRI_CHECK(event < TRI_MEMBER_EVENTS);
    const entry *at = &table[state][event];

    return at->is_set ? at->step : (tri_member_step){state, TRI_MEMBER_NOTHING};
}

const char *tri_member_state_name(tri_member_state state)
{
    static const char *const names[TRI_MEMBER_STATES] = {
        [TRI_MEMBER_OUT] = "out",         [TRI_MEMBER_CREATING] = "creating",
        [TRI_MEMBER_JOINING] = "joining", [TRI_MEMBER_UP] = "up",
        [TRI_MEMBER_LEAVING] = "leaving", [TRI_MEMBER_REMOVING] = "removing",
        [TRI_MEMBER_LEFT] = "left",
    };

    TRI_CHECK(state < TRI_MEMBER_STATES);
    return names[state];
}
