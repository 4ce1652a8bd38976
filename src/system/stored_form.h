/*
 * stored_form.h - how the actors of a system store values: the serializer, and
 * refs as names.
 *
 * The ref of a virtual actor is stored as `namespace::kind/key`. Other refs end
 * with the process, so they cannot be stored.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_STORED_FORM_H
#define TRI_SYSTEM_STORED_FORM_H

#include "schema/stored.h"
#include "troupe/base.h"
#include "troupe/message.h"

/* Returns the form with this serializer; NULL stands for JSON. */
tri_stored_form tri_stored_form_of(tr_system *sys,
                                   const tr_serializer *serializer);
/* Returns the form in which the values of the actor are stored. */
tri_stored_form tri_state_form(tr_ctx *ctx);

#endif
