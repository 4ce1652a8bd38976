/*
 * cluster.h - virtual actors: named by kind and key, present when needed.
 *
 * A virtual actor is never spawned. The first message activates it, on a node
 * that hosts its kind; an idle one is deactivated, with its state stored. Its
 * ref can be made, kept and sent at any time, and is what tr_self gives it.
 * A message is handled by one activation or, if that ends before, by the next.
 *
 * What is done to a ref is done to the activation there is: tr_stop, tr_poison
 * and tr_kill deactivate it, tr_watch tells of its end (TR_IDLE, TR_STOPPED,
 * TR_FAILED, ...), tr_join waits for it. If there is none, stopping does
 * nothing, watching tells TR_NO_SUCH_ACTOR at once, joining is TR_ENOENT, and
 * tr_state_of gives TR_STATE_CREATED.
 *
 * Names. A ref that tr_virtual has made is good for the system's life, so its
 * name is kept as long. Where keys have no end, send by name: tr_tell_virtual,
 * tr_ask_virtual. Such a name is forgotten with the activation, and the ref
 * that tr_self and tr_sender give of it is a plain actor's: once the activation
 * has ended it may be nobody's, and what is sent to it a dead letter.
 * tr_virtual of the same name, at any time, makes one that lasts. Names of both
 * sorts are counted, at most tr_system_options.virtual_names at a time.
 *
 * Threads: any.
 * Ownership: definitions and stores are borrowed for as long as the system is
 * open; options and names are copied.
 */
#ifndef TROUPE_CLUSTER_H
#define TROUPE_CLUSTER_H

#include <troupe/actor.h>
#include <troupe/base.h>
#include <troupe/macros.h>

/* A field left zero takes the default named beside it. */
typedef struct tr_host_options {
    size_t size;
    tr_storage *storage;            // of *self; default: none
    tr_nanos idle;                  // deactivate after; default 10 min
    const tr_spawn_options *spawn;  // of each activation; not all are allowed
    uint32_t max_active;  // beyond, those least used go; default: no limit
    uint32_t workers;     // stateless: so many share a name; default: one
} tr_host_options;

TR_BEGIN_DECLS

/*
 * Lets this node activate virtual actors of the kind, whose name is the
 * definition's. A failure that would be escalated ends the activation. Of the
 * spawn options name, mailbox_limit, drain, storage, watch, joinable,
 * auto_stop and pinned dispatchers are refused. An idle actor is deactivated
 * after idle and at most half as long again.
 * Errors: TR_EINVAL (tr_error_text), TR_EEXIST, TR_ENOMEM, TR_ECLOSED.
 */
TR_API TR_NODISCARD tr_err tr_host(tr_system *sys, const tr_actor_def *def,
                                   const tr_host_options *options);
/*
 * The ref of a virtual actor, the same one for the same names; activates
 * nothing. Kind and key are letters, digits, '-' and '_', with the namespace
 * at most 256 characters. Invalid names give nobody with TR_EINVAL, too many
 * of them nobody with TR_ELIMIT (tr_ref_err; tr_error_text says more).
 * Messages to a kind that nobody hosts are dead letters, TR_ENOENT.
 */
TR_API tr_ref tr_virtual(tr_from from, const char *kind, const char *key);
/*
 * The same from the text that tr_ref_path gives, namespace::kind/key. Nobody
 * with TR_EINVAL if it is none, with TR_EFOREIGN if it is of another
 * namespace.
 */
TR_API tr_ref tr_virtual_named(tr_from from, const char *text);

/*
 * tr_tell to a virtual actor by its name, which is not kept: for keys without
 * end. Messages of one sender arrive in its order, also where it uses refs of
 * the same actor. What cannot be sent is a dead letter. On a node of several,
 * and of stateless workers, the name is kept all the same.
 */
TR_API void tr_tell_virtual(tr_from from, const char *kind, const char *key,
                            const tr_type *type, const void *payload);
/*
 * The same with an answer: nothing was sent unless it is TR_OK.
 * Errors: as tr_try_tell, TR_EINVAL (no name), TR_ELIMIT (too many names),
 * TR_ENOENT (nobody hosts the kind).
 */
TR_API TR_NODISCARD tr_err tr_try_tell_virtual(tr_from from, const char *kind,
                                               const char *key,
                                               const tr_type *type,
                                               const void *payload);
/*
 * tr_ask by name, as tr_tell_virtual. The name is not forgotten before the
 * answer is there. Errors: as tr_ask and tr_try_tell_virtual.
 */
TR_API TR_NODISCARD tr_err tr_ask_virtual(tr_from from, const char *kind,
                                          const char *key, void *out,
                                          tr_nanos timeout, const tr_type *type,
                                          const void *payload,
                                          const char *site);
/* tr_forward by name: to the one that a message is about, say. */
TR_API void tr_forward_virtual(tr_ctx *ctx, const char *kind, const char *key,
                               const void *m);

TR_END_DECLS

#ifndef __cplusplus

#define tr_host(sys, ...) TR_HOST_(sys, __VA_ARGS__, )
#define TR_HOST_(sys, A, ...)                                                  \
    (tr_host)((sys), TR_DEF(A), TR_OPTIONS(tr_host_options, __VA_ARGS__))
#define tr_virtual(from, kind, key)                                            \
    __extension__(tr_virtual)((from), (kind), (key))
#define tr_virtual_named(from, text)                                           \
    __extension__(tr_virtual_named)((from), (text))
#define tr_tell_virtual(from, kind, key, ...)                                  \
    TR_SEND_VIRTUAL_(tr_tell_virtual, from, kind, key, __VA_ARGS__, )
#define tr_try_tell_virtual(from, kind, key, ...)                              \
    TR_SEND_VIRTUAL_(tr_try_tell_virtual, from, kind, key, __VA_ARGS__, )
#define TR_SEND_VIRTUAL_(verb, from, kind, key, T, ...)                        \
    __extension__(verb)((from), (kind), (key), &T##_tr_type,                   \
                        &(const T){__VA_ARGS__})
#define tr_ask_virtual(from, kind, key, out, timeout, ...)                     \
    TR_ASK_VIRTUAL_(from, kind, key, out, timeout, __VA_ARGS__, )
#define TR_ASK_VIRTUAL_(from, kind, key, out, timeout, T, ...)                 \
    __extension__(tr_ask_virtual)((from), (kind), (key), TR_OUT_(T, out),      \
                                  (timeout), &T##_tr_type,                     \
                                  &(const T){__VA_ARGS__}, TR_HERE)

#endif /* !__cplusplus */
#endif
