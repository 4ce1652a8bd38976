/*
 * main.c - the fence test: processes of a cluster are paused and killed while
 * their clients write; no update is lost or doubled, and no read is stale.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "break.h"
#include "fence.h"

static const char usage[] =
    "usage: fence [OPTION...]\n"
    "  --seconds N    how long nodes are paused and killed; default 120\n"
    "  --seed N       when and which; default: the time\n"
    "  --break PART   leave out a part of the fence: load, epoch or lease\n"
    "  --lease-ms N   default 600\n"
    "  --clients N    of each node; default 256\n"
    "  --updates N    fewest acknowledged updates in 120 s; default 500,000\n"
    "  --folder DIR   where its files are; default: a new one, which is\n"
    "                 removed unless the test fails\n"
    "Status 1: a violation, or too few pauses, kills or updates.\n";

typedef struct arguments {
    settings s;
    bool is_node, is_reader;
    uint32_t index;
} arguments;

static void wrong(const char *what)
{
    fprintf(stderr, "fence: %s\n%s", what, usage);
    exit(2);
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);

    if (*text == '\0' || *end != '\0') {
        wrong(text);
    }
    return value;
}

static void read_argument(arguments *a, const char *name, const char *value)
{
    if (strcmp(name, "--node") == 0) {
        a->is_node = true;
        a->index = (uint32_t)number(value);
    } else if (strcmp(name, "--reader") == 0) {
        a->is_reader = true;
    } else if (strcmp(name, "--seconds") == 0) {
        a->s.seconds = (uint32_t)number(value);
    } else if (strcmp(name, "--seed") == 0) {
        a->s.seed = number(value);
    } else if (strcmp(name, "--lease-ms") == 0) {
        a->s.lease_ms = (uint32_t)number(value);
    } else if (strcmp(name, "--clients") == 0) {
        a->s.clients = (uint32_t)number(value);
    } else if (strcmp(name, "--updates") == 0) {
        a->s.updates = number(value);
    } else if (strcmp(name, "--folder") == 0) {
        a->s.folder = value;
    } else if (strcmp(name, "--break") == 0) {
        a->s.breaking = value;
    } else {
        wrong(name);
    }
}

/* Makes a folder in memory if there is such a file system: syncs are fast. */
static char *make_folder(char *out)
{
    const char *place = getenv("TMPDIR");

    if (place == NULL) {
        place = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    }
    (void)snprintf(out, PATH_SIZE, "%s/fence-XXXXXX", place);
    if (mkdtemp(out) == NULL) {
        perror(out);
        exit(2);
    }
    return out;
}

static void remove_folder(const settings *s)
{
    static const char *const names[] = {
        "board",      "engine.db",    "engine.db-wal", "engine.db-shm",
        "state.db",   "state.db-wal", "state.db-shm",  "node-0.log",
        "node-1.log", "node-2.log",   "node-3.log",    "node-0.err",
        "node-1.err", "node-2.err",   "node-3.err"};
    char path[PATH_SIZE];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)unlink(file_path(s, names[i], path));
    }
    if (rmdir(s->folder) != 0) {
        perror(s->folder);
    }
}

static int drive(settings *s)
{
    char folder[PATH_SIZE];
    bool is_own = s->folder == NULL;

    s->folder = is_own ? make_folder(folder) : s->folder;
    int status = driver_run(s);
    if (is_own && status == 0) {
        remove_folder(s);
    } else {
        printf("fence: its files are in %s\n", s->folder);
    }
    return status;
}

int main(int argc, char **argv)
{
    arguments a = {.s = {.seconds = 120,
                         .seed = (uint64_t)clock_now(),
                         .lease_ms = 600,
                         .clients = 256,
                         .breaking = ""}};

    for (int i = 1; i < argc; i += 2) {
        read_argument(&a, argv[i], i + 1 < argc ? argv[i + 1] : "");
    }
    if (!break_of_name(a.s.breaking, &a.s.broken)) {
        wrong("--break: load, epoch or lease");
    }
    if (a.s.seconds == 0 || a.index >= NODES) {
        wrong("a number is out of range");
    }
    if (a.is_reader) {
        return reader_run(&a.s);
    }
    return a.is_node ? node_run(&a.s, a.index) : drive(&a.s);
}
