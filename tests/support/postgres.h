/*
 * postgres.h - a PostgreSQL server for one test.
 *
 * It uses a folder of its own, listens only on a socket in that folder, and
 * ends with the test, also if that crashes. If the test runs as root, the
 * server runs as the user postgres, because it refuses root. A failure here
 * ends the process with a text.
 */
#ifndef TEST_SUPPORT_POSTGRES_H
#define TEST_SUPPORT_POSTGRES_H

#include <stdbool.h>

typedef struct pg_server pg_server;

/* Makes an empty database and starts the server. */
pg_server *pg_server_new(void);
/* Ends it and removes its folder; NULL is allowed. */
void pg_server_free(pg_server *server);

void pg_server_start(pg_server *server);
/* Stops it in good order: sessions end, committed data is written. */
void pg_server_stop(pg_server *server);
/* Kills it with SIGKILL: nothing more is written. */
void pg_server_kill(pg_server *server);
/* Adds a setting, which is used from the next start on. */
void pg_server_set(pg_server *server, const char *line);

/* Returns the conninfo for libpq; it lives as long as the server. */
const char *pg_server_conninfo(const pg_server *server);
/* Returns the folder of the socket, which is the host for libpq. */
const char *pg_server_folder(const pg_server *server);

#endif
