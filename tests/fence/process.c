/*
 * process.c - child processes of the fence test.
 */
#include "process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NUMBER_SIZE = 24 };

/* Standard error of a child goes to a file of the folder. */
static void redirect(const settings *s, uint32_t index)
{
    char name[32], path[PATH_SIZE];

    (void)snprintf(name, sizeof(name), "node-%" PRIu32 ".err", index);
    int fd =
        open(file_path(s, name, path), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0) {
        _exit(2);
    }
}

static void become(const settings *s, const char *role, uint32_t index)
{
    char node[NUMBER_SIZE], lease[NUMBER_SIZE], clients[NUMBER_SIZE];

    (void)snprintf(node, sizeof(node), "%" PRIu32, index);
    (void)snprintf(lease, sizeof(lease), "%" PRIu32, s->lease_ms);
    (void)snprintf(clients, sizeof(clients), "%" PRIu32, s->clients);
    redirect(s, index);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);  // not longer than the driver
    (void)execl("/proc/self/exe", "fence", role, node, "--folder", s->folder,
                "--lease-ms", lease, "--clients", clients, "--break",
                s->breaking, (char *)NULL);
    perror("exec");
    _exit(2);
}

void process_start(process *it, const settings *s, const char *role,
                   uint32_t index)
{
    pid_t pid = fork();

    if (pid < 0) {
        perror("fork");
        exit(2);
    }
    if (pid == 0) {
        become(s, role, index);
    }
    *it = (process){.pid = pid};
}

bool process_is_running(const process *it)
{
    return it->pid != 0 && it->paused_until == 0;
}

void process_pause(process *it, int64_t until)
{
    (void)kill(it->pid, SIGSTOP);
    it->paused_until = until;
}

void process_continue(process *it)
{
    if (it->pid != 0 && it->paused_until != 0) {
        (void)kill(it->pid, SIGCONT);
        it->paused_until = 0;
    }
}

void process_kill(process *it, int64_t start_at)
{
    (void)kill(it->pid, SIGKILL);
    (void)waitpid(it->pid, NULL, 0);
    *it = (process){.start_at = start_at};
}

void process_terminate(process *it)
{
    if (it->pid != 0) {
        (void)kill(it->pid, SIGTERM);
    }
}

bool process_has_ended(process *it, int *status)
{
    if (it->pid == 0 || waitpid(it->pid, status, WNOHANG) != it->pid) {
        return false;
    }
    *it = (process){.start_at = INT64_MAX};
    return true;
}

bool process_wait(process *it, int64_t until, int *status)
{
    while (!process_has_ended(it, status)) {
        if (clock_now() > until) {
            process_kill(it, INT64_MAX);
            return false;
        }
        (void)poll(NULL, 0, 1);
    }
    return true;
}
