"""program.py - starts a server from examples/ and talks to it, well and badly.

A test is called with the program, after the command that runs it if there is
one. Waiting has a limit only so that a test that hangs ends; nothing depends
on how long something takes.
"""
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile

PATIENCE = 120  # seconds


class Program:
    """A running server, which prints "... at tcp://HOST:PORT" when it is up."""

    def __init__(self, *arguments):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [*sys.argv[1:], *arguments], stdout=subprocess.PIPE,
            stderr=self.log, text=True)
        line = self.process.stdout.readline()
        found = re.search(r" at tcp://([\d.]+):(\d+)$", line)
        if not found:
            raise AssertionError(f"it said {line!r}\n{self.errors()}")
        self.address = (found.group(1), int(found.group(2)))

    def errors(self):
        self.log.seek(0)
        return self.log.read()

    def kill(self):
        """Ends it as a power failure does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def end(self):
        """Ends it with SIGTERM: it must drain and exit with 0."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        assert status == 0, f"it ended with {status}\n{self.errors()}"
        for word in ("ERROR", "failed with", "Sanitizer"):
            assert word not in self.errors(), self.errors()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if kind is not None:
            print(self.errors(), file=sys.stderr)


class Client:
    """A client that speaks in lines."""

    def __init__(self, program, *lines):
        self.socket = socket.create_connection(program.address, PATIENCE)
        self.file = self.socket.makefile("rb")
        self.say(*lines)

    def say(self, *lines):
        self.raw(b"".join(line.encode() + b"\n" for line in lines))

    def raw(self, data):
        self.socket.sendall(data)

    def hear(self):
        """Returns the next line, or None at the end of the stream."""
        try:
            line = self.file.readline()
        except ConnectionResetError:
            return None
        return line.decode(errors="replace").rstrip("\n") if line else None

    def expect(self, pattern):
        """Skips lines until one matches; returns the match."""
        heard = []
        while (line := self.hear()) is not None:
            heard.append(line)
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"{pattern!r} did not come, but {heard[-20:]}")

    def expect_end(self):
        while self.hear() is not None:
            pass

    def close(self):
        try:  # wakes a thread that reads, so that the file can be closed
            self.socket.shutdown(socket.SHUT_RD)
        except OSError:
            pass  # it was closed by the other side
        self.file.close()
        self.socket.close()

    def reset(self):
        """Breaks the connection off without a goodbye."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                               struct.pack("ii", 1, 0))
        self.close()


def bad_clients(program, *greeting):
    """Connects in every bad way. Returns those that must be kept open."""
    for data in (b"", b"\n\n\n", b"half a line", b"x" * 100000, b"\0\0\n",
                 bytes(range(256)) * 40, b"\xff\xfe\xc3\n" * 100):
        for leave in (Client.reset, Client.close):
            client = Client(program, *greeting)
            try:
                client.raw(data)
            except OSError:
                pass  # it has been cut off already
            leave(client)
    silent = Client(program)              # never says a word
    vanished = Client(program, *greeting)  # greets, and is not heard of again
    return [silent, vanished]


def simulate(seeds):
    """Runs the program's simulation; fewer seeds under a sanitizer."""
    if any(name in os.path.realpath(sys.argv[-1]) for name in ("tsan", "asan")):
        seeds = max(seeds // 8, 2)
    subprocess.run([*sys.argv[1:], "--seeds", str(seeds)], check=True)
