"""Clients that a web server has to bear.

    http_clients.py WHAT ADDRESS
"""

import socket
import sys

WHAT, ADDRESS = sys.argv[1:3]
LIMIT = 40.0
GET = b"GET / HTTP/1.1\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"


def connect():
    return socket.create_connection((ADDRESS, 80), LIMIT)


def answers(connection):
    """How many come until the server ends the connection."""
    said = b""
    while more := connection.recv(1 << 16):
        said += more
    return said.count(b"HTTP/1.1 200 OK")


def deaf():
    """Asks on and on, and reads nothing: what nobody takes fills its own window."""
    with connect() as greedy, connect() as other:
        greedy.settimeout(3)
        try:
            greedy.sendall(GET * 1_000_000)
        except TimeoutError:
            pass
        else:
            raise AssertionError("the server has taken all of it")
        other.sendall(LAST)
        assert answers(other) == 1


def talkative():
    """Goes on after it has said that its request is the last."""
    with connect() as connection:
        connection.sendall(LAST)
        connection.sendall(bytes(4 << 20))
        assert answers(connection) == 1


def hasty():
    """Asks for more answers than fit in a socket, and ends before it has read one."""
    with connect() as connection:
        connection.sendall(GET * 500)
        connection.shutdown(socket.SHUT_WR)
        assert (count := answers(connection)) == 500, count


if __name__ == "__main__":
    {f.__name__: f for f in (deaf, talkative, hasty)}[WHAT]()
    print(f"{WHAT}: good")
