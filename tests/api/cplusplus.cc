/*
 * cplusplus.cc - two actors in C++ that wait inside a catch block, on one
 * worker: each goes on with its own exception. Built and run by
 * cplusplus_test.sh.
 */
#include <cstdio>
#include <cstdlib>
#include <troupe/troupe.h>

namespace
{

struct Go {
    int32_t number;
};

/* What TR_MESSAGE would make in C. */
const tr_type go_type = {"Go", UINT64_C(0x476f), sizeof(Go), 0,
                         0,    nullptr,          nullptr};

int rethrown[3];

void throw_and_wait(tr_ctx *ctx, int number)
{
    try {
        throw number;
    } catch (int) {
        for (int i = 0; i < 3; i++) {
            if (tr_sleep(ctx, TR_MS(5)) != TR_OK) {
                return;
            }
        }
        throw;
    }
}

tr_err on_go(tr_ctx *ctx, void *, const void *m)
{
    int number = static_cast<const Go *>(m)->number;
    try {
        throw_and_wait(ctx, number);
    } catch (int caught) {
        rethrown[number] = caught;
    }
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

void must(tr_err err, const char *what)
{
    if (err != TR_OK) {
        std::fprintf(stderr, "%s: %s\n", what, tr_errname(err));
        std::exit(1);
    }
}

}  // namespace

int main()
{
    const tr_handler handlers[] = {{&go_type, on_go, 0}};
    tr_actor_def def = {};
    def.size = sizeof(def);
    def.name = "thrower";
    def.handlers = handlers;
    def.handler_count = 1;
    tr_system_options options = {};
    options.size = sizeof(options);
    options.workers = 1;
    tr_spawn_options joinable = {};
    joinable.size = sizeof(joinable);
    joinable.joinable = true;

    tr_system *sys;
    tr_ref refs[3];
    must(tr_system_open(&sys, &options), "tr_system_open");
    for (int i = 1; i < 3; i++) {
        Go go = {i};
        refs[i] = tr_spawn(sys, &def, &joinable);
        tr_tell(sys, refs[i], &go_type, &go);
    }
    for (int i = 1; i < 3; i++) {
        must(tr_join(sys, refs[i], 0, nullptr, nullptr), "tr_join");
    }
    must(tr_system_close(sys, 0), "tr_system_close");
    std::printf("rethrown: %d %d\n", rethrown[1], rethrown[2]);
    return 0;
}
