/*
 * sim_address.c - addresses of simulated streams.
 */
#include "sim/sim_address.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/sim.h"
#include "sim/sim_node.h"

bool tri_sim_host_node(const char *host, uint32_t *index)
{
    char *end;
    if (strncmp(host, "node-", 5) != 0 || host[5] < '0' || host[5] > '9') {
        return false;
    }
    *index = (uint32_t)strtoul(host + 5, &end, 10);
    return *end == '\0';
}

tr_err tri_sim_address_split(const char *text, tri_address *out)
{
    static const char *const same[] = {"0.0.0.0", "::", "::1", "localhost"};

    TR_TRY(tri_address_split(text, out));
    for (size_t i = 0; i < TRI_COUNT_OF(same); i++) {
        if (!out->is_unix && strcmp(out->host, same[i]) == 0) {
            strcpy(out->host, "127.0.0.1");
        }
    }
    return TR_OK;
}

tr_err tri_sim_resolve(tri_world *world, const char *address,
                       char (*out)[TRI_STREAM_ADDRESS_MAX], uint32_t max,
                       uint32_t *count)
{
    TRI_CHECK(max > 0);
    TRI_CHECK(count != NULL);
    tri_address parts;
    uint32_t index;

    *count = 0;
    TR_TRY(tri_sim_address_split(address, &parts));
    bool numeric =
        strspn(parts.host, "0123456789abcdefABCDEF.:") == strlen(parts.host);
    bool known = tri_sim_host_node(parts.host, &index) &&
                 index < tri_sim_of(world)->node_count;
    if (!parts.is_unix && !numeric && !known) {
        return TR_ENOENT;
    }
    tri_address_join(&parts, out[0]);
    *count = 1;
    return TR_OK;
}
