#!/usr/bin/env python3
"""32_iot.py - devices that answer, hang, lie and vanish; kills; simulation."""
import threading

import program

ANY = "tcp://127.0.0.1:0"


class Device(program.Client):
    """A device; its thread answers each read, unless the answer is None."""

    def __init__(self, server, group, name, answer):
        super().__init__(server, f"device {group} {name}")
        self.answer = answer
        self.asked = threading.Event()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            while self.hear() == "read":
                self.asked.set()
                if self.answer is not None:
                    self.say(self.answer)
        except (OSError, ValueError):
            pass  # closed by the test


def ask(server, group):
    """Asks a group. Returns what each device says; None: there is no group."""
    client = program.Client(server, f"all {group}")
    found = {}
    while (line := client.hear()) != "end":
        if line.startswith("error: "):
            found = None
            break
        name, what = line.split(": ")
        assert name not in found, line
        found[name] = what
    client.close()
    return found


def wait_for(server, group, wanted):
    """Asks until the group says this: devices come and go meanwhile."""
    while ask(server, group) != wanted:
        pass


def queries(server):
    warm = Device(server, "home", "warm", "21.5")
    cold = Device(server, "home", "cold", "-3")
    new = Device(server, "home", "new", "none")
    good = {"warm": "21.5", "cold": "-3.0", "new": "no reading"}
    wait_for(server, "home", good)
    hangs = Device(server, "home", "hangs", None)
    wait_for(server, "home", {**good, "hangs": "timed out"})
    again = Device(server, "home", "hangs", "7")  # connects a second time
    wait_for(server, "home", {**good, "hangs": "7.0"})
    # A device that vanishes while it is asked.
    gone = Device(server, "shed", "gone", None)
    answers = []
    thread = threading.Thread(
        target=lambda: wait_for_gone(server, answers), daemon=True)
    thread.start()
    assert gone.asked.wait(program.PATIENCE)
    gone.reset()
    thread.join(program.PATIENCE)
    assert answers == ["gone"], answers
    wait_for(server, "shed", None)  # the group has ended with it
    for client in (warm, cold, new, hangs, again):
        client.close()
    wait_for(server, "home", None)


def wait_for_gone(server, answers):
    """Asks until the group is there; notes what its device is."""
    while (found := ask(server, "shed")) is None:
        pass
    answers.extend(found.values())


def survive(server):
    liar = Device(server, "farm", "liar", "hot")
    good = Device(server, "farm", "good", "1")
    kept = program.bad_clients(server) + program.bad_clients(server, "all x")
    kept += program.bad_clients(server, "device farm bad")
    for wrong in ("all", "device", "device a/b c", "device $x y", "read"):
        client = program.Client(server, wrong)
        client.expect("^error: ")
        client.close()
    for client in kept:
        client.close()
    wait_for(server, "farm", {"good": "1.0"})
    liar.close()
    return good


def main():
    with program.Program(ANY) as server:
        queries(server)
        good = survive(server)
        server.end()
        good.close()
    with program.Program(ANY) as server:
        device = Device(server, "home", "a", "1")
        wait_for(server, "home", {"a": "1.0"})
        server.kill()
        device.close()
    with program.Program(f"tcp://127.0.0.1:{server.address[1]}") as server:
        device = Device(server, "home", "a", "2")
        wait_for(server, "home", {"a": "2.0"})
        device.close()
        server.end()
    program.simulate(60)


if __name__ == "__main__":
    main()
