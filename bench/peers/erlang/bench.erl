%% The workloads of troupe-bench for Erlang: an actor is a process.
%%
%% usage: [N=count] [W=width] erl -noshell +S 2:2 +P 4000000 \
%%            -s bench main WORKLOAD
%%
%% There is no `ask` here: a process is never outside the system. What two
%% processes take to ask each other is `ask_await`.
-module(bench).
-export([main/1]).
-compile([inline]).

-define(SETTLE_MS, 50).
-define(OUTSTANDING, 64).       % armed timers of each process
-define(FAR_MIN_MS, 100000).
-define(FAR_SPREAD_MS, 50000).
-define(BRANCHES, 10).

main([Workload]) ->
    Main = self(),
    spawn_link(fun() -> run(Workload, Main) end),
    receive
        {result, Value, Unit} ->
            io:format("~s ~.6g ~s~n", [Workload, float(Value), Unit]),
            io:format(standard_error, "# peak_rss_mb ~.1f~n", [peak_mb()]),
            halt(0)
    end.

seconds() -> erlang:monotonic_time(nanosecond) / 1.0e9.

parameter(Name, Usual) ->
    case os:getenv(Name) of
        false -> Usual;
        Text -> list_to_integer(Text)
    end.

resident_bytes() ->
    {ok, Text} = file:read_file("/proc/self/statm"),
    [_, Pages | _] = string:split(Text, " ", all),
    binary_to_integer(Pages) * 4096.

peak_mb() ->
    {ok, Text} = file:read_file("/proc/self/status"),
    {match, [Kb]} = re:run(Text, "VmHWM:\\s+(\\d+)",
                           [{capture, all_but_first, list}]),
    list_to_integer(Kb) / 1024.

verify(true, _) -> ok;
verify(false, What) ->
    io:format(standard_error, "VERIFY FAILED ~p~n", [What]),
    halt(3).

%% A 31-bit generator: its numbers stay small integers.
random(Dice) -> (Dice * 1103515245 + 12345) band 16#7fffffff.
below(Dice, Limit) -> (Dice bsr 8) rem Limit.

start_all(All) -> [P ! start || P <- All].
wait_all(All) -> [receive done -> ok end || _ <- All].

%% ---- messages

run(ping_pong, Main) ->
    N = parameter("N", 1000000),
    Two = spawn(fun() -> receive {peer, One} -> pong(One) end end),
    One = spawn(fun() ->
        receive start -> ok end,
        T0 = seconds(),
        ping(Two, 0, N),
        Main ! {result, N / (seconds() - T0), "rt/s"}
    end),
    Two ! {peer, One},
    One ! start;
run(counting, Main) ->
    stream(parameter("N", 10000000), 1, Main);
run(fan_in, Main) ->
    stream(parameter("N", 100000), parameter("W", 100), Main);
run(thread_ring, Main) ->
    N = parameter("N", 10000000),
    W = parameter("W", 100),
    Me = self(),
    All = [spawn(fun() -> receive {next, X} -> ring(X, Me, 0) end end)
           || _ <- lists:seq(1, W)],
    close_ring(All, hd(All)),
    timer:sleep(?SETTLE_MS),
    T0 = seconds(),
    hd(All) ! N,
    T1 = receive {finished, T} -> T end,
    [P ! {report, Me} || P <- All],
    Hops = lists:sum([receive {seen, K} -> K end || _ <- All]),
    verify(Hops =:= N + 1, ring),
    Main ! {result, N / (T1 - T0), "hops/s"};

%% ---- meetings

run(big, Main) ->
    N = parameter("N", 20000),
    W = parameter("W", 120),
    Me = self(),
    All = [spawn(fun() ->
        receive {all, T} -> big(I, I * 7919 + 1, T, W, N, 0, -1, Me) end
    end) || I <- lists:seq(0, W - 1)],
    [P ! {all, list_to_tuple(All)} || P <- All],
    timer:sleep(?SETTLE_MS),
    T0 = seconds(),
    start_all(All),
    Sum = lists:sum([receive {done, K} -> K end || _ <- All]),
    T1 = seconds(),
    verify(Sum =:= N * W, big),
    Main ! {result, 2 * N * W / (T1 - T0), "msg/s"};
run(chameneos, Main) ->
    N = parameter("N", 2000000),
    W = parameter("W", 100),
    Me = self(),
    Mall = spawn(fun() -> mall(N, none, 0, 0, W, N, Me) end),
    All = [spawn(fun() ->
        receive start -> Mall ! {meet, I rem 3, self()} end,
        creature(Mall, I rem 3, 0)
    end) || I <- lists:seq(0, W - 1)],
    timer:sleep(?SETTLE_MS),
    T0 = seconds(),
    start_all(All),
    T1 = receive {finished, T} -> T end,
    Main ! {result, N / (T1 - T0), "meetings/s"};

%% ---- processes that come and go

run(fork_join_create, Main) ->
    N = parameter("N", 1000000),
    Handled = atomics:new(1, []),
    Me = self(),
    T0 = seconds(),
    fork_join(N, Handled, N, Me),
    T1 = receive {finished, T} -> T end,
    Main ! {result, N / (T1 - T0), "actors/s"};
run(skynet, Main) ->
    Leaves = full_tree(parameter("N", 1000000), 1),
    Me = self(),
    T0 = seconds(),
    spawn(fun() -> skynet(Me, 0, Leaves) end),
    Sum = receive S -> S end,
    T1 = seconds(),
    verify(Sum =:= Leaves * (Leaves - 1) div 2, skynet),
    Main ! {result, (T1 - T0) * 1000, "ms"};
run(spawn, Main) ->
    N = parameter("N", 1000000),
    T0 = seconds(),
    spawn_idle(N),
    Main ! {result, N / (seconds() - T0), "actors/s"};
run(idle_mem, Main) ->
    idle_mem(fun idle/1, Main);
run(idle_mem_hibernate, Main) ->
    idle_mem(fun idle_hibernating/1, Main);

%% ---- request and reply

run(ask_await, Main) ->
    ask_inside(fun(_) -> spawn(fun server/0) end, Main);
run(ask_await_server, Main) ->
    One = spawn(fun server/0),
    ask_inside(fun(_) -> One end, Main);

%% ---- timers

run(timers, Main) ->
    timers(parameter("N", 5000000), fun arm_and_cancel/2, Main);
run(timers_fire, Main) ->
    timers(parameter("N", 1000000), fun arm_all/2, Main);
run(_, _) ->
    verify(false, unknown_workload).

ping(_, N, N) -> ok;
ping(To, I, N) ->
    To ! {ping, I},
    receive {pong, I} -> ping(To, I + 1, N) end.
pong(To) ->
    receive {ping, I} -> To ! {pong, I}, pong(To) end.

stream(N, W, Main) ->
    Me = self(),
    Sink = spawn(fun() -> consume(0, N * W, Me) end),
    All = [spawn(fun() -> receive start -> produce(Sink, N) end end)
           || _ <- lists:seq(1, W)],
    timer:sleep(?SETTLE_MS),
    T0 = seconds(),
    start_all(All),
    T1 = receive {finished, T} -> T end,
    Main ! {result, N * W / (T1 - T0), "msg/s"}.
produce(_, 0) -> ok;
produce(To, N) -> To ! {increment, 1}, produce(To, N - 1).
consume(Expected, Expected, Me) -> Me ! {finished, seconds()};
consume(Sum, Expected, Me) ->
    receive {increment, By} -> consume(Sum + By, Expected, Me) end.

close_ring([Last], First) -> Last ! {next, First};
close_ring([X, Y | Rest], First) ->
    X ! {next, Y},
    close_ring([Y | Rest], First).
ring(Next, Me, Seen) ->
    receive
        0 -> Me ! {finished, seconds()}, ring(Next, Me, Seen + 1);
        {report, To} -> To ! {seen, Seen};
        Left -> Next ! (Left - 1), ring(Next, Me, Seen + 1)
    end.

big(I, Dice, All, W, N, Sent, Expected, Sink) ->
    receive
        {ping, From} ->
            element(From + 1, All) ! {pong, I},
            big(I, Dice, All, W, N, Sent, Expected, Sink);
        {pong, Expected} when Sent =:= N ->
            Sink ! {done, Sent},
            big(I, Dice, All, W, N, Sent, none, Sink);
        {pong, From} ->
            verify(From =:= Expected, big),
            ping_someone(I, Dice, All, W, N, Sent, Sink);
        start ->
            ping_someone(I, Dice, All, W, N, Sent, Sink)
    end.
ping_someone(I, Dice0, All, W, N, Sent, Sink) ->
    Dice = random(Dice0),
    To = case below(Dice, W - 1) of
        X when X >= I -> X + 1;
        X -> X
    end,
    element(To + 1, All) ! {ping, I},
    big(I, Dice, All, W, N, Sent + 1, To, Sink).

mixed(A, A) -> A;
mixed(A, B) -> 3 - A - B.
creature(Mall, Colour, Meetings) ->
    receive
        {meet, Other, Who} ->
            New = mixed(Colour, Other),
            Who ! {change, New},
            Mall ! {meet, New, self()},
            creature(Mall, New, Meetings + 1);
        {change, New} ->
            Mall ! {meet, New, self()},
            creature(Mall, New, Meetings + 1);
        leave ->
            Mall ! {count, Meetings}
    end.
mall(Left, Waiting, Sum, Gone, W, N, Me) ->
    receive
        {meet, _, Who} when Left =:= 0 ->
            Who ! leave,
            mall(0, Waiting, Sum, Gone, W, N, Me);
        {meet, _, Who} when Waiting =:= none ->
            mall(Left, Who, Sum, Gone, W, N, Me);
        {meet, Colour, Who} ->
            Waiting ! {meet, Colour, Who},
            mall(Left - 1, none, Sum, Gone, W, N, Me);
        {count, K} when Gone + 1 =:= W ->
            verify(Sum + K =:= 2 * N, chameneos),
            Me ! {finished, seconds()};
        {count, K} ->
            mall(Left, Waiting, Sum + K, Gone + 1, W, N, Me)
    end.

fork_join(0, _, _, _) -> ok;
fork_join(I, Handled, N, Me) ->
    Child = spawn(fun() ->
        receive {work, _} -> ok end,
        case atomics:add_get(Handled, 1, 1) of
            N -> Me ! {finished, seconds()};
            _ -> ok
        end
    end),
    Child ! {work, I},
    fork_join(I - 1, Handled, N, Me).

full_tree(N, Leaves) when Leaves * ?BRANCHES > N -> Leaves;
full_tree(N, Leaves) -> full_tree(N, Leaves * ?BRANCHES).
skynet(Parent, First, 1) -> Parent ! First;
skynet(Parent, First, Size) ->
    branch(self(), First, Size div ?BRANCHES, 0),
    Parent ! sum(?BRANCHES, 0).
branch(_, _, _, ?BRANCHES) -> ok;
branch(Me, First, Part, I) ->
    spawn(fun() -> skynet(Me, First + I * Part, Part) end),
    branch(Me, First, Part, I + 1).
sum(0, Sum) -> Sum;
sum(Left, Sum) -> receive Value -> sum(Left - 1, Sum + Value) end.

spawn_idle(0) -> ok;
spawn_idle(I) ->
    spawn(fun() -> receive stop -> ok end end),
    spawn_idle(I - 1).

idle_mem(Body, Main) ->
    N = parameter("N", 1000000),
    Handled = atomics:new(1, []),
    Before = resident_bytes(),
    spawn_greeted(N, Handled, Body),
    wait_for(Handled, N),
    timer:sleep(1000),
    Main ! {result, (resident_bytes() - Before) / N, "B/actor"}.
spawn_greeted(0, _, _) -> ok;
spawn_greeted(I, Handled, Body) ->
    spawn(fun() -> Body(Handled) end) ! {increment, 1},
    spawn_greeted(I - 1, Handled, Body).
wait_for(Handled, N) ->
    case atomics:get(Handled, 1) of
        N -> ok;
        _ -> timer:sleep(10), wait_for(Handled, N)
    end.
idle(Handled) ->
    receive {increment, By} -> atomics:add(Handled, 1, By) end,
    idle(Handled).
idle_hibernating(Handled) ->
    receive {increment, By} -> atomics:add(Handled, 1, By) end,
    erlang:hibernate(lists, seq, [1, 2]).

server() ->
    receive {From, Ref, Value} -> From ! {Ref, Value + 1} end,
    server().
%% As gen_server:call does it: a monitor guards the wait.
ask(_, 0) -> ok;
ask(To, I) ->
    Ref = erlang:monitor(process, To),
    To ! {self(), Ref, I},
    receive {Ref, Answer} -> Answer = I + 1 end,
    erlang:demonitor(Ref, [flush]),
    ask(To, I - 1).
ask_inside(Server, Main) ->
    N = parameter("N", 20000),
    W = parameter("W", 100),
    Me = self(),
    All = [begin
        To = Server(I),
        spawn(fun() -> receive start -> ask(To, N), Me ! done end end)
    end || I <- lists:seq(1, W)],
    timer:sleep(?SETTLE_MS),
    T0 = seconds(),
    start_all(All),
    wait_all(All),
    Main ! {result, (seconds() - T0) / (N * W) * 1.0e9, "ns"}.

timers(N, Body, Main) ->
    W = parameter("W", 100),
    Each = max(1, N div W),
    Me = self(),
    All = [spawn(fun() -> receive start -> Body(Each, I), Me ! done end end)
           || I <- lists:seq(1, W)],
    timer:sleep(?SETTLE_MS),
    T0 = seconds(),
    start_all(All),
    wait_all(All),
    Main ! {result, Each * W / (seconds() - T0), "timers/s"}.
arm_and_cancel(Each, Dice) ->
    arm_and_cancel(Each, Dice, queue:new(), 0).
arm_and_cancel(0, _, Armed, _) ->
    [cancel(T) || T <- queue:to_list(Armed)];
arm_and_cancel(Left, Dice0, Armed, ?OUTSTANDING) ->
    {{value, Oldest}, Rest} = queue:out(Armed),
    cancel(Oldest),
    arm_and_cancel(Left, Dice0, Rest, ?OUTSTANDING - 1);
arm_and_cancel(Left, Dice0, Armed, Count) ->
    Dice = random(Dice0),
    Span = ?FAR_MIN_MS + below(Dice, ?FAR_SPREAD_MS),
    Timer = erlang:send_after(Span, self(), tick),
    arm_and_cancel(Left - 1, Dice, queue:in(Timer, Armed), Count + 1).
cancel(Timer) ->
    verify(is_integer(erlang:cancel_timer(Timer)), timer_fired).
arm_all(Each, _) ->
    [erlang:send_after(I rem 2, self(), tick) || I <- lists:seq(1, Each)],
    [receive tick -> ok end || _ <- lists:seq(1, Each)].
