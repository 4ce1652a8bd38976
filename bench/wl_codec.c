/*
 * wl_codec.c - writes and reads a message of 64 bytes, in the binary form and
 * as JSON; JSON is compared with cJSON on the same data, if the build has it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

TR_MESSAGE(Order, (int64_t, id), (int64_t, customer), (int64_t, cents),
           (double, weight), (uint32_t, count), (uint32_t, flags),
           (int64_t, placed), (int64_t, due), (bool, paid), (bool, sent));

static const Order order = {.id = 123456789012,
                            .customer = 987654,
                            .cents = 1999,
                            .weight = 2.5,
                            .count = 3,
                            .flags = 17,
                            .placed = 1700000000000,
                            .due = 1700000086400,
                            .paid = true};

enum { TEXT_SIZE = 1024 };

/* Returns the CPU time of this thread; other load does not count. */
static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Returns the nanoseconds of one write and one read. */
static double both_ways(bench *b, const tr_serializer *form)
{
    char bytes[TEXT_SIZE];
    Order copy = order;
    double begin = cpu_now();
    for (int64_t i = 0; i < b->n; i++) {
        copy.id = order.id + i;
        size_t size =
            form->write(form->user, &Order_tr_type, &copy, bytes, TEXT_SIZE);
        memset(&copy, 0, sizeof(copy));
        tr_err err = form->read(form->user, &Order_tr_type, &copy, bytes, size);
        bench_verify(err == TR_OK && copy.id == order.id + i &&
                         copy.weight == order.weight,
                     "the message has changed");
    }
    return (cpu_now() - begin) * 1e9 / (double)b->n;
}

static double run_binary(bench *b)
{
    fprintf(stderr, "# sizeof %zu\n", sizeof(Order));
    return both_ways(b, &tr_serializer_binary);
}

#if defined(BENCH_CJSON)
#include <cjson/cJSON.h>

static void with_cjson(const Order *from, Order *to, char text[TEXT_SIZE])
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "id", (double)from->id);
    cJSON_AddNumberToObject(json, "customer", (double)from->customer);
    cJSON_AddNumberToObject(json, "cents", (double)from->cents);
    cJSON_AddNumberToObject(json, "weight", from->weight);
    cJSON_AddNumberToObject(json, "count", from->count);
    cJSON_AddNumberToObject(json, "flags", from->flags);
    cJSON_AddNumberToObject(json, "placed", (double)from->placed);
    cJSON_AddNumberToObject(json, "due", (double)from->due);
    cJSON_AddBoolToObject(json, "paid", from->paid);
    cJSON_AddBoolToObject(json, "sent", from->sent);
    bench_verify(cJSON_PrintPreallocated(json, text, TEXT_SIZE, 0), "print");
    cJSON_Delete(json);

    json = cJSON_Parse(text);
    bench_verify(json != NULL, "parse");
    for (const cJSON *it = json->child; it != NULL; it = it->next) {
        // In the order of the fields: the best case for a reader.
        switch (it->string[0]) {
        case 'i':
            to->id = (int64_t)it->valuedouble;
            break;
        case 'w':
            to->weight = it->valuedouble;
            break;
        case 'd':
            to->due = (int64_t)it->valuedouble;
            break;
        default:
            to->flags += (uint32_t)it->valueint;
            break;
        }
    }
    cJSON_Delete(json);
}

static void compare_with_cjson(bench *b, double value)
{
    char text[TEXT_SIZE];
    Order copy = order, read = order;
    double begin = cpu_now();
    for (int64_t i = 0; i < b->n; i++) {
        copy.id = order.id + i;
        with_cjson(&copy, &read, text);
        bench_verify(read.id == copy.id, "the message has changed");
    }
    double theirs = (cpu_now() - begin) * 1e9 / (double)b->n;
    fprintf(stderr, "# cJSON %.6g ns, it takes %.2f times as long\n", theirs,
            theirs / value);
}
#else
static void compare_with_cjson(bench *b, double value)
{
    (void)b, (void)value;
    fprintf(stderr, "# built without cJSON: tools/deps.sh bench\n");
}
#endif

static double run_json(bench *b)
{
    double value = both_ways(b, &tr_serializer_json);
    compare_with_cjson(b, value);
    return value;
}

const bench_workload bench_codecs[] = {
    {"codec_binary", 10000000, 1, "ns",
     "a message of ten fields written and read in the compact form",
     run_binary},
    {"codec_json", 1000000, 1, "ns",
     "the same as JSON, and with cJSON if the build has it", run_json},
    {0},
};
