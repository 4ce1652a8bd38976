/* part.c - the part of the program that is in C. */
#include "shared.h"

size_t c_types(const tr_type **types, size_t *alignments, size_t most)
{
    size_t count = 0;
#define ONE(T)                                                                 \
    if (count < most) {                                                        \
        types[count] = &T##_tr_type;                                           \
        alignments[count++] = _Alignof(T);                                     \
    }
    SHARED_TYPES(ONE)
#undef ONE
    return count;
}

typedef struct Adder {
    int64_t sum;
} Adder;

static tr_err on_add(tr_ctx *ctx, Adder *self, const Add *m)
{
    self->sum += m->n;
    return tr_reply(ctx, m, .sum = self->sum);
}

TR_ACTOR(adder, Adder, TR_ON(Add, on_add));

const tr_actor_def *c_adder(void)
{
    return &adder;
}

int64_t c_ask(tr_system *sys, tr_ref to, int64_t n)
{
    Wide wide = {0};
    TR_MUST(tr_ask(sys, to, &wide, 0, Add, .note = "from C", .n = n));
    return wide.sum;
}
