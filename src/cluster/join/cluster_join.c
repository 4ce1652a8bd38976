/*
 * cluster_join.c - tr_cluster_join, tr_cluster_members, tr_cluster_self.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/check.h"
#include "base/options.h"
#include "base/world.h"
#include "cluster/join/cluster_node.h"
#include "cluster/join/engine_choice.h"
#include "cluster/virtual/cluster.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "troupe/cluster.h"

#define TIMEOUT TR_SECONDS(30)  // default

enum { LISTEN_MAX = TRI_STREAM_ADDRESS_MAX };

_Static_assert(sizeof(((tr_member *)0)->address) == TRI_MEMBER_ADDRESS_MAX,
               "the same size");

/* ---- options ---- */

/* Writes the address to listen at, from the option or the environment. */
static tr_err take_listen(tri_world *world, const char *given,
                          char out[LISTEN_MAX])
{
    const char *listen = given;
    if (listen == NULL && world->ops->environment != NULL) {
        listen = world->ops->environment(world, "TROUPE_LISTEN");
    }
    listen = listen != NULL && listen[0] != '\0' ? listen : "127.0.0.1:0";
    int size =
        snprintf(out, LISTEN_MAX, "%s%s",
                 strncmp(listen, "tcp://", 6) == 0 ? "" : "tcp://", listen);
    tri_address parts;
    if (size < 0 || size >= LISTEN_MAX ||
        tri_address_split(out, &parts) != TR_OK || parts.is_unix) {
        tri_error_set(NULL, "cannot join: \"%s\" is not host:port", listen);
        return TR_EINVAL;
    }
    bool is_here = strncmp(parts.host, "127.", 4) == 0 ||
                   strcmp(parts.host, "::1") == 0 ||
                   world->ops->environment == NULL;  // simulated
    if (!is_here) {
        tri_error_set(NULL,
                      "cannot join: %s is not an address of loopback; nodes "
                      "are not encrypted yet, so they stay on one machine: "
                      "use 127.0.0.1 or [::1]",
                      parts.host);
        return TR_EINVAL;
    }
    return TR_OK;
}

static tr_err take_options(tr_cluster_options *own,
                           const tr_cluster_options *given)
{
    if (!tri_options_copy(own, sizeof(*own),
                          TRI_SIZE_THROUGH(tr_cluster_options, timeout),
                          given)) {
        tri_error_set(NULL, "cannot join: the options have a wrong size");
        return TR_EINVAL;
    }
    if (own->lease < 0 || own->timeout < 0) {
        tri_error_set(NULL, "cannot join: .%s is below 0",
                      own->lease < 0 ? "lease" : "timeout");
        return TR_EINVAL;
    }
    own->timeout = own->timeout != 0 ? own->timeout : TIMEOUT;
    return TR_OK;
}

/* ---- joining ---- */

static tr_err refuse(tr_err err, const char *why)
{
    TRI_CHECK(err != TR_OK);
    tri_error_set(NULL, "cannot join: %s", why);
    return err;
}

static tr_err cluster_of_caller(tr_system *sys, tri_cluster **out)
{
    const tri_worker *worker = tri_worker_current();
    if (worker != NULL && worker->sys == sys) {
        return refuse(TR_EWOULDBLOCK,
                      "a handler would block its worker; call it in main");
    }
    tri_caller who = tri_enter((tr_from){.sys = sys});
    tr_err err = tri_cluster_get(&who, out);
    tri_leave(&who);
    TR_TRY(err);
    // Acquire: pairs with tri_shutdown_begin.
    if (atomic_load_explicit(&sys->terminating, memory_order_acquire) != 0) {
        return refuse(TR_ECLOSED, "the system is closing");
    }
    if (tri_cluster_node_of(sys) != NULL) {
        return refuse(TR_EEXIST, "this system has joined already");
    }
    return TR_OK;
}

tr_err(tr_cluster_join)(tr_system *sys, const tr_cluster_options *options)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tr_cluster_options o;
    tri_cluster *cluster;
    char listen[LISTEN_MAX];
    TR_TRY(take_options(&o, options));
    TR_TRY(cluster_of_caller(sys, &cluster));
    TR_TRY(take_listen(sys->world, o.listen, listen));
    if (o.engine == NULL) {
        TR_TRY(tri_engine_choose(sys, cluster->ns, &o.engine));
    }
    return tri_cluster_node_open(
        cluster, &(tri_cluster_node_options){.engine = o.engine,
                                             .listen = listen,
                                             .advertise = o.advertise,
                                             .is_client = o.client,
                                             .lease = o.lease,
                                             .timeout = o.timeout});
}

/* ---- looking ---- */

static void count_shards(const tri_view *view, tr_member *out, size_t count)
{
    TRI_CHECK(out != NULL || count == 0);
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_node owner = view->shards[i].node;
        for (size_t k = 0; k < count; k++) {
            out[k].shards += out[k].node.slot == owner.slot &&
                             out[k].node.incarnation == owner.incarnation;
        }
    }
}

static void copy_member(const tri_view *view, uint32_t slot, tri_node self,
                        tr_member *out)
{
    const tri_member *member = &view->members[slot];
    TRI_CHECK(slot < view->slots);
    *out = (tr_member){.node = {slot, member->incarnation},
                       .is_self = slot == self.slot &&
                                  member->incarnation == self.incarnation,
                       .is_leaving = member->is_leaving,
                       .is_client = member->is_client};
    memcpy(out->address, member->address, sizeof(out->address));
}

size_t tr_cluster_members(tr_system *sys, tr_member *out, size_t max)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    TRI_CHECK(out != NULL || max == 0);
    tri_cluster_node *node = tri_cluster_node_of(sys);
    tri_view *view =
        node != NULL ? tri_membership_view(node->membership) : NULL;
    size_t count = 0;
    for (uint32_t i = 0; view != NULL && i < view->slots; i++) {
        if (view->members[i].incarnation == 0) {
            continue;
        }
        if (count < max) {
            copy_member(view, i, tri_cluster_node_self(node), &out[count]);
        }
        count++;
    }
    if (view != NULL) {
        count_shards(view, out, count < max ? count : max);
    }
    tri_view_drop(view);
    return count;
}

tr_node tr_cluster_self(tr_system *sys)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tri_cluster_node *node = tri_cluster_node_of(sys);
    tri_node self = {0};
    if (node != NULL) {
        self = tri_cluster_node_self(node);
    }
    return (tr_node){self.slot, self.incarnation};
}
