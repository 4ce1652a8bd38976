/*
 * member_news.h - tells the program and the log how the members change.
 *
 * Threads: the membership's.
 */
#ifndef TRI_CLUSTER_JOIN_MEMBER_NEWS_H
#define TRI_CLUSTER_JOIN_MEMBER_NEWS_H

#include "cluster/membership/view.h"
#include "troupe/base.h"

/* Publishes the differences between two views; before may be NULL. */
void tri_member_news(tr_system *sys, const tri_view *before,
                     const tri_view *after, tri_node self);
/* Publishes that this node has lost its lease. */
void tri_member_news_lost(tr_system *sys, tri_node self);

#endif
