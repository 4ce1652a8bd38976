/*
 * sim_mail.c - the ledgers of a world: made, found, ended.
 *
 * Invariant: a system has a ledger from the first check of a run after it was
 * opened until it is detached from the world, and its tables are hooked
 * exactly as long.
 */
#include "sim/sim_mail.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/world.h"
#include "core/cell/cell_path.h"
#include "core/system.h"
#include "sim/sim.h"
#include "sim/sim_mail_callback.h"
#include "sim/sim_mail_hook.h"
#include "sim/sim_node.h"
#include "sim/sim_trace.h"
#include "troupe/message.h"
#include "troupe/sim.h"

uint64_t tri_sim_mail_key2(uint64_t a, uint64_t b)
{
    return tri_hash_mix(tri_hash_mix(a) ^ b);
}

void tri_sim_mail_trace(const tri_sim_mail *mail, const char *path,
                        const char *event, const char *type, const char *detail)
{
    tri_sim_trace(mail->sim, &(tri_sim_line){.node = mail->node,
                                             .actor = path,
                                             .event = event,
                                             .type = type,
                                             .detail = detail});
}

tr_ref tri_sim_mail_ref(const tri_sim_mail *mail, const tri_cell *cell,
                        uint64_t id)
{
    return (tr_ref){tri_cell_ref(mail->sys, cell).cell, id};
}

void tri_sim_mail_fail(tri_sim_mail *mail, const char *what, const char *detail,
                       const char *name, uint64_t number, tr_ref who)
{
    char path[TRI_PATH_MAX];

    TRI_CHECK(mail->sim != NULL);
    tr_ref_path(mail->sys, who, path, sizeof(path));
    (void)tr_sim_fail(mail->sim,
                      "invariant %s: %s %s, %" PRIu64 " (node %" PRIu32
                      ", actor %s)",
                      what, name, detail, number, mail->node, path);
}

void tri_sim_mail_read(tri_sim_mail *mail, tri_cell *cell)
{
    tri_sim_entries_read(mail, cell);
    tri_sim_callbacks_read(mail, cell);
}

/* ---- making and finding ---- */

tri_sim_mail *tri_sim_mail_find(tr_system *sys)
{
    tr_sim *sim = tri_sim_of(sys->world);
    TRI_CHECK(sim != NULL);
    tri_sim_mail *mail = sim->mail;

    while (mail != NULL && mail->sys != sys) {
        mail = mail->next;
    }
    return mail;
}

static tri_sim_mail *mail_new(tr_sim *sim, const tri_sim_attached *it)
{
    tri_sim_mail *mail = calloc(1, sizeof(*mail));

    if (mail == NULL) {
        return NULL;
    }
    mail->sim = sim;
    mail->sys = it->driven->system;
    TRI_CHECK(mail->sys->magic == TRI_SYSTEM_MAGIC);
    mail->node = it->node->index;
    tri_map_init(&mail->entries, NULL, NULL);
    tri_map_init(&mail->pairs, NULL, NULL);
    tri_map_init(&mail->callbacks, NULL, NULL);
    tri_sim_mail_hook(mail);
    mail->next = sim->mail;
    sim->mail = mail;
    return mail;
}

tri_sim_mail *tri_sim_mail_of(tr_sim *sim, const tri_sim_attached *it)
{
    tri_sim_mail *mail = tri_sim_mail_find(it->driven->system);

    return mail != NULL ? mail : mail_new(sim, it);
}

/* ---- ending ---- */

static void free_all(tri_map *map)
{
    void *value;

    for (tri_map_iter i = tri_map_iter_begin(map);
         (value = tri_map_iter_next(map, &i)) != NULL;) {
        free(value);
    }
    tri_map_fini(map);
}

static void mail_free(tri_sim_mail *mail)
{
    free_all(&mail->entries);
    free_all(&mail->pairs);
    free_all(&mail->callbacks);
    free(mail);
}

void tri_sim_mail_end(tr_sim *sim, tr_system *sys)
{
    tri_sim_mail **at = &sim->mail;
    tri_sim_entry *it;

    while (*at != NULL && (*at)->sys != sys) {
        at = &(*at)->next;
    }
    tri_sim_mail *mail = *at;
    if (mail == NULL) {
        return;
    }
    // While the run is cleaned up nothing is checked: after_step is NULL.
    for (tri_map_iter i = tri_map_iter_begin(&mail->entries);
         sim->after_step != NULL &&
         (it = tri_map_iter_next(&mail->entries, &i)) != NULL;) {
        tri_sim_entry_missed(mail, it);
    }
    *at = mail->next;
    tri_sim_mail_unhook(mail);
    mail_free(mail);
}

void tri_sim_mail_free(tr_sim *sim)
{
    while (sim->mail != NULL) {
        tri_sim_mail *mail = sim->mail;
        sim->mail = mail->next;
        mail_free(mail);
    }
}
