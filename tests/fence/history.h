/*
 * history.h - what clients of counters have seen, and whether one order of all
 * updates can explain it.
 *
 * A counter goes up by 1 with each stored update, so its value is the number of
 * the update. Clients write a record before and after each request; processes
 * that are killed leave the second one out. The outcome of such a request is
 * unknown: its updates may have been stored, or will be stored later.
 *
 * Threads: none; one thread uses a history at a time.
 */
#ifndef TEST_FENCE_HISTORY_H
#define TEST_FENCE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum record_what {
    RECORD_BEGIN = 1,  // a client is about to send `count` updates
    RECORD_ADD,        // `count` of them are acknowledged, the last one `value`
    RECORD_READ,       // a read has returned `value`
    RECORD_FINAL,      // the value after all processes have ended
    RECORD_TOKEN,      // an activation used its epoch after its successor began
} record_what;

/*
 * One line of a log. Its size divides that of a page, so that no write of one
 * is cut off when its process is killed.
 */
typedef struct record {
    uint64_t op;         // who has asked: unique among all requests
    int64_t begin, end;  // of the request, CLOCK_MONOTONIC, in ns
    uint64_t value;      // of the counter
    uint64_t writer;     // the op that has stored this value
    uint64_t epoch;      // of the activation, before its last update
    uint32_t key;
    uint32_t host;     // process of the activation
    uint16_t refused;  // updates of an ADD that were surely not stored
    uint8_t what;
    uint8_t count;
    bool owned;  // the owner of the shard hosts this counter
    uint8_t unused[3];
} record;

_Static_assert(sizeof(record) == 64, "a record divides a page");

typedef enum fault {
    FAULT_LOST,     // an acknowledged update is not in the final value
    FAULT_DOUBLED,  // two updates have one value, or one has been done twice
    FAULT_STALE,    // a request shows less than was known when it began
    FAULT_FORKED,   // one value was stored by two requests
    FAULT_EPOCH,    // an epoch went back, or belongs to two owners
    FAULT_TOKEN,    // an epoch did not tell an activation from its successor
    FAULT_MISSING,  // nobody has read the final value
    FAULTS,
} fault;

enum { VERDICT_TEXT_SIZE = 400 };

typedef struct verdict {
    uint64_t updates, unknown, refused, reads;
    uint64_t faults[FAULTS];
    uint64_t fault_count;
    char text[FAULTS][VERDICT_TEXT_SIZE];  // of the first fault of each sort
} verdict;

/* Checks a history, whose records it puts into another order. */
void history_check(record *records, size_t count, verdict *out);
/* Returns a word for the sort of a fault; static. */
const char *fault_name(fault which);

#endif
