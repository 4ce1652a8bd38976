/*
 * macros.h - preprocessor tools of the other headers. Not for programs.
 *
 * Every macro with optional arguments ends in `...` and passes one empty
 * argument more to an inner macro: {.a = 1, } and {} are both initialisers, so
 * neither __VA_OPT__ nor the GNU comma is needed. Lists are walked up to that
 * empty last element; they may have TR_EACH_MAX others.
 *
 * Threads: none; nothing here exists at run time.
 */
#ifndef TROUPE_MACROS_H
#define TROUPE_MACROS_H

#include <troupe/base.h>

/*
 * Compilers report a mistake in the arguments of a macro at the line of the
 * program that uses it, without the steps of its expansion, if the macro is of
 * a system header.
 */
#pragma GCC system_header

// clang-format off: macros that make code, laid out by hand

#ifdef __cplusplus
#define TR_STATIC_ASSERT_(cond, text) static_assert(cond, text)
#else
#define TR_STATIC_ASSERT_(cond, text) _Static_assert(cond, text)
#endif

#define TR_CAT(a, b) TR_CAT_(a, b)
#define TR_CAT_(a, b) a##b
#define TR_UNWRAP(...) __VA_ARGS__

/*
 * Expands the arguments, which may become several, and then calls m with them.
 */
#define TR_CALL(m, ...) TR_CALL_(m, __VA_ARGS__)
#define TR_CALL_(m, ...) m(__VA_ARGS__)

/* The number of arguments, 1 to 4; 5 if there are 5 or 6. */
#define TR_ARITY(...) TR_ARITY_(__VA_ARGS__, 5, 5, 4, 3, 2, 1, 0)
#define TR_ARITY_(a, b, c, d, e, f, n, ...) n

/*
 * Choose by a name: if TR_X_##name is a macro that expands to `~, a, b`, then
 * TR_SECOND(TR_X_##name, c, d, ) is a and TR_THIRD gives b; for any other name
 * they are c and d. So an unknown name is noticed, with a text, before it
 * becomes code that cannot be parsed.
 */
#define TR_SECOND(...) TR_SECOND_(__VA_ARGS__)
#define TR_SECOND_(a, b, ...) b
#define TR_THIRD(...) TR_THIRD_(__VA_ARGS__)
#define TR_THIRD_(a, b, c, ...) c

/* 1 if x begins with a parenthesis, else 0. */
#define TR_IS_TUPLE(x) TR_SECOND(TR_TUPLE_PROBE x, 0, )
#define TR_TUPLE_PROBE(...) ~, 1

#ifndef __cplusplus
/* A wrong pointer is only a warning before gcc 14; these make it an error. */
#define TR_CTX(ctx) _Generic((ctx), tr_ctx *: (ctx))
#define TR_DEF(A) _Generic(&(A), const tr_actor_def *: &(A))
/* An assertion as a part of an expression; it is reported before the rest. */
#define TR_ASSERTED_(cond, text)                                               \
    ((void)sizeof(struct {                                                     \
        TR_STATIC_ASSERT_(cond, text);                                         \
        char tr_unused;                                                        \
    }))
/*
 * The first argument of `call`. A ref there is the usual mistake, after which
 * the other arguments cannot be parsed.
 */
#define TR_FROM_(call, from)                                                   \
    (TR_ASSERTED_(_Generic((from), tr_ref: 0, default: 1),                     \
                  call " begins with ctx, sys or probe; then comes the ref"),  \
     (from))
/* T is not a TR_REQUEST. */
#define TR_REQUESTED_(T)                                                       \
    TR_ASSERTED_(_Generic((T##_tr_reply *)0, tr_not_a_request *: 0,            \
                          default: 1),                                         \
                 #T " has no answer: declare it with TR_REQUEST(" #T           \
                    ", Answer, ...), or send it with tr_tell")
/* Checks that out can take the answer to request T, or is NULL. */
#define TR_OUT_(T, out)                                                        \
    (TR_REQUESTED_(T),                                                         \
     _Generic((out), T##_tr_reply *: (out), void *: (out)))

/* Makes an options struct for one call. */
#define TR_OPTIONS(type, ...) (&(const type){.size = sizeof(type), __VA_ARGS__})
/*
 * Makes an options struct for a call that is mostly made without options: then
 * it is NULL, which saves time.
 */
#define TR_OPTIONS_ANY_(type, ...)                                             \
    (sizeof(#__VA_ARGS__) > 1 ? TR_OPTIONS(type, __VA_ARGS__)                  \
                              : (const type *)0)
/* The description of T, which must be a TR_REQUEST. */
#define TR_ASKED_(T) (TR_REQUESTED_(T), &T##_tr_type)

#endif /* !__cplusplus */

/*
 * TR_HASH("name"): a constant expression over the first 24 characters and the
 * length. Flat on purpose: nested helper macros made it four times slower to
 * read.
 */
#define TR_HASH(s)                                                             \
    TR_HASH_(s "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", sizeof(s))
#define TR_P_ UINT64_C(0x100000001b3)
#define TR_C_(s, i) (unsigned char)(s)[i]
#define TR_HASH_(s, n)                                                         \
    (((((((((((((((((((((((((n)                                                \
    * TR_P_ + TR_C_(s, 0)) * TR_P_ + TR_C_(s, 1))                              \
    * TR_P_ + TR_C_(s, 2)) * TR_P_ + TR_C_(s, 3))                              \
    * TR_P_ + TR_C_(s, 4)) * TR_P_ + TR_C_(s, 5))                              \
    * TR_P_ + TR_C_(s, 6)) * TR_P_ + TR_C_(s, 7))                              \
    * TR_P_ + TR_C_(s, 8)) * TR_P_ + TR_C_(s, 9))                              \
    * TR_P_ + TR_C_(s, 10)) * TR_P_ + TR_C_(s, 11))                            \
    * TR_P_ + TR_C_(s, 12)) * TR_P_ + TR_C_(s, 13))                            \
    * TR_P_ + TR_C_(s, 14)) * TR_P_ + TR_C_(s, 15))                            \
    * TR_P_ + TR_C_(s, 16)) * TR_P_ + TR_C_(s, 17))                            \
    * TR_P_ + TR_C_(s, 18)) * TR_P_ + TR_C_(s, 19))                            \
    * TR_P_ + TR_C_(s, 20)) * TR_P_ + TR_C_(s, 21))                            \
    * TR_P_ + TR_C_(s, 22)) * TR_P_ + TR_C_(s, 23))

/* Most elements of a list, not counting its empty last one. */
enum { TR_EACH_MAX = 64 };

/* The number of arguments, 1 to 65: the elements and the empty last one. */
#define TR_COUNT(...)                                                          \
    TR_COUNT_(__VA_ARGS__, 65, 64, 63, 62, 61, 60, 59, 58, 57, 56, 55, 54,     \
              53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38,  \
              37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22,  \
              21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5,   \
              4, 3, 2, 1, 0)
#define TR_COUNT_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13,      \
                  a14, a15, a16, a17, a18, a19, a20, a21, a22, a23, a24, a25,  \
                  a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37,  \
                  a38, a39, a40, a41, a42, a43, a44, a45, a46, a47, a48, a49,  \
                  a50, a51, a52, a53, a54, a55, a56, a57, a58, a59, a60, a61,  \
                  a62, a63, a64, a65, n, ...)                                  \
    n

/*
 * Calls m(c, i, x) for each element x. i counts down to 1 and makes elements of
 * equal text different.
 */
#define TR_EACH(m, c, ...)                                                     \
    TR_CAT(TR_EACH_, TR_COUNT(__VA_ARGS__))(m, c, __VA_ARGS__)
#define TR_EACH_1(m, c, end)
#define TR_EACH_2(m, c, x, ...) m(c, 1, x)
#define TR_EACH_3(m, c, x, ...) m(c, 2, x) TR_EACH_2(m, c, __VA_ARGS__)
#define TR_EACH_4(m, c, x, ...) m(c, 3, x) TR_EACH_3(m, c, __VA_ARGS__)
#define TR_EACH_5(m, c, x, ...) m(c, 4, x) TR_EACH_4(m, c, __VA_ARGS__)
#define TR_EACH_6(m, c, x, ...) m(c, 5, x) TR_EACH_5(m, c, __VA_ARGS__)
#define TR_EACH_7(m, c, x, ...) m(c, 6, x) TR_EACH_6(m, c, __VA_ARGS__)
#define TR_EACH_8(m, c, x, ...) m(c, 7, x) TR_EACH_7(m, c, __VA_ARGS__)
#define TR_EACH_9(m, c, x, ...) m(c, 8, x) TR_EACH_8(m, c, __VA_ARGS__)
#define TR_EACH_10(m, c, x, ...) m(c, 9, x) TR_EACH_9(m, c, __VA_ARGS__)
#define TR_EACH_11(m, c, x, ...) m(c, 10, x) TR_EACH_10(m, c, __VA_ARGS__)
#define TR_EACH_12(m, c, x, ...) m(c, 11, x) TR_EACH_11(m, c, __VA_ARGS__)
#define TR_EACH_13(m, c, x, ...) m(c, 12, x) TR_EACH_12(m, c, __VA_ARGS__)
#define TR_EACH_14(m, c, x, ...) m(c, 13, x) TR_EACH_13(m, c, __VA_ARGS__)
#define TR_EACH_15(m, c, x, ...) m(c, 14, x) TR_EACH_14(m, c, __VA_ARGS__)
#define TR_EACH_16(m, c, x, ...) m(c, 15, x) TR_EACH_15(m, c, __VA_ARGS__)
#define TR_EACH_17(m, c, x, ...) m(c, 16, x) TR_EACH_16(m, c, __VA_ARGS__)
#define TR_EACH_18(m, c, x, ...) m(c, 17, x) TR_EACH_17(m, c, __VA_ARGS__)
#define TR_EACH_19(m, c, x, ...) m(c, 18, x) TR_EACH_18(m, c, __VA_ARGS__)
#define TR_EACH_20(m, c, x, ...) m(c, 19, x) TR_EACH_19(m, c, __VA_ARGS__)
#define TR_EACH_21(m, c, x, ...) m(c, 20, x) TR_EACH_20(m, c, __VA_ARGS__)
#define TR_EACH_22(m, c, x, ...) m(c, 21, x) TR_EACH_21(m, c, __VA_ARGS__)
#define TR_EACH_23(m, c, x, ...) m(c, 22, x) TR_EACH_22(m, c, __VA_ARGS__)
#define TR_EACH_24(m, c, x, ...) m(c, 23, x) TR_EACH_23(m, c, __VA_ARGS__)
#define TR_EACH_25(m, c, x, ...) m(c, 24, x) TR_EACH_24(m, c, __VA_ARGS__)
#define TR_EACH_26(m, c, x, ...) m(c, 25, x) TR_EACH_25(m, c, __VA_ARGS__)
#define TR_EACH_27(m, c, x, ...) m(c, 26, x) TR_EACH_26(m, c, __VA_ARGS__)
#define TR_EACH_28(m, c, x, ...) m(c, 27, x) TR_EACH_27(m, c, __VA_ARGS__)
#define TR_EACH_29(m, c, x, ...) m(c, 28, x) TR_EACH_28(m, c, __VA_ARGS__)
#define TR_EACH_30(m, c, x, ...) m(c, 29, x) TR_EACH_29(m, c, __VA_ARGS__)
#define TR_EACH_31(m, c, x, ...) m(c, 30, x) TR_EACH_30(m, c, __VA_ARGS__)
#define TR_EACH_32(m, c, x, ...) m(c, 31, x) TR_EACH_31(m, c, __VA_ARGS__)
#define TR_EACH_33(m, c, x, ...) m(c, 32, x) TR_EACH_32(m, c, __VA_ARGS__)
#define TR_EACH_34(m, c, x, ...) m(c, 33, x) TR_EACH_33(m, c, __VA_ARGS__)
#define TR_EACH_35(m, c, x, ...) m(c, 34, x) TR_EACH_34(m, c, __VA_ARGS__)
#define TR_EACH_36(m, c, x, ...) m(c, 35, x) TR_EACH_35(m, c, __VA_ARGS__)
#define TR_EACH_37(m, c, x, ...) m(c, 36, x) TR_EACH_36(m, c, __VA_ARGS__)
#define TR_EACH_38(m, c, x, ...) m(c, 37, x) TR_EACH_37(m, c, __VA_ARGS__)
#define TR_EACH_39(m, c, x, ...) m(c, 38, x) TR_EACH_38(m, c, __VA_ARGS__)
#define TR_EACH_40(m, c, x, ...) m(c, 39, x) TR_EACH_39(m, c, __VA_ARGS__)
#define TR_EACH_41(m, c, x, ...) m(c, 40, x) TR_EACH_40(m, c, __VA_ARGS__)
#define TR_EACH_42(m, c, x, ...) m(c, 41, x) TR_EACH_41(m, c, __VA_ARGS__)
#define TR_EACH_43(m, c, x, ...) m(c, 42, x) TR_EACH_42(m, c, __VA_ARGS__)
#define TR_EACH_44(m, c, x, ...) m(c, 43, x) TR_EACH_43(m, c, __VA_ARGS__)
#define TR_EACH_45(m, c, x, ...) m(c, 44, x) TR_EACH_44(m, c, __VA_ARGS__)
#define TR_EACH_46(m, c, x, ...) m(c, 45, x) TR_EACH_45(m, c, __VA_ARGS__)
#define TR_EACH_47(m, c, x, ...) m(c, 46, x) TR_EACH_46(m, c, __VA_ARGS__)
#define TR_EACH_48(m, c, x, ...) m(c, 47, x) TR_EACH_47(m, c, __VA_ARGS__)
#define TR_EACH_49(m, c, x, ...) m(c, 48, x) TR_EACH_48(m, c, __VA_ARGS__)
#define TR_EACH_50(m, c, x, ...) m(c, 49, x) TR_EACH_49(m, c, __VA_ARGS__)
#define TR_EACH_51(m, c, x, ...) m(c, 50, x) TR_EACH_50(m, c, __VA_ARGS__)
#define TR_EACH_52(m, c, x, ...) m(c, 51, x) TR_EACH_51(m, c, __VA_ARGS__)
#define TR_EACH_53(m, c, x, ...) m(c, 52, x) TR_EACH_52(m, c, __VA_ARGS__)
#define TR_EACH_54(m, c, x, ...) m(c, 53, x) TR_EACH_53(m, c, __VA_ARGS__)
#define TR_EACH_55(m, c, x, ...) m(c, 54, x) TR_EACH_54(m, c, __VA_ARGS__)
#define TR_EACH_56(m, c, x, ...) m(c, 55, x) TR_EACH_55(m, c, __VA_ARGS__)
#define TR_EACH_57(m, c, x, ...) m(c, 56, x) TR_EACH_56(m, c, __VA_ARGS__)
#define TR_EACH_58(m, c, x, ...) m(c, 57, x) TR_EACH_57(m, c, __VA_ARGS__)
#define TR_EACH_59(m, c, x, ...) m(c, 58, x) TR_EACH_58(m, c, __VA_ARGS__)
#define TR_EACH_60(m, c, x, ...) m(c, 59, x) TR_EACH_59(m, c, __VA_ARGS__)
#define TR_EACH_61(m, c, x, ...) m(c, 60, x) TR_EACH_60(m, c, __VA_ARGS__)
#define TR_EACH_62(m, c, x, ...) m(c, 61, x) TR_EACH_61(m, c, __VA_ARGS__)
#define TR_EACH_63(m, c, x, ...) m(c, 62, x) TR_EACH_62(m, c, __VA_ARGS__)
#define TR_EACH_64(m, c, x, ...) m(c, 63, x) TR_EACH_63(m, c, __VA_ARGS__)
#define TR_EACH_65(m, c, x, ...) m(c, 64, x) TR_EACH_64(m, c, __VA_ARGS__)

#ifndef __cplusplus
/*
 * The size of state S. sizeof(void) is 1 in GNU C, but an actor with a void
 * state has none.
 */
#define TR_STATE_SIZE(S)                                                       \
    (__builtin_types_compatible_p(S, void) ? 0 : __extension__ sizeof(S))

/*
 * What TR_ACTOR makes. Each entry of its list is (word, T, fn, flags). The list
 * is walked four times; each time the word picks a macro: for a typed thunk, a
 * row of the handler table, a row of the table of events, a member of the
 * definition. The assertion comes first: if the `;` before it is missing, a
 * compiler skips the assertion and nothing else.
 */
#define TR_ACTOR_(linkage, A, S, ...)                                          \
    TR_STATIC_ASSERT_(sizeof(#A) > 1, "TR_ACTOR(name, state, ...)");           \
    typedef S A##_tr_state;                                                    \
    static const tr_type S##_tr_type; /* stays zero without TR_STATE */        \
    TR_EACH(TR_THUNK, (A, S), __VA_ARGS__)                                     \
    static const tr_handler A##_tr_handlers[] = {                              \
        TR_EACH(TR_ROW, (A, S), __VA_ARGS__) {NULL, NULL, 0}};                 \
    static const tr_applier A##_tr_appliers[] = {                              \
        TR_EACH(TR_APPLIED, (A, S), __VA_ARGS__) {NULL, NULL}};                \
    linkage const tr_actor_def A = {                                           \
        .size = sizeof(tr_actor_def), .name = #A, .state = &S##_tr_type,       \
        .state_size = TR_STATE_SIZE(S), .handlers = A##_tr_handlers,           \
        .handler_count = sizeof(A##_tr_handlers) / sizeof(tr_handler) - 1,     \
        .appliers = A##_tr_appliers,                                           \
        .applier_count = sizeof(A##_tr_appliers) / sizeof(tr_applier) - 1,     \
        TR_EACH(TR_HOOKED, (A, S), __VA_ARGS__)}

/* The parts that differ between C and C++ (troupe.hpp). */
#define TR_SAME_(fn, type) __builtin_types_compatible_p(__typeof__(&fn), type)
/* fn, or a null of the type it should have: one mistake is reported once. */
#define TR_AS_(fn, type)                                                       \
    __builtin_choose_expr(TR_SAME_(fn, type), fn, (type)0)
#define TR_GIVE_(type, pointer) (pointer)
#define TR_CALLED_(ctx, ...) return __VA_ARGS__;
#define TR_APPLY_CALLED_(ctx, ...) (void)(ctx); __VA_ARGS__;
#define TR_DECIDED_(...) return __VA_ARGS__;
#define TR_MEMBER_(name, value) .name = value,
#define TR_BUILT_(ctx, S, self)
#define TR_IF_BUILT_(S, self)
#endif /* !__cplusplus */

/* An entry that is not a tuple is reported, and makes nothing else. */
#define TR_THUNK(as, i, e) TR_CAT(TR_THUNK_, TR_IS_TUPLE(e))(as, e)
#define TR_THUNK_0(as, e) TR_CALL(TR_NO_ENTRY_, TR_UNWRAP as, e)
#define TR_NO_ENTRY_(A, S, e)                                                  \
    TR_STATIC_ASSERT_(0, "TR_ACTOR(" #A "): " #e " is not an entry: write "    \
                      "TR_ON(Message, function), TR_HOOK(hook, function) or "  \
                      "one of their relatives");
#define TR_THUNK_1(as, e) TR_CALL(TR_THUNK_I, TR_UNWRAP as, TR_UNWRAP e)
#define TR_THUNK_I(A, S, word, T, fn, flags) TR_THUNK_##word(A, S, T, fn)
#define TR_ROW(as, i, e) TR_CAT(TR_ROW_, TR_IS_TUPLE(e))(as, e)
#define TR_ROW_0(as, e)
#define TR_ROW_1(as, e) TR_CALL(TR_ROW_I, TR_UNWRAP as, TR_UNWRAP e)
#define TR_ROW_I(A, S, word, T, fn, flags) TR_ROW_##word(A, T, flags)
#define TR_HOOKED(as, i, e) TR_CAT(TR_HOOKED_, TR_IS_TUPLE(e))(as, e)
#define TR_HOOKED_0(as, e)
#define TR_HOOKED_1(as, e) TR_CALL(TR_HOOKED_I, TR_UNWRAP as, TR_UNWRAP e)
#define TR_HOOKED_I(A, S, word, T, fn, flags) TR_HOOKED_##word(A, T, fn)
#define TR_APPLIED(as, i, e) TR_CAT(TR_APPLIED_, TR_IS_TUPLE(e))(as, e)
#define TR_APPLIED_0(as, e)
#define TR_APPLIED_1(as, e) TR_CALL(TR_APPLIED_I, TR_UNWRAP as, TR_UNWRAP e)
#define TR_APPLIED_I(A, S, word, T, fn, flags) TR_APPLIED_##word(A, T)

/*
 * Checks the type of fn. Handlers are called through typed thunks, because
 * calling a function through another function type is undefined.
 */
#define TR_WANT(fn, type, text) TR_STATIC_ASSERT_(TR_SAME_(fn, type), text);
#define TR_ON_TYPE_(S, T) tr_err(*)(tr_ctx *, S *, const T *)
#define TR_THUNK_TRon(A, S, T, fn)                                             \
    TR_WANT(fn, TR_ON_TYPE_(S, T),                                             \
            "wanted: tr_err " #fn "(tr_ctx *, " #S " *, const " #T " *)")      \
    static tr_err A##_tr_on_##T(tr_ctx *ctx, void *self, const void *m)        \
    { TR_CALLED_(ctx, TR_AS_(fn, TR_ON_TYPE_(S, T))(                           \
          ctx, TR_GIVE_(S *, self), TR_GIVE_(const T *, m))) }
#define TR_THUNK_TRremind(A, S, T, fn)                                         \
    TR_WANT(fn, TR_ON_TYPE_(S, T),                                             \
            "wanted: tr_err " #fn "(tr_ctx *, " #S " *, const " #T " *)")      \
    static tr_err A##_tr_on_##T(tr_ctx *ctx, void *self, const void *m)        \
    { TR_CALLED_(ctx, tr_reminded(ctx, m, TR_AS_(fn, TR_ON_TYPE_(S, T))(       \
          ctx, TR_GIVE_(S *, self), TR_GIVE_(const T *, m)))) }
#define TR_THUNK_TRread(A, S, T, fn)                                           \
    TR_WANT(fn, TR_ON_TYPE_(const S, T),                                       \
            "wanted: tr_err " #fn "(tr_ctx *, const " #S " *, const " #T " *"  \
            ")")                                                               \
    static tr_err A##_tr_on_##T(tr_ctx *ctx, void *self, const void *m)        \
    { TR_CALLED_(ctx, TR_AS_(fn, TR_ON_TYPE_(const S, T))(                     \
          ctx, TR_GIVE_(const S *, self), TR_GIVE_(const T *, m))) }
#define TR_THUNK_TRany(A, S, any, fn)                                          \
    TR_WANT(fn, TR_ON_TYPE_(S, tr_msg),                                        \
            "wanted: tr_err " #fn "(tr_ctx *, " #S " *, const tr_msg *)")      \
    static tr_err A##_tr_on_any(tr_ctx *ctx, void *self, const void *m)        \
    { TR_CALLED_(ctx, TR_AS_(fn, TR_ON_TYPE_(S, tr_msg))(                      \
          ctx, TR_GIVE_(S *, self), TR_GIVE_(const tr_msg *, m))) }
#define TR_THUNK_TRhook(A, S, hook, fn)                                        \
    TR_SECOND(TR_HOOK_##hook, TR_HOOK_NONE_, )(A, S, hook, fn)
#define TR_THUNK_TRapply(A, S, E, fn)                                          \
    TR_WANT(fn, void(*)(S *, const E *),                                       \
            "wanted: void " #fn "(" #S " *, const " #E " *)")                  \
    static void A##_tr_apply_##E(tr_ctx *ctx, void *self, const void *e)       \
    { TR_APPLY_CALLED_(ctx, TR_AS_(fn, void(*)(S *, const E *))(               \
          TR_GIVE_(S *, self), TR_GIVE_(const E *, e))) }
#define TR_THUNK_TRapplyctx(A, S, E, fn)                                       \
    TR_WANT(fn, void(*)(tr_ctx *, S *, const E *),                             \
            "wanted: void " #fn "(tr_ctx *, " #S " *, const " #E " *)")        \
    static void A##_tr_apply_##E(tr_ctx *ctx, void *self, const void *e)       \
    { TR_APPLY_CALLED_(ctx, TR_AS_(fn, void(*)(tr_ctx *, S *, const E *))(     \
          ctx, TR_GIVE_(S *, self), TR_GIVE_(const E *, e))) }
#define TR_THUNK_TRset(A, S, member, value)

#define TR_HOOK0_(A, S, hook, fn)                                              \
    TR_WANT(fn, tr_err(*)(tr_ctx *, S *),                                      \
            "wanted: tr_err " #fn "(tr_ctx *, " #S " *)")                      \
    static tr_err A##_tr_##hook(tr_ctx *ctx, void *self)                       \
    { TR_CALLED_(ctx, TR_AS_(fn, tr_err(*)(tr_ctx *, S *))(                    \
          ctx, TR_GIVE_(S *, self))) }
#define TR_HOOK_PRE_START_(A, S, hook, fn)                                     \
    TR_WANT(fn, tr_err(*)(tr_ctx *, S *),                                      \
            "wanted: tr_err " #fn "(tr_ctx *, " #S " *)")                      \
    static tr_err A##_tr_##hook(tr_ctx *ctx, void *self)                       \
    { TR_BUILT_(ctx, S, self)                                                  \
      TR_CALLED_(ctx, TR_AS_(fn, tr_err(*)(tr_ctx *, S *))(                    \
          ctx, TR_GIVE_(S *, self))) }
#define TR_HOOK1_(A, S, hook, fn, X)                                           \
    TR_WANT(fn, tr_err(*)(tr_ctx *, S *, X),                                   \
            "wanted: tr_err " #fn "(tr_ctx *, " #S " *, " #X ")")              \
    static tr_err A##_tr_##hook(tr_ctx *ctx, void *self, X x)                  \
    { TR_IF_BUILT_(S, self)                                                    \
      TR_CALLED_(ctx, TR_AS_(fn, tr_err(*)(tr_ctx *, S *, X))(                 \
          ctx, TR_GIVE_(S *, self), x)) }
#define TR_HOOK_POST_STOP_(A, S, h, fn) TR_HOOK1_(A, S, h, fn, tr_reason)
#define TR_HOOK_PRE_RESTART_(A, S, h, fn)                                      \
    TR_HOOK1_(A, S, h, fn, const tr_failure *)
#define TR_HOOK_ON_SIGNAL_(A, S, h, fn) TR_HOOK1_(A, S, h, fn, const tr_msg *)
#define TR_HOOK_CHILD_TERMINATED_(A, S, h, fn)                                 \
    TR_HOOK1_(A, S, h, fn, const tr_child_end *)
#define TR_DECIDE_TYPE_(S) tr_directive(*)(const S *, const tr_failure *)
#define TR_HOOK_DECIDE_(A, S, h, fn)                                           \
    TR_WANT(fn, TR_DECIDE_TYPE_(S),                                            \
            "wanted: tr_directive " #fn "(const " #S " *, const tr_failure *"  \
            ")")                                                               \
    static tr_directive A##_tr_##h(const void *self, const tr_failure *f)      \
    { TR_DECIDED_(TR_AS_(fn, TR_DECIDE_TYPE_(S))(                              \
          TR_GIVE_(const S *, self), f)) }
#define TR_HOOK_NONE_(A, S, hook, fn)                                          \
    TR_STATIC_ASSERT_(0, "TR_HOOK(" #hook ", " #fn "): there is no hook "      \
                      #hook "; the hooks are pre_start, post_start, "          \
                      "pre_stop, post_stop, pre_restart, post_restart, "       \
                      "on_run, on_signal, decide, child_terminated");
#define TR_HOOK_SET_(A, hook) TR_MEMBER_(hook, A##_tr_##hook)
#define TR_HOOK_NOT_SET_(A, hook)
/* Each hook: the macro of its thunk, and the macro that sets the member. */
#define TR_HOOK_pre_start ~, TR_HOOK_PRE_START_, TR_HOOK_SET_
#define TR_HOOK_post_start ~, TR_HOOK0_, TR_HOOK_SET_
#define TR_HOOK_pre_stop ~, TR_HOOK0_, TR_HOOK_SET_
#define TR_HOOK_post_restart ~, TR_HOOK0_, TR_HOOK_SET_
#define TR_HOOK_on_run ~, TR_HOOK0_, TR_HOOK_SET_
#define TR_HOOK_post_stop ~, TR_HOOK_POST_STOP_, TR_HOOK_SET_
#define TR_HOOK_pre_restart ~, TR_HOOK_PRE_RESTART_, TR_HOOK_SET_
#define TR_HOOK_on_signal ~, TR_HOOK_ON_SIGNAL_, TR_HOOK_SET_
#define TR_HOOK_child_terminated ~, TR_HOOK_CHILD_TERMINATED_, TR_HOOK_SET_
#define TR_HOOK_decide ~, TR_HOOK_DECIDE_, TR_HOOK_SET_

#define TR_ROW_TRon(A, T, flags) {&T##_tr_type, A##_tr_on_##T, flags},
#define TR_ROW_TRremind(A, T, flags) {&T##_tr_type, A##_tr_on_##T, flags},
#define TR_ROW_TRread(A, T, flags) {&T##_tr_type, A##_tr_on_##T, flags},
#define TR_ROW_TRany(A, T, flags) {NULL, A##_tr_on_any, flags},
#define TR_ROW_TRhook(A, T, flags)
#define TR_ROW_TRapply(A, T, flags)
#define TR_ROW_TRapplyctx(A, T, flags)
#define TR_ROW_TRset(A, T, flags)
#define TR_HOOKED_TRon(A, T, fn)
#define TR_HOOKED_TRremind(A, T, fn)
#define TR_HOOKED_TRread(A, T, fn)
#define TR_HOOKED_TRany(A, T, fn)
#define TR_HOOKED_TRapply(A, T, fn)
#define TR_HOOKED_TRapplyctx(A, T, fn)
#define TR_HOOKED_TRhook(A, hook, fn)                                          \
    TR_THIRD(TR_HOOK_##hook, ~, TR_HOOK_NOT_SET_, )(A, hook)
#define TR_HOOKED_TRset(A, member, value) TR_MEMBER_(member, value)
#define TR_APPLIED_TRon(A, T)
#define TR_APPLIED_TRremind(A, T)
#define TR_APPLIED_TRread(A, T)
#define TR_APPLIED_TRany(A, T)
#define TR_APPLIED_TRhook(A, T)
#define TR_APPLIED_TRset(A, T)
#define TR_APPLIED_TRapply(A, T) {&T##_tr_type, A##_tr_apply_##T},
#define TR_APPLIED_TRapplyctx(A, T) {&T##_tr_type, A##_tr_apply_##T},

// clang-format on
#endif
