/*
 * mailbox.h - the owner's side of a mailbox, for the rest of the core.
 *
 * Threads: the owner of the cell, except where said.
 */
#ifndef TRI_CORE_MAILBOX_H
#define TRI_CORE_MAILBOX_H

#include "core/runtime.h"

/* A push that finds this many below it looks at the soft limit. */
#ifdef TRI_TORTURE
#define TRI_SOFT_GLANCE 1
#else
#define TRI_SOFT_GLANCE 64
#endif

uint32_t tri_signals_take(tri_cell *cell);
/* All system nodes, oldest first; *signalled: signals may be there, too. */
tri_node *tri_system_take(tri_cell *cell, bool *signalled);

/*
 * Gives the cell up until mail comes; user mail too, or system mail only.
 * False: mail is there, the caller still owns the cell. True: the cell must
 * not be touched any more.
 */
bool tri_sleep(tri_cell *cell, bool for_user_mail);

/* Refuses all further mail; returns what was there, oldest first. */
tri_node *tri_close_user(tri_cell *cell);
tri_node *tri_close_system(tri_cell *cell);

/* Parks the sender until the mailbox has fallen to half the limit. */
tr_err tri_wait_for_room(tri_actor_from *who, tri_cell *cell, tr_ref to,
                         uint32_t limit);
/* Takes a wait out of the list again; false: it is being woken already. */
bool tri_room_leave(tri_wait *wait);

/* The wait-for graph: deadlock.c. Errors: TR_EDEADLOCK. */
tr_err tri_edge_begin(tr_ctx *ctx, tri_wait *wait);
void tri_edge_end(tr_ctx *ctx, tri_wait *wait);
/* A request has been passed on: its asker now waits for another. */
void tri_edge_move(tr_system *sys, tr_ref asker, tri_cell *from, tr_ref to);

#endif
