#!/usr/bin/env python3
"""31_job_queue.py - the job queue with bad clients, bad receivers and SIGKILL."""
import collections
import itertools
import os
import socket
import tempfile
import threading

import program

ANY = "tcp://127.0.0.1:0"
KILLS = 3
CLIENTS = 4
ACCEPTED = 40  # in each life


class Receiver:
    """Takes deliveries; the id of a job says how it behaves."""

    def __init__(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = "tcp://127.0.0.1:%d" % self.server.getsockname()[1]
        self.lock = threading.Lock()
        self.came = collections.Counter()
        self.taken = set()
        self.open = []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            peer, _ = self.server.accept()
            threading.Thread(target=self.take, args=(peer,), daemon=True).start()

    def take(self, peer):
        line = peer.makefile("rb").readline().decode().rstrip("\n")
        name = line.split(" ")[0]
        with self.lock:
            self.came[name] += 1
            first = self.came[name] == 1
        if name.startswith("hang") and first:
            self.open.append(peer)  # never answers
            return
        try:
            if name.startswith("garbage") and first:
                peer.sendall(bytes(range(256)) * 10)
            elif name.startswith("flaky") and first:
                peer.sendall(b"no\n")
            elif not (name.startswith("break") and first):
                with self.lock:
                    self.taken.add(line)
                peer.sendall(b"ok\n")
        except OSError:
            pass  # the queue was killed meanwhile
        peer.close()


def finish(server, names):
    """Waits until all these jobs are done."""
    client = program.Client(server)
    for name in names:
        while True:
            client.say(f"get {name}")
            answer = client.expect(f"^{name} (done|waiting)").group(1)
            if answer == "done":
                break
    client.close()


def commands(server, receiver):
    client = program.Client(server)
    client.say(f"put plain {receiver.address} a text")
    client.expect("^plain (waiting|done)")
    client.say(f"put plain {receiver.address} a text")  # the same again
    client.expect("^plain (waiting|done)")
    client.say(f"put plain {receiver.address} another")
    client.expect("^error plain: another job has this id$")
    for job in ("hang-1", "garbage-1", "flaky-1", "break-1"):
        client.say(f"put {job} {receiver.address} x")
        client.expect(f"^{job} waiting")
    client.say("put nobody tcp://127.0.0.1:1 x")
    client.expect("^nobody waiting")
    client.say("get what", "put b!d x y", "", "put", "nonsense x")
    client.expect("^what unknown")
    client.expect("^error b!d: ")
    for _ in range(3):
        client.expect("^error: put ID")
    client.raw(f"put text {receiver.address} ".encode() + b"\xff\n")
    client.expect("^error text: .*UTF-8")
    finish(server, ["plain", "hang-1", "garbage-1", "flaky-1", "break-1"])
    client.say("drop plain", "get plain", "list")
    client.expect("^plain unknown")
    client.expect("^plain unknown")
    client.expect("^break-1 done")
    client.expect("^end$")
    client.close()
    assert "plain a text" in receiver.taken


class Putter:
    """Puts jobs, and the same again if a kill came before its answer."""

    def __init__(self, number, receiver):
        self.number, self.receiver = number, receiver
        self.accepted = []

    def start(self, server):
        self.enough = threading.Event()  # enough were accepted in this life
        threading.Thread(target=self.run, args=(server, self.enough),
                         daemon=True).start()

    def run(self, server, enough):
        try:
            client = program.Client(server)
            for count in itertools.count():
                if count == ACCEPTED:
                    enough.set()
                name = f"job-{self.number}-{len(self.accepted)}"
                client.say(f"put {name} {self.receiver.address} {name}")
                client.expect(f"^{name} ")
                self.accepted.append(name)
        except (OSError, AssertionError):
            enough.set()  # the server is gone


def kills(file, receiver):
    """Kills the queue while clients put jobs; nothing accepted is lost."""
    putters = [Putter(n, receiver) for n in range(CLIENTS)]
    for _ in range(KILLS):
        with program.Program(ANY, file) as server:
            for putter in putters:
                putter.start(server)
            for putter in putters:
                assert putter.enough.wait(program.PATIENCE)
            server.kill()
    accepted = [name for putter in putters for name in putter.accepted]
    assert len(accepted) >= KILLS * CLIENTS * ACCEPTED
    with program.Program(ANY, file) as server:
        finish(server, accepted)
        server.end()
    for name in accepted:
        assert f"{name} {name}" in receiver.taken, f"{name} is lost"
    print(f"{len(accepted)} jobs accepted and delivered, {KILLS} kills")


def main():
    receiver = Receiver()
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "jobs.db")
        with program.Program(ANY, file) as server:
            kept = program.bad_clients(server)
            kept += program.bad_clients(server, "get x")
            deaf = program.Client(server)
            deaf.socket.setblocking(False)
            try:
                while True:  # fills both directions
                    deaf.socket.send(b"list\n" * 1000)
            except BlockingIOError:
                pass
            commands(server, receiver)
            for client in kept + [deaf]:
                client.close()
            server.end()
        kills(file, receiver)
    program.simulate(40)


if __name__ == "__main__":
    main()
