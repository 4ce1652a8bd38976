/*
 * compiler_messages.c - mistakes, and what the compilers say about them.
 *
 * The chapter on troubleshooting quotes messages of gcc and explains them.
 * Each CASE is one mistake with the messages of gcc and clang, and the part
 * that the chapter quotes if that is not the whole message of gcc.
 * compiler_messages.sh compiles the cases and compares.
 */
#include <stddef.h>

#include <troupe/troupe.h>

TR_MESSAGE(Total, (int64_t, sum));
TR_MESSAGE(Tick);
TR_REQUEST(Add, Total, (int64_t, n));
TR_REQUEST(Deposit, Total, (int64_t, cents), (const char *, memo));

typedef struct Counter {
    int64_t sum;
} Counter;

typedef struct Sell {
    int64_t n;
} Sell;

static tr_err on_tick(tr_ctx *ctx, Counter *self, const Tick *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}
TR_ACTOR(counter, Counter, TR_ON(Tick, on_tick));

#if CASE == 1
// gcc: wanted: tr_err on_add(tr_ctx *, Counter *, const Add *)
// clang: wanted: tr_err on_add(tr_ctx *, Counter *, const Add *)
static tr_err on_add(Counter *self, const Add *m)
{
    (void)self, (void)m;
    return TR_OK;
}
TR_ACTOR(wrong, Counter, TR_ON(Add, on_add));
#endif
#if CASE == 2
// gcc: 'Sell_tr_type' undeclared
// clang: undeclared identifier 'Sell_tr_type'
static tr_err on_sell(tr_ctx *ctx, Counter *self, const Sell *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}
TR_ACTOR(wrong, Counter, TR_ON(Sell, on_sell));
#endif
#if CASE == 3
// gcc: Wrong: int64_t n is not a field; a field is (type, name)
// clang: Wrong: int64_t n is not a field; a field is (type, name)
// page: is not a field; a field is (type, name)
TR_MESSAGE(Wrong, int64_t n);
#endif
#if CASE == 4
// gcc: TR_ACTOR(wrong): on_tick is not an entry: write TR_ON(
// clang: TR_ACTOR(wrong): on_tick is not an entry: write TR_ON(
// page: is not an entry: write TR_ON(
TR_ACTOR(wrong, Counter, on_tick);
#endif
#if CASE == 5
// gcc: two or more data types in declaration specifiers
// clang: cannot combine with previous 'type-name' declaration specifier
TR_ACTOR(wrong, struct Counter);
#endif
#if CASE == 6
// gcc: Wrong.pointer: a message cannot hold a void *; a field is
// clang: Wrong.pointer: a message cannot hold a void *; a field is
// page: a message cannot hold a
TR_MESSAGE(Wrong, (void *, pointer));
#endif
#if CASE == 17
// gcc: TR_HOOK(preStop, stop): there is no hook preStop; the hooks are
// clang: TR_HOOK(preStop, stop): there is no hook preStop; the hooks are
// page: there is no hook preStop; the hooks are
TR_ACTOR(wrong, Counter, TR_HOOK(preStop, stop));
#endif
#if CASE == 18
// gcc: expected ',' or ';' before '_Static_assert'
// clang: expected ';' after top level declarator
TR_MESSAGE(Wrong, (int64_t, n))
TR_MESSAGE(Right, (int64_t, n));
#endif

tr_err body(tr_system *sys, tr_ref to);
tr_err body(tr_system *sys, tr_ref to)
{
    Total total = {0};
    (void)counter, (void)total;
#if CASE == 7
    // gcc: 'Deposit' has no member named 'amount'
    // clang: field designator 'amount' does not refer to any field
    tr_tell(sys, to, Deposit, .amount = 1);
#endif
#if CASE == 8
    // gcc: 'tr_spawn_options' has no member named 'sum'
    // clang: field designator 'sum' does not refer to any field
    // page: tr_spawn_options
    to = tr_spawn(sys, counter, .sum = 1);
#endif
#if CASE == 9
    // gcc: Tick has no answer: declare it with TR_REQUEST(Tick, Answer, ...)
    // clang: Tick has no answer: declare it with TR_REQUEST(Tick, Answer, ...)
    return tr_ask(sys, to, NULL, 0, Tick);
#endif
#if CASE == 10
    // gcc: '_Generic' selector of type 'struct Total'
    // clang: controlling expression type 'Total'
    // page: '_Generic' selector of type
    return tr_ask(sys, to, total, 0, Add, .n = 1);
#endif
#if CASE == 11
    // gcc: pasting ""rent"" and "_tr_reply"
    // clang: pasting formed '"rent"_tr_reply'
    // page: and "_tr_reply"
    return tr_ask(sys, to, &total, Deposit, .memo = "rent");
#endif
#if CASE == 12
    // gcc: invalid operands to binary ==
    // clang: invalid operands to binary expression
    return to == TR_NOBODY ? TR_ENOENT : TR_OK;
#endif
#if CASE == 13
    // gcc: '_Generic' selector of type 'tr_system *'
    // clang: controlling expression type 'tr_system *'
    // page: '_Generic' selector of type
    (void)tr_after(sys, TR_SECONDS(1), Tick);
#endif
#if CASE == 14
    // gcc: 'add_tr_type' undeclared
    // clang: expected ')'
    // page: _tr_type' undeclared
    Add add = {.n = 1};
    tr_tell(sys, to, add);
#endif
#if CASE == 15
    // gcc: shadows a global declaration
    // clang: declaration shadows a variable in the global scope
    int counter = 1;
    (void)counter;
#endif
#if CASE == 16
    // gcc: incompatible type for argument 1 of 'tr_tell'
    // clang: to parameter of incompatible type 'tr_from'
    tr_tell(to, sys, Tick);
#endif
    (void)sys, (void)to;
    return TR_OK;
}
