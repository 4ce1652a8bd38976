/*
 * bus_view.c - shards change their owner, and claims are made anew.
 *
 * Every node hears of a view in its own time, and claims what it has active
 * from the new owner, who places nothing until all have (docs/design/0011).
 *
 * Invariant: of two activations of one name that claim it, the first stays
 * and the other is stopped. A node says that it has claimed all of a shard
 * after all its claims; what there is no room or memory for stays owed.
 */
#include "cluster/bus_route.h"

bool tri_route_tell(tri_bus *bus, uint32_t to, const char *text,
                    tri_place place, uint64_t loser)
{
    tri_writer w = tri_bus_item(bus, TRI_ITEM_MOVED);
    tri_write_u32(&w, place.node);
    tri_write_u64(&w, place.number);
    tri_write_u64(&w, place.life);
    tri_write_u64(&w, loser);
    tri_write_text(&w, text);
    return tri_bus_put(bus, to, &w, NULL);
}

/*
 * Another activation of it was first: ours, with that number, ends, and its
 * mail goes there. One that has begun since is none of that.
 */
static void lose(tri_bus *bus, tri_virtual *v, uint64_t number)
{
    tri_shard *shard = &bus->cluster->shards[v->shard];
    tri_route *r = tri_route_get(bus, v);
    tri_lock_take(&shard->lock);
    bool ours = r != NULL && r->here == number && tri_virtual_is_active(v);
    tri_lock_drop(&shard->lock);
    if (ours) {
        bus->counts.races++;
        // Relaxed: it never changes.
        tri_signal(tri_bus_worker(bus), &v->cell,
                   atomic_load_explicit(&v->cell.id, memory_order_relaxed),
                   TRI_SIG_STOP);
    }
}

void tri_route_moved(tri_bus *bus, tri_peer *peer, tri_reader *reader)
{
    char text[TRI_ID_MAX + 1];
    tr_err err;
    (void)peer;
    tri_place place = {.node = tri_read_u32(reader)};
    place.number = tri_read_u64(reader);
    place.life = tri_read_u64(reader);
    uint64_t loser = tri_read_u64(reader);
    tri_read_text(reader, text, TRI_ID_MAX);
    tri_virtual *v = reader->failed ? NULL : tri_bus_record(bus, text, &err);
    if (v != NULL && loser != 0) {
        lose(bus, v, loser);
    } else if (v != NULL) {
        tri_route_learn(bus, v, place);
    }
}

/* False: no memory, or no room in the queue. */
static bool claim(tri_bus *bus, uint32_t owner, uint64_t epoch, tri_virtual *v,
                  uint64_t number)
{
    tri_decision decision;
    if (owner == bus->here) {
        tri_place place = {
            .node = bus->here, .number = number, .life = bus->life};
        if (tri_directory_register(&bus->cluster->directory, v->text, v->size,
                                   place, &decision) != TR_OK) {
            return false;
        }
        if (decision.kind == TRI_PLACE_RACE) {
            lose(bus, v, number);
        }
        return true;
    }
    tri_writer w = tri_bus_item(bus, TRI_ITEM_CLAIM);
    tri_write_u64(&w, number);
    tri_write_u64(&w, epoch);
    tri_write_text(&w, v->text);
    return tri_bus_put(bus, owner, &w, NULL);
}

/* What claims to us was told that we are the owner, perhaps before us. */
static void believe(tri_bus *bus, uint32_t shard, uint64_t epoch)
{
    uint64_t known;
    (void)tri_shard_owner(&bus->cluster->directory, shard, &known);
    if (epoch > known) {
        tri_route_shard(bus, shard, bus->here, epoch);
    }
}

bool tri_route_claim(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    char text[TRI_ID_MAX + 1];
    tri_decision decision;
    uint64_t number = tri_read_u64(r);
    uint64_t epoch = tri_read_u64(r);
    tri_read_text(r, text, TRI_ID_MAX);
    if (r->failed) {
        return true;
    }
    uint32_t shard = tri_shard_of(text, strlen(text));
    tri_place place = {
        .node = peer->node, .number = number, .life = peer->session.in_life};
    believe(bus, shard, epoch);
    if (tri_shard_owner(&bus->cluster->directory, shard, NULL) != bus->here) {
        return true;  // of an older view: it claims to the next owner, too
    }
    if (tri_directory_register(&bus->cluster->directory, text, strlen(text),
                               place, &decision) != TR_OK) {
        return false;
    }
    // If that cannot be sent, the claim comes again and loses again.
    return decision.kind != TRI_PLACE_RACE ||
           tri_route_tell(bus, peer->node, text, decision.place, number);
}

void tri_route_claimed(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    uint32_t shard = tri_read_u32(r);
    uint64_t epoch = tri_read_u64(r), known;
    if (!r->failed && shard < TRI_SHARDS) {
        believe(bus, shard, epoch);
        (void)tri_shard_owner(&bus->cluster->directory, shard, &known);
        if (epoch == known) {
            tri_shard *records = &bus->cluster->shards[shard];
            tri_lock_take(&records->lock);
            bus->handover[shard].missing &= ~(UINT64_C(1) << peer->node);
            tri_lock_drop(&records->lock);
        }
    }
}

/* Whom the new owner waits for: all that it can reach. */
static uint64_t reachable(tri_bus *bus)
{
    uint64_t nodes = 0;
    for (uint32_t i = 0; i < bus->nodes; i++) {
        if (i != bus->here && (bus->peers[i] == NULL || !bus->peers[i]->lost)) {
            nodes |= UINT64_C(1) << i;
        }
    }
    return nodes;
}

static uint64_t number_here(tri_bus *bus, tri_route *r)
{
    tri_shard *records = &bus->cluster->shards[r->v->shard];
    tri_lock_take(&records->lock);
    uint64_t here = tri_virtual_is_active(r->v) ? r->here : 0;
    tri_lock_drop(&records->lock);
    return here;
}

/* What is owed of the shard, and that this was all. False: not all. */
static bool claim_owed(tri_bus *bus, uint32_t shard)
{
    uint64_t epoch;
    uint32_t owner = tri_shard_owner(&bus->cluster->directory, shard, &epoch);
    for (tri_route *r = tri_route_first(bus); r != NULL; r = r->next) {
        if (r->v->shard != shard || !r->claim_owed) {
            continue;
        }
        uint64_t here = number_here(bus, r);
        if (here != 0 && !claim(bus, owner, epoch, r->v, here)) {
            return false;
        }
        r->claim_owed = false;
    }
    if (owner != bus->here) {
        tri_writer w = tri_bus_item(bus, TRI_ITEM_CLAIMED);
        tri_write_u32(&w, shard);
        tri_write_u64(&w, epoch);
        if (!tri_bus_put(bus, owner, &w, NULL)) {
            return false;
        }
    }
    bus->handover[shard].owed = false;
    return true;
}

bool tri_route_claims_owed(tri_bus *bus)
{
    uint64_t failed = 0;  // owners: where one fails, the next would, too
    for (uint32_t i = 0; bus->claims_owed && i < TRI_SHARDS; i++) {
        uint32_t owner = tri_shard_owner(&bus->cluster->directory, i, NULL);
        if (bus->handover[i].owed && (failed >> owner & 1) == 0 &&
            !claim_owed(bus, i)) {
            failed |= UINT64_C(1) << owner;
        }
    }
    bus->claims_owed = failed != 0;
    return bus->claims_owed;
}

void tri_route_claim_again(tri_bus *bus, uint32_t owner)
{
    for (tri_route *r = tri_route_first(bus); r != NULL; r = r->next) {
        uint32_t shard = r->v->shard;
        if (tri_shard_owner(&bus->cluster->directory, shard, NULL) == owner &&
            number_here(bus, r) != 0) {
            r->claim_owed = true;
            bus->handover[shard].owed = bus->claims_owed = true;
        }
    }
}

void tri_route_shard(tri_bus *bus, uint32_t shard, uint32_t owner,
                     uint64_t epoch)
{
    TRI_CHECK(shard < TRI_SHARDS && owner < bus->nodes);
    tri_shard *records = &bus->cluster->shards[shard];
    tri_lock_take(&records->lock);
    bool newer = tri_shard_set(&bus->cluster->directory, shard, owner, epoch);
    if (newer) {
        bus->handover[shard].missing = owner == bus->here ? reachable(bus) : 0;
        bus->handover[shard].until = tri_bus_now(bus) + TRI_HANDOVER;
    }
    tri_lock_drop(&records->lock);
    if (!newer) {
        return;
    }
    for (tri_route *r = tri_route_first(bus); r != NULL; r = r->next) {
        if (r->v->shard != shard) {
            continue;
        }
        r->claim_owed = number_here(bus, r) != 0;
        if (r->state == TRI_ROUTE_ASKING) {
            tri_route_ask_later(bus, r);
        }
    }
    bus->handover[shard].owed = true;
    if (!claim_owed(bus, shard)) {
        bus->claims_owed = true;
    }
}
