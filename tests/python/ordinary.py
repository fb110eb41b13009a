"""What an ordinary Python program does with time, beside a card to which nothing comes."""
import queue
import select
import signal
import socket
import threading
import time

from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context


def took(what, begin, wish):
    """So many milliseconds, and no more than a tenth more."""
    time_ms = (time.monotonic() - begin) * 1000
    assert wish <= time_ms + 0.001 and time_ms < wish * 1.1 + 1, f"{what}: {time_ms} ms instead of {wish}"
    print(f"{what}: {wish} ms")


time.sleep(1.5)
before = time.monotonic()
context = Context(name="verbena0")
channel = CompChannel(context)
cq = CQ(context, 16, None, channel, 0)
assert time.monotonic() >= before

begin = time.monotonic()
while cq.poll(1)[0] == 0 and time.monotonic() < begin + 0.5:
    pass
took("a poll with a deadline", begin, 500)

left, right = socket.socketpair()


def answer():
    for byte in iter(lambda: right.recv(1), b"q"):
        time.sleep(0.01)
        right.send(byte.upper())


thread = threading.Thread(target=answer)
thread.start()
for i in range(10):
    begin = time.monotonic()
    left.send(b"a")
    readable = []
    while not readable:
        readable, _, _ = select.select([left], [], [], 0.003)
        assert cq.poll(1)[0] == 0
    assert left.recv(1) == b"A"
    took("an answer", begin, 10)
left.send(b"q")
thread.join()

begin = time.monotonic()
assert select.select([left], [], [], 0.05) == ([], [], [])
took("select", begin, 50)

begin = time.monotonic()
assert not threading.Event().wait(0.05)
took("an event that nobody sets", begin, 50)

begin = time.monotonic()
try:
    queue.Queue().get(timeout=0.05)
    raise SystemExit("something was in the queue")
except queue.Empty:
    took("an empty queue", begin, 50)

alarms = []
signal.signal(signal.SIGALRM, lambda *_: alarms.append(time.monotonic()))
begin = time.monotonic()
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
while len(alarms) < 5:
    assert cq.poll(1)[0] == 0
signal.setitimer(signal.ITIMER_REAL, 0)
took("five alarms", begin, 100)
print("OK")
