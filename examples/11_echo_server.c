/*
 * echo server - an actor per connection, over plain non-blocking sockets.
 * Notice: reads are straight-line code, yet no thread waits: tr_wait_fd parks
 * the actor only. However a connection ends, its descriptor is closed.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <troupe/troupe.h>
#include <unistd.h>

typedef struct Socket {
    int fd;
} Socket;
// [snippet: server]
static void close_fd(void *object)
{
    close(((Socket *)object)->fd);
}
static tr_err echo(tr_ctx *ctx, Socket *self)
{
    char buf[4096];
    uint32_t ready;
    tr_on_end(ctx, close_fd, self);
    for (;;) {
        TR_TRY(tr_wait_fd(ctx, self->fd, TR_FD_READ, TR_FOREVER, &ready));
        ssize_t put, got = read(self->fd, buf, sizeof(buf));
        if (got <= 0) return tr_stop(ctx, tr_self(ctx)), TR_OK;
        for (ssize_t at = 0; at < got; at += put) {
            TR_TRY(tr_wait_fd(ctx, self->fd, TR_FD_WRITE, TR_FOREVER, &ready));
            put = write(self->fd, buf + at, (size_t)(got - at));
            if (put < 0) return TR_EIO;
        }
    }
}
TR_ACTOR(connection, Socket, TR_HOOK(on_run, echo));
static tr_err serve(tr_ctx *ctx, Socket *self)
{
    uint32_t ready;
    tr_on_end(ctx, close_fd, self);
    for (;;) {
        TR_TRY(tr_wait_fd(ctx, self->fd, TR_FD_READ, TR_FOREVER, &ready));
        int fd = accept(self->fd, NULL, NULL);
        if (fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0) return TR_EIO;
        (void)tr_spawn(ctx, connection, TR_INIT(connection, .fd = fd));
    }
}
TR_ACTOR(server, Socket, TR_HOOK(on_run, serve));
// [end]
static tr_err talk(tr_ctx *ctx, Socket *self)
{
    char buf[64] = "";
    uint32_t ready;
    tr_on_end(ctx, close_fd, self);
    if (write(self->fd, "hello, echo\n", 12) != 12) return TR_EIO;
    TR_TRY(tr_wait_fd(ctx, self->fd, TR_FD_READ, TR_SECONDS(30), &ready));
    if (read(self->fd, buf, sizeof(buf) - 1) <= 0) return TR_EIO;
    fputs(buf, stdout);
    tr_system_terminate(tr_system_of(ctx));
    return TR_OK;
}
TR_ACTOR(client, Socket, TR_HOOK(on_run, talk));
int main(void)
{
    tr_system *sys;
    Socket s = {socket(AF_INET, SOCK_STREAM, 0)};
    Socket c = {socket(AF_INET, SOCK_STREAM, 0)};
    struct sockaddr_in at = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {0}};
    struct sockaddr *any = (struct sockaddr *)&at;  // port 0: a free one
    socklen_t size = sizeof(at);
    bool failed = bind(s.fd, any, size) || listen(s.fd, 64) ||
                  getsockname(s.fd, any, &size) || connect(c.fd, any, size);
    TR_MUST(failed ? TR_EIO : tr_system_open(&sys));
    (void)tr_spawn(sys, server, .name = "server", TR_INIT(server, .fd = s.fd));
    (void)tr_spawn(sys, client, .name = "client", TR_INIT(client, .fd = c.fd));
    TR_MUST(tr_system_run(sys));
    return tr_system_close(sys, 0) != TR_OK;
}
