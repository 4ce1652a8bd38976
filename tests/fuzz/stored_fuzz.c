/*
 * stored_fuzz.c - the reader of what stores hold takes any bytes.
 *
 * A head that is accepted must have the same fields when it is written and read
 * again. The value behind it is read as an Account, whatever type its head
 * names; what is accepted must be the same value when written and read again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <troupe/message.h>

#include "base/check.h"
#include "schema/stored.h"
#include "schema/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

TR_MESSAGE(Account, (int64_t, cents), (const char *, owner));

static void head_again(const tri_stored *first)
{
    char text[2 * TRI_STORED_NAME_MAX + 64];
    tri_stored second;
    tri_codec_error error;
    int size = snprintf(text, sizeof(text), "%s", first->type);
    if (first->number != 0 || first->chain != 0) {
        size += snprintf(text + size, sizeof(text) - (size_t)size, "@%" PRIu64,
                         first->number);
        if (first->chain != 0) {
            size += snprintf(text + size, sizeof(text) - (size_t)size,
                             "#%" PRIx64, first->chain);
        }
    }
    size += snprintf(text + size, sizeof(text) - (size_t)size, "/%s ",
                     first->serializer);
    TRI_CHECK(tri_stored_open(&second, text, (size_t)size, &error) == TR_OK);
    TRI_CHECK(strcmp(first->type, second.type) == 0);
    TRI_CHECK(strcmp(first->serializer, second.serializer) == 0);
    TRI_CHECK(first->number == second.number && first->chain == second.chain);
    TRI_CHECK(second.size == 0);
}

static void value_again(const Account *first, const char *serializer)
{
    bool is_json = strcmp(serializer, tr_serializer_json.name) == 0;
    void *bytes;
    size_t size;
    tri_stored stored;
    tri_codec_error error;
    Account second;
    tri_stored_form form = {.serializer = is_json ? &tr_serializer_json
                                                  : &tr_serializer_binary};
    tr_err err = tri_stored_snapshot(&form, &Account_tr_type, first, 7, 9,
                                     &bytes, &size, &error);
    TRI_CHECK(err == TR_OK);
    TRI_CHECK(tri_stored_open(&stored, bytes, size, &error) == TR_OK);
    TRI_CHECK(stored.number == 7 && stored.chain == 9);
    TRI_CHECK(tri_stored_read(&stored, NULL, &Account_tr_type, &second, NULL,
                              &error) == TR_OK);
    TRI_CHECK(tri_value_equal(&Account_tr_type, first, &second));
    (tr_drop)(&Account_tr_type, &second);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tri_stored stored;
    tri_codec_error error = {.text = ""};
    Account value;
    if (tri_stored_open(&stored, data, size, &error) != TR_OK) {
        TRI_CHECK(error.text[0] != '\0');
        return 0;
    }
    const uint8_t *at = stored.data;
    TRI_CHECK(at >= data && stored.size == size - (size_t)(at - data));
    if (stored.type[0] != '\0') {
        head_again(&stored);
    }
    if (tri_stored_read(&stored, NULL, &Account_tr_type, &value, NULL,
                        &error) != TR_OK) {
        TRI_CHECK(error.text[0] != '\0');
        return 0;
    }
    value_again(&value, stored.serializer);
    (tr_drop)(&Account_tr_type, &value);
    return 0;
}
