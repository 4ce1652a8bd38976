/*
 * postgres.c - a PostgreSQL server for one run, stopped by its process id.
 *
 * The server has its own data folder in the folder of the run, listens on a
 * free port of the loopback address only, and accepts only one user, whose
 * password is made at random for this run. PostgreSQL refuses to run as root;
 * then it runs as the user postgres, which Debian's package creates. It keeps
 * its defaults: a commit is on the disk before it is answered.
 */
#define _GNU_SOURCE  // setgroups
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store.h"

enum {
    PATH_SIZE = 256,
    NUMBER_SIZE = 16,
    PASSWORD_BYTES = 16,
    PORT_TRIES = 5,     // another program may take the port meanwhile
    READY_NAPS = 6000,  // of 10 ms
};

/* ---- programs ---- */

/*
 * Finds the newest version; Debian has a folder for each, which is not in PATH.
 */
static void find_program(char path[PATH_SIZE], const char *name)
{
    glob_t found;
    snprintf(path, PATH_SIZE, "%s", name);
    if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) == 0) {
        snprintf(path, PATH_SIZE, "%s/%s", found.gl_pathv[found.gl_pathc - 1],
                 name);
    }
    globfree(&found);
}

/* Returns the user for the server if this process is root; else NULL. */
static const struct passwd *other_user(void)
{
    return geteuid() == 0 ? getpwnam("postgres") : NULL;
}

/* In the child: its output goes to the log in the folder. */
static void become(const Store *store, char *const args[])
{
    char log[PATH_SIZE];
    const struct passwd *user = other_user();
    snprintf(log, sizeof(log), "%s/log", store->folder);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0 ||
        chdir(store->folder) != 0) {
        _exit(127);
    }
    if (user != NULL && (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 ||
                         setuid(user->pw_uid) != 0)) {
        _exit(127);
    }
    setsid();  // Ctrl-C must not end the server before the bank
    prctl(PR_SET_PDEATHSIG, SIGINT);  // after setuid, which clears it
    execvp(args[0], args);
    dprintf(STDERR_FILENO, "%s: %s\n", args[0], strerror(errno));
    _exit(127);
}

static pid_t launch(const Store *store, char *const args[])
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        become(store, args);
    }
    return pid;
}

static bool has_ended(pid_t pid, int options, int *status)
{
    pid_t ended;
    do {
        ended = waitpid(pid, status, options);
    } while (ended < 0 && errno == EINTR);
    return ended == pid;
}

static bool complain(const Store *store, const char *what)
{
    char log[PATH_SIZE], line[PATH_SIZE];
    snprintf(log, sizeof(log), "%s/log", store->folder);
    FILE *file = fopen(log, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        fputs(line, stderr);
    }
    if (file != NULL) {
        fclose(file);
    }
    fprintf(stderr, "bank: %s\n", what);
    return false;
}

/* ---- a cluster ---- */

static bool draw_password(char *out)
{
    unsigned char bytes[PASSWORD_BYTES];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        return false;
    }
    for (int i = 0; i < PASSWORD_BYTES; i++) {
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    }
    return true;
}

static bool write_password(const char *path, const char *password)
{
    const struct passwd *user = other_user();
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0) {
        return false;
    }
    bool done = dprintf(fd, "%s\n", password) > 0 &&
                (user == NULL || fchown(fd, user->pw_uid, user->pw_gid) == 0);
    return close(fd) == 0 && done;
}

/* Runs initdb, with one user. */
static bool make_cluster(const Store *store, const char *password)
{
    const struct passwd *user = other_user();
    char program[PATH_SIZE], file[PATH_SIZE], by_file[2 * PATH_SIZE];
    int status;
    if (user != NULL && chown(store->folder, user->pw_uid, user->pw_gid) != 0) {
        return complain(store, strerror(errno));
    }
    snprintf(file, sizeof(file), "%s/password", store->folder);
    if (!write_password(file, password)) {
        return complain(store, strerror(errno));
    }
    snprintf(by_file, sizeof(by_file), "--pwfile=%s", file);
    find_program(program, "initdb");
    char *args[] = {program,
                    "-D",
                    "data",
                    "--username=bank",
                    "--auth=scram-sha-256",
                    by_file,
                    "--encoding=UTF8",
                    "--locale=C",
                    "--no-sync",
                    NULL};
    pid_t pid = launch(store, args);
    bool made = pid > 0 && has_ended(pid, 0, &status) && status == 0;
    unlink(file);
    return made || complain(store, "initdb failed: tools/deps.sh postgres "
                                   "installs it, and TMPDIR must be open to "
                                   "the user that it runs as");
}

/* ---- a server ---- */

/* Returns a port on which no program listens now; 0: none found. */
static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int port = 0;
    if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
        getsockname(fd, (struct sockaddr *)&at, &size) == 0) {
        port = ntohs(at.sin_port);
    }
    if (fd >= 0) {
        close(fd);
    }
    return port;
}

/* Reads the file that the server writes: it is ready, and is our server. */
static bool is_ready(const Store *store)
{
    char path[PATH_SIZE], text[1024];
    snprintf(path, sizeof(path), "%s/data/postmaster.pid", store->folder);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    return strtol(text, NULL, 10) == store->server &&
           strstr(text, "\nready") != NULL;
}

/*
 * Waits until the server is ready. Returns false if it ended, or is not ready
 * after a minute.
 */
static bool start_on(Store *store, int port)
{
    char program[PATH_SIZE], number[NUMBER_SIZE];
    int status;
    find_program(program, "postgres");
    snprintf(number, sizeof(number), "%d", port);
    char *args[] = {program, "-D",        "data",
                    "-h",    "127.0.0.1", "-p",
                    number,  "-c",        "unix_socket_directories=",
                    NULL};
    store->server = launch(store, args);
    if (store->server < 0) {
        store->server = 0;
        return false;
    }
    for (int i = 0; i < READY_NAPS; i++) {
        struct timespec nap = {.tv_nsec = 10000000};
        if (is_ready(store)) {
            return true;
        }
        if (has_ended(store->server, WNOHANG, &status)) {
            store->server = 0;
            return false;
        }
        nanosleep(&nap, NULL);
    }
    postgres_stop(store);
    return false;
}

bool postgres_start(Store *store)
{
    char password[2 * PASSWORD_BYTES + 1];
    if (geteuid() == 0 && other_user() == NULL) {
        return complain(store, "there is no user postgres, and PostgreSQL "
                               "refuses to be root");
    }
    if (!draw_password(password) || !make_cluster(store, password)) {
        return false;
    }
    for (int i = 0; i < PORT_TRIES; i++) {
        int port = free_port();
        if (start_on(store, port)) {
            snprintf(store->place, sizeof(store->place),
                     "host=127.0.0.1 port=%d user=bank password=%s "
                     "dbname=postgres connect_timeout=30",
                     port, password);
            return true;
        }
    }
    return complain(store, "PostgreSQL does not start");
}

/* Stops the server with SIGINT: sessions end, and everything is written. */
void postgres_stop(Store *store)
{
    int status;
    if (store->server > 0) {
        kill(store->server, SIGINT);
        (void)has_ended(store->server, 0, &status);
        store->server = 0;
    }
}
