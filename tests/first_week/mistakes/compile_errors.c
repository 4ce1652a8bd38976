/*
 * compile_errors.c - mistakes of a first week; 18_compile_errors.sh compiles
 * each CASE.
 *
 * The line `// gcc:` or `// clang:` of a case is a part of the compiler's first
 * error, `// both:` of the first error of both; `// more:` says why further
 * errors follow. CASE 0 has no mistake.
 */
#include <troupe/troupe.h>

TR_MESSAGE(Tick);

typedef struct Counter {
    int64_t sum;
} Counter;

static tr_err on_tick(tr_ctx *ctx, Counter *self, const Tick *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}
static tr_err start(tr_ctx *ctx, Counter *self)
{
    (void)ctx, (void)self;
    return TR_OK;
}

#if CASE == 1 /* writable text */
// both: Say.text: a message cannot hold a char *; a field is (type, name) with
TR_MESSAGE(Say, (char *, text));
#endif
#if CASE == 2 /* a pointer */
// both: Say.counter: a message cannot hold a Counter *; a field is
TR_MESSAGE(Say, (int32_t, n), (Counter *, counter), (const char *, text));
#endif
#if CASE == 3 /* an array of pointers */
// both: Say.words: a message cannot hold a void *; a field is
TR_REQUEST(Say, tr_none, (array, void *, words));
#endif
#if CASE == 4 /* a field of an unknown kind */
// both: Say: (lists, Tick, ticks) is not a field; a field is (type, name) with
TR_STATE(Say, (lists, Tick, ticks));
#endif
#if CASE == 5 /* a field without parentheses */
// both: Say: int64_t n is not a field; a field is (type, name) with
TR_MESSAGE(Say, int64_t n);
#endif
#if CASE == 6 /* a field without a name */
// both: Say: (int64_t) is not a field; a field is (type, name) with
TR_MESSAGE(Say, (int64_t));
#endif
#if CASE == 7 /* text that is optional twice */
// both: Say.text: an optional field is a number, bool or tr_bytes
TR_MESSAGE(Say, (optional, const char *, text));
#endif
#if CASE == 8 /* a type that does not exist */
// both: unknown type name 'strng'
// more: the field has no type
TR_MESSAGE(Say, (strng, text));
#endif
#if CASE == 9 /* no semicolon before another message */
// gcc: expected ',' or ';' before
// clang: expected ';' after top level declarator
TR_MESSAGE(Say, (const char *, text))
TR_MESSAGE(Shout, (const char *, text), (nested, Say, say));
#endif
#if CASE == 10 /* no semicolon before a request, a state, an actor */
// gcc: expected ',' or ';' before
// clang: expected ';' after top level declarator
TR_REQUEST(Say, tr_none, (const char *, text))
TR_REQUEST(Shout, tr_none, (const char *, text));
#endif
#if CASE == 11
// gcc: expected ',' or ';' before
// clang: expected ';' after top level declarator
TR_MESSAGE(Say, (const char *, text))
TR_ACTOR(first, Counter, TR_ON(Tick, on_tick));
#endif
#if CASE == 12
// gcc: expected ',' or ';' before
// clang: expected ';' after top level declarator
TR_ACTOR(first, Counter, TR_ON(Tick, on_tick))
TR_ACTOR(second, Counter, TR_ON(Tick, on_tick));
#endif
#if CASE == 13 /* no semicolon before a function that is used later */
// gcc: expected ',' or ';' before 'static'
// more: gcc skips the function
// clang: expected ';' after top level declarator
TR_MESSAGE(Say, (const char *, text))
static tr_err on_say(tr_ctx *ctx, Counter *self, const Say *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}
TR_ACTOR(first, Counter, TR_ON(Say, on_say));
#endif
#if CASE == 14 /* a hook of another spelling */
// both: TR_HOOK(preStart, start): there is no hook preStart; the hooks are pre_
TR_ACTOR(first, Counter, TR_ON(Tick, on_tick), TR_HOOK(preStart, start));
#endif
#if CASE == 15 /* a hook of another type */
// both: wanted: tr_err start(tr_ctx *, Counter *, tr_reason)
TR_ACTOR(first, Counter, TR_HOOK(post_stop, start));
#endif
#if CASE == 16 /* a handler of another type */
// both: wanted: tr_err start(tr_ctx *, Counter *, const Tick *)
TR_ACTOR(first, Counter, TR_ON(Tick, start));
#endif
#if CASE == 17 /* an entry without its word */
// both: TR_ACTOR(first): on_tick is not an entry: write TR_ON(Message, function)
TR_ACTOR(first, Counter, on_tick);
#endif
#if CASE == 18 /* a name that the wire has no room for */
// both: the name of a message has at most 32 characters
TR_MESSAGE(a_name_that_is_longer_than_all_of_32, (uint32_t, n));
#endif

TR_REQUEST(Read, Tick);

tr_err call(tr_system *sys, tr_ctx *ctx, tr_ref to);

tr_err call(tr_system *sys, tr_ctx *ctx, tr_ref to)
{
    Tick tick;
    (void)sys, (void)ctx, (void)to, (void)tick;
#if CASE == 19 /* an ask of a message that has no answer */
    // both: Tick has no answer: declare it with TR_REQUEST(Tick, Answer, ...)
    // call: tr_ask
    return tr_ask(sys, to, NULL, 0, Tick);
#endif
#if CASE == 20 /* the same, with room for an answer */
    // both: Tick has no answer: declare it with TR_REQUEST(Tick, Answer, ...)
    // call: tr_ask
    // more: the type of the answer is unknown
    return tr_ask(sys, to, &tick, 0, Tick);
#endif
#if CASE == 21 /* the same without waiting */
    // both: Tick has no answer: declare it with TR_REQUEST(Tick, Answer, ...)
    // call: tr_async
    (void)tr_async(ctx, to, 0, Tick);
#endif
#if CASE == 22 /* a tell without its first argument */
    // both: tr_tell begins with ctx, sys or probe; then comes the ref
    // call: tr_tell
    // more: all other arguments are at a wrong place
    tr_tell(to, Tick);
#endif
    tr_tell(sys, to, Tick);
    return tr_ask(ctx, to, &tick, 0, Read);
}

TR_ACTOR(counter, Counter, TR_ON(Tick, on_tick), TR_HOOK(pre_start, start));

int main(void)
{
    (void)counter;
    return 0;
}
