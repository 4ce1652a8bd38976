/*
 * print.c - prints a random program as C that can be compiled.
 *
 * Only what the program can reach is printed: a script that nobody sends is
 * left out, and so is a slot that nobody spawns.
 */
#include <string.h>

#include "plan.h"

static const char *const texts[VERBS_COUNT] = {
#define X(name, handler, outside, hook, text) text,
    VERBS(X)
#undef X
};

static const char *const spawn_texts[SPAWN_OPTIONS_COUNT] = {
#define X(name, text) text,
    SPAWN_OPTIONS(X)
#undef X
};

static const char *const system_texts[SYSTEM_OPTIONS_COUNT] = {
#define X(name, text) text,
    SYSTEM_OPTIONS(X)
#undef X
};

static const char *const hook_names[HOOKS_COUNT] = {
#define X(name) #name,
    HOOKS(X)
#undef X
};

typedef struct reach {
    bool slot[SLOTS];
    bool script[SCRIPTS];
} reach;

static bool sends(uint8_t verb)
{
    return strstr(texts[verb], "$S") != NULL;
}

static bool reach_steps(reach *r, const step *steps, uint32_t count)
{
    bool more = false;

    for (uint32_t i = 0; i < count; i++) {
        const step *s = &steps[i];
        bool *to = s->verb == V_SPAWN ? &r->slot[s->slot]
                   : sends(s->verb)   ? &r->script[s->script]
                                      : NULL;
        if (to != NULL && !*to) {
            *to = more = true;
        }
    }
    return more;
}

static void find_reach(const plan *p, reach *r)
{
    bool more = true;

    while (more) {
        more = false;
        for (uint32_t i = 0; i < p->thread_count; i++) {
            more |= reach_steps(r, p->threads[i].steps, p->threads[i].count);
        }
        for (uint32_t i = 0; i < SLOTS; i++) {
            for (int h = 0; r->slot[i] && h < HOOKS_COUNT; h++) {
                const script *s = &p->slots[i].hooks[h];
                more |= reach_steps(r, s->steps, s->count);
            }
        }
        for (uint32_t i = 0; i < SCRIPTS; i++) {
            const script *s = &p->scripts[i];
            more |= r->script[i] && reach_steps(r, s->steps, s->count);
        }
    }
}

static void print_policy(uint32_t arg, uint32_t more, FILE *to)
{
    static const char *const names[] = {"TR_RESTART", "TR_RESTART", "TR_STOP",
                                        "TR_RESUME", "TR_ESCALATE"};
    static const char *const scopes[] = {"TR_ONE_FOR_ONE", "TR_ALL_FOR_ONE",
                                         "TR_REST_FOR_ONE"};

    fprintf(to,
            "TR_SUPERVISE(.on_failure = %s, .scope = %s, .max_restarts = %u, "
            ".backoff_min = TR_MS(1), .backoff_max = TR_MS(5), "
            ".on_limit = %s%s%s%s)",
            names[arg % 5], scopes[arg / 5 % 3], 1 + arg / 15 % 4,
            names[arg / 60 % 5 == 0 ? 4 : 2],
            more % 2 ? ", .keep_children = true" : "",
            more / 2 % 2 ? ", .clear_mailbox = true" : "",
            more / 4 % 2 ? ", .jitter = 1" : "");
}

/* What $ and a letter stand for. */
static void print_value(const plan *p, char letter, const step *s, bool inside,
                        FILE *to)
{
    static const char *const overflows[] = {
        "TR_OVERFLOW_FAIL", "TR_OVERFLOW_BLOCK", "TR_OVERFLOW_DROP_NEW",
        "TR_OVERFLOW_DROP_OLD", "TR_OVERFLOW_STOP"};

    switch (letter) {
    case 'F':
        fputs(inside ? "ctx" : "sys", to);
        break;
    case 'A':
        fprintf(to, "actor[%u]", s->slot);
        break;
    case 'O':
        fprintf(to, "%u", s->slot);
        break;
    case 'S':
        fprintf(to, "%u", s->script);
        break;
    case 'T':
        fprintf(to, "TR_MS(%u)", plan_span_ms(p, s->arg));
        break;
    case 'P':
        fprintf(to, "%u", 1 + s->arg % 7);
        break;
    case 'L':
        fprintf(to, "%u", 1 + s->arg % 8);
        break;
    case 'W':
        fprintf(to, "%u", 1 + s->arg % 4);
        break;
    case 'M':
        fprintf(to, "TR_MS(%u)", 1 + s->arg % 8);
        break;
    case 'D':
        fprintf(to, "\"%s\"", plan_dispatcher(s->arg));
        break;
    case 'Y':
        fputs(inside ? "tr_system_of(ctx)" : "sys", to);
        break;
    case 'X':
        print_policy(s->arg, s->arg / 1000, to);
        break;
    case 'U':
        print_policy(s->arg, 0, to);
        break;
    case 'V':
        fputs(overflows[s->arg / 8 % 5], to);
        break;
    default:
        fprintf(to, "%u", s->verb == V_REPLY ? s->arg : s->arg % 100);
    }
}

static void print_text(const plan *p, const char *text, const step *s,
                       bool inside, FILE *to)
{
    for (; *text != '\0'; text++) {
        if (*text == '$') {
            print_value(p, *++text, s, inside, to);
        } else {
            fputc(*text, to);
        }
    }
}

static void print_steps(const plan *p, const step *steps, uint32_t count,
                        bool inside, FILE *to)
{
    for (uint32_t i = 0; i < count; i++) {
        fprintf(to, "        ");
        print_text(p, texts[steps[i].verb], &steps[i], inside, to);
        fprintf(to, "  // %u\n", steps[i].number);
    }
}

static void print_case(const plan *p, const script *s, uint32_t index, FILE *to)
{
    fprintf(to, "    case %u:\n", index);
    print_steps(p, s->steps, s->count, true, to);
    fprintf(to, "        break;\n");
}

static void print_scripts(const plan *p, const reach *r, FILE *to)
{
    fprintf(to, "static tr_err run(tr_ctx *ctx, const Ask *m, const void *any,"
                "\n                  unsigned script)\n{\n"
                "    (void)ctx, (void)m, (void)any;\n    switch (script) {\n");
    for (uint32_t i = 0; i < SCRIPTS; i++) {
        if (r->script[i] && p->scripts[i].count > 0) {
            print_case(p, &p->scripts[i], i, to);
        }
    }
    fprintf(to, "    }\n    return TR_OK;\n}\n\n");
}

static void print_hooks(const plan *p, const reach *r, FILE *to)
{
    fprintf(to, "static tr_err hooked(tr_ctx *ctx, unsigned slot, unsigned at)"
                "\n{\n    const Ask *m = NULL;\n    const void *any = NULL;\n"
                "    (void)ctx, (void)m, (void)any;\n"
                "    switch (slot * HOOKS_COUNT + at) {\n");
    for (uint32_t i = 0; i < SLOTS; i++) {
        for (uint32_t h = 0; r->slot[i] && h < HOOKS_COUNT; h++) {
            if (p->slots[i].hooks[h].count > 0) {
                fprintf(to, "    case %u * HOOKS_COUNT + HOOK_%s:\n", i,
                        hook_names[h]);
                print_steps(p, p->slots[i].hooks[h].steps,
                            p->slots[i].hooks[h].count, true, to);
                fprintf(to, "        break;\n");
            }
        }
    }
    fprintf(to, "    }\n    return TR_OK;\n}\n\n");
}

static void print_options(const plan *p, const option *options, uint32_t count,
                          uint32_t slot, const char *const *names, FILE *to)
{
    for (uint32_t i = 0; i < count; i++) {
        step s = {
            .slot = (uint8_t)slot, .arg = options[i].arg, .verb = VERBS_COUNT};
        fprintf(to, ",\n        ");
        print_text(p, names[options[i].what], &s, true, to);
        fprintf(to, "  /* %u */", options[i].number);
    }
}

static void print_spawns(const plan *p, const reach *r, FILE *to)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (r->slot[i]) {
            fprintf(to,
                    "static void spawn_%u(tr_from from)\n{\n    tr_ref "
                    "it = tr_spawn(from, player, TR_INIT(player, .slot = "
                    "%u)",
                    i, i);
            print_options(p, p->slots[i].options, p->slots[i].option_count, i,
                          spawn_texts, to);
            fprintf(to,
                    ");\n    if (tr_ref_err(it) == TR_OK) actor[%u] = it;"
                    "\n}\n",
                    i);
        }
    }
}

static void print_threads(const plan *p, FILE *to)
{
    for (uint32_t i = 0; i < p->thread_count; i++) {
        if (p->threads[i].count == 0) {
            continue;
        }
        fprintf(to,
                "static void thread_%u(void *arg)\n{\n    tr_system *sys ="
                " arg;\n    (void)sys;\n",
                i);
        print_steps(p, p->threads[i].steps, p->threads[i].count, false, to);
        fprintf(to, "}\n");
    }
}

static void print_main(const plan *p, FILE *to)
{
    fprintf(to,
            "int main(void)\n{\n    tr_system *sys;\n    tr_thread "
            "*threads[%u];\n    TR_MUST(tr_system_open(&sys",
            p->thread_count);
    if (p->mode == MODE_POLL) {
        fprintf(to, ", .poll = true");
    }
    print_options(p, p->options, p->option_count, 0, system_texts, to);
    fprintf(to, "));\n    TR_MUST(tr_dispatcher_add(sys, \"mine\", "
                ".threads = 2));\n    host_purses(sys);\n");
    for (uint32_t i = 1; i < p->thread_count; i++) {
        if (p->threads[i].count > 0)
            fprintf(to,
                    "    TR_MUST(tr_thread_start(sys, &threads[%u], "
                    "thread_%u, sys));\n",
                    i, i);
    }
    if (p->threads[0].count > 0) {
        fprintf(to, "    thread_0(sys);\n");
    }
    for (uint32_t i = 1; i < p->thread_count; i++) {
        if (p->threads[i].count > 0)
            fprintf(to, "    tr_thread_join(sys, threads[%u]);\n", i);
    }
    fprintf(to, "    (void)threads;\n%s    tr_system_close(sys, 0);\n}\n",
            p->settle ? "    // here all mail is handled first\n" : "");
}

void plan_print(const plan *p, FILE *to)
{
    reach r = {0};

    find_reach(p, &r);
    fprintf(to, "// seed %llu, mode %s\n#include \"program.h\"\n\n",
            (unsigned long long)p->seed, mode_name(p->mode));
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (r.slot[i]) {
            fprintf(to, "static void spawn_%u(tr_from from);\n", i);
        }
    }
    fprintf(to, "\n");
    print_scripts(p, &r, to);
    print_hooks(p, &r, to);
    print_spawns(p, &r, to);
    print_threads(p, to);
    print_main(p, to);
}
