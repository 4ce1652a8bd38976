/*
 * postgres.h - a PostgreSQL server of the test's own.
 *
 * It lives in a folder of its own, listens on a socket in that folder only,
 * and ends with the test, however that ends. As root it runs as the user
 * postgres, because the server refuses root. Failures end the process with a
 * text: a test without its server has nothing to say.
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
/* Orderly: sessions are told, what is committed is written. */
void pg_server_stop(pg_server *server);
/* SIGKILL: nothing is written any more. */
void pg_server_kill(pg_server *server);
/* Adds a setting; it counts from the next start. */
void pg_server_set(pg_server *server, const char *line);

/* For libpq; lives as long as the server. */
const char *pg_server_conninfo(const pg_server *server);
/* The folder of the socket, which is the host for libpq. */
const char *pg_server_folder(const pg_server *server);

#endif
