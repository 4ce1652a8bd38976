/*
 * test.h - probes: mailboxes outside any actor, for tests and bridges.
 *
 * A probe sends (it is a tr_from), receives what is sent to its ref, and says
 * what it expects next. In a simulated system an expectation runs the world
 * until it is met, so waiting takes no real time.
 *
 * Threads: a probe belongs to one thread at a time.
 * Ownership: the caller owns a probe; a message it gives is borrowed until
 * the next call on the probe.
 */
#ifndef TROUPE_TEST_H
#define TROUPE_TEST_H

#include <troupe/base.h>
#include <troupe/message.h>

TR_BEGIN_DECLS

/*
 * Makes a probe; as `from` it is the sender. Ends with tr_probe_free, before
 * its system is closed (a check).
 * Errors: TR_ENOMEM, TR_ECLOSED.
 */
TR_API TR_NODISCARD tr_err tr_probe_new(tr_probe **out, tr_system *sys);
/* Takes probe; NULL is allowed. What was not read is a dead letter. */
TR_API void tr_probe_free(tr_probe *probe);
/* Its address: what is sent there the probe receives. */
TR_API tr_ref tr_probe_ref(tr_probe *probe);
/* The probe gets one tr_terminated when ref has ended; as tr_watch. */
TR_API void tr_probe_watch(tr_probe *probe, tr_ref ref);
/* The probe gets the published events of the type; as tr_subscribe. */
TR_API void tr_probe_subscribe(tr_probe *probe, const tr_type *type);

/*
 * The next message, which must be of this type, else the test fails at site:
 * the process ends with what came instead. timeout 0 = 3 s.
 */
TR_API const void *tr_expect(tr_probe *probe, tr_nanos timeout,
                             const tr_type *type, const char *site);
/* The next message, of any type: tr_msg_type, tr_msg_payload. */
TR_API const tr_msg *tr_expect_any(tr_probe *probe, tr_nanos timeout,
                                   const char *site);
/* No message comes for span, else the test fails at site. */
TR_API void tr_expect_nothing(tr_probe *probe, tr_nanos span, const char *site);

TR_END_DECLS

#ifndef __cplusplus

#define tr_probe_subscribe(probe, T) (tr_probe_subscribe)((probe), &T##_tr_type)
#define tr_expect(probe, timeout, T)                                           \
    ((const T *)(tr_expect)((probe), (timeout), &T##_tr_type, TR_HERE))
#define tr_expect_any(probe, timeout)                                          \
    (tr_expect_any)((probe), (timeout), TR_HERE)
#define tr_expect_nothing(probe, span)                                         \
    (tr_expect_nothing)((probe), (span), TR_HERE)

#endif /* !__cplusplus */
#endif
