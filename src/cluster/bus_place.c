/*
 * bus_place.c - the owner of a shard: who is placed where.
 *
 * Invariant: a place is given out by the shard's owner alone, with a number
 * larger than all before it; whoever got it begins the activation, or gives
 * the place back, and never both.
 */
#include "cluster/bus_route.h"

static const char *kind_text(tri_bus *bus, tri_virtual *v, size_t *size)
{
    size_t at = strlen(bus->cluster->ns) + 2;
    *size = v->key_at - 1u - at;
    return v->text + at;
}

/* Nodes that host its kind and can be reached, as far as we know. */
uint64_t tri_bus_hosts(tri_bus *bus, const char *text, bool *stateless)
{
    uint64_t nodes;
    size_t at = strlen(bus->cluster->ns) + 2;
    size_t size = strcspn(text + at, "/");
    (void)tri_bus_kind_of(bus, text + at, size, &nodes, stateless);
    for (uint32_t i = 0; i < bus->nodes; i++) {
        tri_peer *peer = bus->peers[i];
        if (peer == NULL || !peer->lost || (nodes >> i & 1) == 0) {
            continue;
        }
        nodes &= ~(UINT64_C(1) << i);
        if (peer->session.first == NULL) {
            // Nobody else may ask whether it is there again. If that cannot
            // be sent, the next who looks for a host sends it.
            (void)tri_bus_greet(bus, i);
        }
    }
    return nodes;
}

/* Somebody may still tell us that it hosts a kind. */
static bool all_have_greeted(tri_bus *bus)
{
    for (uint32_t i = 0; i < bus->nodes; i++) {
        if (i != bus->here &&
            (bus->peers[i] == NULL ||
             (!bus->peers[i]->greeted && !bus->peers[i]->lost))) {
            return false;
        }
    }
    return true;
}

static bool is_handover(tri_bus *bus, uint32_t shard)
{
    tri_shard *records = &bus->cluster->shards[shard];
    tri_lock_take(&records->lock);
    if (bus->handover[shard].missing != 0 &&
        tri_bus_now(bus) >= bus->handover[shard].until) {
        bus->handover[shard].missing = 0;
    }
    bool is = bus->handover[shard].missing != 0;
    tri_lock_drop(&records->lock);
    return is;
}

/*
 * The owner's answer. Errors: TR_EFENCED (we are not the owner), TR_ENOENT,
 * TR_EWOULDBLOCK (ask again), TR_ENOMEM.
 */
tr_err tri_bus_decide(tri_bus *bus, const char *text, size_t size,
                      bool only_look, tri_decision *out)
{
    tri_directory *directory = &bus->cluster->directory;
    uint32_t shard = tri_shard_of(text, size);
    *out = (tri_decision){0};
    if (tri_shard_owner(directory, shard, NULL) != bus->here) {
        return TR_EFENCED;
    }
    if (tri_directory_lookup(directory, text, size, &out->place)) {
        out->kind = TRI_PLACE_ALREADY;
        return TR_OK;
    }
    if (is_handover(bus, shard)) {
        return TR_EWOULDBLOCK;
    }
    if (only_look) {
        return TR_ENOENT;
    }
    bool stateless;
    uint64_t nodes = tri_bus_hosts(bus, text, &stateless);
    if (nodes == 0) {
        return all_have_greeted(bus) ? TR_ENOENT : TR_EWOULDBLOCK;
    }
    return tri_directory_assign(directory, text, size, nodes, TRI_NODE_NONE,
                                out);
}

bool tri_route_place(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    char text[TRI_ID_MAX + 1];
    tri_decision decision = {0};
    uint64_t token = tri_read_u64(r);
    bool only_look = tri_read_u8(r) != 0;
    tri_read_text(r, text, TRI_ID_MAX);
    bool later = TRI_BUGGIFY(bus->sys->world, 0.05);
    tr_err err = later       ? TR_EWOULDBLOCK
                 : r->failed ? TR_EINVAL
                             : tri_bus_decide(bus, text, strlen(text),
                                              only_look, &decision);
    tri_writer w = tri_bus_item(bus, TRI_ITEM_PLACED);
    tri_write_u64(&w, token);
    tri_write_u32(&w, (uint32_t)err);
    tri_write_u8(&w, (uint8_t)decision.kind);
    tri_write_u32(&w, decision.place.node);
    tri_write_u64(&w, decision.place.number);
    tri_write_u64(&w, decision.place.life);
    return tri_bus_put(bus, peer->node, &w, NULL);
}

bool tri_bus_begin_here(tri_cluster *cluster, tri_virtual *v)
{
    tri_bus *bus = tri_bus_of(cluster);
    tri_kind *kind = tri_kind_of(cluster, v);
    tri_decision decision;
    uint64_t nodes;
    bool stateless;
    size_t size;
    if (kind != NULL && kind->workers > 0) {
        return true;
    }
    // What the bus has not done yet comes first; and a hand-over is its own.
    if (kind == NULL || v->handed || bus->closed ||
        tri_shard_owner(&cluster->directory, v->shard, NULL) != bus->here ||
        bus->handover[v->shard].missing != 0) {
        return false;
    }
    const char *name = kind_text(bus, v, &size);
    tri_route *r = v->route != NULL ? v->route : tri_route_new(bus, v);
    // What was sent to another node comes back first. And only the bus knows
    // whether another node can be reached: it gives places there.
    if (r == NULL || r->away ||
        !tri_bus_kind_of(bus, name, size, &nodes, &stateless) || nodes == 0 ||
        tri_directory_choice(&cluster->directory, nodes) != bus->here ||
        tri_directory_assign(&cluster->directory, v->text, v->size,
                             UINT64_C(1) << bus->here, bus->here,
                             &decision) != TR_OK) {
        return false;
    }
    if (decision.place.node != bus->here || decision.place.number <= r->last) {
        return false;
    }
    r->here = r->last = decision.place.number;
    return true;
}

void tri_bus_gone(tri_cluster *cluster, tri_worker *worker, tri_virtual *v)
{
    tri_bus *bus = tri_bus_of(cluster);
    tri_route *r = v->route;
    TRI_CHECK(r != NULL);
    tri_place place = {.node = bus->here, .number = r->here};
    r->here = 0;
    if (tri_shard_owner(&cluster->directory, v->shard, NULL) == bus->here) {
        (void)tri_directory_unregister(&cluster->directory, v->text, v->size,
                                       place);
        return;
    }
    if (TRI_BUGGIFY(bus->sys->world, 0.05)) {
        return;  // as below
    }
    tri_bus_note note = {.what = TRI_NOTE_GONE,
                         .record = (uint64_t)(uintptr_t)v,
                         .number = place.number};
    // If that is impossible the owner hears of it when it sends us mail.
    (void)tri_bus_tell(bus, worker, &note);
}

void tri_bus_back_out(tri_cluster *cluster, tri_worker *worker, tri_virtual *v)
{
    // Relaxed: with the lock it does not change.
    uint8_t form = atomic_load_explicit(&v->form, memory_order_relaxed);
    if (form != TRI_FORM_FRONT && v->route != NULL && v->route->here != 0) {
        tri_bus_gone(cluster, worker, v);
    }
}

void tri_route_unregister(tri_bus *bus, tri_virtual *v, uint64_t number)
{
    uint32_t owner = tri_shard_owner(&bus->cluster->directory, v->shard, NULL);
    if (owner == bus->here) {
        (void)tri_directory_unregister(
            &bus->cluster->directory, v->text, v->size,
            (tri_place){.node = bus->here, .number = number});
        return;
    }
    tri_writer w = tri_bus_item(bus, TRI_ITEM_GONE);
    tri_write_u64(&w, number);
    tri_write_text(&w, v->text);
    (void)tri_bus_put_mail(bus, owner, &w, NULL);
}

void tri_route_gone(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    char text[TRI_ID_MAX + 1];
    uint64_t number = tri_read_u64(r);
    tri_read_text(r, text, TRI_ID_MAX);
    if (!r->failed) {
        (void)tri_directory_unregister(
            &bus->cluster->directory, text, strlen(text),
            (tri_place){.node = peer->node, .number = number});
    }
}
