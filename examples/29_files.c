/*
 * files - a counter that keeps its number in a file.
 *
 * Notice: the calls park the actor while a thread for blocking calls uses the
 * disk. tr_file_save replaces the file at once, so a crash leaves the old
 * number or the new one. In a simulation the same code uses a simulated disk.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <troupe/troupe.h>

TR_MESSAGE(Number, (int64_t, value));
TR_REQUEST(Add, Number, (int64_t, by));

typedef struct Counter {
    const char *path;
    int64_t value;
} Counter;

// [snippet: files]
static tr_err counter_start(tr_ctx *ctx, Counter *self)
{
    char text[32] = "";
    size_t got;
    tr_err err = tr_file_load(ctx, self->path, text, sizeof(text) - 1, &got);
    if (err == TR_ENOENT) return TR_OK;  // none yet: the value is 0
    self->value = strtoll(text, NULL, 10);
    return err;
}

static tr_err counter_add(tr_ctx *ctx, Counter *self, const Add *m)
{
    const char *text = tr_textf(ctx, "%" PRId64 "\n", self->value + m->by);
    TR_TRY(tr_file_save(ctx, self->path, text, strlen(text)));
    self->value += m->by;
    return tr_reply(ctx, m, .value = self->value);
}
// [end]
TR_ACTOR(counter, Counter, TR_HOOK(pre_start, counter_start),
         TR_ON(Add, counter_add));

/* Opens a system, as a program does when it is started, and adds. */
static int64_t add_in_a_new_program(const char *path, int64_t by)
{
    tr_system *sys;
    Number number;
    TR_MUST(tr_system_open(&sys));
    tr_ref ref = tr_spawn(sys, counter, TR_INIT(counter, .path = path));
    TR_MUST(tr_ask(sys, ref, &number, TR_SECONDS(30), Add, .by = by));
    TR_MUST(tr_system_close(sys, 0));
    return number.value;
}

int main(void)
{
    char folder[] = "/tmp/troupe-files-XXXXXX", path[64];
    if (mkdtemp(folder) == NULL) return 1;
    (void)snprintf(path, sizeof(path), "%s/number", folder);
    printf("%" PRId64 "\n", add_in_a_new_program(path, 3));
    printf("%" PRId64 "\n", add_in_a_new_program(path, 4));
    (void)unlink(path);
    return rmdir(folder);
}
