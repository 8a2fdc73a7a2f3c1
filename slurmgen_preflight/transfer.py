"""The speed of a TCP connection between two nodes: data goes there and back, and must be unchanged."""

import hmac
import os
import select
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
_SERVED, _SILENT = 16, 200
"Connections at a time, with the token and without: any host of the cluster's network may open one."


def serve(token):
    """Send back all data that arrives, in the background; the port."""
    server = wire.listener()
    threading.Thread(target=_accept, args=(server, token), daemon=True).start()
    return server.getsockname()[1]


def _accept(server, token):
    """Start a thread for each connection that sends the token; the others get neither thread nor memory."""
    free, silent = threading.Semaphore(_SERVED), {}
    while True:
        for one in select.select([server, *silent], [], [])[0]:
            if one is server:
                _add(server.accept()[0], silent)
            elif one in silent and _admits(one, silent, token):
                free.acquire()
                threading.Thread(target=_echo, args=(one, free), daemon=True).start()


def _add(connection, silent):
    connection.setblocking(False)
    if len(silent) >= _SILENT:
        oldest = next(iter(silent))
        del silent[oldest]
        oldest.close()
    silent[connection] = b""


def _admits(connection, silent, token):
    """Whether a connection has sent the whole token now; a wrong one ends it."""
    try:
        part = connection.recv(len(token) - len(silent[connection]))
    except OSError:
        part = b""
    silent[connection] += part
    if part and len(silent[connection]) < len(token):
        return False
    is_right = hmac.compare_digest(silent.pop(connection), token)
    if not is_right:
        connection.close()
    return is_right


def _echo(connection, free):
    try:
        with connection:
            connection.settimeout(2 * LIMIT)
            buffer = bytearray(SIZE)
            while True:
                connection.sendall(_filled(connection, buffer))
    except (OSError, EOFError):
        return
    finally:
        free.release()


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
