/*
 * auto_stop.h - actors that end with their last handle (tr_handle).
 */
#ifndef TRI_CORE_LIFE_AUTO_STOP_H
#define TRI_CORE_LIFE_AUTO_STOP_H

#include <stdint.h>

/*
 * Set in tri_ext.handles, above the count, for an actor that was spawned with
 * auto_stop: it is poisoned when the last handle is dropped.
 */
#define TRI_HANDLES_AUTO_STOP (UINT32_C(1) << 31)

#endif
