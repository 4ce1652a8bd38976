/*
 * guardian.h - the actors at the top of the tree: the root, /user, /system,
 * /deadLetters and /temp.
 */
#ifndef TRI_SYSTEM_GUARDIAN_H
#define TRI_SYSTEM_GUARDIAN_H

#include <stdbool.h>

#include "core/types.h"
#include "troupe/base.h"

enum { TRI_GUARDIANS = 5 };

/* Part of tri_layers. The other guardians are in tr_system. */
typedef struct tri_guardians {
    tri_cell *dead_letters;  // NULL until the system is open
} tri_guardians;

/*
 * Spawns all guardians. After an error some of them exist.
 * Errors: TR_ENOMEM; TR_EINVAL (tr_system_options.guardian).
 */
TR_NODISCARD tr_err tri_guardians_spawn(tr_system *sys);
/*
 * Frees the guardians of a system that could not be opened. No thread of it
 * may run any more.
 */
void tri_guardians_free(tr_system *sys);
/* Returns true if the guardians that sys needs to be closed exist. */
bool tri_guardians_exist(tr_system *sys);
bool tri_guardian_is_dead_letters(tr_system *sys, const tri_cell *cell);

#endif
