/*
 * troupe.hpp - the same library for C++17: messages, actors and calls by type.
 *
 * TR_MESSAGE, TR_REQUEST, TR_STATE, TR_ACTOR, TR_ON, TR_HOOK and their
 * relatives are written as in C, and a header with messages can be included by
 * C and C++ files of one program. The calls that take fields in C take a value
 * here: tr::tell(ctx, to, Deposit{5}), or Deposit{.cents = 5} in C++20. What is
 * not in this header is called as in C, by the function: tr_stop(ctx, ref).
 *
 * Exceptions. An exception that leaves a handler, a hook or a callback of this
 * header is a failure of the actor: with what() as its text, and the error of a
 * tr::error, TR_ENOMEM for std::bad_alloc, TR_EFAILED for all others. Calls of
 * this header that return a value throw tr::error; the calls of C return tr_err
 * as ever. tr_panic does not run destructors: throw instead. A function that is
 * given to a call of C, such as tr_blocking, must not let an exception out.
 *
 * State. A state may be a class with constructors and members such as
 * std::string. It is made before pre_start, by its default constructor, or by
 * its constructor that takes a const tr_first &, if it has a type of that name,
 * which tr::spawn_with gives; and it is destroyed when the incarnation ends. A
 * state of TR_STATE, or any trivial struct, is as in C.
 *
 * Threads, ownership: as the headers of C say. A tr::answer that was got
 * outside of handlers owns its text; one that was got in a handler lives until
 * the handler returns.
 */
#ifndef TROUPE_TROUPE_HPP
#define TROUPE_TROUPE_HPP

#ifndef __cplusplus
#error "troupe.hpp is for C++; include <troupe/troupe.h> in C"
#endif

#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <cxxabi.h>

#include <troupe/troupe.h>

namespace tr
{

/* An error of the library as an exception; what() is tr_error_text. */
class error : public std::runtime_error
{
  public:
    error(tr_err err, const char *text)
        : std::runtime_error(text != nullptr && *text != 0 ? text
                                                           : tr_strerror(err)),
          err_(err)
    {
    }
    tr_err code() const noexcept
    {
        return err_;
    }

  private:
    tr_err err_;
};

/* Throws tr::error if err is one, with what is known about it. */
inline void check(tr_from from, tr_err err)
{
    if (err != TR_OK) {
        throw error(err, tr_error_text(from));
    }
}

/* Returns zeroed options of a type, with their size set. */
template <typename Options> Options options()
{
    Options made = {};
    made.size = sizeof(made);
    return made;
}

/* An actor kind with the type of its state; made by TR_ACTOR. */
template <typename S> struct kind : tr_actor_def {
    using state_type = S;
    constexpr explicit kind(const tr_actor_def &def) : tr_actor_def(def)
    {
    }
};

namespace detail
{

/* The text of an exception that a handler has let out, as a failure. */
inline tr_err failed(tr_ctx *ctx, tr_err err, const char *text)
{
    return tr_fail(ctx, err, nullptr, "%s", text);
}

/* Runs call() and turns an exception into a failure of the actor. */
template <typename Call> tr_err guarded(tr_ctx *ctx, Call &&call)
{
    try {
        return call();
    } catch (const error &e) {
        return failed(ctx, e.code(), e.what());
    } catch (const std::bad_alloc &e) {
        return failed(ctx, TR_ENOMEM, e.what());
    } catch (const std::exception &e) {
        return failed(ctx, TR_EFAILED, e.what());
    } catch (abi::__forced_unwind &) {
        throw;  // the thread is cancelled; nobody may hold that up
    } catch (...) {
        return failed(ctx, TR_EFAILED,
                      "an exception that is not a std::exception");
    }
}

/* Runs call() of an applier, which returns nothing: an exception panics. */
template <typename Call> void applied(tr_ctx *ctx, Call &&call)
{
    tr_err err = guarded(ctx, [&] {
        call();
        return TR_OK;
    });
    if (err != TR_OK) {  // outside of the catch block, which must end
        tr_panic(ctx, nullptr, "%s", tr_error_text(ctx));
    }
}

/* Runs call() of a decider: one that throws has not decided. */
template <typename Call> tr_directive decided(Call &&call)
{
    try {
        return call();
    } catch (abi::__forced_unwind &) {
        throw;
    } catch (...) {
        return TR_BY_POLICY;
    }
}

/* True if S must be constructed: it is not a struct as C has them. */
template <typename S>
struct is_built
    : std::bool_constant<!(std::is_trivially_copyable<S>::value &&
                           std::is_trivially_default_constructible<S>::value)> {
};
template <> struct is_built<void> : std::false_type {
};
template <> struct is_built<tr_msg> : std::false_type {
};

/* What a state is constructed from: its tr_first, or nothing. */
struct no_first {
};
template <typename S, typename = void> struct first_of {
    using type = no_first;
};
template <typename S> struct first_of<S, std::void_t<typename S::tr_first>> {
    using type = typename S::tr_first;
    static_assert(std::is_trivially_copyable<type>::value,
                  "tr_first: a trivially copyable struct; the bytes are copied "
                  "at every start");
};

/*
 * The memory of a state that is constructed. The runtime fills in `first`, from
 * tr::spawn_with or with zeros, before every start.
 */
template <typename S> struct box {
    alignas(S) unsigned char bytes[sizeof(S)];
    typename first_of<S>::type first;
    bool is_alive;
};

template <typename S> constexpr size_t size_of()
{
    if constexpr (std::is_void<S>::value) {
        return 0;
    } else if constexpr (is_built<S>::value) {
        static_assert(alignof(S) <= alignof(std::max_align_t),
                      "the memory of a state has the alignment of malloc");
        return sizeof(box<S>);
    } else {
        return sizeof(S);
    }
}

template <typename S> void destroy(void *object)
{
    auto *made = static_cast<box<S> *>(object);
    made->is_alive = false;
    reinterpret_cast<S *>(made->bytes)->~S();
}

/* Makes the state, before pre_start. */
template <typename S> tr_err build(tr_ctx *ctx, void *self)
{
    if constexpr (is_built<S>::value) {
        auto *made = static_cast<box<S> *>(self);
        tr_err err = guarded(ctx, [&] {
            if constexpr (std::is_same<typename first_of<S>::type,
                                       no_first>::value) {
                new (made->bytes) S();
            } else {
                new (made->bytes) S(made->first);
            }
            return TR_OK;
        });
        if (err != TR_OK) {
            return err;
        }
        made->is_alive = true;
        tr_on_end(ctx, destroy<S>, made);
    }
    (void)ctx, (void)self;
    return TR_OK;
}

/* The hook pre_start of a kind that has none of its own. */
template <typename S> constexpr tr_err (*builder())(tr_ctx *, void *)
{
    return is_built<S>::value ? build<S> : nullptr;
}

/* False if the state was not made: its constructor has thrown. */
template <typename S> bool is_alive(const void *self)
{
    if constexpr (is_built<S>::value) {
        return static_cast<const box<S> *>(self)->is_alive;
    } else {
        (void)self;
        return true;
    }
}

/* The state or the message behind a pointer of the runtime. */
template <typename P> P give(void *pointer)
{
    using S = std::remove_cv_t<std::remove_pointer_t<P>>;
    if constexpr (is_built<S>::value) {
        return std::launder(
            reinterpret_cast<S *>(static_cast<box<S> *>(pointer)->bytes));
    } else {
        return static_cast<P>(pointer);
    }
}
template <typename P> P give(const void *pointer)
{
    return give<P>(const_cast<void *>(pointer));
}

/* The description of a state; one of size 0 if it has none, as in C. */
inline constexpr tr_type no_type = {nullptr, 0, 0, 0, 0, nullptr, nullptr};
template <typename S, typename = void> struct described {
    static constexpr const tr_type *type()
    {
        return &no_type;
    }
};
template <typename S>
struct described<S, std::void_t<decltype(S::tr_type_of())>> {
    static constexpr const tr_type *type()
    {
        return S::tr_type_of();
    }
};

/* A callback of tr::ask_then, kept in memory of the actor until it is run. */
template <typename S, typename R, typename Then>
tr_err run_then(tr_ctx *ctx, void *self, const void *reply, tr_err err,
                void *user)
{
    Then then = *static_cast<Then *>(user);
    tr_free(ctx, user);
    return guarded(ctx, [&]() -> tr_err {
        return then(ctx, give<S *>(self), static_cast<const R *>(reply), err);
    });
}

}  // namespace detail

/* ---- sending ---- */

/* Sends a copy of m: tr_tell. */
template <typename T> void tell(tr_from from, tr_ref to, const T &m)
{
    tr_tell(from, to, T::tr_type_of(), &m);
}
/* Sends a copy of m, never waits, and returns an error: tr_try_tell. */
template <typename T>
TR_NODISCARD tr_err try_tell(tr_from from, tr_ref to, const T &m)
{
    return tr_try_tell(from, to, T::tr_type_of(), &m);
}
/* Sends a copy of m before ordinary mail: tr_tell_urgent. */
template <typename T>
void tell_urgent(tr_from from, tr_ref to, uint8_t priority, const T &m)
{
    tr_tell_urgent(from, to, priority, T::tr_type_of(), &m);
}
/* Publishes an event to its subscribers: tr_publish. */
template <typename T> void publish(tr_from from, const T &event)
{
    tr_publish(from, T::tr_type_of(), &event);
}
template <typename T>
void topic_publish(tr_from from, const char *topic, const T &m)
{
    tr_topic_publish(from, topic, T::tr_type_of(), &m);
}
/* Subscribe this actor to events of type T: tr_subscribe. */
template <typename T> void subscribe(tr_ctx *ctx)
{
    tr_subscribe(ctx, T::tr_type_of());
}
template <typename T> void unsubscribe(tr_ctx *ctx)
{
    tr_unsubscribe(ctx, T::tr_type_of());
}
/* Send this actor a message after span, once or again and again. */
template <typename T> tr_timer after(tr_ctx *ctx, tr_nanos span, const T &m)
{
    return tr_after(ctx, span, T::tr_type_of(), &m);
}
template <typename T> tr_timer every(tr_ctx *ctx, tr_nanos span, const T &m)
{
    return tr_every(ctx, span, T::tr_type_of(), &m);
}

/* ---- asking and answering ---- */

/* The reply to a request. Outside of handlers it owns its text and lists. */
template <typename R> class answer
{
  public:
    explicit answer(bool is_owned) : value_(), is_owned_(is_owned)
    {
    }
    answer(answer &&other) noexcept
        : value_(other.value_), is_owned_(std::exchange(other.is_owned_, false))
    {
    }
    answer &operator=(answer &&other) noexcept
    {
        std::swap(value_, other.value_);
        std::swap(is_owned_, other.is_owned_);
        return *this;
    }
    ~answer()
    {
        if (is_owned_) {
            tr_drop(R::tr_type_of(), &value_);
        }
    }
    const R &operator*() const noexcept
    {
        return value_;
    }
    const R *operator->() const noexcept
    {
        return &value_;
    }
    R *get() noexcept
    {
        return &value_;
    }

  private:
    R value_;
    bool is_owned_;
};

/*
 * Sends a request and waits for its reply, as tr_ask does; throws tr::error.
 * `from` is ctx, sys or probe. site names the place of the wait; it is the name
 * of the calling function.
 */
template <typename From, typename T>
answer<typename T::tr_reply_type> ask(From *from, tr_ref to, const T &request,
                                      tr_nanos timeout = 0,
                                      const char *site = __builtin_FUNCTION())
{
    answer<typename T::tr_reply_type> got(!std::is_same<From, tr_ctx>::value);
    check(from, tr_ask(from, to, got.get(), timeout, T::tr_type_of(), &request,
                       site));
    return got;
}

/* Send to a virtual actor by its name, and ask it: tr_tell_virtual. */
template <typename T>
void tell_virtual(tr_from from, const char *kind, const char *key, const T &m)
{
    tr_tell_virtual(from, kind, key, T::tr_type_of(), &m);
}
template <typename From, typename T>
answer<typename T::tr_reply_type> ask_virtual(
    From *from, const char *kind, const char *key, const T &request,
    tr_nanos timeout = 0, const char *site = __builtin_FUNCTION())
{
    answer<typename T::tr_reply_type> got(!std::is_same<From, tr_ctx>::value);
    check(from, tr_ask_virtual(from, kind, key, got.get(), timeout,
                               T::tr_type_of(), &request, site));
    return got;
}

/* A request on its way: tr_async; await it in the same turn. */
template <typename T> struct future {
    tr_future id;
};
template <typename T>
future<T> async(tr_ctx *ctx, tr_ref to, const T &request, tr_nanos timeout = 0)
{
    static_assert(sizeof(typename T::tr_reply_type) > 0, "not a TR_REQUEST");
    return {tr_async(ctx, to, timeout, T::tr_type_of(), &request)};
}
/* Waits for the reply, as tr_await does; throws tr::error. */
template <typename T>
answer<typename T::tr_reply_type> await(tr_ctx *ctx, future<T> future,
                                        const char *site = __builtin_FUNCTION())
{
    answer<typename T::tr_reply_type> got(false);
    check(ctx, tr_await(ctx, future.id, T::tr_type_of(), got.get(), site));
    return got;
}

/*
 * Sends a request without waiting. Later, in a turn of its own, the actor runs
 * then(ctx, self, reply, err), once; reply is NULL if err is an error. self
 * gives the type of the state. `then` may capture numbers, refs and pointers; it
 * is copied, and freed when it has run or the actor ends.
 */
template <typename S, typename T, typename Then>
void ask_then(tr_ctx *ctx, S *self, tr_ref to, const T &request, Then then,
              tr_nanos timeout = 0)
{
    (void)self;
    static_assert(std::is_trivially_copyable<Then>::value &&
                      alignof(Then) <= alignof(std::max_align_t),
                  "ask_then: what the callback captures must be trivially "
                  "copyable, because an actor that ends just frees it");
    void *kept = new (tr_alloc(ctx, sizeof(Then))) Then(then);
    tr_ask_then_with(ctx, to, timeout,
                     detail::run_then<S, typename T::tr_reply_type, Then>, kept,
                     T::tr_type_of(), &request);
}

/* Answers a request: tr_reply. The type of the answer is that of TR_REQUEST. */
template <typename T>
tr_err reply(tr_ctx *ctx, const T *m, const typename T::tr_reply_type &value)
{
    return tr_reply(ctx, m, &value);
}

/* ---- life ---- */

/* Spawns an actor: tr_spawn. set(tr_spawn_options &) sets its options. */
template <typename S> tr_ref spawn(tr_from from, const kind<S> &kind)
{
    return tr_spawn(from, &kind, nullptr);
}
template <typename S, typename Set>
tr_ref spawn(tr_from from, const kind<S> &kind, Set &&set)
{
    auto chosen = options<tr_spawn_options>();
    set(chosen);
    return tr_spawn(from, &kind, &chosen);
}
/*
 * Spawns an actor with its first state, as TR_INIT does in C: the state itself,
 * or the tr_first of a state with constructors. `first` is copied; a TR_STATE
 * with all it points to.
 */
template <typename S, typename First, typename Set>
tr_ref spawn_with(tr_from from, const kind<S> &kind, const First &first,
                  Set &&set)
{
    auto chosen = options<tr_spawn_options>();
    set(chosen);
    chosen.init_type = kind.state;
    chosen.init_size = kind.state_size;
    if constexpr (detail::is_built<S>::value) {
        static_assert(
            std::is_same<First, typename detail::first_of<S>::type>::value,
            "spawn_with: the value is the tr_first of the state");
        detail::box<S> made = {};
        made.first = first;
        chosen.init = &made;
        return tr_spawn(from, &kind, &chosen);
    } else {
        static_assert(std::is_same<First, S>::value,
                      "spawn_with: the value is the state of the actor kind");
        chosen.init = &first;
        return tr_spawn(from, &kind, &chosen);
    }
}
template <typename S, typename First>
tr_ref spawn_with(tr_from from, const kind<S> &kind, const First &first)
{
    return spawn_with(from, kind, first, [](tr_spawn_options &) {});
}
/* Changes the handlers of this actor to those of a kind with the same state. */
template <typename S>
void become(tr_ctx *ctx, const S *self, const kind<S> &behaviour)
{
    (void)self;
    tr_become(ctx, &behaviour);
}

/* ---- state, tests ---- */

/* Saves *next and copies it to *self: tr_persist. Throws tr::error. */
template <typename S>
void persist(tr_ctx *ctx, S *self, const S &next,
             const char *site = __builtin_FUNCTION())
{
    check(ctx, tr_persist(ctx, self, &next, site));
}
/* Stores an event and applies it to *self: tr_emit. Throws tr::error. */
template <typename S, typename E>
void emit(tr_ctx *ctx, S *self, const E &event,
          const char *site = __builtin_FUNCTION())
{
    const tr_event one = {E::tr_type_of(), &event};
    check(ctx, tr_emit(ctx, self, &one, 1, site));
}
/* Waits for the next message of a probe, which must be a T: tr_expect. */
template <typename T>
const T &expect(tr_probe *probe, tr_nanos timeout,
                const char *site = __builtin_FUNCTION())
{
    return *static_cast<const T *>(
        tr_expect(probe, timeout, T::tr_type_of(), site));
}

}  // namespace tr

/* ---- defining ---- */

#pragma GCC system_header  // as macros.h explains

// clang-format off: macros that make code, laid out by hand

/* The parts of TR_ACTOR that differ from C; macros.h has the others. */
#define TR_SAME_(fn, type) (std::is_convertible<decltype(&fn), type>::value)
#define TR_AS_(fn, type) fn
#define TR_GIVE_(type, pointer) ::tr::detail::give<type>(pointer)
#define TR_CALLED_(ctx, ...)                                                   \
    return ::tr::detail::guarded(ctx, [&]() -> tr_err { return __VA_ARGS__; });
#define TR_APPLY_CALLED_(ctx, ...)                                             \
    ::tr::detail::applied(ctx, [&] { __VA_ARGS__; });
#define TR_DECIDED_(...)                                                       \
    return ::tr::detail::decided([&]() -> tr_directive { return __VA_ARGS__; });
#define TR_MEMBER_(member, value) def.member = value;
#define TR_BUILT_(ctx, S, self)                                                \
    tr_err tr_built_ = ::tr::detail::build<S>(ctx, self);                      \
    if (tr_built_ != TR_OK) return tr_built_;
#define TR_IF_BUILT_(S, self)                                                  \
    if (!::tr::detail::is_alive<S>(self)) return TR_OK;

#define TR_ACTOR_(linkage, A, S, ...)                                          \
    TR_STATIC_ASSERT_(sizeof(#A) > 1, "TR_ACTOR(name, state, ...)");           \
    TR_EACH(TR_THUNK, (A, S), __VA_ARGS__)                                     \
    static const tr_handler A##_tr_handlers[] = {                              \
        TR_EACH(TR_ROW, (A, S), __VA_ARGS__) {NULL, NULL, 0}};                 \
    static const tr_applier A##_tr_appliers[] = {                              \
        TR_EACH(TR_APPLIED, (A, S), __VA_ARGS__) {NULL, NULL}};                \
    linkage const ::tr::kind<S> A([]() constexpr {                              \
        tr_actor_def def = {};                                                 \
        def.size = sizeof(def);                                                \
        def.name = #A;                                                         \
        def.state = ::tr::detail::described<S>::type();                        \
        def.state_size = ::tr::detail::size_of<S>();                           \
        def.handlers = A##_tr_handlers;                                        \
        def.handler_count = sizeof(A##_tr_handlers) / sizeof(tr_handler) - 1;  \
        def.appliers = A##_tr_appliers;                                        \
        def.applier_count = sizeof(A##_tr_appliers) / sizeof(tr_applier) - 1;  \
        def.pre_start = ::tr::detail::builder<S>();                            \
        TR_EACH(TR_HOOKED, (A, S), __VA_ARGS__)                                \
        return def;                                                            \
    }())

#undef TR_ACTOR
#undef TR_ACTOR_PUBLIC
/* Defines an actor kind (or behaviour) A with state S, private to this file. */
#define TR_ACTOR(...) TR_ACTOR_(static constexpr, __VA_ARGS__, )
/*
 * Defines an actor kind for other files too, which declare it with
 * TR_ACTOR_DECLARE(A, S). A kind that is used before it is defined, for
 * behaviours that change into each other, is declared and defined like this.
 */
#define TR_ACTOR_PUBLIC(...) TR_ACTOR_PUBLIC_(__VA_ARGS__, )
#define TR_ACTOR_PUBLIC_(A, S, ...)                                            \
    TR_ACTOR_DECLARE(A, S);                                                    \
    TR_ACTOR_(, A, S, __VA_ARGS__)
#define TR_ACTOR_DECLARE(A, S) extern const ::tr::kind<S> A

// clang-format on
#endif
