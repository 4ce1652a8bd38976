/*
 * engine_choice.c - which engine a node uses if the program gives it none.
 *
 * SQLite is a component that a program may be linked without: its function is
 * a weak symbol, which is NULL then.
 */
#include "cluster/join/engine_choice.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/world.h"
#include "core/ask/error_text.h"
#include "core/system.h"
#include "troupe/engine.h"

#pragma weak tr_engine_sqlite

enum { FILE_MAX = 512, TEXT_MAX = 512 };

static tr_err refuse(tr_err err, const char *text, const char *detail)
{
    TRI_CHECK(err != TR_OK);
    tri_error_set(NULL, "cannot join: %s%s", text, detail);
    return err;
}

static tr_err open_sqlite(tr_system *sys, const char *file, tr_engine **out)
{
    char text[TEXT_MAX] = "";
    if (tr_engine_sqlite == NULL) {
        return refuse(TR_ENOENT,
                      "the engine is a file, and this program is linked "
                      "without troupe-sqlite: ",
                      file);
    }
    tr_err err =
        tr_engine_sqlite(out, file,
                         &(tr_engine_options){.size = sizeof(tr_engine_options),
                                              .text = text,
                                              .text_size = sizeof(text),
                                              .system = sys});
    return err == TR_OK ? TR_OK : refuse(err, "", text);
}

static tr_err open_memory(tr_system *sys, const char *name, tr_engine **out)
{
    char text[TEXT_MAX] = "";
    tr_err err =
        tr_engine_memory(out, name,
                         &(tr_engine_options){.size = sizeof(tr_engine_options),
                                              .text = text,
                                              .text_size = sizeof(text),
                                              .system = sys});
    return err == TR_OK ? TR_OK : refuse(err, "", text);
}

/* Returns what follows the prefix, or NULL if the text has another one. */
static const char *after(const char *text, const char *prefix)
{
    size_t size = strlen(prefix);
    return strncmp(text, prefix, size) == 0 ? text + size : NULL;
}

static tr_err open_named(tr_system *sys, const char *name, tr_engine **out)
{
    const char *file = after(name, "sqlite:");
    const char *table = after(name, "memory:");
    if (file != NULL && file[0] == '/') {
        return open_sqlite(sys, file, out);
    }
    if (table != NULL) {
        return open_memory(sys, table, out);
    }
    return refuse(TR_EINVAL,
                  "TROUPE_ENGINE is neither sqlite:/absolute/path nor "
                  "memory:name: ",
                  name);
}

/* Writes the file of this user and namespace. False: there is no place. */
static bool own_file(tri_world *world, const char *ns, char out[FILE_MAX])
{
    const char *folder = world->ops->environment(world, "XDG_RUNTIME_DIR");
    const char *home = world->ops->environment(world, "HOME");
    bool private = folder != NULL && folder[0] == '/';
    if (!private && (home == NULL || home[0] != '/')) {
        return false;
    }
    int size = snprintf(out, FILE_MAX, "%s/%stroupe-%s.engine",
                        private ? folder : home, private ? "" : ".", ns);
    return size > 0 && size < FILE_MAX;
}

tr_err tri_engine_choose(tr_system *sys, const char *ns, tr_engine **out)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tri_world *world = sys->world;
    char file[FILE_MAX];
    *out = NULL;
    if (world->ops->environment == NULL) {
        return open_memory(sys, ns, out);
    }
    const char *named = world->ops->environment(world, "TROUPE_ENGINE");
    if (named != NULL && named[0] != '\0') {
        return open_named(sys, named, out);
    }
    if (!own_file(world, ns, file)) {
        return refuse(TR_ENOENT,
                      "no engine: give .engine, or set "
                      "TROUPE_ENGINE=sqlite:/path/to/file",
                      "");
    }
    return open_sqlite(sys, file, out);
}
