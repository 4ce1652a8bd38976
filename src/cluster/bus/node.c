/*
 * node.c - reads and writes the addresses of nodes.
 *
 * Invariant: tri_node_write writes what tri_node_parse has read, with letters
 * in lower case, so that one address has one text.
 */
#include "cluster/bus/node.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

enum { PORT_DIGITS = 5, PORT_MAX = 65535, LABEL_MAX = 63, V6_GROUPS = 8 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

static bool read_port(const char *text, uint16_t *out)
{
    uint32_t port = 0;
    size_t size = strlen(text);
    if (size == 0 || size > PORT_DIGITS || text[0] == '0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (!is_digit(*text)) {
            return false;
        }
        port = port * 10 + (uint32_t)(*text - '0');
    }
    *out = (uint16_t)port;
    return port <= PORT_MAX;
}

/* True for four numbers up to 255. The host has digits and dots only. */
static bool is_v4(const char *host)
{
    uint32_t parts = 0;
    while (*host != '\0') {
        uint32_t value = 0, digits = 0;
        for (; is_digit(*host); host++, digits++) {
            value = value * 10 + (uint32_t)(*host - '0');
        }
        parts++;
        if (digits == 0 || digits > 3 || value > 255 ||
            (*host == '.' && *++host == '\0')) {
            return false;
        }
    }
    return parts == 4;
}

static bool is_name(const char *host)
{
    TRI_CHECK(host[0] != '\0');
    size_t label = 0;
    for (const char *c = host;; c++) {
        if (*c == '.' || *c == '\0') {
            if (label == 0 || label > LABEL_MAX || c[-1] == '-') {
                return false;
            }
            if (*c == '\0') {
                return true;
            }
            label = 0;
        } else if (is_digit(*c) || (*c >= 'a' && *c <= 'z') || *c == '_' ||
                   (*c == '-' && label > 0)) {
            label++;
        } else {
            return false;
        }
    }
}

/* True for groups of up to four hex digits, with at most one "::". */
static bool is_v6(const char *host)
{
    uint32_t groups = 0;
    bool gap = false;
    if (host[0] == ':' && host[1] != ':') {
        return false;
    }
    while (*host != '\0') {
        if (host[0] == ':' && host[1] == ':') {
            if (gap) {
                return false;
            }
            gap = true;
            host += 2;
            continue;
        }
        if (*host == ':') {
            host++;
        }
        uint32_t digits = 0;
        for (; is_hex(*host); host++, digits++) {
        }
        groups++;
        if (digits == 0 || digits > 4 || (*host != '\0' && *host != ':')) {
            return false;
        }
    }
    return gap ? groups < V6_GROUPS : groups == V6_GROUPS;
}

static tr_err refuse(tri_node_id *out, const char **why, const char *text)
{
    memset(out, 0, sizeof(*out));
    *why = text;
    return TR_EINVAL;
}

tr_err tri_node_parse(tri_node_id *out, const char *text, const char **why)
{
    TRI_CHECK(out != NULL && why != NULL);
    memset(out, 0, sizeof(*out));
    const char *colon = text != NULL ? strrchr(text, ':') : NULL;
    if (colon == NULL) {
        return refuse(out, why, "there is no ':' before a port");
    }
    if (!read_port(colon + 1, &out->port)) {
        return refuse(out, why, "the port is not a number from 1 to 65535");
    }
    size_t size = (size_t)(colon - text);
    out->is_v6 = size >= 2 && text[0] == '[' && colon[-1] == ']';
    if (out->is_v6) {
        text++;
        size -= 2;
    }
    if (size == 0 || size > TRI_HOST_MAX) {
        return refuse(out, why, "the host is empty or too long");
    }
    for (size_t i = 0; i < size; i++) {
        out->host[i] = lower(text[i]);
    }
    if (strlen(out->host) != size) {
        return refuse(out, why, "the host has a zero byte");
    }
    bool numbers = strspn(out->host, "0123456789.") == size;
    if (out->is_v6 ? !is_v6(out->host)
        : numbers  ? !is_v4(out->host)
                   : !is_name(out->host)) {
        return refuse(out, why,
                      out->is_v6 ? "the host is not an IPv6 address"
                      : numbers  ? "the host is not an IPv4 address"
                                 : "the host is not a name");
    }
    *why = NULL;
    return TR_OK;
}

size_t tri_node_write(const tri_node_id *id, char *buf)
{
    TRI_CHECK(id->port != 0);
    int n = snprintf(buf, TRI_NODE_TEXT, id->is_v6 ? "[%s]:%u" : "%s:%u",
                     id->host, (unsigned)id->port);
    TRI_CHECK(n > 0 && n < TRI_NODE_TEXT);
    return (size_t)n;
}

bool tri_node_same(const tri_node_id *a, const tri_node_id *b)
{
    TRI_CHECK(a->port != 0 && b->port != 0);
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}
