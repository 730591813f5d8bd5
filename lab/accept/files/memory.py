"""The memory of a proxy: `replica PORT` reads requests and responds. `connections ADDRESS IDLE ACTIVE SECONDS` opens
IDLE connections that send one request and then nothing, and ACTIVE ones that send requests without a pause, and prints
`responses=N`. `uploads ADDRESS COUNT BYTES` sends this number of bodies at the same time, and prints `complete=N`.
`slow ADDRESS COUNT SECONDS` asks for COUNT responses of 200 kB, and reads none of them.
"""

import asyncio
import socket
import sys
import time

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n"
BIG = b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + bytes(200_000)
BLOCK = bytes(64 << 10)


async def receive(reader):
    """Returns the length of the body of the next message, of which the head was read."""
    return (await receive_head(reader))[1]


async def receive_head(reader):
    """Returns the first line of the next message, and the length of its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    lengths = [line for line in lines if line.startswith(b"content-length:")]
    return lines[0], int(lengths[0].split(b":")[1]) if lengths else 0


async def replica(reader, writer):
    try:
        while True:
            line, left = await receive_head(reader)
            while left > 0:
                data = await reader.read(min(left, 256 << 10))
                if not data:
                    return
                left -= len(data)
            writer.write(BIG if b" /big " in line else OK)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def request(reader, writer):
    writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    await reader.readexactly(await receive(reader))


async def connect(address):
    host, port = address.rsplit(":", 1)
    return await asyncio.open_connection(host, int(port))


async def connections(address, idle, active, seconds):
    held = []
    for _ in range(idle):
        held.append(await connect(address))
        await request(*held[-1])
    end, counts = time.monotonic() + seconds, [0]

    async def busy():
        stream = await connect(address)
        while time.monotonic() < end:
            await request(*stream)
            counts[0] += 1

    await asyncio.gather(*(busy() for _ in range(active)))
    print(f"responses={counts[0] + len(held)}")


async def slow(address, count, seconds):
    host, port = address.rsplit(":", 1)
    clients = [socket.socket() for _ in range(count)]
    for client in clients:
        # The system would read in place of the client.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((host, int(port)))
        client.sendall(b"GET /big HTTP/1.1\r\nhost: a\r\n\r\n")
    await asyncio.sleep(seconds)


async def uploads(address, count, size):
    complete = [0]

    async def upload():
        reader, writer = await connect(address)
        writer.write(b"PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % size)
        for _ in range(size // len(BLOCK)):
            writer.write(BLOCK)
            await writer.drain()
        writer.write(bytes(size % len(BLOCK)))
        await reader.readexactly(await receive(reader))
        complete[0] += 1

    await asyncio.gather(*(upload() for _ in range(count)))
    print(f"complete={complete[0]}")


async def serve(port):
    server = await asyncio.start_server(replica, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


verb, *arguments = sys.argv[1:]
numbers = [int(argument) for argument in arguments if argument.isdigit()]
jobs = {"replica": serve, "connections": connections, "uploads": uploads, "slow": slow}
asyncio.run(jobs[verb](*([] if verb == "replica" else arguments[:1]), *numbers))
