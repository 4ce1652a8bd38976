/*
 * member_state.h - the state machine of a node's own membership, as a table.
 *
 * A node is OUT until it has created its record, JOINING until it has
 * committed the record once more as "up", UP while it renews it, LEAVING while
 * it gives its shards away, REMOVING while it removes the record, and LEFT in
 * the end. A node that loses its lease is OUT again and joins as another
 * incarnation.
 */
#ifndef TRI_CLUSTER_MEMBERSHIP_MEMBER_STATE_H
#define TRI_CLUSTER_MEMBERSHIP_MEMBER_STATE_H

typedef enum tri_member_state {
    TRI_MEMBER_OUT,
    TRI_MEMBER_CREATING,
    TRI_MEMBER_JOINING,
    TRI_MEMBER_UP,
    TRI_MEMBER_LEAVING,
    TRI_MEMBER_REMOVING,
    TRI_MEMBER_LEFT,
    TRI_MEMBER_STATES,
} tri_member_state;

typedef enum tri_member_event {
    TRI_MEMBER_TURN,     // it is time to act, and nothing is on its way
    TRI_MEMBER_YES,      // the CAS on the own record has committed
    TRI_MEMBER_NO,       // it has not
    TRI_MEMBER_UNKNOWN,  // it may have
    TRI_MEMBER_FOUND,    // read again: the record is ours, the CAS is not there
    TRI_MEMBER_LOST,     // read again: the record is not there, or not ours
    TRI_MEMBER_LATE,     // the lease is over
    TRI_MEMBER_LEAVE,    // the node was asked to leave
    TRI_MEMBER_EMPTY,    // a leaving node owns no shard any more
    TRI_MEMBER_EVENTS,
} tri_member_event;

typedef enum tri_member_action {
    TRI_MEMBER_NOTHING,
    TRI_MEMBER_CREATE,  // send the CAS that creates the record
    TRI_MEMBER_RENEW,   // send the CAS that renews it
    TRI_MEMBER_REMOVE,  // send the CAS that removes it
    TRI_MEMBER_READ,    // read the record again before anything else
    TRI_MEMBER_BEGIN,   // the incarnation is known
    TRI_MEMBER_EXTEND,  // the lease lasts longer
    TRI_MEMBER_RISE,    // extend, and tell that the node is up
    TRI_MEMBER_FENCE,   // tell that the lease is lost
    TRI_MEMBER_END,     // tell that the node has left
} tri_member_action;

typedef struct tri_member_step {
    tri_member_state next;
    tri_member_action action;
} tri_member_step;

/*
 * Returns what an event does in a state. An event that means nothing there,
 * such as the answer to a CAS of an incarnation that is over, keeps the state.
 */
tri_member_step tri_member_next(tri_member_state state, tri_member_event event);

/* Returns the name of a state, for messages to people. */
const char *tri_member_state_name(tri_member_state state);

#endif
