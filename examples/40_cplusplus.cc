/* cplusplus - actors in C++: a class as a state, and exceptions as failures. */
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>

#include <troupe/troupe.hpp>

TR_MESSAGE(Balance, (int64_t, cents), (const char *, owner));
TR_REQUEST(Deposit, Balance, (const char *, owner), (int64_t, cents));
TR_MESSAGE(Audit);

// [snippet: state]
struct Bank {
    struct tr_first {  // what tr::spawn_with gives
        int64_t limit;
    };
    explicit Bank(const tr_first &first) : limit(first.limit)
    {
    }
    int64_t limit;
    std::map<std::string, int64_t> accounts;
};
// [end]

// [snippet: handler]
static tr_err on_deposit(tr_ctx *ctx, Bank *self, const Deposit *m)
{
    int64_t &cents = self->accounts[m->owner];
    if (cents + m->cents > self->limit) {
        throw std::out_of_range(std::string(m->owner) + " is too rich");
    }
    cents += m->cents;
    return tr::reply(ctx, m, Balance{cents, m->owner});
}
// [end]

static tr_err on_audit(tr_ctx *, Bank *self, const Audit *)
{
    std::printf("%zu accounts\n", self->accounts.size());
    return TR_OK;
}

// [snippet: actor]
TR_ACTOR(bank, Bank, TR_ON(Deposit, on_deposit), TR_ON(Audit, on_audit));
// [end]

/* Hears of the end of the bank and ends the system. */
struct Watcher {
    tr_ref bank;
};

static tr_err watch(tr_ctx *ctx, Watcher *self)
{
    tr_watch(ctx, self->bank);
    return TR_OK;
}

static tr_err on_terminated(tr_ctx *ctx, Watcher *, const tr_terminated *m)
{
    std::printf("the bank has %s\n",
                m->reason == TR_FAILED ? "failed" : "stopped");
    tr_system_terminate(tr_system_of(ctx));
    return TR_OK;
}

TR_ACTOR(watcher, Watcher, TR_HOOK(pre_start, watch),
         TR_ON(tr_terminated, on_terminated));

int main()
{
    tr_system *sys;
    auto options = tr::options<tr_system_options>();
    options.log_level = TR_LOG_ERROR + 1;  // the failure is expected
    TR_MUST(tr_system_open(&sys, &options));
    // [snippet: main]
    auto policy = tr::options<tr_supervision>();
    policy.on_failure = TR_STOP;
    tr_ref ref = tr::spawn_with(sys, bank, Bank::tr_first{1000},
                                [&](tr_spawn_options &o) {
                                    o.name = "bank";
                                    o.supervision = &policy;
                                });
    tr_ref observer = tr::spawn_with(sys, watcher, Watcher{ref});
    TR_MUST(tr_started(sys, observer, 0));  // it watches from here on
    auto balance = tr::ask(sys, ref, Deposit{"ann", 700});
    std::printf("%s has %lld cents\n", balance->owner,
                static_cast<long long>(balance->cents));
    tr::tell(sys, ref, Audit{});
    std::string refused;
    try {
        tr::ask(sys, ref, Deposit{"ann", 301});
    } catch (const tr::error &e) {
        refused =
            std::string(tr_errname(e.code())) + ": " + tr_error_reason(sys);
    }
    // [end]
    TR_MUST(tr_system_run(sys));
    std::puts(refused.c_str());
    return tr_system_close(sys, 0) != TR_OK;
}
