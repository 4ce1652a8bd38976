/*
 * sqlite_db.c - opening, preparing, explaining.
 *
 * The file: a write-ahead log, `synchronous=FULL` (a commit is on the disk),
 * checkpoints only when asked for. `application_id` says that it is ours,
 * `user_version` which layout it has.
 *
 * Settling. A commit that failed has left its frames in the log, and so has a
 * process that was killed between write and sync: SQLite may find them after
 * the next crash, or shows what a crash can still take. So the writer's
 * connection begins with a commit of its own. It must change a page (a value
 * set to itself writes nothing): the new frame stands where the first one of
 * the failed commit did, and the sync covers all before it.
 *
 * Waiting for other processes: SQLite's own back-off sleeps longer and longer,
 * so whoever came first loses against those who come fresh; one of four
 * processes got all locks. Ours naps for a random 50 to 200 microseconds every
 * time, so all have the same chance.
 */
#include "storage/sqlite_db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"

#define APPLICATION_ID 0x54525053  // "TRPS"
#define LAYOUT         4
#define LAYOUT_OLDEST  2  // that can be brought to ours

#define NAP_MIN     INT64_C(50000)
#define NAP_SPREAD  UINT64_C(150000)
#define CACHE_KIB   "32768"  // a journal at twice its limit
#define NUMBER_SIZE 24

static const char schema[] =
    "CREATE TABLE mark (id INTEGER PRIMARY KEY CHECK (id = 1),"
    " folded INTEGER NOT NULL, settled INTEGER NOT NULL DEFAULT 0);"
    "INSERT INTO mark VALUES (1, 0, 0);"
    // In order of arrival. bytes is NULL when the state was deleted.
    "CREATE TABLE journal (id INTEGER PRIMARY KEY, key TEXT NOT NULL,"
    " version INTEGER NOT NULL, bytes BLOB, sum INTEGER NOT NULL);"
    "CREATE TABLE state (key TEXT PRIMARY KEY, version INTEGER NOT NULL,"
    " bytes BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE fence (shard INTEGER PRIMARY KEY, epoch INTEGER NOT NULL);"
    // upto is the last event of the same append. prev is the sum of the event
    // before, 0 for the first; NULL: of an older layout, which did not say.
    "CREATE TABLE event (key TEXT NOT NULL, number INTEGER NOT NULL,"
    " bytes BLOB NOT NULL, sum INTEGER NOT NULL, upto INTEGER, prev INTEGER,"
    " PRIMARY KEY (key, number)) WITHOUT ROWID;"
    "CREATE TABLE reminder (key TEXT NOT NULL, name TEXT NOT NULL,"
    " shard INTEGER NOT NULL, due INTEGER NOT NULL, bytes BLOB NOT NULL,"
    " sum INTEGER NOT NULL,"
    " PRIMARY KEY (key, name)) WITHOUT ROWID;"
    "CREATE INDEX reminder_due ON reminder (shard, due, key, name);";

/*
 * From a layout to ours. Events of layout 2 look like states, with the same
 * sum: a page of the one at the place of the other would be taken for it. So
 * they become appends of one event each; layout 3 had left them as they were.
 */
#define FROM_3                                                                 \
    "ALTER TABLE event ADD COLUMN prev INTEGER;"                               \
    "UPDATE event SET sum = troupe_sum(key, number, bytes, sum),"              \
    " upto = number WHERE upto IS NULL;"
#define FROM_2                                                                 \
    "ALTER TABLE mark ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;"          \
    "ALTER TABLE event ADD COLUMN upto INTEGER;" FROM_3

static const char *const upgrades[LAYOUT] = {[2] = FROM_2, [3] = FROM_3};

static const char *const sql_texts[] = {
#define TRI_X(name, text) [TRI_SQL_##name] = (text),
    TRI_SQL_TABLE(TRI_X)
#undef TRI_X
};

void tri_sqlite_nap(tri_world *world, tr_nanos span)
{
    _Atomic(uint32_t) never = 0;  // nobody changes it, so only time ends it

    (void)world->ops->park(world, &never, 0, span);
}

/* ---- what went wrong ---- */

static tr_err err_of(int code, tri_store_fault *fault)
{
    *fault = TRI_STORE_FAULT_IO;
    if (code == SQLITE_NOMEM || code == SQLITE_IOERR_NOMEM) {
        *fault = TRI_STORE_FAULT_UNAVAILABLE;
        return TR_ENOMEM;
    }
    switch (code & 0xff) {
    case SQLITE_IOERR:
    case SQLITE_FULL:
    case SQLITE_CANTOPEN:
        return TR_EIO;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        *fault = TRI_STORE_FAULT_UNAVAILABLE;
        return TR_ESTORAGE;
    default:
        *fault = TRI_STORE_FAULT_OPERATION_FAILED;
        return TR_ESTORAGE;
    }
}

/* A file that did not open: only what is wrong is said to be. */
static const char *open_advice_of(const tri_sqlite_db *db)
{
    tr_err err =
        db->handle != NULL ? (tr_err)sqlite3_system_errno(db->handle) : TR_OK;

    switch ((int)err) {
    case TR_OK:
        return NULL;
    case TR_ENOENT:
        return "the folder must exist and be writable";
    case TR_EIO:
        // A simulated disk lets everybody write.
        return db->file->world->ops->has_threads
                   ? "the file and its folder must be writable, and the disk "
                     "in order"
                   : tr_strerror(err);
    default:
        return tr_strerror(err);
    }
}

/* What a person can do about it; NULL: nothing more to say. */
static const char *advice_of(const tri_sqlite_db *db, int code)
{
    switch (code & 0xff) {
    case SQLITE_CORRUPT:
        return "the file is damaged; restore a backup, or save what is left "
               "with: sqlite3 FILE .recover";
    case SQLITE_NOTADB:
        return "this is not an SQLite file; choose another name, or restore "
               "a backup";
    case SQLITE_BUSY:
        return "another process keeps the file locked; end it";
    case SQLITE_CANTOPEN:
        return open_advice_of(db);
    case SQLITE_READONLY:
        return "the file and its folder must be writable";
    case SQLITE_FULL:
        return "the disk is full";
    default:
        return NULL;
    }
}

static void explain(const tri_sqlite_db *db, tri_sqlite_fault *why, int code,
                    const char *message)
{
    const char *advice = advice_of(db, code);

    why->err = err_of(code, &why->fault);
    (void)snprintf(why->text, sizeof(why->text), "%s%s%s", message,
                   advice == NULL ? "" : ": ", advice == NULL ? "" : advice);
}

void tri_sqlite_db_why(tri_sqlite_db *db, int code, tri_sqlite_fault *why)
{
    int own = sqlite3_extended_errcode(db->handle);

    TRI_CHECK(db->handle != NULL);
    if (own == SQLITE_OK || own == SQLITE_ROW || own == SQLITE_DONE) {
        // SQLite is well: it was our part of the work that failed.
        explain(db, why, code, sqlite3_errstr(code));
    } else {
        explain(db, why, own, sqlite3_errmsg(db->handle));
    }
}

/* ---- statements ---- */

sqlite3_stmt *tri_sqlite_db_prepare(tri_sqlite_db *db, tri_sql which)
{
    sqlite3_stmt **statement = &db->statements[which];

    TRI_CHECK(db->handle != NULL);
    if (*statement == NULL) {
        (void)sqlite3_prepare_v3(db->handle, sql_texts[which], -1,
                                 SQLITE_PREPARE_PERSISTENT, statement, NULL);
    }
    return *statement;
}

int tri_sqlite_step(sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);
    int reset = sqlite3_reset(statement);

    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        return code;
    }
    return reset == SQLITE_OK ? code : reset;
}

int tri_sqlite_db_run(tri_sqlite_db *db, tri_sql which)
{
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, which);

    if (statement == NULL) {
        return sqlite3_extended_errcode(db->handle);
    }
    int code = tri_sqlite_step(statement);
    return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : code;
}

int tri_sqlite_number(sqlite3_stmt *statement, uint64_t *out)
{
    int code = sqlite3_step(statement);

    if (code == SQLITE_ROW &&
        sqlite3_column_type(statement, 0) != SQLITE_NULL) {
        if (sqlite3_column_int64(statement, 0) < 0) {
            code = SQLITE_CORRUPT;  // we write none of these
        } else {
            *out = (uint64_t)sqlite3_column_int64(statement, 0);
        }
    }
    return tri_sqlite_end(statement, code);
}

int tri_sqlite_end(sqlite3_stmt *statement, int code)
{
    int reset = sqlite3_reset(statement);

    return code == SQLITE_ROW || code == SQLITE_DONE ? reset : code;
}

bool tri_sqlite_add_row(tri_store_op *op, const tri_store_row *row,
                        uint32_t *left)
{
    if (*left == 0) {
        op->more = true;
        return false;
    }
    (*left)--;
    return tri_store_add_row(op, row);
}

/* Binding fails only for a wrong index or for more than a gigabyte. */
void tri_sqlite_bind(sqlite3_stmt *statement, int at, uint64_t number)
{
    TRI_CHECK(number <= TRI_STORE_NUMBER_MAX);
    TRI_CHECK(sqlite3_bind_int64(statement, at, (sqlite3_int64)number) ==
              SQLITE_OK);
}

void tri_sqlite_bind_text(sqlite3_stmt *statement, int at, tri_store_bytes text)
{
    // An empty text must be a text, not NULL: rows are compared with it.
    TRI_CHECK(sqlite3_bind_text(statement, at, text.size == 0 ? "" : text.at,
                                (int)text.size, SQLITE_STATIC) == SQLITE_OK);
}

void tri_sqlite_bind_bytes(sqlite3_stmt *statement, int at, const void *bytes,
                           size_t size)
{
    TRI_CHECK(sqlite3_bind_blob(statement, at, size == 0 ? "" : bytes,
                                (int)size, SQLITE_STATIC) == SQLITE_OK);
}

tri_store_bytes tri_sqlite_column(sqlite3_stmt *statement, int at)
{
    // The order matters: column_bytes converts what column_blob gave.
    const void *bytes = sqlite3_column_blob(statement, at);

    return (tri_store_bytes){bytes,
                             (size_t)sqlite3_column_bytes(statement, at)};
}

uint64_t tri_sqlite_sum_hashed(uint64_t key_hash, uint64_t number,
                               tri_store_bytes bytes)
{
    uint64_t sum = tri_hash_mix(key_hash ^ number);

    sum = tri_hash_mix(sum ^ tri_hash_bytes(bytes.at, bytes.size));
    return sum & TRI_STORE_NUMBER_MAX;
}

uint64_t tri_sqlite_sum(tri_store_bytes key, uint64_t number,
                        tri_store_bytes bytes)
{
    return tri_sqlite_sum_hashed(tri_hash_bytes(key.at, key.size), number,
                                 bytes);
}

uint64_t tri_sqlite_event_sum(tri_store_bytes key, uint64_t number,
                              uint64_t upto, tri_store_bytes bytes)
{
    uint64_t sum = tri_sqlite_sum(key, number, bytes);

    return tri_hash_mix(sum ^ upto) & TRI_STORE_NUMBER_MAX;
}

uint64_t tri_sqlite_chain_sum(uint64_t sum, uint64_t prev)
{
    return tri_hash_mix(sum ^ tri_hash_mix(prev)) & TRI_STORE_NUMBER_MAX;
}

bool tri_sqlite_sum_fits(sqlite3_stmt *statement, int at, uint64_t sum)
{
    return sqlite3_column_type(statement, at) == SQLITE_INTEGER &&
           (uint64_t)sqlite3_column_int64(statement, at) == sum;
}

/* ---- opening ---- */

static int on_busy(void *arg, int count)
{
    tri_sqlite_db *db = arg;
    tri_world *world = db->file->world;
    tr_nanos now = world->ops->mono(world);

    if (count == 0) {
        db->busy_until = now + db->busy_limit;
    }
    if (now >= db->busy_until) {
        return 0;
    }
    uint64_t more = world->ops->random(world) % NAP_SPREAD;
    tri_sqlite_nap(world, NAP_MIN + (tr_nanos)more);
    return 1;
}

static int run(tri_sqlite_db *db, const char *sql)
{
    return sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
}

static int ask(tri_sqlite_db *db, const char *sql, uint64_t *out)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);

    *out = 0;
    if (code == SQLITE_OK) {
        code = tri_sqlite_number(statement, out);
    }
    sqlite3_finalize(statement);
    return code;
}

/* Switching the log on does not call the busy handler in every case. */
static int use_log(tri_sqlite_db *db)
{
    int code = run(db, "PRAGMA journal_mode=WAL");

    for (int i = 0; (code & 0xff) == SQLITE_BUSY && on_busy(db, i); i++) {
        code = run(db, "PRAGMA journal_mode=WAL");
    }
    return code;
}

static int configure(tri_sqlite_db *db)
{
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_handler(db->handle, on_busy, db);
    int code = use_log(db);
    if (code == SQLITE_OK) {
        code = run(db, "PRAGMA synchronous=FULL;"
                       "PRAGMA wal_autocheckpoint=0;"
                       "PRAGMA temp_store=MEMORY;"
                       "PRAGMA cache_size=-" CACHE_KIB);
    }
    return code;
}

/*
 * troupe_sum(key, number, bytes, sum): the sum of an event of layout 2 as ours.
 * One that does not fit becomes one that never does: damage stays damage.
 */
static void give_sum(sqlite3_context *context, int count,
                     sqlite3_value **values)
{
    tri_store_bytes key = {sqlite3_value_text(values[0]), 0};
    uint64_t number = (uint64_t)sqlite3_value_int64(values[1]);
    tri_store_bytes bytes = {sqlite3_value_blob(values[2]), 0};
    uint64_t sum = (uint64_t)sqlite3_value_int64(values[3]);

    (void)count;
    key.size = (size_t)sqlite3_value_bytes(values[0]);
    bytes.size = (size_t)sqlite3_value_bytes(values[2]);
    bool fits = sum == tri_sqlite_sum(key, number, bytes);
    uint64_t ours = tri_sqlite_event_sum(key, number, number, bytes);
    sqlite3_result_int64(context, fits ? (sqlite3_int64)ours : -1);
}

/* Makes the tables, or changes them; either ends with our layout. */
static int make_tables(tri_sqlite_db *db, const char *sql)
{
    char marks[sizeof("PRAGMA application_id=;PRAGMA user_version=;") +
               2 * NUMBER_SIZE];

    (void)snprintf(marks, sizeof(marks),
                   "PRAGMA application_id=%d;PRAGMA user_version=%d;",
                   APPLICATION_ID, LAYOUT);
    int code = sqlite3_create_function_v2(db->handle, "troupe_sum", 4,
                                          SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                          NULL, give_sum, NULL, NULL, NULL);
    if (code == SQLITE_OK) {
        code = run(db, sql);
    }
    return code == SQLITE_OK ? run(db, marks) : code;
}

static void refuse(tri_sqlite_fault *why, uint64_t application, uint64_t layout)
{
    why->err = TR_ESTORAGE;
    why->fault = TRI_STORE_FAULT_OPERATION_FAILED;
    if (application != APPLICATION_ID) {
        (void)snprintf(why->text, sizeof(why->text),
                       "the file belongs to another program; choose another "
                       "name");
    } else {
        (void)snprintf(why->text, sizeof(why->text),
                       "the file has layout %llu and this Troupe knows %d to "
                       "%d; use %s",
                       (unsigned long long)layout, LAYOUT_OLDEST, LAYOUT,
                       layout > LAYOUT
                           ? "the Troupe that wrote it, or a newer one"
                           : "the Troupe that wrote it, or begin a new file");
    }
}

/*
 * Whose file it is, and what makes it ours: SQL, or NULL if it is. *why is set
 * if it never can be, and SQLITE_OK returned.
 */
static int inspect(tri_sqlite_db *db, const char **sql, tri_sqlite_fault *why)
{
    uint64_t application = 0, layout = 0, tables = 0;
    int code = ask(db, "PRAGMA application_id", &application);

    *sql = NULL;
    if (code == SQLITE_OK) {
        code = ask(db, "PRAGMA user_version", &layout);
    }
    if (code == SQLITE_OK) {
        code = ask(db, "SELECT count(*) FROM sqlite_schema", &tables);
    }
    if (code != SQLITE_OK) {
        return code;
    }
    if (tables == 0 && application == 0 && layout == 0) {
        *sql = schema;
    } else if (application != APPLICATION_ID || layout > LAYOUT ||
               layout < LAYOUT_OLDEST) {
        refuse(why, application, layout);
    } else if (layout < LAYOUT) {
        *sql = upgrades[layout];
    }
    return SQLITE_OK;
}

/* Under the writer's lock, so that only one process makes the tables. */
static int prepare_file(tri_sqlite_db *db, tri_sqlite_fault *why)
{
    const char *sql = NULL;
    int code = run(db, "BEGIN IMMEDIATE");

    if (code != SQLITE_OK) {
        return code;
    }
    code = inspect(db, &sql, why);
    if (code == SQLITE_OK && sql != NULL) {
        code = make_tables(db, sql);
    }
    if (code == SQLITE_OK && why->err == TR_OK) {
        code = tri_sqlite_db_run(db, TRI_SQL_SETTLE);
    }
    return code == SQLITE_OK ? run(db, "COMMIT") : code;
}

/*
 * A file that is not ours must not even be switched to our kind of log, so it
 * is inspected before and, as another process may have made it since, again
 * under the lock.
 */
static int open_checked(tri_sqlite_db *db, tri_sqlite_fault *why)
{
    const char *sql = NULL;

    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_handler(db->handle, on_busy, db);
    // One snapshot: another process may be making the tables.
    int code = run(db, "BEGIN");
    if (code == SQLITE_OK) {
        code = inspect(db, &sql, why);
    }
    if (code == SQLITE_OK) {
        code = run(db, "COMMIT");
    }
    if (code == SQLITE_OK && why->err == TR_OK) {
        code = configure(db);
        if (code == SQLITE_OK) {
            code = prepare_file(db, why);
        }
    }
    return code;
}

tr_err tri_sqlite_db_open(tri_sqlite_db *db, const tri_sqlite_file *file,
                          bool create, tri_sqlite_fault *why)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;

    TRI_CHECK(db->handle == NULL);
    memset(db, 0, sizeof(*db));
    memset(why, 0, sizeof(*why));
    db->file = file;
    db->busy_limit = file->busy_limit;
    int code = sqlite3_open_v2(file->path, &db->handle,
                               flags | (create ? SQLITE_OPEN_CREATE : 0),
                               tri_sqlite_vfs_name(file->vfs));
    if (code == SQLITE_OK) {
        code = create ? open_checked(db, why) : configure(db);
    }
    if (code != SQLITE_OK) {
        explain(db, why, code,
                db->handle == NULL ? sqlite3_errstr(code)
                                   : sqlite3_errmsg(db->handle));
    }
    if (why->err != TR_OK) {
        tri_sqlite_db_close(db);
    }
    return why->err;
}

void tri_sqlite_db_close(tri_sqlite_db *db)
{
    for (size_t i = 0; i < TRI_COUNT_OF(db->statements); i++) {
        sqlite3_finalize(db->statements[i]);
        db->statements[i] = NULL;
    }
    TRI_CHECK(sqlite3_close(db->handle) == SQLITE_OK);
    db->handle = NULL;
}

/* ---- the journal's rows ---- */

static int put_row(tri_journal *journal, sqlite3_stmt *statement)
{
    tri_store_bytes key = tri_sqlite_column(statement, 1);
    tri_store_bytes bytes = tri_sqlite_column(statement, 3);
    uint64_t version = (uint64_t)sqlite3_column_int64(statement, 2);

    if (sqlite3_column_int64(statement, 0) <= 0 ||
        !tri_sqlite_sum_fits(statement, 4,
                             tri_sqlite_sum(key, version, bytes))) {
        return SQLITE_CORRUPT;
    }
    uint64_t row = (uint64_t)sqlite3_column_int64(statement, 0);
    return tri_journal_put(journal, key, row, version, bytes) == TR_OK
               ? SQLITE_OK
               : SQLITE_NOMEM;
}

static int put_rows(tri_sqlite_db *db, tri_journal *journal, uint64_t known)
{
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, TRI_SQL_JOURNAL_AFTER);
    int code = SQLITE_OK;

    if (statement == NULL) {
        return sqlite3_extended_errcode(db->handle);
    }
    tri_sqlite_bind(statement, 1, known);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        code = put_row(journal, statement);
        if (code != SQLITE_OK) {
            sqlite3_reset(statement);
            return code;
        }
    }
    int reset = sqlite3_reset(statement);
    return code == SQLITE_DONE ? reset : code;
}

int tri_sqlite_db_sync(tri_sqlite_db *db, tri_journal *journal,
                       uint64_t *folded, uint64_t *last)
{
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, TRI_SQL_MARKS);

    *folded = 0;
    *last = 0;
    if (statement == NULL) {
        return sqlite3_extended_errcode(db->handle);
    }
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        *folded = (uint64_t)sqlite3_column_int64(statement, 0);
        *last = (uint64_t)sqlite3_column_int64(statement, 1);
        if (*folded > TRI_STORE_NUMBER_MAX || *last > TRI_STORE_NUMBER_MAX) {
            code = SQLITE_CORRUPT;
        }
    }
    int reset = sqlite3_reset(statement);
    if (code != SQLITE_ROW) {
        return code == SQLITE_DONE ? SQLITE_CORRUPT : code;
    }
    uint64_t known = TRI_MAX(tri_journal_known(journal), *folded);
    if (reset != SQLITE_OK || *last <= known) {
        return reset;
    }
    code = put_rows(db, journal, known);
    if (code == SQLITE_OK) {
        tri_journal_set_known(journal, *last);
    }
    return code;
}
