/*
 * troupe.h - the whole public interface; declares nothing itself.
 *
 * Threads, ownership: as the headers say. Start with base.h, which has the
 * three rules that explain every call; then message.h and actor.h.
 */
#ifndef TROUPE_TROUPE_H
#define TROUPE_TROUPE_H

#include <troupe/actor.h>
#include <troupe/base.h>
#include <troupe/cluster.h>
#include <troupe/engine.h>
#include <troupe/file.h>
#include <troupe/message.h>
#include <troupe/net.h>
#include <troupe/observe.h>
#include <troupe/process.h>
#include <troupe/sim.h>
#include <troupe/storage.h>
#include <troupe/supervise.h>
#include <troupe/system.h>
#include <troupe/test.h>
#include <troupe/udp.h>

#endif
