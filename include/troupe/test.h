/*
 * test.h - probes: mailboxes outside of any actor, for tests and bridges.
 *
 * A probe sends messages (it is a tr_from), receives what is sent to its ref,
 * and checks what it receives next. In a simulated system a call that expects a
 * message runs the world until the message is there, so waiting takes no real
 * time.
 *
 * Threads: one thread at a time uses a probe.
 * Ownership: the caller owns a probe. A message that the probe returns is
 * borrowed until the next call on the probe.
 */
#ifndef TROUPE_TEST_H
#define TROUPE_TEST_H

#include <troupe/base.h>
#include <troupe/message.h>

TR_BEGIN_DECLS

/*
 * Makes a probe, which the caller owns. As `from` it is the sender of what is
 * sent. It must be freed before its system is closed (a check); what a simulated
 * run leaves open is freed after the run.
 * Errors: TR_ENOMEM, TR_ECLOSED.
 */
TR_API TR_NODISCARD tr_err tr_probe_new(tr_probe **out, tr_system *sys);
/*
 * Frees a probe; NULL is allowed. Messages that were not read become dead
 * letters.
 */
TR_API void tr_probe_free(tr_probe *probe);
/* Returns the ref of a probe. The probe receives what is sent to it. */
TR_API tr_ref tr_probe_ref(tr_probe *probe);
/*
 * Watches ref as tr_watch does: the probe gets one tr_terminated when ref has
 * ended.
 */
TR_API void tr_probe_watch(tr_probe *probe, tr_ref ref);
/*
 * Subscribes as tr_subscribe does: the probe gets published events of the type.
 */
TR_API void tr_probe_subscribe(tr_probe *probe, const tr_type *type);

/*
 * Waits for the next message and returns it. If none comes in time, or one of
 * another type, the test fails at site: the process ends and prints what came
 * instead. timeout 0 means 3 s; below 0 the message must be there already.
 */
TR_API const void *tr_expect(tr_probe *probe, tr_nanos timeout,
                             const tr_type *type, const char *site);
/*
 * Waits for the next message of any type and returns it (tr_msg_type,
 * tr_msg_payload).
 */
TR_API const tr_msg *tr_expect_any(tr_probe *probe, tr_nanos timeout,
                                   const char *site);
/*
 * Answers a request that the probe has just returned: m is that message. Does
 * nothing if it was sent by tr_tell. A request that is not answered before the
 * next call on the probe gets TR_ENOREPLY.
 * Errors: TR_EINVAL (m is not the last message), TR_EEXIST (answered already),
 * TR_ENOMEM.
 */
TR_API tr_err tr_probe_reply(tr_probe *probe, const void *m,
                             const void *payload);
/* Waits for span. If a message comes, the test fails at site. */
TR_API void tr_expect_nothing(tr_probe *probe, tr_nanos span, const char *site);

TR_END_DECLS

#ifndef __cplusplus

#define tr_probe_subscribe(probe, T) (tr_probe_subscribe)((probe), &T##_tr_type)
#define tr_expect(probe, timeout, T)                                           \
    ((const T *)(tr_expect)((probe), (timeout), &T##_tr_type, TR_HERE))
#define tr_expect_any(probe, timeout)                                          \
    (tr_expect_any)((probe), (timeout), TR_HERE)
/* The reply's type comes from m's declaration. */
#define tr_probe_reply(probe, ...) TR_PROBE_REPLY_(probe, __VA_ARGS__, )
#define TR_PROBE_REPLY_(probe, m, ...)                                         \
    (tr_probe_reply)((probe), (m),                                             \
                     &(const __typeof__(*(m)->tr_reply_is)){__VA_ARGS__})
#define tr_expect_nothing(probe, span)                                         \
    (tr_expect_nothing)((probe), (span), TR_HERE)

#endif /* !__cplusplus */
#endif
