/*
 * files.c - the clock and the files that the driver and the nodes share.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fence.h"

int64_t clock_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

char *file_path(const settings *s, const char *name, char *out)
{
    (void)snprintf(out, PATH_SIZE, "%s/%s", s->folder, name);
    return out;
}

board *board_map(const settings *s, bool make)
{
    char path[PATH_SIZE];
    int fd =
        open(file_path(s, "board", path), O_RDWR | (make ? O_CREAT : 0), 0600);

    if (fd < 0 || (make && ftruncate(fd, sizeof(board)) != 0)) {
        perror(path);
        exit(2);
    }
    void *it =
        mmap(NULL, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (it == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    (void)close(fd);
    return it;
}
