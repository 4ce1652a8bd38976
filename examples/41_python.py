#!/usr/bin/env python3
"""python - actors in Python, through ctypes and the functions of the library.

Set TROUPE_LIBRARY to the path of libtroupe.so if the loader does not find it.
"""
import ctypes
import os
import sys
import threading

LIB = ctypes.CDLL(os.environ.get("TROUPE_LIBRARY", "libtroupe.so.0"))
OK, EFAILED = 0, 14


# [snippet: types]
class Ref(ctypes.Structure):
    _fields_ = [("cell", ctypes.c_uint64), ("id", ctypes.c_uint64)]


class Field(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_void_p),
                ("offset", ctypes.c_uint32), ("size", ctypes.c_uint32),
                ("kind", ctypes.c_uint16), ("element", ctypes.c_uint16)]


class Type(ctypes.Structure):
    pass


Type._fields_ = [("name", ctypes.c_char_p), ("schema", ctypes.c_uint64),
                 ("size", ctypes.c_uint32), ("field_count", ctypes.c_uint16),
                 ("var_count", ctypes.c_uint16),
                 ("fields", ctypes.POINTER(Field)),
                 ("reply", ctypes.POINTER(Type))]
# [end]

INT, UINT, REF, TEXT = 2, 3, 5, 8  # tr_kind
KINDS = {ctypes.c_int32: INT, ctypes.c_int64: INT, ctypes.c_uint32: UINT,
         Ref: REF, ctypes.c_char_p: TEXT}


def hashed(text):
    """TR_HASH: the same number for the same name, in every language."""
    number = len(text) + 1
    for byte in text.encode()[:24].ljust(24, b"\0"):
        number = number * 0x100000001b3 + byte
    return number


# [snippet: message]
def message(name, *fields, reply=None):
    """What TR_MESSAGE and TR_REQUEST make: a struct and its description."""
    made = type(name, (ctypes.Structure,), {"_fields_": list(fields)})
    schema, infos = hashed(name), []
    for left, (field, ctype) in zip(range(len(fields), 0, -1), fields):
        kind, at = KINDS[ctype], getattr(made, field)
        size = at.size if kind < REF else 0
        schema += (2 * left + 1) * (hashed(field) + 31 * kind + size)
        infos.append(Field(field.encode(), None, at.offset, at.size, kind, 0))
    table = (Field * (len(infos) + 1))(*infos)
    pointing = sum(info.kind >= TEXT for info in infos)
    made.description = Type(
        name.encode(), schema % 2**64, ctypes.sizeof(made), len(infos),
        pointing, table, ctypes.pointer(reply.description) if reply else None)
    return made


Greeting = message("Greeting", ("text", ctypes.c_char_p))
Greet = message("Greet", ("name", ctypes.c_char_p), reply=Greeting)
Terminated = message("tr_terminated", ("actor", Ref),
                     ("reason", ctypes.c_uint32))  # the library's own
# [end]

HANDLER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
                           ctypes.c_void_p)
HOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Row(ctypes.Structure):
    _fields_ = [("type", ctypes.POINTER(Type)), ("fn", HANDLER),
                ("flags", ctypes.c_uint32)]


class Definition(ctypes.Structure):  # tr_actor_def
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p),
                ("state", ctypes.c_void_p), ("state_size", ctypes.c_size_t),
                ("handlers", ctypes.POINTER(Row)),
                ("handler_count", ctypes.c_size_t), ("pre_start", HOOK),
                ("hooks", ctypes.c_void_p * 8),
                ("appliers", ctypes.c_void_p),
                ("applier_count", ctypes.c_size_t),
                ("snapshot_every", ctypes.c_uint32),
                ("trim_events", ctypes.c_bool),
                ("child_terminated", ctypes.c_void_p)]


for call, result, arguments in [
        ("tr_spawn", Ref, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
        ("tr_ask", ctypes.c_int,
         [ctypes.c_void_p, Ref, ctypes.c_void_p, ctypes.c_int64,
          ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p]),
        ("tr_reply", ctypes.c_int,
         [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
        ("tr_fail", ctypes.c_int,
         [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p]),
        ("tr_watch", None, [ctypes.c_void_p, Ref]),
        ("tr_stop", None, [ctypes.c_void_p, Ref]),
        ("tr_drop", None, [ctypes.c_void_p, ctypes.c_void_p]),
        ("tr_errname", ctypes.c_char_p, [ctypes.c_int]),
        ("tr_error_reason", ctypes.c_char_p, [ctypes.c_void_p]),
        ("tr_system_open", ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p]),
        ("tr_system_close", ctypes.c_int, [ctypes.c_void_p, ctypes.c_int64])]:
    getattr(LIB, call).restype = result
    getattr(LIB, call).argtypes = arguments


# [snippet: actor]
def guarded(ctx, call, *arguments):
    """An exception that leaves a handler is a failure of the actor."""
    try:
        call(ctx, *arguments)
        return OK
    except Exception as problem:  # ctypes would only print it
        return LIB.tr_fail(ctx, EFAILED, None, b"%s",
                           ctypes.c_char_p(str(problem).encode()))


def actor(name, start=None, **handlers):
    """What TR_ACTOR makes; handlers are (message type, function) pairs."""
    rows = [Row(ctypes.pointer(kind.description),
                HANDLER(lambda ctx, state, m, kind=kind, fn=fn: guarded(
                    ctx, fn, m, ctypes.cast(m, ctypes.POINTER(kind)).contents)))
            for kind, fn in handlers.values()]
    made = Definition(ctypes.sizeof(Definition), name.encode())
    made.handlers = (Row * len(rows))(*rows)
    made.handler_count = len(rows)
    if start:
        made.pre_start = HOOK(lambda ctx, state: guarded(ctx, start))
    made.kept = rows  # the library borrows them while the system is open
    return made
# [end]


# [snippet: greeter]
def on_greet(ctx, m, greet):
    if not greet.name:
        raise ValueError("a guest needs a name")
    LIB.tr_reply(ctx, m, ctypes.byref(
        Greeting(b"Hello, " + greet.name + b"!")))


greeter = actor("greeter", greet=(Greet, on_greet))
# [end]


def ask(system, to, name):
    answer = Greeting()
    err = LIB.tr_ask(system, to, ctypes.byref(answer), 0,
                     ctypes.byref(Greet.description),
                     ctypes.byref(Greet(name)), b"41_python.py")
    if err != OK:
        return "%s: %s" % (LIB.tr_errname(err).decode(),
                           LIB.tr_error_reason(system).decode())
    text = answer.text.decode()
    LIB.tr_drop(ctypes.byref(Greeting.description), ctypes.byref(answer))
    return text


def main():
    system, ended = ctypes.c_void_p(), threading.Event()
    if LIB.tr_system_open(ctypes.byref(system), None) != OK:
        sys.exit("no system")
    ref = LIB.tr_spawn(system, ctypes.byref(greeter), None)

    def on_terminated(ctx, m, terminated):
        if terminated.actor.id == ref.id:
            ended.set()

    started = threading.Event()

    def watch(ctx):
        LIB.tr_watch(ctx, ref)
        started.set()

    watcher = actor("watcher", start=watch,
                    terminated=(Terminated, on_terminated))
    LIB.tr_spawn(system, ctypes.byref(watcher), None)
    started.wait()
    print(ask(system, ref, b"world"))
    print(ask(system, ref, b""))
    print(ask(system, ref, b"again"))  # its supervisor has restarted it
    LIB.tr_stop(system, ref)
    ended.wait()
    print("the greeter has ended")
    return LIB.tr_system_close(system, 0)


if __name__ == "__main__":
    sys.exit(main())
