/*
 * sim_command.c - reads the command line of a simulated program.
 *
 * Invariant: with a wrong command line nothing is run. The message names the
 * option, the word that is wrong, and what was expected.
 */
#include "sim/sim_command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/text.h"
#include "base/world.h"
#include "sim/sim_fault.h"

void tri_sim_log(int level, const char *text)
{
    tri_world *world = tri_world_posix();

    tri_log_write(level, world->ops->wall(world), NULL, "sim", text);
}

typedef enum option_kind {
    OPTION_FLAG,
    OPTION_NUMBER,  // from 0
    OPTION_COUNT,   // from 1
    OPTION_TEXT,
} option_kind;

/* An option, and where its value is stored. */
typedef struct option {
    const char *name;
    option_kind kind;
    const char *value_is;  // the text after "expected"
    uint64_t most;
    uint64_t *number;
    bool *flag;
    const char **text;
} option;

/* Keeps the first mistake. */
static void refuse(tri_sim_command *it, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void refuse(tri_sim_command *it, const char *format, ...)
{
    if (it->wrong[0] == '\0') {
        va_list args;
        va_start(args, format);
        vsnprintf(it->wrong, sizeof(it->wrong), format, args);
        va_end(args);
    }
}

static bool parse_number(const char *text, uint64_t *out)
{
    char *end = NULL;

    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    *out = strtoull(text, &end, 0);
    return *end == '\0' && errno == 0;
}

/* Returns the class of that name, or TRI_FAULT_COUNT. */
static uint32_t fault_named(const char *name, size_t length)
{
    uint32_t i = 0;

    while (i < TRI_FAULT_COUNT &&
           (strlen(tri_sim_fault_name(i)) != length ||
            strncmp(tri_sim_fault_name(i), name, length) != 0)) {
        i++;
    }
    return i;
}

static void parse_only(tri_sim_command *it, const char *text)
{
    tri_sim_plan *plan = &it->plan;

    memset(plan->without, true, sizeof(plan->without));
    plan->without_buggify = true;
    while (strcmp(text, "none") != 0 && *text != '\0') {
        size_t length = strcspn(text, ",");
        uint32_t fault = fault_named(text, length);
        if (length == strlen("buggify") &&
            strncmp(text, "buggify", length) == 0) {
            plan->without_buggify = false;
        } else if (fault == TRI_FAULT_COUNT) {
            refuse(it,
                   "--only %.*s: no such class; expected names of the list "
                   "below with commas between them, or none",
                   (int)(length < 64 ? length : 64), text);
            return;
        } else {
            plan->without[fault] = false;
        }
        text += length + (text[length] == ',');
    }
}

/* Stores the value of an option, or refuses it. */
static void take_value(tri_sim_command *it, const option *o, const char *value)
{
    uint64_t number = 0;

    if (value == NULL) {
        refuse(it, "%s: expected %s after it", o->name, o->value_is);
    } else if (o->kind == OPTION_TEXT) {
        *o->text = value;
    } else if (!parse_number(value, &number) || number > o->most ||
               (o->kind == OPTION_COUNT && number == 0)) {
        refuse(it, "%s %.64s: expected %s", o->name, value, o->value_is);
    } else {
        *o->number = number;
    }
}

tri_sim_command tri_sim_command_read(int argc, char **argv,
                                     const tr_sim_options *options)
{
    TRI_CHECK(options != NULL);
    tri_sim_command it = {.plan = {.seed = options->seed, .program = argv[0]}};
    const char *only = NULL;
    uint64_t check_every = 0;
    const option all[] = {
        {"--seed", OPTION_NUMBER, "a number", UINT64_MAX,
         .number = &it.plan.seed},
        {"--seeds", OPTION_COUNT, "how many, from 1", UINT64_MAX,
         .number = &it.seeds},
        {"--fault-steps", OPTION_NUMBER, "the number of a step", UINT64_MAX,
         .number = &it.plan.fault_steps},
        {"--check-every", OPTION_COUNT, "a number of steps, 1 to 4294967295",
         UINT32_MAX, .number = &check_every},
        {"--faults", OPTION_TEXT,
         "numbers of faults with commas between them, or none",
         .text = &it.faults},
        {"--only", OPTION_TEXT, "classes with commas between them, or none",
         .text = &only},
        {"--trace", .flag = &it.trace},
        {"--shrink", .flag = &it.shrink},
        {"--no-strays", .flag = &it.plan.strays_fail},
        {"--help", .flag = &it.help},
    };

    for (int i = 1; i < argc; i++) {
        const option *o = NULL;
        for (size_t k = 0; k < TRI_COUNT_OF(all) && o == NULL; k++) {
            o = strcmp(argv[i], all[k].name) == 0 ? &all[k] : NULL;
        }
        if (o == NULL) {
            refuse(&it, "%.64s: no such option", argv[i]);
        } else if (o->kind == OPTION_FLAG) {
            *o->flag = true;
        } else {
            i++;
            take_value(&it, o, i < argc ? argv[i] : NULL);
        }
    }
    it.plan.check_every = (uint32_t)check_every;
    if (only != NULL) {
        parse_only(&it, only);
    }
    return it;
}

int tri_sim_usage(const char *program, const char *wrong)
{
    char line[TRI_SIM_SAID_MAX];
    tri_text text;
    bool is_wrong = wrong[0] != '\0';
    int level = is_wrong ? TRI_LOG_ERROR : TRI_LOG_INFO;

    if (is_wrong) {
        tri_sim_log(level, wrong);
    }
    snprintf(line, sizeof(line),
             "usage: %s [--seed N] [--seeds N] [--trace] [--shrink] "
             "[--only CLASS,...] [--fault-steps N] [--check-every N] "
             "[--faults N,...] [--no-strays]",
             program);
    tri_sim_log(level, line);
    tri_text_init(&text, line, sizeof(line));
    tri_text_add(&text, "classes:");
    for (uint32_t i = 0; i < TRI_FAULT_COUNT; i++) {
        tri_text_add(&text, " %s", tri_sim_fault_name(i));
    }
    tri_text_add(&text, " buggify");
    tri_sim_log(level, line);
    return is_wrong ? 2 : 0;
}
