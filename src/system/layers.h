/*
 * layers.h - the system layer's own part of a tr_system.
 *
 * It has one member for each source that keeps something per system; that
 * source alone changes it. Other layers use the header of the source they
 * need, never this one.
 *
 * Locks: each member has a lock of its own, and all of them are leaves:
 * nothing is sent and no user code runs while one is held.
 */
#ifndef TRI_SYSTEM_LAYERS_H
#define TRI_SYSTEM_LAYERS_H

#include "base/check.h"
#include "core/system.h"
#include "system/deadletter.h"
#include "system/events.h"
#include "system/guardian.h"
#include "system/hooks.h"
#include "system/probe.h"
#include "system/reminders.h"
#include "system/router.h"
#include "system/serve.h"
#include "system/shutdown.h"
#include "system/stores.h"
#include "system/system.h"
#include "system/top_level.h"
#include "system/topics.h"
#include "system/up.h"

typedef struct tri_layers {
    tri_guardians guardians;
    tri_dead_letters dead;
    tri_events events;
    tri_topics topics;
    tri_top_levels top_levels;
    tri_hooks hooks;
    tri_routers routers;
    tri_stores stores;
    tri_probes probes;
    tri_reminders_slot reminders;
    tri_up_state up;
    tri_shutdown shutdown;
    tri_servers servers;
    tri_closed_calls closed_calls;  // system.c
} tri_layers;

static inline tri_layers *tri_layers_of(tr_system *sys)
{
    TRI_CHECK_SLOW(sys->magic == TRI_SYSTEM_MAGIC);
    return sys->layers;
}

#endif
