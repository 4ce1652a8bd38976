/*
 * address.c - the parts of an address of a stream.
 */
#include "base/address.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static const char tcp[] = "tcp://";
static const char udp[] = "udp://";  // as long as tcp
static const char unix_path[] = "unix:";

/* Reads a port that ends the text. Returns false if it is not one. */
static bool read_port(const char *text, uint16_t *port)
{
    char *end;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    unsigned long number = strtoul(text, &end, 10);
    if (*end != '\0' || number > UINT16_MAX) {
        return false;
    }
    *port = (uint16_t)number;
    return true;
}

/* Copies `size` bytes of a host or path. Returns false if it is too long. */
static bool take_host(tri_address *out, const char *text, size_t size)
{
    if (size == 0 || size >= sizeof(out->host)) {
        return false;
    }
    memcpy(out->host, text, size);
    out->host[size] = '\0';
    return true;
}

tr_err tri_address_split(const char *text, tri_address *out)
{
    TRI_CHECK(text != NULL);
    TRI_CHECK(out != NULL);
    memset(out, 0, sizeof(*out));
    if (strncmp(text, unix_path, sizeof(unix_path) - 1) == 0) {
        text += sizeof(unix_path) - 1;
        out->is_unix = true;
        return take_host(out, text, strlen(text)) ? TR_OK : TR_EINVAL;
    }
    out->is_udp = strncmp(text, udp, sizeof(udp) - 1) == 0;
    if (!out->is_udp && strncmp(text, tcp, sizeof(tcp) - 1) != 0) {
        return TR_EINVAL;
    }
    text += sizeof(tcp) - 1;
    bool bracket = text[0] == '[';
    text += bracket;
    const char *end = bracket ? strchr(text, ']') : strrchr(text, ':');
    if (end == NULL || !take_host(out, text, (size_t)(end - text)) ||
        end[bracket] != ':' || !read_port(end + bracket + 1, &out->port) ||
        (!bracket && strchr(out->host, ':') != NULL)) {
        return TR_EINVAL;
    }
    return TR_OK;
}

void tri_address_join(const tri_address *address,
                      char out[TRI_STREAM_ADDRESS_MAX])
{
    TRI_CHECK(address != NULL);
    const char *host = address->host;
    const char *scheme = address->is_udp ? udp : tcp;
    int size;
    if (address->is_unix) {
        size = snprintf(out, TRI_STREAM_ADDRESS_MAX, "%s%s", unix_path, host);
    } else if (strchr(host, ':') != NULL) {
        size = snprintf(out, TRI_STREAM_ADDRESS_MAX, "%s[%s]:%" PRIu16, scheme,
                        host, address->port);
    } else {
        size = snprintf(out, TRI_STREAM_ADDRESS_MAX, "%s%s:%" PRIu16, scheme,
                        host, address->port);
    }
    if (size < 0 || size >= TRI_STREAM_ADDRESS_MAX) {
        out[0] = '\0';
    }
}
