/*
 * message.h - what actors say to each other: typed values with a schema.
 *
 * TR_MESSAGE declares a struct and, beside it, a constant description of its
 * fields. The send copies the struct and the text, bytes and lists it points
 * to into one allocation; the description also gives JSON and the wire form.
 *
 * Threads: any; descriptions are constant, values are the caller's.
 * Ownership: a handler borrows its message; a value that tr_ask or
 * tr_json_read filled in outside a handler is owned by the caller (tr_drop);
 * blobs are shared (tr_blob_hold, tr_blob_drop).
 */
#ifndef TROUPE_MESSAGE_H
#define TROUPE_MESSAGE_H

#include <troupe/base.h>
#include <troupe/macros.h>

typedef struct tr_bytes {  // any bytes; copied into the message by the send
    const void *at;
    size_t size;
} tr_bytes;

typedef struct tr_blob {  // a large immutable buffer, shared without a copy
    struct tr_blob_body *body;
} tr_blob;

typedef enum tr_kind {
    TR_KIND_BOOL = 1,  // inline, up to and with TR_KIND_FIXED
    TR_KIND_INT,
    TR_KIND_UINT,
    TR_KIND_FLOAT,
    TR_KIND_REF,
    TR_KIND_NESTED,
    TR_KIND_FIXED,
    TR_KIND_TEXT,  // copied after the struct, from here on
    TR_KIND_BYTES,
    TR_KIND_BLOB,
    TR_KIND_LIST,
    TR_KIND_ARRAY,
    TR_KIND_OPTIONAL,  // inline again: the value and behind it a bool
} tr_kind;

typedef struct tr_field {
    const char *name;
    const tr_type *type;  // of a nested message, also optional, or a list's
    uint32_t offset;
    uint32_t size;
    uint16_t kind;
    uint16_t element;  // of array and optional: kind in it, its size << 8
} tr_field;

/*
 * A message or state type. One static copy per source file that sees the
 * declaration; identity is `schema`, a compile-time hash of name and fields,
 * so it needs no registry, no linker merging, and is the same on the wire.
 */
struct tr_type {
    const char *name;
    uint64_t schema;
    uint32_t size;
    uint16_t field_count;
    uint16_t var_count;  // fields that may point outside it; 0 = memcpy
    const tr_field *fields;
    const tr_type *reply;  // what a request is answered with, or NULL
};

/*
 * A form in which states and events are stored, in place of JSON:
 * tr_spawn_options.serializer. The name is stored with each value, so what
 * was written in JSON, or in the compact form, can always be read.
 */
typedef struct tr_serializer {
    const char *name;  // letters, digits, '-', '_'; at most 32
    /*
     * Writes up to size bytes and returns how many the value takes; if that
     * is not less than size, it is called again with more. SIZE_MAX: it
     * cannot be written.
     */
    size_t (*write)(void *user, const tr_type *type, const void *value,
                    void *buf, size_t size);
    /*
     * Fills *value, which is zero; each text, list and array in it is a piece
     * from malloc, which it gives away. On failure it keeps nothing.
     */
    tr_err (*read)(void *user, const tr_type *type, void *value,
                   const void *bytes, size_t size);
    void *user;
} tr_serializer;

enum { TR_BAGGAGE_SIZE = 32 };

/*
 * What a call carries along, from the message that began it to all that its
 * handlers send: tr_context_set. The library reads the deadline only; zero
 * means that there is none.
 */
typedef struct tr_context {
    uint64_t trace[2];  // id of the whole call
    uint64_t span;      // id of the step that sends
    tr_nanos deadline;  // tr_now beyond which nobody waits for the outcome
    unsigned char baggage[TR_BAGGAGE_SIZE];  // yours
} tr_context;

TR_BEGIN_DECLS

TR_API extern const tr_serializer tr_serializer_json;    // the default
TR_API extern const tr_serializer tr_serializer_binary;  // the compact form

/* Writes the value as JSON; returns the length it needs, without the NUL. */
TR_API size_t tr_json_write(const tr_type *type, const void *value, char *buf,
                            size_t size);
/*
 * Fills *value from JSON; its text belongs to the caller: tr_drop.
 * Errors: TR_EINVAL, TR_ELIMIT, TR_ENOMEM; *value is then zero.
 */
TR_API TR_NODISCARD tr_err tr_json_read(const tr_type *type, void *value,
                                        const char *json, size_t size);
/* Frees the text, lists and blobs of a value an outside call filled in. */
TR_API void tr_drop(const tr_type *type, void *value);

/* Copies data into a new blob. The caller owns one hold. Errors: TR_ENOMEM. */
TR_API TR_NODISCARD tr_err tr_blob_new(tr_system *sys, tr_blob *out,
                                       const void *data, size_t size);
/* A message holds its blobs by itself; these are for keeping one longer. */
TR_API tr_blob tr_blob_hold(tr_blob blob);
TR_API void tr_blob_drop(tr_blob blob);
/* The content, borrowed for as long as the blob is held. */
TR_API tr_bytes tr_blob_bytes(tr_blob blob);

/* The description of a message and its value; borrowed with the message. */
TR_API const tr_type *tr_msg_type(const tr_msg *msg);
TR_API const void *tr_msg_payload(const tr_msg *msg);

/* True if both are one actor, or both nobody, for whatever reason. */
TR_API bool tr_ref_eq(tr_ref a, tr_ref b);
/* Why a spawn, a lookup or tr_virtual gave nobody, or TR_OK. */
TR_API tr_err tr_ref_err(tr_ref ref);
/* Writes the path of an actor, cut if need be, into buf; returns buf. */
TR_API const char *tr_ref_path(tr_from from, tr_ref ref, char *buf,
                               size_t size);

TR_END_DECLS

#ifndef __cplusplus

/* ---- fields: (type, name), (nested|list, Message, name),
 *              (array, scalar, name), (fixed, scalar, name, count),
 *              (optional, scalar, name), (optional, nested, Message, name)
 * ---- */

/* A type missing here cannot be in a message: a compile error. */
#define TR_KIND_OF(x)                                                          \
    _Generic((x),                                                              \
        bool: TR_KIND_BOOL,                                                    \
        char: TR_KIND_INT,                                                     \
        signed char: TR_KIND_INT,                                              \
        short: TR_KIND_INT,                                                    \
        int: TR_KIND_INT,                                                      \
        long: TR_KIND_INT,                                                     \
        long long: TR_KIND_INT,                                                \
        unsigned char: TR_KIND_UINT,                                           \
        unsigned short: TR_KIND_UINT,                                          \
        unsigned: TR_KIND_UINT,                                                \
        unsigned long: TR_KIND_UINT,                                           \
        unsigned long long: TR_KIND_UINT,                                      \
        float: TR_KIND_FLOAT,                                                  \
        double: TR_KIND_FLOAT,                                                 \
        tr_ref: TR_KIND_REF,                                                   \
        const char *: TR_KIND_TEXT,                                            \
        tr_bytes: TR_KIND_BYTES,                                               \
        tr_blob: TR_KIND_BLOB)

#define TR_DECL(T, i, f)         TR_CAT(TR_DECL_, TR_ARITY f) f
#define TR_DECL_2(type, n)       type n;
#define TR_DECL_3(word, E, n)    TR_DECL_##word(E, n)
#define TR_DECL_4(word, E, n, c) TR_DECL_4_##word(E, n, c)
#define TR_DECL_nested(E, n)     E n;
#define TR_DECL_list(E, n)                                                     \
    struct {                                                                   \
        const E *at;                                                           \
        size_t count;                                                          \
    } n;
#define TR_DECL_array(E, n)                                                    \
    struct {                                                                   \
        const E *at;                                                           \
        size_t count;                                                          \
    } n;
#define TR_DECL_4_fixed(E, n, c) E n[c];
/* Absent unless .has; the value comes first, so that it needs no offset. */
#define TR_DECL_optional(E, n)                                                 \
    struct {                                                                   \
        E value;                                                               \
        bool has;                                                              \
    } n;                                                                       \
    _Static_assert(TR_KIND_OF(*(E *)0) <= TR_KIND_FLOAT ||                     \
                       TR_KIND_OF(*(E *)0) == TR_KIND_BYTES,                   \
                   "optional " #n ": "                                         \
                   "text, blobs and refs can be none as they are");
#define TR_DECL_4_optional(nested, E, n)                                       \
    TR_OPTIONAL_##nested struct {                                              \
        E value;                                                               \
        bool has;                                                              \
    } n;
/* Only (optional, nested, Message, name) has four parts. */
#define TR_OPTIONAL_nested

#define TR_INFO(T, i, f) TR_CALL(TR_CAT(TR_INFO_, TR_ARITY f), T, TR_UNWRAP f)
#define TR_AT_(T, n)     offsetof(T, n), sizeof(((T *)0)->n)
#define TR_INFO_2(T, type, n)                                                  \
    {#n, NULL, TR_AT_(T, n), TR_KIND_OF(((T *)0)->n), 0},
#define TR_INFO_3(T, word, E, n)    TR_INFO_##word(T, E, n)
#define TR_INFO_4(T, word, E, n, c) TR_INFO_4_##word(T, E, n, c)
#define TR_INFO_nested(T, E, n)                                                \
    {#n, &E##_tr_type, TR_AT_(T, n), TR_KIND_NESTED, 0},
#define TR_INFO_list(T, E, n) {#n, &E##_tr_type, TR_AT_(T, n), TR_KIND_LIST, 0},
#define TR_ELEMENT_(E)        (uint16_t)(TR_KIND_OF(*(E *)0) | sizeof(E) << 8)
#define TR_INFO_array(T, E, n)                                                 \
    {#n, NULL, TR_AT_(T, n), TR_KIND_ARRAY, TR_ELEMENT_(E)},
#define TR_INFO_4_fixed(T, E, n, c)                                            \
    {#n, NULL, TR_AT_(T, n), TR_KIND_FIXED, TR_ELEMENT_(E)},
#define TR_INFO_optional(T, E, n)                                              \
    {#n, NULL, TR_AT_(T, n), TR_KIND_OPTIONAL, TR_ELEMENT_(E)},
#define TR_INFO_4_optional(T, nested, E, n)                                    \
    {#n, &E##_tr_type, TR_AT_(T, n), TR_KIND_OPTIONAL, 0},

/* + this field's share of the schema hash; i makes the order count. */
#define TR_MIX(T, i, f)                                                        \
    +(2u * (i) + 1) * TR_CALL(TR_CAT(TR_MIX_, TR_ARITY f), T, TR_UNWRAP f)
#define TR_MIX_2(T, type, n)                                                   \
    (TR_HASH(#n) + 31u * (uint64_t)TR_KIND_OF(((T *)0)->n) +                   \
     (TR_KIND_OF(((T *)0)->n) < TR_KIND_REF ? sizeof(((T *)0)->n) : 0u))
#define TR_MIX_3(T, word, E, n)    (TR_HASH(#n) + 7u * TR_HASH(#word #E))
#define TR_MIX_4(T, word, E, n, c) TR_MIX4_##word(E, n, c)
#define TR_MIX4_fixed(E, n, c)     (TR_HASH(#n) + 7u * TR_HASH("fixed" #E) + (c))
#define TR_MIX4_optional(nested, E, n)                                         \
    (TR_HASH(#n) + 7u * TR_HASH("optional" #E))

#define TR_VAR(T, i, f)            +TR_CALL(TR_CAT(TR_VAR_, TR_ARITY f), T, TR_UNWRAP f)
#define TR_VAR_2(T, type, n)       (TR_KIND_OF(((T *)0)->n) >= TR_KIND_TEXT)
#define TR_VAR_3(T, word, E, n)    TR_VAR_##word(E)
#define TR_VAR_nested(E)           1
#define TR_VAR_list(E)             1
#define TR_VAR_array(E)            1
#define TR_VAR_optional(E)         (TR_KIND_OF(*(E *)0) >= TR_KIND_TEXT)
#define TR_VAR_4(T, word, E, n, c) TR_VAR_4_##word(E)
#define TR_VAR_4_fixed(E)          (TR_KIND_OF(*(E *)0) >= TR_KIND_TEXT)
#define TR_VAR_4_optional(nested)  1

#define TR_TYPE_(T, reply_type, ...)                                           \
    _Static_assert(sizeof(#T) <= 33, "message names: at most 32 characters");  \
    static const tr_field T##_tr_fields[] __attribute__((unused)) = {          \
        TR_EACH(TR_INFO, T, __VA_ARGS__){NULL, NULL, 0, 0, 0, 0}};             \
    static const tr_type T##_tr_type __attribute__((unused)) = {               \
        #T,                                                                    \
        TR_HASH(#T) TR_EACH(TR_MIX, T, __VA_ARGS__),                           \
        sizeof(T),                                                             \
        TR_COUNT(__VA_ARGS__) - 1,                                             \
        0 TR_EACH(TR_VAR, T, __VA_ARGS__),                                     \
        T##_tr_fields,                                                         \
        reply_type}

/*
 * Declares message type T: the struct and its schema. In a header or a source
 * file; the same text twice is the same type, a different one another type.
 */
#define TR_MESSAGE(...) TR_MESSAGE_(__VA_ARGS__, )
#define TR_MESSAGE_(T, ...)                                                    \
    __extension__ typedef struct T {                                           \
        TR_EACH(TR_DECL, T, __VA_ARGS__)                                       \
    } T;                                                                       \
    TR_TYPE_(T, NULL, __VA_ARGS__)

/* A message that is answered with an R, itself a TR_MESSAGE. */
#define TR_REQUEST(...) TR_REQUEST_(__VA_ARGS__, )
#define TR_REQUEST_(T, R, ...)                                                 \
    typedef R T##_tr_reply;                                                    \
    __extension__ typedef struct T {                                           \
        TR_EACH(TR_DECL, T, __VA_ARGS__)                                       \
        R tr_reply_is[0]; /* carries the type, takes no space */               \
    } T;                                                                       \
    TR_TYPE_(T, &R##_tr_type, __VA_ARGS__)

/* In the place of an optional field's value: .age = TR_SOME(42). */
#define TR_SOME(...) {.value = __VA_ARGS__, .has = true}

/* A state that can be stored and shown. A plain struct is a state, too. */
#define TR_STATE(...) TR_MESSAGE_(__VA_ARGS__, )

/*
 * A ref that takes only these messages: AccountRef a = {ref}; tr_tell_to.
 * A union with one door per message, so a wrong one is "no member named".
 */
#define TR_PROTOCOL(P, ...)                                                    \
    typedef union P {                                                          \
        tr_ref ref, __VA_ARGS__;                                               \
    } P

/* The empty message; the answer of requests that are only confirmed. */
TR_MESSAGE(tr_none);

#define tr_drop(T, value)                                                      \
    (tr_drop)(&T##_tr_type, _Generic((value), T *: (value)))
#define tr_ref_path(from, ref, buf, size)                                      \
    __extension__(tr_ref_path)((from), (ref), (buf), (size))

#else /* __cplusplus */

#define TR_IS_C_(what)                                                         \
    static_assert(sizeof(int) == 0,                                            \
                  what " is for C: declare messages and actors in a C file")
#define TR_MESSAGE(...) TR_IS_C_("TR_MESSAGE")
#define TR_REQUEST(...) TR_IS_C_("TR_REQUEST")
#define TR_STATE(...)   TR_IS_C_("TR_STATE")

#endif /* __cplusplus */
#endif
