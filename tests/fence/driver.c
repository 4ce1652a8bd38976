/*
 * driver.c - starts the nodes, pauses and kills them as the seed decides, and
 * checks what their clients have logged.
 *
 * A pause lasts 0.1 to 6 s, short ones being more frequent. Half of the pauses
 * wait until a node has heard of a change of members: while owners change, a
 * fence has the most to do. At least one node always runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fence.h"
#include "process.h"

#define MS  INT64_C(1000000)
#define SEC (1000 * MS)

enum {
    PERIOD = 120,  // seconds for which the wanted counts are
    PAUSES_WANTED = 100,
    KILLS_WANTED = 20,
    UPDATES_WANTED = 500000,
    SHOW_EVERY = 10,  // seconds
};

/* The time until the next pause and kill: up to twice the mean. */
static const int64_t pause_gap_mean = 620 * MS, kill_gap_mean = 4800 * MS;
static const int64_t aim_max = 1500 * MS, aim_delay_max = 20 * MS;
static const int64_t restart_max = 500 * MS;
static const int64_t join_max = 60 * SEC, end_max = 60 * SEC;

typedef struct driver {
    const settings *s;
    board *board;
    process nodes[NODES];
    uint64_t random;
    int64_t next_pause, next_kill;
    int64_t aim_until;    // pause a node that hears of a change; 0: none
    int64_t seen[NODES];  // board.changed when the aim was taken
    uint32_t pauses, kills;
    uint32_t bad_ends;  // processes that have ended by themselves
} driver;

/* ---- chance ---- */

/* Returns a number below `below` (splitmix64). */
static uint64_t chance(driver *it, uint64_t below)
{
    uint64_t z = it->random += 0x9E3779B97F4A7C15;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return (z ^ (z >> 31)) % below;
}

/* Returns a time of 0.1 to 6 s; each factor is as likely as another. */
static int64_t pause_length(driver *it)
{
    double share = (double)chance(it, 1000001) / 1e6;

    return (int64_t)(0.1 * pow(60, share) * (double)SEC);
}

/* ---- faults ---- */

static uint32_t count_running(const driver *it)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < NODES; i++) {
        count += process_is_running(&it->nodes[i]) &&
                 atomic_load(&it->board->joined[i]);
    }
    return count;
}

/* Returns a random node that runs; NODES if it is the last one. */
static uint32_t pick_running(driver *it)
{
    uint32_t first = (uint32_t)chance(it, NODES);

    for (uint32_t i = 0; i < NODES && count_running(it) > 1; i++) {
        uint32_t node = (first + i) % NODES;
        if (process_is_running(&it->nodes[node]) &&
            atomic_load(&it->board->joined[node])) {
            return node;
        }
    }
    return NODES;
}

static void pause_node(driver *it, uint32_t node, int64_t now)
{
    process_pause(&it->nodes[node], now + pause_length(it));
    it->pauses++;
    it->aim_until = 0;
    it->next_pause = now + (int64_t)chance(it, 2 * (uint64_t)pause_gap_mean);
}

static void take_aim(driver *it, int64_t now)
{
    it->aim_until = now + aim_max;
    for (uint32_t i = 0; i < NODES; i++) {
        it->seen[i] = atomic_load(&it->board->changed[i]);
    }
}

/* Pauses the first running node that has heard of a change. */
static void fire(driver *it, int64_t now)
{
    for (uint32_t i = 0; i < NODES && count_running(it) > 1; i++) {
        if (process_is_running(&it->nodes[i]) &&
            atomic_load(&it->board->changed[i]) != it->seen[i]) {
            int64_t delay = (int64_t)chance(it, (uint64_t)aim_delay_max);
            (void)poll(NULL, 0, (int)(delay / MS));
            pause_node(it, i, now + delay);
            return;
        }
    }
    if (now >= it->aim_until) {
        uint32_t node = pick_running(it);
        if (node < NODES) {
            pause_node(it, node, now);
        }
    }
}

static void pause_if_due(driver *it, int64_t now)
{
    if (it->aim_until != 0) {
        fire(it, now);
    } else if (now >= it->next_pause) {
        if (chance(it, 2) == 0) {
            take_aim(it, now);
            return;
        }
        uint32_t node = pick_running(it);
        if (node < NODES) {
            pause_node(it, node, now);
        }
    }
}

/* Kills a random process, paused or not. */
static void kill_if_due(driver *it, int64_t now)
{
    if (now < it->next_kill) {
        return;
    }
    uint32_t node = (uint32_t)chance(it, NODES);
    bool is_last =
        process_is_running(&it->nodes[node]) && count_running(it) <= 1;
    if (it->nodes[node].pid == 0 || is_last) {
        return;  // another one in a millisecond
    }
    process_kill(&it->nodes[node],
                 now + (int64_t)chance(it, (uint64_t)restart_max));
    atomic_store(&it->board->joined[node], false);
    it->kills++;
    it->next_kill =
        now + kill_gap_mean / 2 + (int64_t)chance(it, (uint64_t)kill_gap_mean);
}

/* Starts what was killed, continues what was paused, notes what has ended. */
static void look_after(driver *it, int64_t now)
{
    for (uint32_t i = 0; i < NODES; i++) {
        process *node = &it->nodes[i];
        int status;
        if (node->pid == 0 && now >= node->start_at) {
            process_start(node, it->s, "--node", i);
        } else if (node->paused_until != 0 && now >= node->paused_until) {
            process_continue(node);
        } else if (process_has_ended(node, &status)) {
            printf("fence: node %" PRIu32 " has ended by itself: status %#x\n",
                   i, (unsigned)status);
            it->bad_ends++;
            atomic_store(&it->board->joined[i], false);
        }
    }
}

/* ---- phases ---- */

static uint64_t acknowledged(const driver *it)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < NODES; i++) {
        sum += atomic_load(&it->board->acknowledged[i]);
    }
    return sum;
}

/* Returns false if not all nodes have joined in time. */
static bool start_nodes(driver *it)
{
    int64_t until = clock_now() + join_max;

    while (count_running(it) < NODES) {
        look_after(it, clock_now());
        if (clock_now() > until || it->bad_ends > 0) {
            printf("fence: only %" PRIu32 " nodes have joined\n",
                   count_running(it));
            return false;
        }
        (void)poll(NULL, 0, 1);
    }
    return true;
}

static void disturb(driver *it)
{
    int64_t began = clock_now(), now = began, show = began;
    int64_t end = began + it->s->seconds * SEC;

    it->next_pause = began + pause_gap_mean;
    it->next_kill = began + kill_gap_mean / 2;
    for (; now < end && it->bad_ends == 0; now = clock_now()) {
        look_after(it, now);
        pause_if_due(it, now);
        kill_if_due(it, now);
        if (now >= show + SHOW_EVERY * SEC) {
            show += SHOW_EVERY * SEC;
            printf("fence: %3" PRId64 " s, %" PRIu32 " pauses, %" PRIu32
                   " kills, %" PRIu64 " acknowledged\n",
                   (now - began) / SEC, it->pauses, it->kills,
                   acknowledged(it));
            (void)fflush(stdout);
        }
        (void)poll(NULL, 0, 1);
    }
}

static void stop_nodes(driver *it)
{
    for (uint32_t i = 0; i < NODES; i++) {
        process_continue(&it->nodes[i]);
        process_terminate(&it->nodes[i]);
    }
    for (uint32_t i = 0; i < NODES; i++) {
        int status = 0;
        if (it->nodes[i].pid != 0 &&
            (!process_wait(&it->nodes[i], clock_now() + end_max, &status) ||
             status != 0)) {
            printf("fence: node %" PRIu32
                   " did not leave as it should: status %#x\n",
                   i, (unsigned)status);
            it->bad_ends++;
        }
    }
}

static void read_final_values(driver *it)
{
    process reader = {0};
    int status = 0;

    process_start(&reader, it->s, "--reader", 0);
    if (!process_wait(&reader, clock_now() + 2 * end_max, &status) ||
        status != 0) {
        printf("fence: the final values cannot be read: status %#x\n",
               (unsigned)status);
        it->bad_ends++;
    }
}

/* ---- the verdict ---- */

/* Returns the records of all logs, to be freed. Exits if that fails. */
static record *read_logs(const settings *s, size_t *count)
{
    record *all = NULL;

    *count = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        char name[32], path[PATH_SIZE];
        struct stat about;
        (void)snprintf(name, sizeof(name), "node-%" PRIu32 ".log", i);
        FILE *file = fopen(file_path(s, name, path), "r");
        if (file == NULL || fstat(fileno(file), &about) != 0) {
            perror(path);
            exit(2);
        }
        size_t more = (size_t)about.st_size / sizeof(record);
        record *grown = realloc(all, (*count + more + 1) * sizeof(record));
        if (grown == NULL ||
            fread(&grown[*count], sizeof(record), more, file) != more) {
            perror(path);
            exit(2);
        }
        all = grown;
        (void)fclose(file);
        *count += more;
    }
    return all;
}

static bool is_enough(const char *what, uint64_t count, uint64_t wanted,
                      uint32_t seconds)
{
    uint64_t least = wanted * seconds / PERIOD;

    if (count < least) {
        printf("fence: too few %s: %" PRIu64 ", wanted %" PRIu64
               "; this machine made %.1f a second\n",
               what, count, least, (double)count / seconds);
    }
    return count >= least;
}

static bool judge(const driver *it)
{
    const settings *s = it->s;
    size_t count;
    verdict v;
    record *all = read_logs(s, &count);

    history_check(all, count, &v);
    free(all);
    printf("fence: pauses %" PRIu32 ", kills %" PRIu32
           ", acknowledged updates %" PRIu64 ", unknown %" PRIu64
           ", refused %" PRIu64 ", reads %" PRIu64 "\n",
           it->pauses, it->kills, v.updates, v.unknown, v.refused, v.reads);
    for (fault i = 0; i < FAULTS; i++) {
        if (v.faults[i] > 0) {
            printf("fence: %s: %" PRIu64 ", the first: %s\n", fault_name(i),
                   v.faults[i], v.text[i]);
        }
    }
    printf("fence: verdict: %s\n",
           v.fault_count > 0
               ? "VIOLATED"
               : "no update lost or doubled, no read stale, epochs in order");
    bool enough = is_enough("pauses", it->pauses, PAUSES_WANTED, s->seconds);
    enough &= is_enough("kills", it->kills, KILLS_WANTED, s->seconds);
    enough &=
        is_enough("acknowledged updates", v.updates,
                  s->updates > 0 ? s->updates : UPDATES_WANTED, s->seconds);
    return v.fault_count == 0 && enough && it->bad_ends == 0;
}

int driver_run(const settings *s)
{
    driver it = {.s = s, .board = board_map(s, true), .random = s->seed};

    printf("fence: seed %" PRIu64 ", %" PRIu32 " s, lease %" PRIu32
           " ms, %d processes, folder %s%s%s\n",
           s->seed, s->seconds, s->lease_ms, NODES, s->folder,
           s->broken != 0 ? ", without the part " : "", s->breaking);
    (void)fflush(stdout);
    if (start_nodes(&it)) {
        disturb(&it);
    }
    stop_nodes(&it);
    read_final_values(&it);
    return judge(&it) ? 0 : 1;
}
