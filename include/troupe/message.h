/*
 * message.h - messages: typed values with a description of their fields.
 *
 * TR_MESSAGE declares a struct and, beside it, a constant description of its
 * fields. A send copies the struct, and the text, bytes and lists that it
 * points to, into one allocation. The description is also used to read and
 * write JSON and the binary form.
 *
 * Threads: any. Descriptions are constant; a value belongs to the caller.
 * Ownership: a handler borrows its message. A value that tr_ask or tr_json_read
 * filled in outside of a handler is owned by the caller (tr_drop). Blobs are
 * shared (tr_blob_hold, tr_blob_drop).
 */
#ifndef TROUPE_MESSAGE_H
#define TROUPE_MESSAGE_H

#include <troupe/base.h>
#include <troupe/macros.h>

#pragma GCC system_header  // as macros.h explains

typedef struct tr_bytes {  // any bytes; the send copies them
    const void *at;
    size_t size;
} tr_bytes;

typedef struct tr_blob {  // a large constant buffer, shared, not copied
    struct tr_blob_body *body;
} tr_blob;

typedef enum tr_kind {
    TR_KIND_BOOL = 1,  // from here to TR_KIND_FIXED: inside the struct
    TR_KIND_INT,
    TR_KIND_UINT,
    TR_KIND_FLOAT,
    TR_KIND_REF,
    TR_KIND_NESTED,
    TR_KIND_FIXED,
    TR_KIND_TEXT,  // from here to TR_KIND_ARRAY: copied behind it
    TR_KIND_BYTES,
    TR_KIND_BLOB,
    TR_KIND_LIST,
    TR_KIND_ARRAY,
    TR_KIND_OPTIONAL,  // inside the struct: the value, then a bool
} tr_kind;

typedef struct tr_field {
    const char *name;
    const tr_type *type;  // message type of a nested, optional or list field
    uint32_t offset;
    uint32_t size;
    uint16_t kind;
    uint16_t element;  // array, fixed, optional: kind | size << 8 of one value
} tr_field;

/*
 * A message or state type. Each source file that sees the declaration has a
 * static copy of its own. Two copies are the same type if `schema` is equal, a
 * hash of name and fields that the compiler computes. So types need no registry
 * and no merging by the linker, and have the same identity on every node.
 */
struct tr_type {
    const char *name;
    uint64_t schema;
    uint32_t size;
    uint16_t field_count;
    uint16_t var_count;  // fields that may point elsewhere; 0: memcpy
    const tr_field *fields;
    const tr_type *reply;  // type of the answer to a request, or NULL
};

/*
 * A format for stored states and events, in place of JSON
 * (tr_spawn_options.serializer). Its name is stored with each value. The
 * library can always read values that were written as JSON or in its binary
 * form. Those two store a ref of a virtual actor as its name and refuse other
 * refs; JSON also refuses text that is not UTF-8, which the binary form keeps.
 */
typedef struct tr_serializer {
    const char *name;  // letters, digits, '-', '_'; at most 32
    /*
     * Writes at most size bytes to buf and returns how many bytes the value
     * takes. If that is size or more, it is called again with a larger buffer.
     * Returns SIZE_MAX if the value cannot be written.
     */
    size_t (*write)(void *user, const tr_type *type, const void *value,
                    void *buf, size_t size);
    /*
     * Fills *value, which is zero at first. Each text, list and array in it is
     * allocated with malloc; the library frees it. On failure, read frees what
     * it allocated.
     */
    tr_err (*read)(void *user, const tr_type *type, void *value,
                   const void *bytes, size_t size);
    void *user;
} tr_serializer;

enum { TR_BAGGAGE_SIZE = 32 };

/*
 * The context that travels with a call: from the message that began it to every
 * message that its handlers send (tr_context_set). The library itself only
 * reads the deadline. A deadline of zero means that there is none.
 */
typedef struct tr_context {
    uint64_t trace[2];  // id of the whole call
    uint64_t span;      // id of the step that sends
    tr_nanos deadline;  // by tr_now; nobody waits for a result after it
    unsigned char baggage[TR_BAGGAGE_SIZE];  // the program's own
} tr_context;

TR_BEGIN_DECLS

TR_API extern const tr_serializer tr_serializer_json;  // JSON, the default
TR_API extern const tr_serializer
    tr_serializer_binary;  // the library's binary form

/*
 * Writes the value as JSON, cut to size. Returns the length of the whole text
 * without its NUL. Refs are written as null, and bytes of text that are not
 * UTF-8 as U+FFFD; the calls that store a value refuse both.
 */
TR_API size_t tr_json_write(const tr_type *type, const void *value, char *buf,
                            size_t size);
/*
 * Fills *value from JSON. The caller owns the text, lists and blobs in it
 * (tr_drop). On error *value is zero.
 * Errors: TR_EINVAL (not JSON, or not of this type), TR_ELIMIT (too deep or too
 * long), TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_json_read(const tr_type *type, void *value,
                                        const char *json, size_t size);
/*
 * Frees the text, lists and blobs in a value that tr_ask, tr_join or
 * tr_json_read filled in outside of a handler.
 */
TR_API void tr_drop(const tr_type *type, void *value);

/*
 * Copies data into a new blob, of which the caller owns one hold
 * (tr_blob_drop).
 * Errors: TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_blob_new(tr_system *sys, tr_blob *out,
                                       const void *data, size_t size);
/*
 * Makes a blob of size bytes without a copy: the caller writes its content to
 * *bytes before it sends or shares the blob, and never after that. The caller
 * owns one hold. On error *out is no blob and *bytes is NULL.
 * Errors: TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_blob_alloc(tr_system *sys, tr_blob *out,
                                         size_t size, void **bytes);
/*
 * Makes a blob of memory that the caller hands over, without a copy. When the
 * last hold is dropped, on any thread, release(user, data, size) is called;
 * release may be NULL for memory that outlives the system. Nobody may write to
 * the memory meanwhile. The caller owns one hold. On error *out is no blob, and
 * data is still the caller's.
 * Errors: TR_ENOMEM.
 */
typedef void (*tr_blob_fn)(void *user, void *data, size_t size);
TR_API TR_NODISCARD tr_err tr_blob_adopt(tr_system *sys, tr_blob *out,
                                         void *data, size_t size,
                                         tr_blob_fn release, void *user);
/*
 * Add a hold to a blob and drop one. A message holds its own blobs, so these
 * are needed only to keep a blob longer than its message.
 */
TR_API tr_blob tr_blob_hold(tr_blob blob);
TR_API void tr_blob_drop(tr_blob blob);
/* Returns the content of a blob, borrowed for as long as the blob is held. */
TR_API tr_bytes tr_blob_bytes(tr_blob blob);

/*
 * Return the description of a message and its value; borrowed with the message.
 */
TR_API const tr_type *tr_msg_type(const tr_msg *msg);
TR_API const void *tr_msg_payload(const tr_msg *msg);

/*
 * Returns true if both refs are of the same actor, or both are nobody. The
 * error in a ref to nobody is not compared.
 */
TR_API bool tr_ref_eq(tr_ref a, tr_ref b);
/*
 * Returns true if the ref is of no actor: it is TR_NOBODY, or a call that
 * failed has returned it (tr_ref_err). A ref of an actor that has ended is not
 * nobody.
 */
TR_API bool tr_ref_is_nobody(tr_ref ref);
/*
 * Returns why tr_spawn, tr_lookup or tr_virtual returned nobody, or TR_OK if
 * the ref is of an actor.
 */
TR_API tr_err tr_ref_err(tr_ref ref);
/*
 * Writes the path of an actor into buf, cut to size if it is longer. Returns
 * buf.
 */
TR_API const char *tr_ref_path(tr_from from, tr_ref ref, char *buf,
                               size_t size);

TR_END_DECLS

/* ---- fields: (type, name), (nested|list, Message, name),
 *              (array, scalar, name), (fixed, scalar, name, count),
 *              (optional, scalar, name), (optional, nested, Message, name)
 * ---- */

// clang-format off: macros that make code, laid out by hand
/*
 * The kind of a field, or TR_KIND_NONE: then its type cannot be in a message,
 * and TR_CHECK reports an error.
 */
enum { TR_KIND_NONE = 0 };
#ifndef __cplusplus
#define TR_KIND_OF(x)                                                          \
    _Generic((x),                                                              \
        bool: TR_KIND_BOOL,                                                    \
        char: TR_KIND_INT, signed char: TR_KIND_INT, short: TR_KIND_INT,       \
        int: TR_KIND_INT, long: TR_KIND_INT, long long: TR_KIND_INT,           \
        unsigned char: TR_KIND_UINT, unsigned short: TR_KIND_UINT,             \
        unsigned: TR_KIND_UINT, unsigned long: TR_KIND_UINT,                   \
        unsigned long long: TR_KIND_UINT,                                      \
        float: TR_KIND_FLOAT, double: TR_KIND_FLOAT,                           \
        tr_ref: TR_KIND_REF, const char *: TR_KIND_TEXT,                       \
        tr_bytes: TR_KIND_BYTES, tr_blob: TR_KIND_BLOB,                        \
        default: TR_KIND_NONE)
#else
#define TR_KIND_OF(x) (tr_kind_of_<__typeof__(x)>::value)
extern "C++" {
/* The kind of a type; an enum has that of its underlying type, as in C. */
template <typename T, bool is_enum = __is_enum(T)> struct tr_kind_of_ {
    static constexpr int value = TR_KIND_NONE;
};
template <typename T> struct tr_kind_of_<T, true> {
    static constexpr int value = tr_kind_of_<__underlying_type(T)>::value;
};
template <typename T> struct tr_kind_of_<const T, false> : tr_kind_of_<T> {};
#define TR_KIND_IS_(type, kind)                                                \
    template <> struct tr_kind_of_<type, false> {                              \
        static constexpr int value = kind;                                     \
    };
TR_KIND_IS_(bool, TR_KIND_BOOL)
TR_KIND_IS_(char, TR_KIND_INT)
TR_KIND_IS_(signed char, TR_KIND_INT)
TR_KIND_IS_(short, TR_KIND_INT)
TR_KIND_IS_(int, TR_KIND_INT)
TR_KIND_IS_(long, TR_KIND_INT)
TR_KIND_IS_(long long, TR_KIND_INT)
TR_KIND_IS_(unsigned char, TR_KIND_UINT)
TR_KIND_IS_(unsigned short, TR_KIND_UINT)
TR_KIND_IS_(unsigned, TR_KIND_UINT)
TR_KIND_IS_(unsigned long, TR_KIND_UINT)
TR_KIND_IS_(unsigned long long, TR_KIND_UINT)
TR_KIND_IS_(float, TR_KIND_FLOAT)
TR_KIND_IS_(double, TR_KIND_FLOAT)
TR_KIND_IS_(tr_ref, TR_KIND_REF)
TR_KIND_IS_(const char *, TR_KIND_TEXT)
TR_KIND_IS_(tr_bytes, TR_KIND_BYTES)
TR_KIND_IS_(tr_blob, TR_KIND_BLOB)
#undef TR_KIND_IS_
}
#endif

/*
 * The number of parts of a field, 2 to 4, or 0 if it is not a field. The walks
 * below pass over a field of shape 0, so that TR_CHECK alone reports it.
 */
#define TR_SHAPE(f) TR_CAT(TR_SHAPE_, TR_IS_TUPLE(f))(f)
#define TR_SHAPE_0(f) 0
#define TR_SHAPE_1(f) TR_CAT(TR_SHAPE_OF_, TR_ARITY f) f
#define TR_SHAPE_OF_1(a) 0
#define TR_SHAPE_OF_2(type, n) 2
#define TR_SHAPE_OF_3(word, E, n) TR_SECOND(TR_WORD3_##word, 0, )
#define TR_SHAPE_OF_4(word, E, n, c) TR_SECOND(TR_WORD4_##word, 0, )
#define TR_SHAPE_OF_5(...) 0
#define TR_WORD3_nested ~, 3
#define TR_WORD3_list ~, 3
#define TR_WORD3_array ~, 3
#define TR_WORD3_optional ~, 3
#define TR_WORD4_fixed ~, 4
#define TR_WORD4_optional ~, 4
#define TR_WALK_(walk, T, f) TR_CALL(TR_CAT(walk, TR_SHAPE(f)), T, TR_UNWRAP f)

#define TR_DECL(T, i, f) TR_WALK_(TR_DECL_, T, f)
#define TR_DECL_0(...)
#define TR_DECL_2(T, type, n) type n;
#define TR_DECL_3(T, word, E, n) TR_DECL_##word(E, n)
#define TR_DECL_4(T, word, E, n, c) TR_DECL_4_##word(E, n, c)
#define TR_DECL_nested(E, n) E n;
#define TR_DECL_list(E, n) struct { const E *at; size_t count; } n;
#define TR_DECL_array(E, n) struct { const E *at; size_t count; } n;
#define TR_DECL_4_fixed(E, n, c) E n[c];
/*
 * An optional field is present if .has is true. The value comes first, so its
 * offset is that of the field.
 */
#define TR_DECL_optional(E, n) struct { E value; bool has; } n;
#define TR_DECL_4_optional(nested, E, n)                                       \
    TR_OPTIONAL_##nested struct { E value; bool has; } n;
/*
 * An optional field with four parts must be (optional, nested, Message, name).
 */
#define TR_OPTIONAL_nested

/*
 * Reports a field that cannot be in a message, in one error whose text says why
 * and what a field may be. The enum keeps the condition out of that error.
 */
#define TR_CHECK(T, i, f) TR_CAT(TR_CHECK_, TR_SHAPE(f))(T, f)
#define TR_CHECK_0(T, f)                                                       \
    TR_STATIC_ASSERT_(0, #T ": " #f " is not a field" TR_FIELDS_ARE_);
#define TR_CHECK_2(T, f) TR_CALL(TR_CHECK_2_, T, TR_UNWRAP f)
#define TR_CHECK_3(T, f) TR_CALL(TR_CHECK_3_, T, TR_UNWRAP f)
#define TR_CHECK_4(T, f) TR_CALL(TR_CHECK_4_, T, TR_UNWRAP f)
#define TR_CHECK_2_(T, type, n) TR_SENDABLE_(T, ((T *)0)->n, type, n)
#define TR_CHECK_3_(T, word, E, n) TR_CHECK_##word(T, E, n)
#define TR_CHECK_4_(T, word, E, n, c) TR_CHECK_4_##word(T, E, n)
#define TR_CHECK_nested(T, E, n) TR_NOT_EMPTY_(T, E, n)
#define TR_CHECK_list(T, E, n) TR_NOT_EMPTY_(T, E, n)
#define TR_CHECK_array(T, E, n) TR_SENDABLE_(T, *((T *)0)->n.at, E, n)
#define TR_CHECK_4_fixed(T, E, n) TR_SENDABLE_(T, *((T *)0)->n, E, n)
#define TR_CHECK_4_optional(T, nested, E)
#define TR_SENDABLE_(T, x, type, n)                                            \
    enum { T##_tr_can_hold_##n = TR_KIND_OF(x) != TR_KIND_NONE };              \
    TR_STATIC_ASSERT_(T##_tr_can_hold_##n, #T "." #n                           \
                      ": a message cannot hold a " #type TR_FIELDS_ARE_);
#define TR_FIELDS_ARE_                                                         \
    "; a field is (type, name) with a number, bool, const char *, tr_ref, "    \
    "tr_bytes or tr_blob, or (nested, Message, name), (list, Message, name), " \
    "(array, number, name), (fixed, number, name, count) or (optional, ...)"
#define TR_CHECK_optional(T, E, n)                                             \
    enum {                                                                     \
        T##_tr_kind_of_##n = TR_KIND_OF(((T *)0)->n.value),                    \
        T##_tr_can_hold_##n = (T##_tr_kind_of_##n != TR_KIND_NONE &&           \
                               T##_tr_kind_of_##n <= TR_KIND_FLOAT) ||         \
                              T##_tr_kind_of_##n == TR_KIND_BYTES              \
    };                                                                         \
    TR_STATIC_ASSERT_(T##_tr_can_hold_##n, #T "." #n ": an optional field is " \
                      "a number, bool or tr_bytes, or (optional, nested, "     \
                      "Message, name); text, blobs and refs can be none as "   \
                      "they are");

#define TR_INFO(T, i, f) TR_WALK_(TR_INFO_, T, f)
#define TR_INFO_0(...)
#define TR_AT_(T, n) offsetof(T, n), sizeof(((T *)0)->n)
#define TR_INFO_2(T, type, n)                                                  \
    {#n, NULL, TR_AT_(T, n), TR_KIND_OF(((T *)0)->n), 0},
#define TR_INFO_3(T, word, E, n) TR_INFO_##word(T, E, n)
#define TR_INFO_4(T, word, E, n, c) TR_INFO_4_##word(T, E, n, c)
#define TR_INFO_nested(T, E, n)                                                \
    {#n, &E##_tr_type, TR_AT_(T, n), TR_KIND_NESTED, 0},
#define TR_INFO_list(T, E, n)                                                  \
    {#n, &E##_tr_type, TR_AT_(T, n), TR_KIND_LIST, 0},
#define TR_ELEMENT_(E) (uint16_t)(TR_KIND_OF(*(E *)0) | sizeof(E) << 8)
#define TR_INFO_array(T, E, n)                                                 \
    {#n, NULL, TR_AT_(T, n), TR_KIND_ARRAY, TR_ELEMENT_(E)},
#define TR_INFO_4_fixed(T, E, n, c)                                            \
    {#n, NULL, TR_AT_(T, n), TR_KIND_FIXED, TR_ELEMENT_(E)},
#define TR_INFO_optional(T, E, n)                                              \
    {#n, NULL, TR_AT_(T, n), TR_KIND_OPTIONAL, TR_ELEMENT_(E)},
#define TR_INFO_4_optional(T, nested, E, n)                                    \
    {#n, &E##_tr_type, TR_AT_(T, n), TR_KIND_OPTIONAL, 0},

/* This field's share of the schema hash; i makes the order of fields count. */
#define TR_MIX(T, i, f) + (2u * (i) + 1) * TR_WALK_(TR_MIX_, T, f)
#define TR_MIX_0(...) 0u
#define TR_MIX_2(T, type, n)                                                   \
    (TR_HASH(#n) + 31u * (uint64_t)TR_KIND_OF(((T *)0)->n) +                   \
     (TR_KIND_OF(((T *)0)->n) < TR_KIND_REF ? sizeof(((T *)0)->n) : 0u))
#define TR_MIX_3(T, word, E, n) (TR_HASH(#n) + 7u * TR_HASH(#word #E))
#define TR_MIX_4(T, word, E, n, c) TR_MIX4_##word(E, n, c)
#define TR_MIX4_fixed(E, n, c) (TR_HASH(#n) + 7u * TR_HASH("fixed" #E) + (c))
#define TR_MIX4_optional(nested, E, n)                                         \
    (TR_HASH(#n) + 7u * TR_HASH("optional" #E))

#define TR_VAR(T, i, f) + TR_WALK_(TR_VAR_, T, f)
#define TR_VAR_0(...) 0
#define TR_VAR_2(T, type, n) (TR_KIND_OF(((T *)0)->n) >= TR_KIND_TEXT)
#define TR_VAR_3(T, word, E, n) TR_VAR_##word(E)
#define TR_VAR_nested(E) 1
#define TR_VAR_list(E) 1
#define TR_VAR_array(E) 1
#define TR_VAR_optional(E) (TR_KIND_OF(*(E *)0) >= TR_KIND_TEXT)
#define TR_VAR_4(T, word, E, n, c) TR_VAR_4_##word(E)
#define TR_VAR_4_fixed(E) (TR_KIND_OF(*(E *)0) >= TR_KIND_TEXT)
#define TR_VAR_4_optional(nested) 1

/*
 * The beginning of every declaration. It is an assertion so that a missing `;`
 * before it costs nothing else: a compiler reports the `;` and skips this.
 */
#define TR_NAMED_(T)                                                           \
    TR_STATIC_ASSERT_(sizeof(#T) <= 33, #T ": the name of a message has at "   \
                      "most 32 characters")
#define TR_TYPE_(T, reply_type, ...)                                           \
    TR_EACH(TR_CHECK, T, __VA_ARGS__)                                          \
    TR_CONSTANT_ tr_field T##_tr_fields[] __attribute__((unused)) = {          \
        TR_EACH(TR_INFO, T, __VA_ARGS__) {NULL, NULL, 0, 0, 0, 0}};            \
    TR_CONSTANT_ tr_type T##_tr_type __attribute__((unused)) = {               \
        #T, TR_HASH(#T) TR_EACH(TR_MIX, T, __VA_ARGS__), TR_SIZE_(T),          \
        TR_COUNT(__VA_ARGS__) - 1, 0 TR_EACH(TR_VAR, T, __VA_ARGS__),          \
        T##_tr_fields, reply_type}

#ifndef __cplusplus
/* Stands for the reply of a message that is not a request. */
typedef struct tr_not_a_request tr_not_a_request;
#define TR_NOT_EMPTY_(T, E, n)
#define TR_CONSTANT_ static const
#define TR_SIZE_(T) sizeof(T)
#define TR_STRUCT_(T, ...)                                                     \
    __extension__ typedef struct T { TR_EACH(TR_DECL, T, __VA_ARGS__) } T;     \
    typedef tr_not_a_request T##_tr_reply __attribute__((unused));             \
    TR_TYPE_(T, NULL, __VA_ARGS__)
#define TR_ASKABLE_(T, R, ...)                                                 \
    typedef R T##_tr_reply;                                                    \
    __extension__ typedef struct T {                                           \
        TR_EACH(TR_DECL, T, __VA_ARGS__)                                       \
        R tr_reply_is[0];  /* carries the type, takes no space */              \
    } T;                                                                       \
    TR_TYPE_(T, &R##_tr_type, __VA_ARGS__)
#else
/*
 * In C++ a message is a plain struct as well, of the same layout, schema and
 * name; C and C++ files of one program can send to each other. An empty struct
 * has no bytes of its own in C. A request has at least the alignment of its
 * reply, as the array of no replies gives it in C.
 */
#define TR_NOT_EMPTY_(T, E, n)                                                 \
    TR_STATIC_ASSERT_(!__is_empty(E), #T "." #n ": " #E " has no fields; it "  \
                      "takes no room in C and one byte in C++");
#define TR_CONSTANT_ inline const
#define TR_SIZE_(T) (__is_empty(T) ? 0 : sizeof(T))
#define TR_STRUCT_(T, ...)                                                     \
    struct T {                                                                 \
        TR_EACH(TR_DECL, T, __VA_ARGS__)                                       \
        static constexpr const tr_type *tr_type_of();                          \
    };                                                                         \
    TR_TYPED_(T, NULL, __VA_ARGS__)
#define TR_ASKABLE_(T, R, ...)                                                 \
    typedef R T##_tr_reply;                                                    \
    struct T##_tr_plain { TR_EACH(TR_DECL, T, __VA_ARGS__) };                  \
    struct alignas(TR_LARGER_(alignof(R), alignof(T##_tr_plain))) T {          \
        TR_EACH(TR_DECL, T, __VA_ARGS__)                                       \
        typedef R tr_reply_type;                                               \
        static constexpr const tr_type *tr_type_of();                          \
    };                                                                         \
    TR_TYPED_(T, &R##_tr_type, __VA_ARGS__)
#define TR_LARGER_(a, b) ((a) > (b) ? (a) : (b))
#define TR_TYPED_(T, reply_type, ...)                                          \
    TR_TYPE_(T, reply_type, __VA_ARGS__);                                      \
    constexpr const tr_type *T::tr_type_of() { return &T##_tr_type; }          \
    TR_NAMED_(T)
#endif

/*
 * Declares message type T: the struct and its description. It may stand in a
 * header or in a source file. The same declaration in two files is the same
 * type; with other fields it is another type. In C++ it stands outside of
 * functions, and two types of one name must be in unnamed namespaces.
 */
#define TR_MESSAGE(...) TR_MESSAGE_(__VA_ARGS__, )
#define TR_MESSAGE_(T, ...) TR_NAMED_(T); TR_STRUCT_(T, __VA_ARGS__)

/* Declares a request T whose answer is an R, itself declared by TR_MESSAGE. */
#define TR_REQUEST(...) TR_REQUEST_(__VA_ARGS__, )
#define TR_REQUEST_(T, R, ...) TR_NAMED_(T); TR_ASKABLE_(T, R, __VA_ARGS__)

/* Fills in an optional field: .age = TR_SOME(42). */
#ifndef __cplusplus
#define TR_SOME(...) {.value = __VA_ARGS__, .has = true}
#else
#define TR_SOME(...) {__VA_ARGS__, true}
#endif

/*
 * Declares a state that can be stored, printed and shown. A state that needs
 * none of these may be a plain struct.
 */
#define TR_STATE(...) TR_MESSAGE_(__VA_ARGS__, )

/*
 * Declares P, a ref to which only these messages can be sent: AccountRef a =
 * {ref}; tr_tell_to(ctx, a, Deposit). P is a union with one member per message,
 * so the compiler reports a wrong message as "no member named".
 */
#define TR_PROTOCOL(P, ...)                                                    \
    typedef union P { tr_ref ref, __VA_ARGS__; } P

/* The empty message: the answer to requests that are only confirmed. */
TR_MESSAGE(tr_none);

#ifndef __cplusplus
#define tr_drop(T, value)                                                      \
    (tr_drop)(&T##_tr_type, _Generic((value), T *: (value)))
#define tr_ref_path(from, ref, buf, size)                                      \
    __extension__(tr_ref_path)((from), (ref), (buf), (size))
#endif

// clang-format on
#endif
