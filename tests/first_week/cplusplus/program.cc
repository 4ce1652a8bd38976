/*
 * program.cc - what troupe.hpp promises: the types of C, classes as states,
 * exceptions as failures, calls by type. Built and run by 23_cplusplus.sh.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <troupe/troupe.hpp>

#include "shared.h"

#define CHECK(cond)                                                            \
    do {                                                                       \
        if (!(cond)) {                                                         \
            std::fprintf(stderr, "%s: not so: %s\n", TR_HERE, #cond);          \
            std::exit(1);                                                      \
        }                                                                      \
    } while (0)

namespace
{

/* ---- C and C++ see the same types ---- */

bool is_same_text(const char *a, const char *b)
{
    return (a == nullptr && b == nullptr) ||
           (a != nullptr && b != nullptr && std::strcmp(a, b) == 0);
}

void expect_same_type(const tr_type *a, const tr_type *b)
{
    CHECK(is_same_text(a->name, b->name));
    CHECK(a->schema == b->schema);
    CHECK(a->size == b->size);
    CHECK(a->field_count == b->field_count);
    CHECK(a->var_count == b->var_count);
    CHECK((a->reply == nullptr) == (b->reply == nullptr));
    for (size_t i = 0; i < a->field_count; i++) {
        CHECK(is_same_text(a->fields[i].name, b->fields[i].name));
        CHECK(a->fields[i].offset == b->fields[i].offset);
        CHECK(a->fields[i].size == b->fields[i].size);
        CHECK(a->fields[i].kind == b->fields[i].kind);
        CHECK(a->fields[i].element == b->fields[i].element);
    }
}

void test_types_are_those_of_c()
{
    const tr_type *in_c[32];
    size_t alignments[32];
    size_t count = c_types(in_c, alignments, 32);
    size_t at = 0;
#define ONE(T)                                                                 \
    CHECK(at < count);                                                         \
    expect_same_type(&T##_tr_type, in_c[at]);                                  \
    CHECK(T::tr_type_of() == &T##_tr_type);                                    \
    CHECK(T##_tr_type.size == 0 || alignof(T) == alignments[at]);              \
    at++;
    SHARED_TYPES(ONE)
#undef ONE
    CHECK(at == count && count == 22);
}

/* ---- a class as a state ---- */

int made, destroyed, stopped_unbuilt;

struct Story {
    struct tr_first {
        int32_t chapters;
        bool is_impossible;
    };
    explicit Story(const tr_first &first)
        : words("once"), numbers(static_cast<size_t>(first.chapters), 7)
    {
        if (first.is_impossible) {
            throw std::invalid_argument("no such story");
        }
        made++;
    }
    ~Story()
    {
        destroyed++;
    }
    std::string words;
    std::vector<int> numbers;
};

tr_err on_add(tr_ctx *ctx, Story *self, const Add *m)
{
    self->words += m->note;
    if (m->n == 1) {
        throw std::runtime_error("the story ends: " + self->words);
    }
    if (m->n == 2) {
        throw tr::error(TR_EIO, "no ink");
    }
    if (m->n == 3) {
        throw std::bad_alloc();
    }
    if (m->n == 4) {
        throw 42;
    }
    if (m->n == 5) {  // leaves the handler after it has waited
        CHECK(tr_sleep(ctx, TR_MS(1)) == TR_OK);
        throw std::runtime_error("after a wait");
    }
    return tr::reply(
        ctx, m,
        Wide{static_cast<int64_t>(self->words.size() + self->numbers.size())});
}

tr_err on_stop(tr_ctx *, Story *self, tr_reason)
{
    stopped_unbuilt += self->words.compare(0, 4, "once") != 0;
    return TR_OK;
}

TR_ACTOR(story, Story, TR_ON(Add, on_add), TR_HOOK(post_stop, on_stop));

tr_supervision stopping()
{
    auto policy = tr::options<tr_supervision>();
    policy.on_failure = TR_STOP;
    return policy;
}

tr_ref spawn_story(tr_system *sys, const tr_supervision *policy,
                   Story::tr_first first)
{
    return tr::spawn_with(sys, story, first, [&](tr_spawn_options &o) {
        o.supervision = policy;
        o.joinable = true;
    });
}

void test_a_class_is_built_at_each_start(tr_system *sys)
{
    made = destroyed = stopped_unbuilt = 0;
    tr_ref ref = spawn_story(sys, nullptr, {5, false});
    CHECK(tr::ask(sys, ref, Add{" upon", 0})->sum == 9 + 5);
    CHECK(tr::ask(sys, ref, Add{" a time", 0})->sum == 16 + 5);
    tr_restart(sys, ref);
    CHECK(tr::ask(sys, ref, Add{"", 0})->sum == 4 + 5);
    CHECK(made == 2 && destroyed == 1);
    tr_stop(sys, ref);
    CHECK(tr_join(sys, ref, 0, nullptr, nullptr) == TR_OK);
    CHECK(made == 2 && destroyed == 2 && stopped_unbuilt == 0);
}

void test_a_constructor_that_throws_fails_the_start(tr_system *sys)
{
    made = destroyed = stopped_unbuilt = 0;
    auto policy = stopping();
    tr_ref ref = spawn_story(sys, &policy, {5, true});
    tr_result result;
    CHECK(tr_join(sys, ref, 0, &result, nullptr) == TR_OK);
    CHECK(result.reason == TR_FAILED && result.phase == TR_IN_START);
    CHECK(is_same_text(result.text, "no such story"));
    CHECK(made == 0 && destroyed == 0 && stopped_unbuilt == 0);
}

/* ---- exceptions are failures ---- */

void expect_failure(tr_system *sys, int64_t n, tr_err err, const char *text)
{
    auto policy = stopping();
    tr_ref ref = spawn_story(sys, &policy, {0, false});
    tr_result result;
    try {
        tr::ask(sys, ref, Add{"!", n});
        CHECK(!"an answer");
    } catch (const tr::error &e) {
        CHECK(e.code() == err);
        CHECK(std::strstr(e.what(), text) != nullptr);
    }
    CHECK(tr_join(sys, ref, 0, &result, nullptr) == TR_OK);
    CHECK(result.reason == TR_FAILED && result.err == err);
    CHECK(is_same_text(result.text, text));
}

void test_exceptions_are_failures(tr_system *sys)
{
    expect_failure(sys, 1, TR_EFAILED, "the story ends: once!");
    expect_failure(sys, 2, TR_EIO, "no ink");
    expect_failure(sys, 3, TR_ENOMEM, std::bad_alloc().what());
    expect_failure(sys, 4, TR_EFAILED,
                   "an exception that is not a std::exception");
    expect_failure(sys, 5, TR_EFAILED, "after a wait");
}

/* ---- hooks, system messages, calls inside of handlers ---- */

TR_MESSAGE(Go, (tr_ref, to), (tr_ref, report));
TR_MESSAGE(Heard, (int32_t, what), (const char *, text));

struct Ear {
    tr_ref report;
    int64_t heard;
};

tr_err ear_start(tr_ctx *ctx, Ear *)
{
    tr::subscribe<Point>(ctx);
    return TR_OK;
}

tr_err on_go(tr_ctx *ctx, Ear *self, const Go *m)
{
    self->report = m->report;
    tr_watch(ctx, m->to);
    auto first = tr::async(ctx, m->to, Add{"", 10});
    auto second = tr::async(ctx, m->to, Add{"", 20});
    CHECK(tr::await(ctx, second)->sum == 30);
    CHECK(tr::await(ctx, first)->sum == 10);
    int64_t expected = 35;
    tr::ask_then(ctx, self, m->to, Add{"", 5},
                 [expected](tr_ctx *c, Ear *me, const Wide *wide, tr_err err) {
                     CHECK(err == TR_OK && wide->sum == expected);
                     tr::tell(c, me->report, Heard{1, "then"});
                     tr::publish(c, Point{3, 4});
                     return TR_OK;
                 });
    return TR_OK;
}

tr_err on_point(tr_ctx *ctx, Ear *self, const Point *m)
{
    CHECK(m->x == 3 && m->y == 4);
    tr::tell(ctx, self->report, Heard{2, "point"});
    tr::after(ctx, TR_MS(1), Wide{7});
    return TR_OK;
}

tr_err on_late_wide(tr_ctx *ctx, Ear *self, const Wide *m)
{
    CHECK(m->sum == 7);
    tr::tell(ctx, self->report, Heard{3, "became"});
    return TR_OK;
}

TR_ACTOR_DECLARE(second_ear, Ear);

tr_err on_wide(tr_ctx *ctx, Ear *self, const Wide *m)
{
    tr::become(ctx, self, second_ear);
    tr::tell(ctx, tr_self(ctx), *m);
    return TR_OK;
}

tr_err on_terminated(tr_ctx *ctx, Ear *self, const tr_terminated *m)
{
    CHECK(m->reason == TR_STOPPED);
    tr::tell(ctx, self->report, Heard{4, "terminated"});
    tr_ask_pipe(ctx, m->actor, 0, Add::tr_type_of(), [] {
        static const Add add = {"", 1};
        return &add;
    }());
    return TR_OK;
}

tr_err on_ask_failed(tr_ctx *ctx, Ear *self, const tr_ask_failed *m)
{
    CHECK(m->err == TR_EGONE || m->err == TR_ENOENT);
    tr::tell(ctx, self->report, Heard{5, "ask failed"});
    throw std::runtime_error("an ear breaks");
}

TR_ACTOR(ear, Ear, TR_HOOK(pre_start, ear_start), TR_ON(Go, on_go),
         TR_ON(Point, on_point), TR_ON(Wide, on_wide),
         TR_ON(tr_terminated, on_terminated),
         TR_ON(tr_ask_failed, on_ask_failed));
TR_ACTOR_PUBLIC(second_ear, Ear, TR_ON(Wide, on_late_wide),
                TR_ON(tr_terminated, on_terminated),
                TR_ON(tr_ask_failed, on_ask_failed));

/* The parent of the ear: a decider, and the end of a child. */
struct Head {
    tr_ref report;
};

tr_directive decide(const Head *, const tr_failure *failure)
{
    CHECK(is_same_text(failure->text, "an ear breaks"));
    throw 1;  // has not decided: the policy decides
}

tr_err on_child_end(tr_ctx *ctx, Head *self, const tr_child_end *end)
{
    tr::tell(ctx, self->report, Heard{6, end->text});
    return TR_OK;
}

tr_err head_start(tr_ctx *ctx, Head *self)
{
    auto policy = stopping();
    tr::spawn_with(ctx, ear, Ear{self->report, 0}, [&](tr_spawn_options &o) {
        o.name = "ear";
        o.supervision = &policy;
    });
    return TR_OK;
}

TR_ACTOR(head, Head, TR_HOOK(pre_start, head_start), TR_HOOK(decide, decide),
         TR_HOOK(child_terminated, on_child_end));

void expect_heard(tr_probe *probe, int32_t what, const char *text)
{
    const Heard &heard = tr::expect<Heard>(probe, 0);
    CHECK(heard.what == what);
    CHECK(is_same_text(heard.text, text));
}

void test_hooks_and_system_messages(tr_system *sys)
{
    tr_probe *probe;
    TR_MUST(tr_probe_new(&probe, sys));
    tr_ref report = tr_probe_ref(probe);
    tr_ref adder = tr_spawn(sys, c_adder(), nullptr);
    tr_ref parent = tr::spawn_with(
        sys, head, Head{report}, [](tr_spawn_options &o) { o.name = "head"; });
    CHECK(tr_started(sys, parent, 0) == TR_OK);
    tr::tell(sys, tr_lookup(sys, "/user/head/ear"), Go{adder, report});
    expect_heard(probe, 1, "then");
    expect_heard(probe, 2, "point");
    expect_heard(probe, 3, "became");
    tr_stop(sys, adder);
    expect_heard(probe, 4, "terminated");
    expect_heard(probe, 5, "ask failed");
    expect_heard(probe, 6, "an ear breaks");
    tr_probe_free(probe);
}

/* ---- states and answers ---- */

tr_err ledger_add(tr_ctx *ctx, Ledger *self, const Add *m)
{
    CHECK(is_same_text(self->owner, "ann") && self->points.count == 2);
    CHECK(self->points.at[1].y == 4);
    self->sum += m->n;
    return tr::reply(ctx, m, Wide{self->sum});
}

tr_err ledger_rich(tr_ctx *, const Ledger *, const Rich *m)
{
    CHECK(m->age.has && m->age.value == 42 && !m->last.has);
    CHECK(m->points.count == 1 && m->points.at[0].x == 8);
    return TR_OK;
}

TR_ACTOR(ledger, Ledger, TR_ON(Add, ledger_add), TR_ON_READ(Rich, ledger_rich));

void test_a_stored_state_is_copied_deep(tr_system *sys)
{
    std::string owner = "ann";
    Point points[] = {{1, 2}, {3, 4}};
    tr_ref ref =
        tr::spawn_with(sys, ledger, Ledger{100, owner.c_str(), {points, 2}});
    owner = "bob";
    points[1].y = 0;
    Point sent[] = {{8, 9}};
    Rich rich = {};
    rich.age = TR_SOME(42);
    rich.points = {sent, 1};
    tr::tell(sys, ref, rich);
    CHECK(c_ask(sys, ref, 11) == 111);
    auto answer = tr::ask(sys, ref, Add{"", 1});
    answer = tr::ask(sys, ref, Add{"", 1});
    CHECK(answer->sum == 113);
    CHECK(tr::try_tell(sys, ref, Add{"", 1}) == TR_OK);
}

/* ---- ends, events ---- */

TR_MESSAGE(Wait, (tr_ref, report));
TR_MESSAGE(Paid, (int64_t, cents));
TR_STATE(Purse, (int64_t, cents));

int ended_waits;

struct Waiter {
    std::string why = "ends";
};

tr_err on_wait(tr_ctx *ctx, Waiter *self, const Wait *m)
{
    struct Guard {
        ~Guard()
        {
            ended_waits++;
        }
    } guard;
    tr::tell(ctx, m->report, Heard{7, self->why.c_str()});
    tr::check(ctx, tr_sleep(ctx, TR_FOREVER));
    return TR_OK;
}

TR_ACTOR(waiter, Waiter, TR_ON(Wait, on_wait));

void test_a_wait_that_is_ended_unwinds_and_is_no_failure(tr_system *sys)
{
    tr_probe *probe;
    TR_MUST(tr_probe_new(&probe, sys));
    ended_waits = 0;
    tr_ref ref =
        tr::spawn(sys, waiter, [](tr_spawn_options &o) { o.joinable = true; });
    tr::tell(sys, ref, Wait{tr_probe_ref(probe)});
    expect_heard(probe, 7, "ends");
    tr_kill(sys, ref);
    tr_result result;
    CHECK(tr_join(sys, ref, 0, &result, nullptr) == TR_OK);
    CHECK(result.reason == TR_KILLED && ended_waits == 1);
    tr_probe_free(probe);
}

void apply_paid(Purse *self, const Paid *event)
{
    if (event->cents == 13) {
        throw std::domain_error("bad luck");
    }
    self->cents += event->cents;
}

tr_err purse_add(tr_ctx *ctx, Purse *self, const Add *m)
{
    tr::emit(ctx, self, Paid{m->n});
    return tr::reply(ctx, m, Wide{self->cents});
}

TR_ACTOR(purse, Purse, TR_ON(Add, purse_add), TR_APPLY(Paid, apply_paid));

void test_events_apply_and_an_exception_there_panics(tr_system *sys,
                                                     tr_storage *storage)
{
    auto policy = stopping();
    tr_ref ref = tr::spawn(sys, purse, [&](tr_spawn_options &o) {
        o.name = "purse";
        o.storage = storage;
        o.supervision = &policy;
        o.joinable = true;
    });
    CHECK(tr::ask(sys, ref, Add{"", 5})->sum == 5);
    CHECK(tr::ask(sys, ref, Add{"", 6})->sum == 11);
    try {
        tr::ask(sys, ref, Add{"", 13});
        CHECK(!"an answer");
    } catch (const tr::error &e) {
        CHECK(e.code() == TR_EPANIC);
    }
    tr_result result;
    CHECK(tr_join(sys, ref, 0, &result, nullptr) == TR_OK);
    CHECK(result.err == TR_EPANIC && is_same_text(result.text, "bad luck"));
}

void test_virtual_actors(tr_system *sys, tr_storage *storage)
{
    auto hosted = tr::options<tr_host_options>();
    hosted.storage = storage;
    TR_MUST(tr_host(sys, &purse, &hosted));
    CHECK(tr::ask_virtual(sys, "purse", "ann", Add{"", 3})->sum == 3);
    tr::tell_virtual(sys, "purse", "ann", Add{"", 4});
    CHECK(tr::ask_virtual(sys, "purse", "ann", Add{"", 0})->sum == 7);
}

void run_all(bool is_polled)
{
    tr_system *sys;
    auto options = tr::options<tr_system_options>();
    options.poll = is_polled;
    options.log_level = TR_LOG_ERROR + 1;  // the failures are expected
    TR_MUST(tr_system_open(&sys, &options));
    test_a_class_is_built_at_each_start(sys);
    test_a_constructor_that_throws_fails_the_start(sys);
    test_exceptions_are_failures(sys);
    test_hooks_and_system_messages(sys);
    test_a_stored_state_is_copied_deep(sys);
    test_a_wait_that_is_ended_unwinds_and_is_no_failure(sys);
    tr_storage *storage;
    TR_MUST(tr_storage_memory(&storage));
    test_events_apply_and_an_exception_there_panics(sys, storage);
    test_virtual_actors(sys, storage);
    TR_MUST(tr_system_close(sys, 0));
    tr_storage_close(storage);
    CHECK(made == destroyed);
}

}  // namespace

int main()
{
    test_types_are_those_of_c();
    run_all(false);
    run_all(true);
    std::puts("passed");
    return 0;
}
