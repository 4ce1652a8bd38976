/*
 * testing - a probe takes the place of an actor, and hours take no time.
 *
 * Notice: the probe is given to the actor as its partner, so the test sees what
 * the actor sends; the actor was not changed for the test. In the simulated
 * world tr_expect runs the world until the message is there: there is no sleep
 * and no real waiting. If another message comes, or none, the process ends with
 * file, line and what came instead.
 */
#include <stdio.h>

#include <troupe/troupe.h>

// [snippet: actor]
TR_MESSAGE(Remind, (const char *, text));
TR_MESSAGE(Snooze);
TR_MESSAGE(Ring, (const char *, text), (uint32_t, times));

typedef struct Alarm {
    tr_ref owner;
    char *text;
    uint32_t rung;
} Alarm;

static tr_err on_remind(tr_ctx *ctx, Alarm *self, const Remind *m)
{
    self->text = tr_dup(ctx, m->text);  // m is freed when we return
    (void)tr_every(ctx, TR_MINUTES(10), Snooze);
    return TR_OK;
}

static tr_err on_snooze(tr_ctx *ctx, Alarm *self, const Snooze *m)
{
    (void)m;
    tr_tell(ctx, self->owner, Ring, .text = self->text, .times = ++self->rung);
    return TR_OK;
}

TR_ACTOR(alarm_clock, Alarm, TR_ON(Remind, on_remind),
         TR_ON(Snooze, on_snooze));
// [end]

static void check(bool ok, const char *what)
{
    if (!ok) {
        tr_abort(TR_HERE, what);
    }
}

// [snippet: test]
static void test_rings_every_ten_minutes(tr_system *sys, tr_probe *probe)
{
    tr_ref ref = tr_spawn(sys, alarm_clock,
                          TR_INIT(alarm_clock, .owner = tr_probe_ref(probe)));
    tr_tell(probe, ref, Remind, .text = "tea");
    tr_expect_nothing(probe, TR_MINUTES(9));
    check(tr_expect(probe, TR_MINUTES(2), Ring)->times == 1, "first ring");
    check(tr_expect(probe, TR_MINUTES(11), Ring)->times == 2, "second ring");
    tr_stop(probe, ref);
}

static void test_ends_when_it_is_killed(tr_system *sys, tr_probe *probe)
{
    tr_ref ref = tr_spawn(sys, alarm_clock);
    tr_probe_watch(probe, ref);
    tr_kill(probe, ref);
    check(tr_expect(probe, 0, tr_terminated)->reason == TR_KILLED, "reason");
    tr_expect_nothing(probe, TR_MINUTES(60));
}

int main(void)
{
    tr_sim *sim;
    tr_system *sys;
    tr_probe *probe;
    TR_MUST(tr_sim_new(&sim, 42));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim)));
    TR_MUST(tr_probe_new(&probe, sys));
    test_rings_every_ten_minutes(sys, probe);
    test_ends_when_it_is_killed(sys, probe);
    printf("ok, %ld virtual minutes\n",
           (long)(tr_sim_now(sim) / TR_MINUTES(1)));
    tr_probe_free(probe);
    TR_MUST(tr_system_close(sys, 0));
    tr_sim_free(sim);
    return 0;
}
// [end]
