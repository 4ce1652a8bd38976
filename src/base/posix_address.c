/*
 * posix_address.c - addresses of the real world's streams.
 */
#define _GNU_SOURCE  // getaddrinfo

#include "base/posix_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/address.h"
#include "base/check.h"

static tr_err read_unix(const tri_address *from, struct sockaddr_storage *out,
                        uint32_t *size)
{
    struct sockaddr_un *at = (struct sockaddr_un *)(void *)out;
    size_t length = strlen(from->host);
    if (length >= sizeof(at->sun_path)) {
        return TR_EINVAL;
    }
    at->sun_family = AF_UNIX;
    memcpy(at->sun_path, from->host, length);
    *size = (uint32_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
    return TR_OK;
}

tr_err tri_posix_address_read(const char *text, bool is_udp,
                              struct sockaddr_storage *out, uint32_t *size)
{
    TRI_CHECK(out != NULL);
    TRI_CHECK(size != NULL);
    tri_address parts;
    memset(out, 0, sizeof(*out));
    TR_TRY(tri_address_split(text, &parts));
    if (parts.is_udp != is_udp) {
        return TR_EINVAL;
    }
    if (parts.is_unix) {
        return read_unix(&parts, out, size);
    }
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)out;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)out;
    if (inet_pton(AF_INET, parts.host, &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
        in->sin_port = htons(parts.port);
        *size = sizeof(*in);
        return TR_OK;
    }
    if (inet_pton(AF_INET6, parts.host, &in6->sin6_addr) == 1) {
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(parts.port);
        *size = sizeof(*in6);
        return TR_OK;
    }
    return TR_EINVAL;
}

void tri_posix_address_write(const struct sockaddr_storage *at, uint32_t size,
                             bool is_udp, char out[TRI_STREAM_ADDRESS_MAX])
{
    TRI_CHECK(at != NULL);
    tri_address parts = {.is_udp = is_udp};
    const struct sockaddr_in *in = (const void *)at;
    const struct sockaddr_in6 *in6 = (const void *)at;
    const struct sockaddr_un *un = (const void *)at;

    out[0] = '\0';
    if (at->ss_family == AF_INET) {
        (void)inet_ntop(AF_INET, &in->sin_addr, parts.host, INET_ADDRSTRLEN);
        parts.port = ntohs(in->sin_port);
    } else if (at->ss_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &in6->sin6_addr, parts.host,
                        INET6_ADDRSTRLEN);
        parts.port = ntohs(in6->sin6_port);
    } else if (at->ss_family == AF_UNIX &&
               size > offsetof(struct sockaddr_un, sun_path)) {
        parts.is_unix = true;
        (void)snprintf(parts.host, sizeof(parts.host), "%.*s",
                       (int)(size - offsetof(struct sockaddr_un, sun_path)),
                       un->sun_path);
    } else {
        return;
    }
    tri_address_join(&parts, out);
}

/* Returns the tr_err of getaddrinfo's error. */
static tr_err resolve_err(int number)
{
    switch (number) {
    case 0:
        return TR_OK;
    case EAI_MEMORY:
        return TR_ENOMEM;
    case EAI_NONAME:
    case EAI_NODATA:
        return TR_ENOENT;
    default:
        return TR_EIO;
    }
}

tr_err tri_posix_resolve(tri_world *world, const char *address,
                         char (*out)[TRI_STREAM_ADDRESS_MAX], uint32_t max,
                         uint32_t *count)
{
    (void)world;
    TRI_CHECK(max > 0);
    TRI_CHECK(count != NULL);
    tri_address parts;
    char port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;

    *count = 0;
    TR_TRY(tri_address_split(address, &parts));
    if (parts.is_unix) {
        tri_address_join(&parts, out[(*count)++]);
        return TR_OK;
    }
    (void)snprintf(port, sizeof(port), "%u", (unsigned)parts.port);
    TR_TRY(resolve_err(getaddrinfo(parts.host, port, &hints, &list)));
    for (struct addrinfo *it = list; it != NULL && *count < max;
         it = it->ai_next) {
        struct sockaddr_storage at = {0};
        memcpy(&at, it->ai_addr, it->ai_addrlen);
        tri_posix_address_write(&at, it->ai_addrlen, parts.is_udp, out[*count]);
        *count += out[*count][0] != '\0';
    }
    freeaddrinfo(list);
    return *count > 0 ? TR_OK : TR_ENOENT;
}
