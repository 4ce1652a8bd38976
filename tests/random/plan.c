/*
 * plan.c - draws a random program from a seed.
 *
 * Everything is drawn before anything is left out, so a number means the same
 * step whatever else is left out.
 */
#include "plan.h"

#include <string.h>

typedef struct draw {
    uint64_t state;
    uint16_t next;  // the next free number
    const without *without;
} draw;

/* Returns a random number below `below` (splitmix64). */
static uint32_t below(draw *d, uint32_t below)
{
    uint64_t z = d->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ z >> 31) % below);
}

typedef enum place { IN_HANDLER, OUTSIDE, IN_HOOK, PLACES } place;

static const uint8_t weights[VERBS_COUNT][PLACES] = {
#define X(name, handler, outside, hook, text) {handler, outside, hook},
    VERBS(X)
#undef X
};

static uint8_t draw_verb(draw *d, place where)
{
    uint32_t sum = 0;

    for (int i = 0; i < VERBS_COUNT; i++) {
        sum += weights[i][where];
    }
    uint32_t at = below(d, sum);
    for (int i = 0;; i++) {
        if (at < weights[i][where]) {
            return (uint8_t)i;
        }
        at -= weights[i][where];
    }
}

/* A script sends only scripts that come after it: chains of mail end. */
static step draw_step(draw *d, place where, uint32_t first)
{
    uint32_t left = SCRIPTS - first;

    return (step){
        .number = d->next++,
        .verb = draw_verb(d, where),
        .slot = (uint8_t)below(d, SLOTS),
        .script = (uint8_t)(first + below(d, left)),
        .arg = below(d, 1u << 16),
    };
}

static bool is_out(const draw *d, uint16_t number)
{
    return d->without != NULL && d->without->out[number];
}

static void draw_script(draw *d, script *s, place where, uint32_t index,
                        uint32_t most)
{
    uint32_t count = below(d, most + 1);

    for (uint32_t i = 0; i < count; i++) {
        step it = draw_step(d, where, index + 1);
        if (!is_out(d, it.number)) {
            s->steps[s->count++] = it;
        }
    }
}

static void draw_options(draw *d, option *out, uint32_t *count, uint32_t kinds)
{
    uint32_t most = below(d, OPTIONS + 1);

    for (uint32_t i = 0; i < most; i++) {
        option it = {.number = d->next++,
                     .what = (uint8_t)below(d, kinds),
                     .arg = below(d, 1u << 16)};
        bool twice = false;
        for (uint32_t j = 0; j < *count; j++) {
            twice |= out[j].what == it.what;
        }
        if (!twice && !is_out(d, it.number)) {
            out[(*count)++] = it;
        }
    }
}

static void draw_slot(draw *d, slot_plan *s)
{
    draw_options(d, s->options, &s->option_count, SPAWN_OPTIONS_COUNT);
    for (int i = 0; i < HOOKS_COUNT; i++) {
        place where = i >= HOOK_on_run ? IN_HANDLER : IN_HOOK;
        // Most hooks do nothing.
        draw_script(d, &s->hooks[i], where, SCRIPTS / 2,
                    below(d, 4) == 0 ? 2 : 0);
    }
}

static void draw_thread(draw *d, outside *t)
{
    uint32_t count = 2 + below(d, THREAD_STEPS - 1);

    for (uint32_t i = 0; i < count; i++) {
        step it = draw_step(d, OUTSIDE, 0);
        if (i < 2) {
            it.verb = V_SPAWN;  // something to talk to
        }
        if (!is_out(d, it.number)) {
            t->steps[t->count++] = it;
        }
    }
}

void plan_make(plan *p, uint64_t seed, mode m, const without *w)
{
    draw d = {.state = seed, .without = w};

    memset(p, 0, sizeof(*p));
    p->seed = seed;
    p->mode = m;
    draw_options(&d, p->options, &p->option_count, SYSTEM_OPTIONS_COUNT);
    for (uint32_t i = 0; i < SLOTS; i++) {
        draw_slot(&d, &p->slots[i]);
    }
    for (uint32_t i = 0; i + 1 < SCRIPTS; i++) {
        draw_script(&d, &p->scripts[i], IN_HANDLER, i, SCRIPT_STEPS);
    }
    p->thread_count = 1 + below(&d, THREADS);
    for (uint32_t i = 0; i < p->thread_count; i++) {
        draw_thread(&d, &p->threads[i]);
    }
    for (int i = 0; i < 8; i++) {
        uint32_t directive = below(&d, 12);
        p->decisions[i] = (uint8_t)(directive < 5 ? directive : 0);
    }
    p->settle = below(&d, 3) != 0;
    p->numbers = d.next;
}

const char *mode_name(mode m)
{
    static const char *const names[MODES] = {"threads", "poll", "sim"};

    return names[m];
}

const char *plan_dispatcher(uint32_t arg)
{
    static const char *const names[] = {"parallel", "pinned", "concurrent",
                                        "blocking", "mine"};

    return names[arg % 5];
}

uint32_t plan_span_ms(const plan *p, uint32_t arg)
{
    static const uint32_t spans[] = {1, 5, 20, 300, 1, 5, 20, 10000};

    return spans[arg % 4 + (p->mode == MODE_SIM ? 4 : 0)];
}
