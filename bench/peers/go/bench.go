// The workloads of troupe-bench for Go: an actor is one goroutine that reads
// one buffered channel of messages sent by value.
//
// usage: [N=count] [W=width] bench WORKLOAD GOMAXPROCS
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

type kind int32

const (
	begin kind = iota
	ping
	pong
	increment
	done
	meet
	change
	leave
	finished
)

type message struct {
	kind   kind
	colour int32
	value  int64
	to     chan message
}

type question struct {
	value  int64
	answer chan int64
}

const (
	mailboxSize   = 1024
	smallMailbox  = 16 // where every actor has one of its own
	outstanding   = 64 // armed timers of each actor
	settle        = 50 * time.Millisecond
	farMin        = 100 * time.Second
	farSpread     = 50 * time.Second
	nearSpread    = time.Millisecond
	skynetBranch  = 10
	pauseOfSlept  = time.Millisecond
	memorySettles = time.Second
)

var workload string

func parameter(name string, usual int64) int64 {
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	value, err := strconv.ParseInt(text, 10, 64)
	verify(err == nil, name)
	return value
}

func verify(ok bool, what string) {
	if !ok {
		fmt.Fprintln(os.Stderr, "VERIFY FAILED", what)
		os.Exit(3)
	}
}

func seconds(t syscall.Timeval) float64 {
	return float64(t.Sec) + float64(t.Usec)*1e-6
}

func report(value float64, unit string) {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	fmt.Printf("%s %.6g %s\n", workload, value, unit)
	fmt.Fprintf(os.Stderr, "# peak_rss_mb %.1f user %.2f sys %.2f\n",
		float64(used.Maxrss)/1024, seconds(used.Utime), seconds(used.Stime))
}

func residentBytes() int64 {
	text, _ := os.ReadFile("/proc/self/statm")
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	verify(err == nil, "statm")
	return pages * int64(os.Getpagesize())
}

func random(dice *uint64) uint64 {
	*dice += 0x9e3779b97f4a7c15
	x := *dice
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

func below(dice uint64, limit int64) int64 {
	return int64(((dice >> 32) * uint64(limit)) >> 32)
}

func mailboxes(count int64) []chan message {
	all := make([]chan message, count)
	for i := range all {
		all[i] = make(chan message, mailboxSize)
	}
	return all
}

func startAll(all []chan message) {
	for _, c := range all {
		c <- message{kind: begin}
	}
}

// ---- messages

func pingPong() {
	n := parameter("N", 1000000)
	one := make(chan message, mailboxSize)
	two := make(chan message, mailboxSize)
	end := make(chan time.Duration)
	go func() {
		for m := range two {
			one <- message{kind: pong, value: m.value}
		}
	}()
	go func() {
		var start time.Time
		for m := range one {
			switch {
			case m.kind == begin:
				start = time.Now()
				two <- message{kind: ping}
			case m.value+1 == n:
				end <- time.Since(start)
				return
			default:
				two <- message{kind: ping, value: m.value + 1}
			}
		}
	}()
	one <- message{kind: begin}
	report(float64(n)/(<-end).Seconds(), "rt/s")
}

func stream(n, producers int64) {
	sink := make(chan message, mailboxSize)
	end := make(chan time.Time)
	go func() {
		sum := int64(0)
		for m := range sink {
			sum += m.value
			if sum == n*producers {
				end <- time.Now()
			}
		}
	}()
	all := mailboxes(producers)
	for _, own := range all {
		own := own
		go func() {
			for range own {
				for i := int64(0); i < n; i++ {
					sink <- message{kind: increment, value: 1}
				}
			}
		}()
	}
	time.Sleep(settle)
	start := time.Now()
	startAll(all)
	report(float64(n*producers)/(<-end).Sub(start).Seconds(), "msg/s")
}

func counting() { stream(parameter("N", 10000000), 1) }
func fanIn()    { stream(parameter("N", 100000), parameter("W", 100)) }

func threadRing() {
	n, w := parameter("N", 10000000), parameter("W", 100)
	all := mailboxes(w)
	const apart = 8 // counters on lines of their own
	seen := make([]int64, w*apart)
	end := make(chan time.Time)
	for i := range all {
		i, own, next := i, all[i], all[(i+1)%len(all)]
		go func() {
			for m := range own {
				seen[i*apart]++
				if m.value == 0 {
					end <- time.Now()
					return
				}
				next <- message{kind: increment, value: m.value - 1}
			}
		}()
	}
	time.Sleep(settle)
	start := time.Now()
	all[0] <- message{kind: increment, value: n}
	took := (<-end).Sub(start)
	sum := int64(0)
	for _, k := range seen {
		sum += k
	}
	verify(sum == n+1, "hops of the ring")
	report(float64(n)/took.Seconds(), "hops/s")
}

// ---- meetings

func big() {
	n, w := parameter("N", 20000), parameter("W", 120)
	all := mailboxes(w)
	sink := make(chan int64, mailboxSize)
	for i := range all {
		index := int64(i)
		go bigActor(all, index, n, sink)
	}
	time.Sleep(settle)
	start := time.Now()
	startAll(all)
	sum := int64(0)
	for range all {
		sum += <-sink
	}
	took := time.Since(start)
	verify(sum == n*w, "pings of big")
	report(float64(2*n*w)/took.Seconds(), "msg/s")
}

func bigActor(all []chan message, index, n int64, sink chan int64) {
	dice := uint64(index) * 7919
	sent, expected := int64(0), int64(-1)
	pingSomeone := func() {
		to := below(random(&dice), int64(len(all)-1))
		if to >= index {
			to++
		}
		sent++
		expected = to
		all[to] <- message{kind: ping, value: index}
	}
	for m := range all[index] {
		switch m.kind {
		case begin:
			pingSomeone()
		case ping:
			all[m.value] <- message{kind: pong, value: index}
		case pong:
			verify(m.value == expected, "pong from another actor")
			if sent == n {
				sink <- sent
			} else {
				pingSomeone()
			}
		}
	}
}

func mixed(a, b int32) int32 {
	if a == b {
		return a
	}
	return 3 - a - b
}

func chameneos() {
	n, w := parameter("N", 2000000), parameter("W", 100)
	mall := make(chan message, mailboxSize)
	end := make(chan time.Time)
	go mallActor(mall, n, w, end)
	all := mailboxes(w)
	for i := range all {
		go creature(all[i], mall, int32(i%3))
	}
	time.Sleep(settle)
	start := time.Now()
	startAll(all)
	report(float64(n)/(<-end).Sub(start).Seconds(), "meetings/s")
}

func mallActor(mall chan message, n, w int64, end chan time.Time) {
	left, sum, gone := n, int64(0), int64(0)
	var waiting chan message
	for m := range mall {
		switch {
		case m.kind == finished:
			sum += m.value
			gone++
			if gone == w {
				verify(sum == 2*n, "meetings of chameneos")
				end <- time.Now()
			}
		case left == 0:
			m.to <- message{kind: leave}
		case waiting == nil:
			waiting = m.to
		default:
			left--
			waiting <- message{kind: meet, colour: m.colour, to: m.to}
			waiting = nil
		}
	}
}

func creature(own, mall chan message, colour int32) {
	meetings := int64(0)
	for m := range own {
		switch m.kind {
		case meet:
			colour = mixed(colour, m.colour)
			meetings++
			m.to <- message{kind: change, colour: colour}
		case change:
			colour = m.colour
			meetings++
		case leave:
			mall <- message{kind: finished, value: meetings}
			continue
		}
		mall <- message{kind: meet, colour: colour, to: own}
	}
}

// ---- actors that come and go

func forkJoinCreate() {
	n := parameter("N", 1000000)
	end := make(chan time.Time)
	var handled int64
	start := time.Now()
	go func() {
		for i := int64(0); i < n; i++ {
			c := make(chan message, smallMailbox)
			go func() {
				<-c
				if atomic.AddInt64(&handled, 1) == n {
					end <- time.Now()
				}
			}()
			c <- message{kind: increment, value: i}
		}
	}()
	report(float64(n)/(<-end).Sub(start).Seconds(), "actors/s")
}

func skynetNode(parent chan int64, first, size int64) {
	if size == 1 {
		parent <- first
		return
	}
	own := make(chan int64, skynetBranch)
	part := size / skynetBranch
	for i := int64(0); i < skynetBranch; i++ {
		go skynetNode(own, first+i*part, part)
	}
	sum := int64(0)
	for i := 0; i < skynetBranch; i++ {
		sum += <-own
	}
	parent <- sum
}

func skynet() {
	n, leaves := parameter("N", 1000000), int64(1)
	for leaves*skynetBranch <= n {
		leaves *= skynetBranch
	}
	root := make(chan int64, 1)
	start := time.Now()
	go skynetNode(root, 0, leaves)
	sum := <-root
	took := time.Since(start)
	verify(sum == leaves*(leaves-1)/2, "sum of skynet")
	report(took.Seconds()*1e3, "ms")
}

func spawn() {
	n := parameter("N", 1000000)
	all := make([]chan message, n)
	end := make(chan time.Duration)
	go func() {
		start := time.Now()
		for i := range all {
			c := make(chan message, smallMailbox)
			all[i] = c
			go func() { <-c }()
		}
		end <- time.Since(start)
	}()
	report(float64(n)/(<-end).Seconds(), "actors/s")
	runtime.KeepAlive(all)
}

func idleMem() {
	n := parameter("N", 1000000)
	var handled int64
	nobody := make(chan message)
	all := make([]chan message, n)
	for i := range all {
		all[i] = nobody // touched: the table is not the actors' memory
	}
	runtime.GC()
	before := residentBytes()
	for i := range all {
		c := make(chan message, smallMailbox)
		all[i] = c
		go func() {
			sum := int64(0)
			for m := range c {
				sum += m.value
				atomic.AddInt64(&handled, 1)
			}
		}()
		c <- message{kind: increment, value: 1}
	}
	for atomic.LoadInt64(&handled) < n {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(memorySettles)
	each := float64(residentBytes()-before) / float64(n)
	runtime.KeepAlive(all)
	report(each, "B/actor")
}

// ---- request and reply

func server() chan question {
	c := make(chan question, mailboxSize)
	go func() {
		for q := range c {
			q.answer <- q.value + 1
		}
	}()
	return c
}

func ask(to chan question, value int64) {
	answer := make(chan int64, 1)
	to <- question{value, answer}
	verify(<-answer == value+1, "answer")
}

// The outside thread is a goroutine locked to an OS thread of its own.
func askOutside(n int64, pause time.Duration) {
	runtime.LockOSThread()
	to := server()
	took := make([]float64, n)
	sum := 0.0
	for i := range took {
		if pause > 0 {
			time.Sleep(pause)
		}
		start := time.Now()
		ask(to, int64(i))
		took[i] = time.Since(start).Seconds()
		sum += took[i]
	}
	sort.Float64s(took)
	fmt.Fprintf(os.Stderr, "# %s p50 %.3f p99 %.3f us\n", workload,
		took[n/2]*1e6, took[n*99/100]*1e6)
	report(sum/float64(n)*1e6, "us")
}

func askFast()  { askOutside(parameter("N", 200000), 0) }
func askSlept() { askOutside(parameter("N", 2000), pauseOfSlept) }

func askInside(oneServer bool) {
	n, w := parameter("N", 20000), parameter("W", 100)
	all := mailboxes(w)
	end := make(chan bool, w)
	to := server()
	for _, own := range all {
		if !oneServer {
			to = server()
		}
		own, to := own, to
		go func() {
			<-own
			for i := int64(0); i < n; i++ {
				ask(to, i)
			}
			end <- true
		}()
	}
	time.Sleep(settle)
	start := time.Now()
	startAll(all)
	for range all {
		<-end
	}
	report(time.Since(start).Seconds()/float64(n*w)*1e9, "ns")
}

func askAwait()       { askInside(false) }
func askAwaitServer() { askInside(true) }

// ---- timers

func perActor(n, w int64) int64 {
	if n < w {
		return 1
	}
	return n / w
}

func armAndCancel(each int64, dice uint64) {
	var armed [outstanding]*time.Timer
	for i := int64(0); i < each+outstanding; i++ {
		if i >= outstanding && i-outstanding < each {
			stopped := armed[i%outstanding].Stop()
			verify(stopped, "a cancelled timer fired")
		}
		more := time.Duration(random(&dice) % uint64(farSpread))
		if i < each {
			armed[i%outstanding] = time.AfterFunc(farMin+more, func() {})
		}
	}
}

func armAll(own chan message, each int64, dice uint64) {
	for i := int64(0); i < each; i++ {
		span := time.Duration(random(&dice) % uint64(nearSpread))
		time.AfterFunc(span, func() { own <- message{kind: done} })
	}
	for i := int64(0); i < each; i++ {
		<-own
	}
}

func timersOf(n int64, fire bool) {
	w := parameter("W", 100)
	each := perActor(n, w)
	all := mailboxes(w)
	end := make(chan bool, w)
	for i, own := range all {
		dice, own := uint64(i), own
		go func() {
			<-own
			if fire {
				armAll(own, each, dice)
			} else {
				armAndCancel(each, dice)
			}
			end <- true
		}()
	}
	time.Sleep(settle)
	start := time.Now()
	startAll(all)
	for range all {
		<-end
	}
	report(float64(each*w)/time.Since(start).Seconds(), "timers/s")
}

func timers()     { timersOf(parameter("N", 5000000), false) }
func timersFire() { timersOf(parameter("N", 1000000), true) }

func main() {
	workloads := map[string]func(){
		"ping_pong": pingPong, "counting": counting, "fan_in": fanIn,
		"thread_ring": threadRing, "big": big, "chameneos": chameneos,
		"fork_join_create": forkJoinCreate, "skynet": skynet,
		"spawn": spawn, "idle_mem": idleMem, "ask": askFast,
		"ask_slept": askSlept, "ask_await": askAwait,
		"ask_await_server": askAwaitServer, "timers": timers,
		"timers_fire": timersFire,
	}
	verify(len(os.Args) == 3, "usage: bench WORKLOAD GOMAXPROCS")
	workload = os.Args[1]
	threads, _ := strconv.Atoi(os.Args[2])
	runtime.GOMAXPROCS(threads)
	run, found := workloads[workload]
	verify(found, "unknown workload")
	run()
}
