"""One thread waits for many descriptors at a time.

many.py serve|connect PORT HOW COUNT PASSING: two programs with a card each and COUNT connections between them. Each in turn
waits for all of them, HOW is "poll" or "epoll", and the other writes to the last. Both say how long that took. Each opens and
closes PASSING other sockets meanwhile.

many.py alone COUNT: waits for COUNT descriptors to which nothing comes."""
import os
import resource
import select
import socket
import sys
import time

from pyverbs.device import Context

resource.setrlimit(resource.RLIMIT_NOFILE, (4096, max(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))


def waits(how, sockets, seconds):
    """Waits until one of them can be read; false when that took too long."""
    poll = select.poll() if how == "poll" else select.epoll()
    for one in sockets:
        poll.register(one, select.POLLIN)
    return bool(poll.poll(seconds * 1000 if how == "poll" else seconds))


def passes(count):
    for _ in range(count):
        socket.socket().close()


def times(what, how, sockets, passing):
    """The other says that it is about to write."""
    assert sockets[-1].recv(1) == b"a"
    passes(passing)
    begin = time.monotonic_ns()
    assert waits(how, sockets, 10)
    assert sockets[-1].recv(1) == b"b"
    print(f"{what}: {time.monotonic_ns() - begin} ns")


def writes(sockets, passing):
    sockets[-1].send(b"a")
    passes(passing)
    time.sleep(0.05)
    sockets[-1].send(b"b")


def serve(port, how, count, passing):
    context = Context(name="verbena0")
    listener = socket.create_server(("127.0.0.1", port), backlog=count)
    sockets = [listener.accept()[0] for _ in range(count)]
    times("the server", how, sockets, passing)
    writes(sockets, passing)
    sockets[-1].recv(1)


def connect(port, how, count, passing):
    context = Context(name="verbena1")
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    writes(sockets, passing)
    times("the client", how, sockets, passing)


def alone(count):
    context = Context(name="verbena0")
    left, right = socket.socketpair()
    assert not waits("poll", [left] + [left.dup() for _ in range(count - 1)], 0.01)
    print("OK")


what, *words = sys.argv[1:]
if what in ("serve", "connect"):
    port, how, count, passing = words
    {"serve": serve, "connect": connect}[what](int(port), how, int(count), int(passing))
else:
    alone(int(words[0]))
