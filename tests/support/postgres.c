/*
 * postgres.c - starts and stops a PostgreSQL server by its process id.
 *
 * The server runs without fsync: a killed process loses nothing that it wrote
 * to the kernel, and no test crashes the kernel.
 */
#define _GNU_SOURCE
#include "support/postgres.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATH_SIZE    256
#define START_TRIES  6000  // of 10 ms each
#define CHILDREN_MAX 64
#define BIN_PATTERN  "/usr/lib/postgresql/*/bin"

struct pg_server {
    char folder[PATH_SIZE];
    char data[PATH_SIZE + 8];
    char bin[PATH_SIZE];  // folder of the programs; "": found by PATH
    char conninfo[2 * PATH_SIZE];
    pid_t pid;  // 0: not running
};

static void die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    exit(1);
}

static void nap(void)
{
    struct timespec span = {.tv_nsec = 10000000};

    (void)nanosleep(&span, NULL);
}

/* ---- programs ---- */

static void find_programs(pg_server *server)
{
    glob_t found;

    // The newest of Debian's version folders, which are not in PATH.
    if (glob(BIN_PATTERN, 0, NULL, &found) == 0) {
        (void)snprintf(server->bin, sizeof(server->bin), "%s/",
                       found.gl_pathv[found.gl_pathc - 1]);
    }
    globfree(&found);
}

static const struct passwd *runner(void)
{
    return geteuid() == 0 ? getpwnam("postgres") : NULL;
}

/* Runs in the child process and becomes the program. */
static void become(const pg_server *server, const char *program, char *args[])
{
    char path[2 * PATH_SIZE], log[2 * PATH_SIZE];
    const struct passwd *user = runner();

    (void)snprintf(log, sizeof(log), "%s/log", server->folder);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 ||
        chdir(server->folder) != 0) {
        _exit(127);
    }
    if (user != NULL && (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 ||
                         setuid(user->pw_uid) != 0)) {
        _exit(127);
    }
    // After setuid, which clears this setting.
    (void)prctl(PR_SET_PDEATHSIG, SIGQUIT);
    (void)snprintf(path, sizeof(path), "%s%s", server->bin, program);
    args[0] = path;  // PostgreSQL finds its other programs by it
    (void)execvp(path, args);
    (void)dprintf(2, "%s: %s\n", path, strerror(errno));
    _exit(127);
}

static pid_t launch(const pg_server *server, const char *program, char *args[])
{
    pid_t child = fork();

    if (child < 0) {
        die("fork: %s", strerror(errno));
    }
    if (child == 0) {
        become(server, program, args);
    }
    return child;
}

static void show_log(const pg_server *server)
{
    char path[2 * PATH_SIZE], line[512];

    (void)snprintf(path, sizeof(path), "%s/log", server->folder);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        (void)fputs(line, stderr);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* ---- the server ---- */

static bool is_ready(const pg_server *server)
{
    char path[2 * PATH_SIZE], text[1024] = "";

    (void)snprintf(path, sizeof(path), "%s/postmaster.pid", server->data);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    size_t size = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    text[size] = '\0';
    return strtol(text, NULL, 10) == server->pid &&
           strstr(text, "\nready") != NULL;
}

/* Returns false if it ended because the server before is not gone yet. */
static bool try_start(pg_server *server)
{
    char socket_folder[2 * PATH_SIZE];
    int status;

    (void)snprintf(socket_folder, sizeof(socket_folder), "%s", server->folder);
    char *args[] = {"postgres",    "-D", server->data, "-k",
                    socket_folder, "-h", "",           NULL};
    server->pid = launch(server, "postgres", args);
    for (int i = 0; i < START_TRIES; i++) {
        if (is_ready(server)) {
            return true;
        }
        if (waitpid(server->pid, &status, WNOHANG) == server->pid) {
            server->pid = 0;
            return false;
        }
        nap();
    }
    show_log(server);
    die("postgres does not start");
    return false;
}

void pg_server_start(pg_server *server)
{
    // After a SIGKILL the sessions end a little later than the server.
    for (int i = 0; i < START_TRIES / 10; i++) {
        if (try_start(server)) {
            return;
        }
        nap();
    }
    show_log(server);
    die("postgres does not start");
}

static void end(pg_server *server, int signal_number)
{
    if (server->pid != 0) {
        (void)kill(server->pid, signal_number);
        (void)waitpid(server->pid, NULL, 0);
        server->pid = 0;
    }
}

void pg_server_stop(pg_server *server)
{
    end(server, SIGINT);
}

/* Kills the sessions, too: these child processes would finish their work. */
void pg_server_kill(pg_server *server)
{
    char path[PATH_SIZE];
    pid_t children[CHILDREN_MAX];
    int count = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children",
                   (int)server->pid, (int)server->pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && count < CHILDREN_MAX &&
           fscanf(file, "%d", &children[count]) == 1) {
        count++;
    }
    if (file == NULL || count == 0) {
        die("%s: %s", path, strerror(errno));
    }
    (void)fclose(file);
    for (int i = 0; i < count; i++) {
        (void)kill(children[i], SIGKILL);
    }
    end(server, SIGKILL);
}

void pg_server_set(pg_server *server, const char *line)
{
    char path[2 * PATH_SIZE];

    (void)snprintf(path, sizeof(path), "%s/postgresql.conf", server->data);
    FILE *file = fopen(path, "a");
    if (file == NULL || fprintf(file, "%s\n", line) < 0 || fclose(file) != 0) {
        die("%s: %s", path, strerror(errno));
    }
}

static void init_database(pg_server *server)
{
    char *args[] = {"initdb", "-D",          server->data, "-U",
                    "troupe", "-A",          "trust",      "-E",
                    "UTF8",   "--no-locale", "--no-sync",  NULL};
    int status;

    if (waitpid(launch(server, "initdb", args), &status, 0) < 0 ||
        status != 0) {
        show_log(server);
        die("initdb failed; tools/deps.sh test installs PostgreSQL");
    }
}

/* Users with a password must give it; all others are trusted. */
static void write_access(pg_server *server)
{
    char path[2 * PATH_SIZE];

    (void)snprintf(path, sizeof(path), "%s/pg_hba.conf", server->data);
    FILE *file = fopen(path, "w");
    if (file == NULL ||
        fputs("local all locked scram-sha-256\nlocal all all trust\n", file) <
            0 ||
        fclose(file) != 0) {
        die("%s: %s", path, strerror(errno));
    }
}

pg_server *pg_server_new(void)
{
    pg_server *server = calloc(1, sizeof(*server));
    const struct passwd *user = runner();

    if (server == NULL) {
        die("out of memory");
    }
    // Not in TMPDIR: the path of a socket has at most 107 bytes.
    (void)snprintf(server->folder, sizeof(server->folder),
                   P_tmpdir "/troupe-pg-XXXXXX");
    if (mkdtemp(server->folder) == NULL) {
        die("mkdtemp: %s", strerror(errno));
    }
    if (geteuid() == 0 && (user == NULL || chown(server->folder, user->pw_uid,
                                                 user->pw_gid) != 0)) {
        die("there is no user postgres to run the server");
    }
    (void)snprintf(server->data, sizeof(server->data), "%s/data",
                   server->folder);
    (void)snprintf(server->conninfo, sizeof(server->conninfo),
                   "host=%s dbname=postgres user=troupe", server->folder);
    find_programs(server);
    init_database(server);
    write_access(server);
    pg_server_set(server, "fsync = off");
    pg_server_set(server, "max_connections = 20");
    pg_server_set(server, "shared_buffers = 16MB");
    pg_server_start(server);
    return server;
}

static int remove_one(const char *path, const struct stat *status, int flag,
                      struct FTW *walk)
{
    (void)status;
    (void)flag;
    (void)walk;
    return remove(path);
}

void pg_server_free(pg_server *server)
{
    if (server != NULL) {
        pg_server_stop(server);
        (void)nftw(server->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        free(server);
    }
}

const char *pg_server_conninfo(const pg_server *server)
{
    return server->conninfo;
}

const char *pg_server_folder(const pg_server *server)
{
    return server->folder;
}
