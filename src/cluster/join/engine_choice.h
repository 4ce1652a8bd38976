/*
 * engine_choice.h - which engine a node uses if the program gives it none.
 *
 * Threads: any.
 */
#ifndef TRI_CLUSTER_JOIN_ENGINE_CHOICE_H
#define TRI_CLUSTER_JOIN_ENGINE_CHOICE_H

#include "troupe/base.h"

/*
 * Opens the engine that TROUPE_ENGINE names, or that of this user and
 * namespace; in a simulation one of the simulated world. The system owns it.
 * Errors, with a text: TR_EINVAL, TR_ENOENT (there is no such sort of engine),
 * those of the engine.
 */
TR_NODISCARD tr_err tri_engine_choose(tr_system *sys, const char *ns,
                                      tr_engine **out);

#endif
