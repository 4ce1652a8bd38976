// The workloads of troupe-bench for CAF 0.17: an actor is a class-based
// event_based_actor.
//
// usage: [N=count] [W=width] bench WORKLOAD THREADS
#include <caf/all.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

using namespace caf;

using begin_atom = atom_constant<atom("begin")>;
using peer_atom = atom_constant<atom("peer")>;
using ping_atom = atom_constant<atom("ping")>;
using pong_atom = atom_constant<atom("pong")>;
using increment_atom = atom_constant<atom("increment")>;
using finished_atom = atom_constant<atom("finished")>;
using meet_atom = atom_constant<atom("meet")>;
using change_atom = atom_constant<atom("change")>;
using leave_atom = atom_constant<atom("leave")>;

// One run; written before the actors start, but for the counters.
static std::string workload;
static long N, W;
static double started;
static std::atomic<long> counter{0};
static std::vector<actor> all;

static double clock_now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

static double seconds(const timeval &t) {
    return double(t.tv_sec) + double(t.tv_usec) * 1e-6;
}

[[noreturn]] static void report(double value, const char *unit) {
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("%s %.6g %s\n", workload.c_str(), value, unit);
    fflush(stdout);
    fprintf(stderr, "# peak_rss_mb %.1f user %.2f sys %.2f\n",
            double(used.ru_maxrss) / 1024, seconds(used.ru_utime),
            seconds(used.ru_stime));
    _exit(0);
}

static void verify(bool ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "VERIFY FAILED %s\n", what);
    _exit(3);
}

static long parameter(const char *name, long usual) {
    const char *text = getenv(name);
    return text ? atol(text) : usual;
}

static long resident_bytes() {
    long size, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    verify(file && fscanf(file, "%ld %ld", &size, &resident) == 2, "statm");
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static uint64_t random_number(uint64_t &dice) {
    uint64_t x = (dice += 0x9e3779b97f4a7c15u);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// ---- messages

struct player : event_based_actor {
    using event_based_actor::event_based_actor;
    actor peer;
    long seen = 0;

    behavior make_behavior() override {
        return {
            [this](peer_atom, const actor &other) { peer = other; },
            [this](begin_atom) {
                started = clock_now();
                send(peer, ping_atom::value, int64_t{0});
            },
            [this](ping_atom, int64_t i) { send(peer, pong_atom::value, i); },
            [this](pong_atom, int64_t) {
                if (++seen == N)
                    report(double(N) / (clock_now() - started), "rt/s");
                send(peer, ping_atom::value, int64_t{seen});
            },
        };
    }
};

struct consumer : event_based_actor {
    using event_based_actor::event_based_actor;
    long sum = 0;

    behavior make_behavior() override {
        return {[this](increment_atom, int64_t by) {
            sum += by;
            if (sum == N * W)
                report(double(sum) / (clock_now() - started), "msg/s");
        }};
    }
};

struct producer : event_based_actor {
    actor to;
    producer(actor_config &config, actor sink)
        : event_based_actor(config), to(std::move(sink)) {}

    behavior make_behavior() override {
        return {[this](begin_atom) {
            for (long i = 0; i < N; i++)
                send(to, increment_atom::value, int64_t{1});
        }};
    }
};

struct ring_node : event_based_actor {
    using event_based_actor::event_based_actor;
    actor next;

    behavior make_behavior() override {
        return {
            [this](peer_atom, const actor &other) { next = other; },
            [this](increment_atom, int64_t left) {
                auto relaxed = std::memory_order_relaxed;
                counter.store(counter.load(relaxed) + 1, relaxed);
                if (left == 0) {
                    double took = clock_now() - started;
                    verify(counter == N + 1, "hops of the ring");
                    report(double(N) / took, "hops/s");
                }
                send(next, increment_atom::value, left - 1);
            },
        };
    }
};

// ---- meetings

struct big_actor : event_based_actor {
    long index, sent = 0, expected = -1;
    uint64_t dice;
    actor sink;
    big_actor(actor_config &config, long i, actor s)
        : event_based_actor(config), index(i), dice(uint64_t(i) * 7919),
          sink(std::move(s)) {}

    void ping_someone() {
        uint64_t others = uint64_t(W - 1);
        long to = long(((random_number(dice) >> 32) * others) >> 32);
        if (to >= index)
            to++;
        sent++;
        expected = to;
        send(all[size_t(to)], ping_atom::value, int64_t{index});
    }

    behavior make_behavior() override {
        return {
            [this](begin_atom) { ping_someone(); },
            [this](ping_atom, int64_t from) {
                send(all[size_t(from)], pong_atom::value, int64_t{index});
            },
            [this](pong_atom, int64_t from) {
                verify(from == expected, "pong from another actor");
                if (sent == N)
                    send(sink, finished_atom::value, int64_t{sent});
                else
                    ping_someone();
            },
        };
    }
};

struct big_sink : event_based_actor {
    using event_based_actor::event_based_actor;
    long finished = 0, sum = 0;

    behavior make_behavior() override {
        return {[this](finished_atom, int64_t count) {
            sum += count;
            if (++finished < W)
                return;
            double took = clock_now() - started;
            verify(sum == N * W, "pings of big");
            report(2.0 * double(N) * double(W) / took, "msg/s");
        }};
    }
};

static int32_t mixed(int32_t a, int32_t b) { return a == b ? a : 3 - a - b; }

struct creature : event_based_actor {
    actor mall;
    int32_t colour;
    long meetings = 0;
    creature(actor_config &config, actor place, int32_t first)
        : event_based_actor(config), mall(std::move(place)), colour(first) {}

    void ask_for_meeting() {
        send(mall, meet_atom::value, colour, actor{this});
    }

    behavior make_behavior() override {
        return {
            [this](begin_atom) { ask_for_meeting(); },
            [this](meet_atom, int32_t other, const actor &who) {
                colour = mixed(colour, other);
                meetings++;
                send(who, change_atom::value, colour);
                ask_for_meeting();
            },
            [this](change_atom, int32_t fresh) {
                colour = fresh;
                meetings++;
                ask_for_meeting();
            },
            [this](leave_atom) {
                send(mall, finished_atom::value, int64_t{meetings});
            },
        };
    }
};

struct mall_actor : event_based_actor {
    using event_based_actor::event_based_actor;
    actor waiting;
    long left = N, finished = 0, sum = 0;

    behavior make_behavior() override {
        return {
            [this](meet_atom, int32_t colour, const actor &who) {
                if (left == 0) {
                    send(who, leave_atom::value);
                } else if (!waiting) {
                    waiting = who;
                } else {
                    left--;
                    send(waiting, meet_atom::value, colour, who);
                    waiting = nullptr;
                }
            },
            [this](finished_atom, int64_t meetings) {
                sum += meetings;
                if (++finished < W)
                    return;
                double took = clock_now() - started;
                verify(sum == 2 * N, "meetings of chameneos");
                report(double(N) / took, "meetings/s");
            },
        };
    }
};

// ---- actors that come and go

struct short_lived : event_based_actor {
    using event_based_actor::event_based_actor;

    behavior make_behavior() override {
        return {[this](increment_atom, int64_t) {
            if (counter.fetch_add(1, std::memory_order_relaxed) + 1 == N)
                report(double(N) / (clock_now() - started), "actors/s");
            quit();
        }};
    }
};

struct forker : event_based_actor {
    using event_based_actor::event_based_actor;

    behavior make_behavior() override {
        return {[this](begin_atom) {
            started = clock_now();
            for (long i = 0; i < N; i++) {
                auto child = spawn<short_lived, lazy_init>();
                send(child, increment_atom::value, int64_t{i});
            }
        }};
    }
};

static const int64_t branches = 10;

struct skynet_node : event_based_actor {
    actor parent;
    int64_t first, size, sum = 0, left = branches;
    skynet_node(actor_config &config, actor p, int64_t f, int64_t s)
        : event_based_actor(config), parent(std::move(p)), first(f), size(s) {}

    void report_and_end(int64_t value) {
        send(parent, increment_atom::value, value);
        quit();
    }

    behavior make_behavior() override {
        return {
            [this](begin_atom) {
                if (size == 1)
                    return report_and_end(first);
                int64_t part = size / branches;
                for (int64_t i = 0; i < branches; i++) {
                    auto child = spawn<skynet_node, lazy_init>(
                        actor{this}, first + i * part, part);
                    send(child, begin_atom::value);
                }
            },
            [this](increment_atom, int64_t value) {
                sum += value;
                if (--left == 0)
                    report_and_end(sum);
            },
        };
    }
};

struct skynet_root : event_based_actor {
    using event_based_actor::event_based_actor;

    behavior make_behavior() override {
        return {
            [this](begin_atom) {
                started = clock_now();
                auto top = spawn<skynet_node, lazy_init>(
                    actor{this}, int64_t{0}, int64_t{N});
                send(top, begin_atom::value);
            },
            [](increment_atom, int64_t sum) {
                double took = clock_now() - started;
                verify(sum == N * (N - 1) / 2, "sum of skynet");
                report(took * 1e3, "ms");
            },
        };
    }
};

struct idle_actor : event_based_actor {
    using event_based_actor::event_based_actor;
    long sum = 0;

    behavior make_behavior() override {
        return {[this](increment_atom, int64_t by) {
            sum += by;
            counter.fetch_add(1, std::memory_order_relaxed);
        }};
    }
};

struct maker : event_based_actor {
    using event_based_actor::event_based_actor;

    behavior make_behavior() override {
        return {[this](begin_atom) {
            started = clock_now();
            for (long i = 0; i < N; i++)
                all[size_t(i)] = spawn<idle_actor, lazy_init>();
            report(double(N) / (clock_now() - started), "actors/s");
        }};
    }
};

// ---- request and reply

struct server : event_based_actor {
    using event_based_actor::event_based_actor;

    behavior make_behavior() override {
        return {[](ping_atom, int64_t value) { return value + 1; }};
    }
};

// An event-based actor cannot wait inside its handler: it asks again from the
// callback.
struct client : event_based_actor {
    actor to;
    int64_t asked = 0;
    client(actor_config &config, actor s)
        : event_based_actor(config), to(std::move(s)) {}

    void ask_again() {
        request(to, infinite, ping_atom::value, asked)
            .then([this](int64_t answer) {
                verify(answer == ++asked, "answer");
                if (asked < N)
                    ask_again();
                else if (counter.fetch_add(1) + 1 == W)
                    report((clock_now() - started) / double(N * W) * 1e9, "ns");
            });
    }

    behavior make_behavior() override {
        return {[this](begin_atom) { ask_again(); }};
    }
};

static void ask_outside(actor_system &system, useconds_t pause) {
    scoped_actor self{system};
    actor to = system.spawn<server>();
    std::vector<double> took(static_cast<size_t>(N));
    double sum = 0;
    for (long i = 0; i < N; i++) {
        if (pause > 0)
            usleep(pause);
        double begin = clock_now();
        self->request(to, infinite, ping_atom::value, int64_t{i})
            .receive([&](int64_t answer) { verify(answer == i + 1, "answer"); },
                     [](error &) { verify(false, "ask"); });
        took[size_t(i)] = clock_now() - begin;
        sum += took[size_t(i)];
    }
    std::sort(took.begin(), took.end());
    fprintf(stderr, "# %s p50 %.3f p99 %.3f us\n", workload.c_str(),
            took[size_t(N / 2)] * 1e6, took[size_t(N * 99 / 100)] * 1e6);
    report(sum / double(N) * 1e6, "us");
}

// ---- the runs

static void sizes(long n, long w) {
    N = parameter("N", n);
    W = parameter("W", w);
}

[[noreturn]] static void sleep_until_reported() {
    for (;;)
        pause();
}

[[noreturn]] static void start_all(actor_system &system) {
    scoped_actor self{system};
    usleep(50000);
    started = clock_now();
    for (auto &one : all)
        self->send(one, begin_atom::value);
    sleep_until_reported();
}

[[noreturn]] static void start_one(actor_system &system, const actor &one) {
    scoped_actor self{system};
    self->send(one, begin_atom::value);
    sleep_until_reported();
}

static void run_ping_pong(actor_system &system) {
    sizes(1000000, 1);
    scoped_actor self{system};
    actor one = system.spawn<player>(), two = system.spawn<player>();
    self->send(one, peer_atom::value, two);
    self->send(two, peer_atom::value, one);
    self->send(one, begin_atom::value);
    sleep_until_reported();
}

static void run_stream(actor_system &system, long producers) {
    W = producers;
    actor sink = system.spawn<consumer>();
    for (long i = 0; i < producers; i++)
        all.push_back(system.spawn<producer>(sink));
    start_all(system);
}

static void run_thread_ring(actor_system &system) {
    sizes(10000000, 100);
    scoped_actor self{system};
    for (long i = 0; i < W; i++)
        all.push_back(system.spawn<ring_node>());
    for (size_t i = 0; i < all.size(); i++)
        self->send(all[i], peer_atom::value, all[(i + 1) % all.size()]);
    usleep(50000);
    started = clock_now();
    self->send(all[0], increment_atom::value, int64_t{N});
    sleep_until_reported();
}

static void run_big(actor_system &system) {
    sizes(20000, 120);
    actor sink = system.spawn<big_sink>();
    for (long i = 0; i < W; i++)
        all.push_back(system.spawn<big_actor>(i, sink));
    start_all(system);
}

static void run_chameneos(actor_system &system) {
    sizes(2000000, 100);
    actor mall = system.spawn<mall_actor>();
    for (long i = 0; i < W; i++)
        all.push_back(system.spawn<creature>(mall, int32_t(i % 3)));
    start_all(system);
}

static void run_skynet(actor_system &system) {
    sizes(1000000, 1);
    long leaves = 1;
    while (leaves * branches <= N)
        leaves *= branches;
    N = leaves;
    start_one(system, system.spawn<skynet_root>());
}

static void run_idle_mem(actor_system &system) {
    sizes(1000000, 1);
    scoped_actor self{system};
    all.resize(size_t(N));
    usleep(10000);
    long before = resident_bytes();
    for (auto &one : all) {
        one = system.spawn<idle_actor, lazy_init>();
        self->send(one, increment_atom::value, int64_t{1});
    }
    while (counter < N)
        usleep(1000);
    sleep(1);
    report(double(resident_bytes() - before) / double(N), "B/actor");
}

static void run_ask_inside(actor_system &system, bool one_server) {
    sizes(20000, 100);
    actor to = system.spawn<server>();
    for (long i = 0; i < W; i++) {
        if (!one_server)
            to = system.spawn<server>();
        all.push_back(system.spawn<client>(to));
    }
    start_all(system);
}

static void run(actor_system &system) {
    if (workload == "ping_pong")
        return run_ping_pong(system);
    if (workload == "counting")
        return sizes(10000000, 1), run_stream(system, 1);
    if (workload == "fan_in")
        return sizes(100000, 100), run_stream(system, W);
    if (workload == "thread_ring")
        return run_thread_ring(system);
    if (workload == "big")
        return run_big(system);
    if (workload == "chameneos")
        return run_chameneos(system);
    if (workload == "fork_join_create")
        return sizes(1000000, 1), start_one(system, system.spawn<forker>());
    if (workload == "skynet")
        return run_skynet(system);
    if (workload == "spawn") {
        sizes(1000000, 1);
        all.resize(size_t(N));
        start_one(system, system.spawn<maker>());
    }
    if (workload == "idle_mem")
        return run_idle_mem(system);
    if (workload == "ask")
        return sizes(200000, 1), ask_outside(system, 0);
    if (workload == "ask_slept")
        return sizes(2000, 1), ask_outside(system, 1000);
    if (workload == "ask_await")
        return run_ask_inside(system, false);
    if (workload == "ask_await_server")
        return run_ask_inside(system, true);
    verify(false, "unknown workload");
}

int main(int argc, char **argv) {
    verify(argc == 3, "usage: bench WORKLOAD THREADS");
    workload = argv[1];
    actor_system_config config;
    config.set("scheduler.max-threads", size_t(atol(argv[2])));
    actor_system system{config};
    run(system);
}
