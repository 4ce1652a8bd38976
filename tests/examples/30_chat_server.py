#!/usr/bin/env python3
"""30_chat_server.py - the chat server with good and bad clients, and simulated."""
import program

ANY = "tcp://127.0.0.1:0"


def enter(server, name):
    client = program.Client(server, name)
    client.expect(rf"^\* {name}, this is lobby$")
    return client


def talk(server):
    """Two people talk, change rooms and leave."""
    ann, bob = enter(server, "ann"), enter(server, "bob")
    ann.expect(r"^\* bob is here$")
    ann.say("hello")
    assert bob.expect("hello").string == "ann: hello"
    bob.say("/who")
    assert set(bob.expect(r"^\* here:(.*)$").group(1).split()) == {"ann", "bob"}
    twin = program.Client(server, "ann")
    twin.expect(r"^\* ann is here already$")
    twin.say("anna")
    twin.expect("this is lobby")
    twin.say("/join garden", "/who", "only I hear this", "/quit")
    twin.expect(r"^\* here: anna$")
    twin.expect("^anna: only I hear this$")
    twin.expect_end()
    ann.expect(r"^\* anna leaves$")
    bob.reset()
    ann.expect(r"^\* bob leaves$")
    enter(server, "bob").close()  # the name is free again
    ann.close()


def survive(server):
    """Bad clients do not harm others; one that does not read is cut off."""
    ann, deaf = enter(server, "ann2"), enter(server, "deaf")
    kept = program.bad_clients(server) + program.bad_clients(server, "guest")
    ann.say("still here")
    ann.expect("^ann2: still here$")
    # Fills the buffers of the one who does not read, and then its mailbox.
    number = 0
    while True:
        ann.say(f"{number} " + "x" * 500)
        if "leaves" in (heard := ann.expect(rf"^ann2: {number} |deaf leaves$")).string:
            break
        number += 1
    long = enter(server, "long")
    long.raw(b"y" * 1000)
    long.expect("too long")
    long.expect_end()
    for client in kept + [deaf]:
        client.close()
    ann.say("after all")
    ann.expect("^ann2: after all$")
    return ann


def main():
    with program.Program(ANY) as server:
        talk(server)
        ann = survive(server)
        server.end()  # drains: her connection ends in order
        ann.expect_end()
    with program.Program(ANY) as server:
        ann = enter(server, "ann")
        server.kill()
        ann.expect_end()
    with program.Program(f"tcp://127.0.0.1:{server.address[1]}") as server:
        enter(server, "ann").close()
        server.end()
    program.simulate(20)


if __name__ == "__main__":
    main()
