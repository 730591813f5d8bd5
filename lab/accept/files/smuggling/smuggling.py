"""Request smuggling: sends ambiguous bytes to a proxy and counts the requests that its upstream sees.

`upstream PORT` serves HTTP/1.1 and HTTP/2 with prior knowledge. It parses strictly and records every request, and
each detail that another server could parse in a different way. `attack DIRECTION PROXY UPSTREAM FRONT FOLDER` sends
the cases of cases.json to the proxy at FRONT, each followed by an ordinary request on another connection.
`table FOLDER` compares the results of several proxies. A direction is `h1-h1`, `h2-h1` or `h1-h2`.
"""

import contextlib
import functools
import json
import pathlib
import re
import socket
import sys
import threading

import h2.connection

ENDED = contextlib.suppress(EOFError, OSError, OverflowError, h2.exceptions.ProtocolError)
# Seconds until the first byte of a response, and between two responses. An incomplete request costs the first.
FIRST, NEXT = 0.8, 0.1
TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
VALUE = rb"[\t -~\x80-\xff]*"
FIELD = rb":?" + TOKEN + rb"\0" + VALUE
HIDDEN = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
# Words in the cases. {N} and {H} are the length of the hidden request, {M} is its length after a last chunk.
WORDS = {m[0]: f"{m} / HTTP/1.1\r\nHost: a\r\n" for m in ["GET", "POST"]}
WORDS |= {"S": HIDDEN, "N": len(HIDDEN), "H": f"{len(HIDDEN):x}", "M": len(HIDDEN) + 5}
WORDS["C"] = "Transfer-Encoding: chunked\r\n"
BASE = {":method": "POST", ":scheme": "http", ":authority": "a", ":path": "/"}
VICTIM = {"h1": "GET /victim HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "h2": {":path": "/victim"}}
seen = []


def note(entry, leaks):
    entry["leaks"] += [leak for leak, found in leaks.items() if found]


def fail(entry, leak):
    entry["leaks"] += [leak] if leak else []
    raise EOFError


def inspect(entry, target, fields):
    """Records a request, and what is wrong with fields of either version."""
    entry |= {"target": target.decode("latin-1"), "leaks": []}
    names, lengths = [name for name, _ in fields], [value for name, value in fields if name == b"content-length"]
    note(entry, {
        "the smuggled part counts": b"smuggled" in target or b"x-smuggled" in names,
        "a field twice": any(names.count(name) > 1 for name in [b"content-length", b"transfer-encoding", b"host"]),
        f"content-length {lengths}": not all(length.isdigit() for length in lengths),
    })
    return dict(fields)


def upstream_h1(file, conn):
    while True:
        entry, head = {"target": "?", "leaks": []}, b""
        while not head.endswith(b"\r\n\r\n"):
            line = file.readline()
            seen.extend([entry] if line and not head else [])
            head += line
            entry["leaks"] = [f"an incomplete head: {head[:80]}"]
            if not line:
                return
        lines = head[:-4].split(b"\r\n")
        start = re.fullmatch(TOKEN + rb" ([!-~\x80-\xff]+) HTTP/1\.[01]", lines[0])
        fields = [re.fullmatch(rb"(" + TOKEN + rb"):[ \t]*(" + VALUE + rb"?)[ \t]*", line) for line in lines[1:]]
        if not start or not all(fields):
            entry["leaks"] = [f"a malformed head: {head[:160]}"]
            # Without a response, some proxies would send the request again.
            return conn.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        by_name = inspect(entry, start[1], [(field[1].lower(), field[2]) for field in fields])
        coding, length = by_name.get(b"transfer-encoding"), by_name.get(b"content-length", b"0")
        absolute = re.match(rb"\w+://([^/?]*)", start[1])
        note(entry, {
            "no host": b"host" not in by_name,
            "two authorities": absolute and absolute[1] != by_name.get(b"host"),
            "an upgrade to h2c": by_name.get(b"upgrade", b"").lower() == b"h2c",
            f"transfer-encoding {coding}": coding is not None and coding.lower() != b"chunked",
            "two lengths": coding is not None and b"content-length" in by_name,
        })
        if coding is None:
            file.read(int(length) if length.isdigit() else 0)
        else:
            read_chunks(entry, file)
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def read_chunks(entry, file):
    """Reads a chunked body. A proxy may close the connection before its end."""
    size = None
    while size != 0:
        line = file.readline()
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}(;[\t -~]*)?\r\n", line):
            fail(entry, line and f"a malformed chunk: {line}")
        size = int(line.split(b";")[0], 16)
        if size and (chunk := file.read(size + 2))[-2:] != b"\r\n":
            fail(entry, len(chunk) == size + 2 and "a chunk of another size")
    while (line := file.readline()) != b"\r\n":
        if not re.fullmatch(TOKEN + rb":" + VALUE + rb"\r\n", line):
            fail(entry, line and f"a malformed trailer: {line}")


def upstream_h2(file, conn):
    """Leaves most checks to the library, which refuses what RFC 9113 forbids."""
    for protocol, event in events(conn, h2.config.H2Configuration(client_side=False, header_encoding=None)):
        if isinstance(event, h2.exceptions.ProtocolError):
            seen.append({"target": "?", "leaks": [f"{type(event).__name__} {event}"]})
        elif isinstance(event, h2.events.RequestReceived):
            fields, entry = dict(event.headers), {}
            seen.append(entry)
            inspect(entry, fields[b":path"], [(name, value) for name, value in event.headers if name[:1] != b":"])
            bad = [pair for pair in event.headers if not re.fullmatch(FIELD, b"\0".join(pair))]
            note(entry, {f"fields {bad}": bad, "a space in the path": b" " in fields[b":path"]})
        elif isinstance(event, h2.events.DataReceived):
            protocol.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            protocol.send_headers(event.stream_id, [(":status", "200")], end_stream=True)


def events(conn, config, start=lambda _: None):
    """Runs a connection and yields its events, and the error if the peer violates the protocol."""
    protocol = h2.connection.H2Connection(config)
    protocol.initiate_connection()
    start(protocol)
    conn.sendall(protocol.data_to_send())
    while received := conn.recv(65536):
        try:
            for event in protocol.receive_data(received):
                yield protocol, event
        except h2.exceptions.ProtocolError as error:
            yield protocol, error
        conn.sendall(protocol.data_to_send())


def report(file, conn):
    file.read(4)
    conn.sendall(json.dumps(seen).encode())
    seen.clear()


def upstream(port):
    def serve(conn):
        with conn, conn.makefile("rb") as file, ENDED:
            serve = {b"TAKE": report, b"PRI ": upstream_h2}
            serve.get(conn.recv(4, socket.MSG_PEEK), upstream_h1)(file, conn)

    listener = socket.create_server(("127.0.0.1", int(port)), backlog=128)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def connect(address):
    return socket.create_connection(address.rsplit(":", 1), timeout=5)


def take(upstream):
    with connect(upstream) as conn, conn.makefile("rb") as file:
        conn.sendall(b"TAKE")
        return json.load(file)


def data(text):
    return re.sub(r"\{([A-Z])\}", lambda word: str(WORDS[word[1]]), text).encode("latin-1")


def send_h1(front, text):
    """Sends bytes and returns the statuses of all responses."""
    received = b""
    with connect(front) as conn, ENDED:
        conn.sendall(data(text))
        conn.settimeout(FIRST)
        while more := conn.recv(65536):
            received += more
            conn.settimeout(NEXT)
    return ",".join(status.decode() for status in re.findall(rb"HTTP/1\.[01] (\d{3})", received)) or "-"


def send_h2(front, pseudo, fields=(), body="", trailers=()):
    """Sends one request and returns its status, or how the stream or the connection ended."""
    def request(protocol):
        # Some decoders refuse control characters in Huffman coding, before the proxy sees the field.
        protocol.encoder.encode = functools.partial(protocol.encoder.encode, huffman=False)
        protocol.send_headers(1, encoded(fields), end_stream=not body and not trailers)
        if body:
            protocol.send_data(1, data(body), end_stream=not trailers)
        if trailers:
            protocol.send_headers(1, encoded(trailers), end_stream=True)

    def encoded(fields):
        return [(data(name), data(value)) for name, value in fields]

    fields = [pair for pair in (BASE | pseudo).items() if pair[1] is not None] + list(fields)
    config = h2.config.H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False)
    status = "-"
    with connect(front) as conn, ENDED:
        conn.settimeout(FIRST)
        for _, event in events(conn, config, request):
            if status == "-" and isinstance(event, h2.events.ResponseReceived):
                status = dict(event.headers)[b":status"].decode()
            elif status == "-" and isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
                status = "reset" if isinstance(event, h2.events.StreamReset) else "goaway"
            conn.settimeout(FIRST if status == "-" else NEXT)
    return status


def attack(direction, proxy, upstream, front, folder):
    version = direction[:2]
    send = {"h1": send_h1, "h2": send_h2}[version]
    cases = json.loads((pathlib.Path(__file__).parent / "cases.json").read_text())[version]
    found = []
    for name, *case in cases:
        status, after = send(front, *case), send(front, VICTIM[version])
        requests = [entry for entry in take(upstream) if entry["target"] != "/victim" or entry["leaks"]]
        leaks = sum((entry["leaks"] for entry in requests), [])
        leaks += [] if after == "200" else [f"the next request got {after}"]
        found.append({"name": name, "status": status, "requests": len(requests), "leaks": leaks})
    plain = [case for case in found if case["name"].startswith("plain")]
    document = {
        "proxy": proxy, "direction": direction, "cases": found,
        "unsafe": [case["name"] for case in found if case["requests"] > 1 or case["leaks"]],
        "plain_failed": [case["name"] for case in plain if (case["status"], case["requests"]) != ("200", 1)],
    }
    (pathlib.Path(folder) / f"{direction}-{proxy}.json").write_text(json.dumps(document))
    print(json.dumps(document))


def table(folder):
    """Prints, for each case and proxy, the status, the number of requests upstream, and `!` if it is unsafe. Returns
    the cases that the first proxy accepts or refuses in contrast to all others."""
    documents = [json.loads(path.read_text()) for path in sorted(pathlib.Path(folder).glob("h?-h?-*.json"))]
    differ = []
    for direction in ["h1-h1", "h2-h1", "h1-h2"]:
        of = [document for document in documents if document["direction"] == direction]
        rows = [f"{direction:40}" + "".join(f"{document['proxy']:16}" for document in of)]
        for row in zip(*(document["cases"] for document in of)):
            cells = (f"{c['status']} {c['requests']}{'!' if c['requests'] > 1 or c['leaks'] else ''}" for c in row)
            rows.append(f"  {row[0]['name']:38}" + "".join(f"{cell:16}" for cell in cells))
            rows += [f"    ! {d['proxy']}: {leak}" for d, c in zip(of, row) for leak in c["leaks"]]
            accepted = [c["status"][0] in "12" for c in row]
            if len(row) > 1 and accepted[0] not in accepted[1:]:
                differ.append(f"{direction} {row[0]['name']}: {', '.join(c['status'] for c in row)}")
        print("\n".join(rows), file=sys.stderr)
    print(json.dumps({"differ": differ}))


if __name__ == "__main__":
    {"upstream": upstream, "attack": attack, "table": table}[sys.argv[1]](*sys.argv[2:])
