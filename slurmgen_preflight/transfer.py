"""The speed of a TCP connection between two nodes: data goes there and back, and must be unchanged."""

import os
import socket
import threading
import time

import wire

SIZE = 4 << 20
"Bytes of one transfer in each direction."
REPEATS = 8
LIMIT = 2.0
"Seconds; a transfer that takes longer is cut short, and its speed so far counts."
_CHUNK = 256 << 10


def serve(token):
    """Send back all data that arrives, in the background; the port."""
    server = wire.listener()
    threading.Thread(target=_accept, args=(server, token), daemon=True).start()
    return server.getsockname()[1]


def _accept(server, token):
    while True:
        connection, _ = server.accept()
        threading.Thread(target=_echo, args=(connection, token), daemon=True).start()


def _echo(connection, token):
    buffer = bytearray(SIZE)
    with connection:
        connection.settimeout(2 * LIMIT)
        try:
            if bytes(_filled(connection, bytearray(len(token)))) != token:
                return
            while True:
                connection.sendall(_filled(connection, buffer))
        except (OSError, EOFError):
            return


def _filled(connection, buffer):
    """The buffer, when data has filled it."""
    view = memoryview(buffer)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return buffer


def measure(host, port, token):
    """Bytes per second, as {"speed": ...}, or why there are none, as {"error": ...}."""
    data = os.urandom(_CHUNK) * (SIZE // _CHUNK)
    try:
        with socket.create_connection((host, port), timeout=LIMIT) as connection:
            connection.sendall(token)
            return _best(connection, data)
    except (OSError, EOFError) as error:
        return {"error": "connection closed" if isinstance(error, EOFError) else wire.reason(error)}


def _best(connection, data):
    """The best of several transfers."""
    best, end = 0.0, time.perf_counter() + LIMIT / 2
    for _ in range(REPEATS):
        moved, seconds, same = _there_and_back(connection, data)
        if not same:
            return {"error": "the data came back changed"}
        best = max(best, moved / seconds)
        if moved < 2 * SIZE or time.perf_counter() > end:
            break
    return {"speed": best}


def _there_and_back(connection, data):
    """Bytes that were transferred until the limit, the seconds, and whether what came back is the same."""
    begin = time.perf_counter()
    back, sent, received = bytearray(SIZE), 0, 0
    try:
        while sent < SIZE:
            connection.settimeout(_left(begin))
            sent += connection.send(data[sent : sent + _CHUNK])
        while received < SIZE:
            connection.settimeout(_left(begin))
            count = connection.recv_into(memoryview(back)[received:])
            if not count:
                raise EOFError
            received += count
    except socket.timeout:
        return sent + received, time.perf_counter() - begin, True
    return sent + received, time.perf_counter() - begin, back == data


def _left(begin):
    """Seconds until the limit."""
    left = begin + LIMIT - time.perf_counter()
    if left <= 0:
        raise socket.timeout
    return left
