/*
 * postgres_sql.h - all statements that the store in PostgreSQL sends.
 *
 * A write checks its fence itself. In the SQL, `f` locks the row of the
 * shard's fence, so that no one raises it before this transaction ends, and
 * `g` has a row only if the epoch of the writer passes; 0 always does. Lock, check and write
 * are one statement, so that a process that is paused while it sends holds no
 * lock at the server. A refused write raises no error, because an error would
 * end the transaction for all operations of the batch.
 *
 * Each write has two forms. The plain form locks the fence FOR SHARE, together
 * with other writers. The form with _RAISE, for an epoch above the fence,
 * locks it FOR UPDATE from the start and raises it if the write was done. It
 * does not upgrade a shared lock, because two writers that do so would
 * deadlock. A batch with it has only this one operation.
 *
 * The answer to a single write has three columns: the epoch of the fence,
 * whether the write was done, and a number.
 *
 * Types of parameters: 4 int4, 8 int8, b bytea; I, L, B arrays of these.
 */
#ifndef TRI_STORAGE_POSTGRES_SQL_H
#define TRI_STORAGE_POSTGRES_SQL_H

/* clang-format would break the SQL in the middle of its lines. */
// clang-format off

#define TRI_PG_SHARED "FOR SHARE"
#define TRI_PG_ALONE  "FOR UPDATE"

/* $1 number of the fence, $2 epoch. */
#define TRI_PG_FENCED(lock)                                                    \
    "WITH f AS MATERIALIZED (SELECT epoch FROM troupe.fences"                  \
    " WHERE number = $1 " lock "),"                                            \
    " g AS MATERIALIZED (SELECT FROM f WHERE epoch <= $2 OR $2 = 0),"

#define TRI_PG_RAISED(done)                                                    \
    ", r AS (UPDATE troupe.fences SET epoch = $2"                              \
    " WHERE number = $1 AND epoch < $2 AND " done ")"

#define TRI_PG_ANSWER(done, number)                                            \
    " SELECT (SELECT epoch FROM f), " done ", " number

/*
 * All saves of a batch. $1 the fences, sorted and without duplicates; then
 * arrays with, for each save, the position of its fence in $1, epoch, key,
 * version, bytes. Keys are sorted, so that all batches lock rows in the same
 * order. The answer: the fences in the order of $1, the positions of the saves
 * that replaced a state (from 1), the keys that were new.
 */
#define TRI_PG_DO_SAVE(lock, raise)                                            \
    "WITH f AS MATERIALIZED (SELECT epoch FROM troupe.fences"                  \
    " WHERE number = ANY ($1) ORDER BY number " lock "),"                      \
    " e AS MATERIALIZED (SELECT array_agg(epoch) AS epochs FROM f),"           \
    " g AS MATERIALIZED (SELECT q.* FROM e, unnest($2, $3, $4, $5, $6)"        \
    " WITH ORDINALITY AS q (place, epoch, key, number, bytes, n)"              \
    " WHERE q.epoch >= e.epochs[q.place] OR q.epoch = 0),"                     \
    " u AS (UPDATE troupe.state AS s"                                          \
    " SET version = s.version + 1, bytes = g.bytes FROM g"                     \
    " WHERE g.number > 0 AND s.key = g.key AND s.version = g.number"           \
    " RETURNING g.n),"                                                         \
    " a AS (INSERT INTO troupe.state SELECT key, 1, bytes FROM g"              \
    " WHERE number = 0 ON CONFLICT DO NOTHING RETURNING key)" raise            \
    " SELECT (SELECT epochs FROM e), (SELECT array_agg(n) FROM u),"            \
    " (SELECT array_agg(key) FROM a)"
#define TRI_PG_DO_RAISE                                                        \
    ", r AS (UPDATE troupe.fences AS t SET epoch = ($3)[1]"                    \
    " WHERE t.number = ($1)[1] AND t.epoch < ($3)[1]"                          \
    " AND (EXISTS (SELECT FROM u) OR EXISTS (SELECT FROM a)))"

#define TRI_PG_IS(part) "EXISTS (SELECT FROM " part ")"

/*
 * $3 key, $4 version, $5 number of the last event. `m` has a row if both are
 * as expected; the locks keep them so until the rows are deleted.
 */
#define TRI_PG_DO_DELETE(lock, raise)                                          \
    TRI_PG_FENCED(lock)                                                        \
    " s AS MATERIALIZED (SELECT version FROM troupe.state"                     \
    " WHERE key = $3 FOR UPDATE),"                                             \
    " l AS MATERIALIZED (SELECT last FROM troupe.stream"                       \
    " WHERE key = $3 FOR UPDATE),"                                             \
    " m AS MATERIALIZED (SELECT FROM g"                                        \
    " WHERE coalesce((SELECT version FROM s), 0) = $4"                         \
    " AND coalesce((SELECT last FROM l), 0) = $5),"                            \
    " d AS (DELETE FROM troupe.state WHERE key = $3"                           \
    " AND " TRI_PG_IS("m") " RETURNING key),"                                  \
    " e AS (DELETE FROM troupe.stream WHERE key = $3"                          \
    " AND " TRI_PG_IS("m") " RETURNING key),"                                  \
    " v AS (DELETE FROM troupe.event WHERE key = $3"                           \
    " AND " TRI_PG_IS("m") ")" raise                                           \
    TRI_PG_ANSWER(TRI_PG_IS("m"), "(SELECT count(*) FROM d) +"                 \
                                  " (SELECT count(*) FROM e)")

/*
 * $3 key, $4 number of the last event, $5 the events, $6 how many. Of two
 * writers the one that updates the row of `stream` first adds its events; the
 * other one is refused.
 */
#define TRI_PG_ADDED "(" TRI_PG_IS("u") " OR " TRI_PG_IS("a") ")"
#define TRI_PG_DO_APPEND(lock, raise)                                          \
    TRI_PG_FENCED(lock)                                                        \
    " u AS (UPDATE troupe.stream SET last = last + $6"                         \
    " WHERE key = $3 AND last = $4 AND " TRI_PG_IS("g") " RETURNING key),"     \
    " a AS (INSERT INTO troupe.stream SELECT $3, $6"                           \
    " WHERE $4 = 0 AND " TRI_PG_IS("g") " AND NOT " TRI_PG_IS("u")             \
    " ON CONFLICT DO NOTHING RETURNING key),"                                  \
    " w AS (INSERT INTO troupe.event SELECT $3, $4 + q.n, q.bytes"             \
    " FROM unnest($5) WITH ORDINALITY AS q (bytes, n)"                         \
    " WHERE " TRI_PG_ADDED ")" raise                                           \
    TRI_PG_ANSWER(TRI_PG_ADDED, "0::int8")

/* $3 key, $4 the last event to drop. The last event of the stream stays. */
#define TRI_PG_DO_TRIM(lock, raise)                                            \
    TRI_PG_FENCED(lock)                                                        \
    " s AS MATERIALIZED (SELECT last FROM troupe.stream WHERE key = $3),"      \
    " d AS (DELETE FROM troupe.event WHERE key = $3"                           \
    " AND number <= least($4, (SELECT last FROM s) - 1)"                       \
    " AND " TRI_PG_IS("g") ")" raise                                           \
    TRI_PG_ANSWER(TRI_PG_IS("g"), "coalesce((SELECT last FROM s), 0)")

/* $3 key, $4 name, $5 due, $6 bytes, $7 due so far, or 0: any; $8 shard. */
#define TRI_PG_DO_REMIND(lock, raise)                                          \
    TRI_PG_FENCED(lock)                                                        \
    " u AS (UPDATE troupe.reminder SET shard = $8, due = $5, bytes = $6"       \
    " WHERE key = $3 AND name = $4 AND due = $7 AND $7 <> 0"                   \
    " AND " TRI_PG_IS("g") " RETURNING key),"                                  \
    " w AS (INSERT INTO troupe.reminder SELECT $3, $4, $8, $5, $6"             \
    " WHERE $7 = 0 AND " TRI_PG_IS("g") " ON CONFLICT (key, name) DO UPDATE"   \
    " SET shard = excluded.shard, due = excluded.due,"                         \
    " bytes = excluded.bytes RETURNING key)" raise                             \
    TRI_PG_ANSWER(TRI_PG_IS("g"), "(SELECT count(*) FROM u) +"                 \
                                  " (SELECT count(*) FROM w)")

/* $3 key, $4 name, $5 the due time, or 0: any. */
#define TRI_PG_DO_FORGET(lock, raise)                                          \
    TRI_PG_FENCED(lock)                                                        \
    " d AS (DELETE FROM troupe.reminder WHERE key = $3 AND name = $4"          \
    " AND ($5 = 0 OR due = $5) AND " TRI_PG_IS("g") " RETURNING key)" raise    \
    TRI_PG_ANSWER(TRI_PG_IS("g"), "(SELECT count(*) FROM d)")

/* Rows whose bytes do not fit in the answer have NULL instead. */
#define TRI_PG_ROOM "4194304"
#define TRI_PG_CUT                                                             \
    "CASE WHEN sum(octet_length(bytes)) OVER w - octet_length(bytes)"          \
    " <= " TRI_PG_ROOM " THEN bytes END"

/* name, types of the parameters, text; _RAISE follows the plain form. */
#define TRI_PG_TABLE(X)                                                        \
    X(FENCES, "", "SELECT number, epoch FROM troupe.fences")                   \
    X(ENSURE, "L",                                                             \
      "INSERT INTO troupe.fences SELECT m.number, 0"                           \
      " FROM unnest($1) AS m (number) ORDER BY m.number"                       \
      " ON CONFLICT DO NOTHING")                                               \
    X(FENCE, "88",                                                             \
      "INSERT INTO troupe.fences AS f VALUES ($1, $2)"                         \
      " ON CONFLICT (number) DO UPDATE"                                        \
      " SET epoch = greatest(f.epoch, excluded.epoch)"                         \
      " RETURNING epoch")                                                      \
    X(SAVE, "LILBLB", TRI_PG_DO_SAVE(TRI_PG_SHARED, ""))                       \
    X(SAVE_RAISE, "LILBLB", TRI_PG_DO_SAVE(TRI_PG_ALONE, TRI_PG_DO_RAISE))     \
    X(DELETE, "88b88", TRI_PG_DO_DELETE(TRI_PG_SHARED, ""))                    \
    X(DELETE_RAISE, "88b88",                                                   \
      TRI_PG_DO_DELETE(TRI_PG_ALONE, TRI_PG_RAISED(TRI_PG_IS("m"))))           \
    X(APPEND, "88b8B8", TRI_PG_DO_APPEND(TRI_PG_SHARED, ""))                   \
    X(APPEND_RAISE, "88b8B8",                                                  \
      TRI_PG_DO_APPEND(TRI_PG_ALONE, TRI_PG_RAISED(TRI_PG_ADDED)))             \
    X(TRIM, "88b8", TRI_PG_DO_TRIM(TRI_PG_SHARED, ""))                         \
    X(TRIM_RAISE, "88b8",                                                      \
      TRI_PG_DO_TRIM(TRI_PG_ALONE, TRI_PG_RAISED(TRI_PG_IS("g"))))             \
    X(REMIND, "88bb8b84", TRI_PG_DO_REMIND(TRI_PG_SHARED, ""))                  \
    X(REMIND_RAISE, "88bb8b84",                                                 \
      TRI_PG_DO_REMIND(TRI_PG_ALONE, TRI_PG_RAISED(TRI_PG_IS("g"))))           \
    X(FORGET, "88bb8", TRI_PG_DO_FORGET(TRI_PG_SHARED, ""))                    \
    X(FORGET_RAISE, "88bb8",                                                   \
      TRI_PG_DO_FORGET(TRI_PG_ALONE, TRI_PG_RAISED(TRI_PG_IS("g"))))           \
    X(VERSION, "b", "SELECT version FROM troupe.state WHERE key = $1")         \
    X(LAST, "b", "SELECT last FROM troupe.stream WHERE key = $1")              \
    X(LOAD, "B",                                                               \
      "SELECT k.n, s.version, s.bytes"                                         \
      " FROM unnest($1) WITH ORDINALITY AS k (key, n)"                         \
      " JOIN troupe.state AS s ON s.key = k.key")                              \
    X(READ, "b88",                                                             \
      "SELECT s.last, e.number, e.bytes"                                       \
      " FROM troupe.stream AS s LEFT JOIN LATERAL"                             \
      " (SELECT number, " TRI_PG_CUT " AS bytes FROM"                          \
      " (SELECT number, bytes FROM troupe.event"                               \
      " WHERE key = $1 AND number >= $2"                                       \
      " ORDER BY number LIMIT $3) AS l"                                        \
      " WINDOW w AS (ORDER BY number)) AS e ON true"                           \
      " WHERE s.key = $1 ORDER BY e.number")                                   \
    X(REMINDERS, "488bb8",                                                     \
      "SELECT due, key, name, " TRI_PG_CUT " FROM"                             \
      " (SELECT due, key, name, bytes FROM troupe.reminder"                    \
      " WHERE shard = $1 AND due <= $2 AND (due, key, name) > ($3, $4, $5)"    \
      " ORDER BY due, key, name LIMIT $6) AS l"                                \
      " WINDOW w AS (ORDER BY due, key, name) ORDER BY due, key, name")        \
    X(SCAN, "bbb8",                                                            \
      "(SELECT key FROM troupe.state"                                          \
      " WHERE key >= $1 AND key < $2 AND key > $3 ORDER BY key LIMIT $4)"      \
      " UNION (SELECT key FROM troupe.stream"                                  \
      " WHERE key >= $1 AND key < $2 AND key > $3 ORDER BY key LIMIT $4)"      \
      " ORDER BY key LIMIT $4")

// clang-format on

typedef enum tri_pg_sql {
#define TRI_X(name, types, text) TRI_PG_##name,
    TRI_PG_TABLE(TRI_X)
#undef TRI_X
        TRI_PG_COUNT,
} tri_pg_sql;

#define TRI_PG_PARAMS_MAX 8

#endif
