/*
 * postgres_db.c - connecting, preparing statements, waiting for results, and
 * describing errors.
 *
 * libpq opens its own sockets, so this file and the two threads that use it
 * cannot run in the simulator (docs/design/0007-storage.md).
 *
 * The statements of postgres_sql.h need these settings of the session:
 * transactions are `read committed`, so that a write that had to wait for
 * another one reads the row again; commits wait for the disk; plans are made
 * once and use indexes.
 */
#include "storage/postgres_db.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

#define LAYOUT          1
#define SERVER_MIN      120000  // 12: WITH ... AS MATERIALIZED
#define CONNECT_SECONDS "5"
#define SQLSTATE_SIZE   5

static const struct {
    const char *name, *types, *text;
} statements[] = {
#define TRI_X(name, types, text) [TRI_PG_##name] = {#name, types, text},
    TRI_PG_TABLE(TRI_X)
#undef TRI_X
};

/* Its lock is taken only to make the tables, by one client at a time. */
static const char schema[] =
    "SELECT pg_advisory_xact_lock(1414680659, 1);"
    "CREATE SCHEMA IF NOT EXISTS troupe;"
    "CREATE TABLE IF NOT EXISTS troupe.mark"
    " (id int4 PRIMARY KEY CHECK (id = 1), layout int4 NOT NULL);"
    "INSERT INTO troupe.mark VALUES (1, 1) ON CONFLICT DO NOTHING;"
    // fillfactor: free space in a page lets an update stay there, which then
    // need not change the index.
    "CREATE TABLE IF NOT EXISTS troupe.state (key bytea PRIMARY KEY,"
    " version int8 NOT NULL, bytes bytea NOT NULL) WITH (fillfactor = 70);"
    "CREATE TABLE IF NOT EXISTS troupe.fences"
    " (number int8 PRIMARY KEY, epoch int8 NOT NULL) WITH (fillfactor = 50);"
    "CREATE TABLE IF NOT EXISTS troupe.stream (key bytea PRIMARY KEY,"
    " last int8 NOT NULL) WITH (fillfactor = 70);"
    "CREATE TABLE IF NOT EXISTS troupe.event (key bytea NOT NULL,"
    " number int8 NOT NULL, bytes bytea NOT NULL, PRIMARY KEY (key, number));"
    "CREATE TABLE IF NOT EXISTS troupe.reminder (key bytea NOT NULL,"
    " name bytea NOT NULL, shard int4 NOT NULL, due int8 NOT NULL,"
    " bytes bytea NOT NULL, PRIMARY KEY (key, name));"
    "CREATE INDEX IF NOT EXISTS reminder_due"
    " ON troupe.reminder (shard, due, key, name);";

/*
 * The planner knows neither the lengths of arrays nor the size that new tables
 * will have, and a plan that was made for an empty table is bad for a full
 * one. So only plans that use indexes are allowed. The planner gives disabled
 * plans a high cost, which would start the compiler of plans (jit), so that is
 * off.
 */
static const char session[] =
    "SET default_transaction_isolation = 'read committed';"
    "SET lock_timeout = '5s';"
    "SET client_min_messages = warning;"
    "SET plan_cache_mode = force_generic_plan;"
    "SET enable_seqscan = off; SET enable_bitmapscan = off;"
    "SET enable_hashjoin = off; SET enable_mergejoin = off;"
    "SET jit = off; SET work_mem = '64MB';"
    "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') = 'off'";

/* ---- what went wrong ---- */

/* Sets the text to a message of libpq, in one line, and the advice. */
static void set_text(tri_pg_fault *why, const char *message, const char *advice)
{
    char line[TRI_PG_TEXT_SIZE];
    size_t used = 0;

    for (; *message != '\0' && used < sizeof(line) - 1; message++) {
        bool is_space = strchr(" \t\n", *message) != NULL;
        if (!is_space) {
            line[used++] = *message;
        } else if (used > 0 && line[used - 1] != ' ') {
            line[used++] = ' ';
        }
    }
    while (used > 0 && line[used - 1] == ' ') {
        used--;
    }
    line[used] = '\0';
    size_t room = sizeof(why->text) - 3 - (advice == NULL ? 0 : strlen(advice));
    (void)snprintf(why->text, sizeof(why->text), "%.*s%s%s", (int)room, line,
                   advice == NULL ? "" : ": ", advice == NULL ? "" : advice);
}

static void no_memory(tri_pg_fault *why)
{
    *why = (tri_pg_fault){.err = TR_ENOMEM,
                          .fault = TRI_STORE_FAULT_UNAVAILABLE,
                          .text = "out of memory"};
}

/* What SQLSTATEs that begin with `prefix` mean. */
typedef struct known_state {
    const char *prefix;
    tr_err err;
    tri_store_fault fault;
    bool is_final;
    const char *advice;
} known_state;

static const known_state known_states[] = {
    {"53100", TR_EIO, TRI_STORE_FAULT_IO, false, "the server's disk is full"},
    {"53", TR_ESTORAGE, TRI_STORE_FAULT_UNAVAILABLE, false, NULL},
    {"58", TR_EIO, TRI_STORE_FAULT_IO, false, NULL},
    {"XX", TR_EIO, TRI_STORE_FAULT_IO, false,
     "the database may be damaged; look at the server's log"},
    {"55P03", TR_ESTORAGE, TRI_STORE_FAULT_UNAVAILABLE, false,
     "another client keeps a row locked"},
    {"40P01", TR_ESTORAGE, TRI_STORE_FAULT_UNAVAILABLE, false,
     "another client writes the same keys"},
    {"57", TR_ESTORAGE, TRI_STORE_FAULT_UNAVAILABLE, false, NULL},
    {"08", TR_ESTORAGE, TRI_STORE_FAULT_UNAVAILABLE, false, NULL},
    {"25006", TR_ESTORAGE, TRI_STORE_FAULT_UNAVAILABLE, false,
     "this server only reads; connect to the primary"},
    {"42501", TR_ESTORAGE, TRI_STORE_FAULT_OPERATION_FAILED, true,
     "the user needs CREATE on the database and, if it exists, all rights in "
     "the schema troupe"},
    {"42P01", TR_ESTORAGE, TRI_STORE_FAULT_OPERATION_FAILED, true,
     "the tables in schema troupe are not complete; restore a backup, or drop "
     "the schema to begin from nothing"},
    {"", TR_ESTORAGE, TRI_STORE_FAULT_OPERATION_FAILED, false, NULL},
};

void tri_pg_explain(const PGresult *result, tri_pg_fault *why)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const known_state *it = known_states;

    while (strncmp(state == NULL ? "" : state, it->prefix,
                   strlen(it->prefix)) != 0) {
        it++;  // the last prefix fits every state
    }
    *why = (tri_pg_fault){
        .err = it->err, .fault = it->fault, .is_final = it->is_final};
    set_text(why, text != NULL ? text : PQresultErrorMessage(result),
             it->advice);
}

/* Describes a lost connection. text: NULL, or instead of libpq's message. */
static void explain_lost(tri_pg_db *db, const char *text, tri_pg_fault *why)
{
    *why = (tri_pg_fault){.err = TR_ESTORAGE,
                          .fault = TRI_STORE_FAULT_UNAVAILABLE};
    set_text(why, text != NULL ? text : PQerrorMessage(db->conn), NULL);
}

void tri_pg_explain_unsent(tri_pg_db *db, tri_pg_fault *why)
{
    if (PQstatus(db->conn) == CONNECTION_OK) {
        no_memory(why);
    } else {
        explain_lost(db, NULL, why);
    }
}

/* ---- waiting ---- */

/* Waits for the socket. Returns false after server->silence. */
static bool wait_socket(tri_pg_db *db, bool writing)
{
    struct pollfd it = {
        .fd = PQsocket(db->conn),
        .events = (short)(POLLIN | (writing ? POLLOUT : 0)),
    };
    int count;

    if (it.fd < 0) {
        return false;  // libpq has closed it
    }
    do {
        count = poll(&it, 1, (int)(db->server->silence / TR_MS(1)));
    } while (count < 0 && errno == EINTR);
    return count > 0;
}

bool tri_pg_flush(tri_pg_db *db)
{
    // After a failure libpq has nothing left to write, so this is true as well:
    // the outcome of the batch is then unknown.
    db->all_sent = PQflush(db->conn) == 0;
    return db->all_sent;
}

bool tri_pg_next(tri_pg_db *db, PGresult **out, tri_pg_fault *why)
{
    TRI_CHECK(db->conn != NULL);
    *out = NULL;
    while (!db->ended) {
        bool is_written = tri_pg_flush(db);
        if (!PQisBusy(db->conn)) {
            break;
        }
        if (!wait_socket(db, !is_written)) {
            explain_lost(db, "the server does not answer", why);
            return false;
        }
        // Results that came before the end can still be read.
        // PQconsumeInput also writes, and does not tell whether it wrote all.
        db->ended = PQconsumeInput(db->conn) == 0;
        db->all_sent = db->all_sent || db->ended;
    }
    *out = PQgetResult(db->conn);  // does not wait: PQisBusy was false
    if (*out == NULL) {
        bool is_over = db->ended && db->was_null;
        db->was_null = true;
        if (is_over) {
            explain_lost(db, NULL, why);
        }
        return !is_over;
    }
    db->was_null = false;
    const char *severity =
        PQresultErrorField(*out, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (PQresultStatus(*out) == PGRES_FATAL_ERROR &&
        (severity == NULL || strcmp(severity, "ERROR") != 0)) {
        // FATAL, PANIC or an error of libpq: no result will follow.
        explain_lost(db, PQresultErrorField(*out, PG_DIAG_MESSAGE_PRIMARY),
                     why);
        PQclear(*out);
        *out = NULL;
        return false;
    }
    return true;
}

bool tri_pg_is_alive(tri_pg_db *db)
{
    TRI_CHECK(db->conn != NULL);
    struct pollfd it = {.fd = PQsocket(db->conn), .events = POLLIN};

    while (!db->ended && poll(&it, 1, 0) > 0) {
        db->ended = PQconsumeInput(db->conn) == 0;
        (void)PQisBusy(db->conn);  // parses the input: see on_notice
    }
    return !db->ended && PQstatus(db->conn) == CONNECTION_OK;
}

bool tri_pg_send(tri_pg_db *db, tri_pg_sql sql, tri_pg_params *params)
{
    static const int binary[TRI_PG_PARAMS_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};

    TRI_CHECK(sql < TRI_PG_COUNT);
    TRI_CHECK(db->conn != NULL);
    db->all_sent = false;
    return tri_pg_finish(params) &&
           PQsendQueryPrepared(db->conn, statements[sql].name, params->count,
                               params->values, params->sizes, binary, 1) == 1;
}

bool tri_pg_send_sync(tri_pg_db *db)
{
    TRI_CHECK(db->conn != NULL);
    return PQpipelineSync(db->conn) == 1;
}

/* ---- opening; before pipeline mode ---- */

/* Runs SQL. *out is the first result, which the caller clears. */
static tr_err run(tri_pg_db *db, const char *sql, PGresult **out,
                  tri_pg_fault *why)
{
    PGresult *result;

    *out = NULL;
    *why = (tri_pg_fault){0};
    if (PQsendQuery(db->conn, sql) == 0) {
        explain_lost(db, NULL, why);
        return why->err;
    }
    for (;;) {
        if (!tri_pg_next(db, &result, why)) {
            break;
        }
        if (result == NULL) {
            break;
        }
        if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
            tri_pg_explain(result, why);
        }
        if (*out == NULL) {
            *out = result;
        } else {
            PQclear(result);
        }
    }
    if (why->err != TR_OK) {
        PQclear(*out);
        *out = NULL;
    }
    return why->err;
}

static tr_err run_all(tri_pg_db *db, const char *sql, tri_pg_fault *why)
{
    PGresult *result;
    tr_err err = run(db, sql, &result, why);

    PQclear(result);
    return err;
}

/* Reads the first column of the first row; -1 if there is no row. */
static tr_err read_number(tri_pg_db *db, const char *sql, long long *out,
                          tri_pg_fault *why)
{
    PGresult *result;
    tr_err err = run(db, sql, &result, why);

    *out = -1;
    if (err == TR_OK && PQntuples(result) > 0) {
        // If it is no number, *out stays -1. NOLINTNEXTLINE(cert-err34-c)
        (void)sscanf(PQgetvalue(result, 0, 0), "%lld", out);
    }
    PQclear(result);
    return err;
}

static tr_err refuse(tri_pg_fault *why, const char *text)
{
    *why = (tri_pg_fault){.err = TR_ESTORAGE,
                          .fault = TRI_STORE_FAULT_OPERATION_FAILED,
                          .is_final = true};
    set_text(why, text, NULL);
    return why->err;
}

static tr_err check_layout(tri_pg_db *db, tri_pg_fault *why)
{
    char text[TRI_PG_TEXT_SIZE];
    long long layout;

    TR_TRY(read_number(db, "SELECT layout FROM troupe.mark WHERE id = 1",
                       &layout, why));
    if (layout == LAYOUT) {
        return TR_OK;
    }
    (void)snprintf(text, sizeof(text),
                   "the tables in database %s have layout %lld, this Troupe "
                   "knows %d: %s",
                   PQdb(db->conn), layout, LAYOUT,
                   layout > LAYOUT ? "use the newer Troupe that wrote them"
                                   : "they are not ours, choose another "
                                     "database");
    return refuse(why, text);
}

static tr_err check_tables(tri_pg_db *db, bool create, tri_pg_fault *why)
{
    // One query: between two queries another client may make the tables.
    enum { NOTHING, OURS, OTHERS };
    long long found;

    TR_TRY(read_number(db,
                       "SELECT CASE WHEN bool_or(tablename = 'mark') THEN 1"
                       " WHEN count(*) > 0 THEN 2 ELSE 0 END"
                       " FROM pg_catalog.pg_tables"
                       " WHERE schemaname = 'troupe'",
                       &found, why));
    if (found != OURS) {
        if (found == OTHERS) {
            return refuse(why, "the schema troupe in this database belongs "
                               "to another program: choose another database");
        }
        if (!create) {
            return refuse(why, "the schema troupe is gone from the database: "
                               "restore a backup and start again");
        }
        TR_TRY(run_all(db, schema, why));
    }
    return check_layout(db, why);
}

/* Translates the types of postgres_sql.h. Returns how many there are. */
static int types_of(const char *codes, Oid types[TRI_PG_PARAMS_MAX])
{
    int count = 0;

    for (; codes[count] != '\0'; count++) {
        TRI_CHECK(count < TRI_PG_PARAMS_MAX);
        switch (codes[count]) {
        case '4':
            types[count] = TRI_PG_OID_INT4;
            break;
        case '8':
            types[count] = TRI_PG_OID_INT8;
            break;
        case 'b':
            types[count] = TRI_PG_OID_BYTEA;
            break;
        case 'I':
            types[count] = 1007;  // int4[]
            break;
        case 'L':
            types[count] = 1016;  // int8[]
            break;
        default:
            TRI_CHECK(codes[count] == 'B');
            types[count] = 1001;  // bytea[]
            break;
        }
    }
    return count;
}

static tr_err prepare_all(tri_pg_db *db, tri_pg_fault *why)
{
    PGresult *result = NULL;
    bool is_done = false;

    for (size_t i = 0; i < TRI_COUNT_OF(statements); i++) {
        Oid types[TRI_PG_PARAMS_MAX];
        int count = types_of(statements[i].types, types);
        if (PQsendPrepare(db->conn, statements[i].name, statements[i].text,
                          count, types) == 0) {
            explain_lost(db, NULL, why);
            return why->err;
        }
    }
    if (!tri_pg_send_sync(db)) {
        explain_lost(db, NULL, why);
        return why->err;
    }
    while (!is_done) {
        if (!tri_pg_next(db, &result, why)) {
            return why->err;
        }
        is_done = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        if (result != NULL && PQresultStatus(result) == PGRES_FATAL_ERROR) {
            tri_pg_explain(result, why);
        }
        PQclear(result);
    }
    return why->err;
}

/*
 * Receives notices, which libpq would write to stderr. When the server ends a
 * session that has no query running, the reason comes as a notice as well.
 */
static void on_notice(void *arg, const PGresult *result)
{
    tri_pg_db *db = arg;
    const char *severity =
        PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);

    if (severity != NULL && strcmp(severity, "FATAL") == 0) {
        db->ended = true;
    }
}

static tr_err explain_not_connected(tri_pg_db *db, tri_pg_fault *why)
{
    const char *advice = "start the server, or correct host, port, dbname and "
                         "user of the connection";

    if (db->conn == NULL) {
        no_memory(why);
        return why->err;
    }
    *why = (tri_pg_fault){.err = TR_ESTORAGE,
                          .fault = TRI_STORE_FAULT_UNAVAILABLE};
    if (PQconnectionNeedsPassword(db->conn)) {
        why->is_final = true;
        advice = "give it as password=, PGPASSWORD or in ~/.pgpass";
    } else if (PQconnectionUsedPassword(db->conn)) {
        why->is_final = true;
        advice = "correct user, password or dbname of the connection";
    }
    set_text(why, PQerrorMessage(db->conn), advice);
    return why->err;
}

static tr_err connect_to(tri_pg_db *db, tri_pg_fault *why)
{
    // A later value replaces an earlier one: the names before dbname, which
    // stands for conninfo, are defaults.
    const char *const names[] = {
        "connect_timeout", "target_session_attrs", "fallback_application_name",
        "dbname",          "client_encoding",      NULL};
    const char *const values[] = {CONNECT_SECONDS,      "read-write", "troupe",
                                  db->server->conninfo, "UTF8",       NULL};

    db->conn = PQconnectdbParams(names, values, 1);
    if (db->conn == NULL || PQstatus(db->conn) != CONNECTION_OK) {
        return explain_not_connected(db, why);
    }
    (void)PQsetNoticeReceiver(db->conn, on_notice, db);
    if (PQserverVersion(db->conn) < SERVER_MIN) {
        return refuse(why, "the server is older than PostgreSQL 12");
    }
    return TR_OK;
}

static tr_err open_all(tri_pg_db *db, bool create, tri_pg_fault *why)
{
    TR_TRY(connect_to(db, why));
    if (PQsetnonblocking(db->conn, 1) != 0) {
        explain_lost(db, NULL, why);
        return why->err;
    }
    TR_TRY(run_all(db, session, why));
    TR_TRY(check_tables(db, create, why));
    if (PQenterPipelineMode(db->conn) == 0) {
        explain_lost(db, NULL, why);
        return why->err;
    }
    return prepare_all(db, why);
}

tr_err tri_pg_open(tri_pg_db *db, const tri_pg_server *server, bool create,
                   tri_pg_fault *why)
{
    TRI_CHECK(db->conn == NULL);
    TRI_CHECK(server->conninfo != NULL);
    *db = (tri_pg_db){.server = server};
    *why = (tri_pg_fault){0};
    tr_err err = open_all(db, create, why);
    if (err != TR_OK) {
        tri_pg_close(db);
    }
    return err;
}

void tri_pg_close(tri_pg_db *db)
{
    PQfinish(db->conn);  // NULL is allowed
    db->conn = NULL;
    db->ended = false;
    db->was_null = false;
}
