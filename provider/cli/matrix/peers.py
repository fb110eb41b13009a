"""Two processes, each with one library's way to write into and read from the other's memory: the client writes into the
server's memory, the server compares, and the client reads it back and compares. `peers.py server|client LIBRARY`"""

import ctypes
import json
import os
import random
import socket
import sys
import time

SIZE = 1 << 20
MEETING = ("127.0.0.1", int(os.environ["PORT"]))
EXPECTED = random.Random(1).randbytes(SIZE)
# By role: the card, its address, and that of the other.
PLACES = {"server": ("verbena0", "198.18.0.1"), "client": ("verbena1", "198.18.0.2")}


def expect_zero(what, status):
    if status != 0:
        raise SystemExit(f"{what} gives {status}")


class Library:
    def end(self):
        pass


class Mooncake(Library):
    """The Transfer Engine of Mooncake."""

    def __init__(self, device, address, memory):
        from mooncake.engine import TransferEngine

        self.engine, self.memory, self.address = TransferEngine(), memory, address
        expect_zero("initialize", self.engine.initialize(address, "P2PHANDSHAKE", "rdma", device))
        expect_zero("register_memory", self.engine.register_memory(memory, SIZE))

    def name(self):
        return f"{self.address}:{self.engine.get_rpc_port()} {self.memory}".encode()

    def meet(self, name):
        session, memory = name.decode().split()
        self.peer = session, self.memory, int(memory), SIZE

    def write(self):
        expect_zero("write", self.engine.transfer_sync_write(*self.peer))

    def read(self):
        expect_zero("read", self.engine.transfer_sync_read(*self.peer))


class Dlslime(Library):
    """The endpoint of DLSlime, of two queue pairs."""

    def __init__(self, device, address, memory):
        from dlslime import RDMAEndpoint

        self.endpoint = RDMAEndpoint(device, 1, "RoCE", 2)
        self.region = self.endpoint.register_memory_region("memory", memory, 0, SIZE)

    def name(self):
        return json.dumps(self.endpoint.endpoint_info()).encode()

    def meet(self, name):
        peer = json.loads(name)
        self.endpoint.connect(peer)
        remote = self.endpoint.register_remote_memory_region("memory", peer["mr_info"]["memory"])
        self.parts = [(self.region, remote, at, at, SIZE // 8) for at in range(0, SIZE, SIZE // 8)]

    def write(self):
        expect_zero("write", self.endpoint.write(self.parts, None).wait())

    def read(self):
        expect_zero("read", self.endpoint.read(self.parts, None).wait())

    def end(self):
        self.endpoint.shutdown()


class Verbs(Library):
    """The package `ibverbs`."""

    def __init__(self, device, address, memory):
        import ibverbs

        self.ib, self.port, self.index = ibverbs, 1, 1
        device = next(found for found in ibverbs.get_device_list() if found.name == device)
        self.context = device.open()
        self.domain = self.context.alloc_pd()
        self.queue = self.context.create_cq(16)
        flags = ibverbs.AccessFlags
        self.access = flags.LOCAL_WRITE | flags.REMOTE_WRITE | flags.REMOTE_READ
        self.region = self.domain.reg_mr(memory, SIZE, self.access)
        self.memory = memory
        kind = ibverbs.QPInitAttr(send_cq=self.queue, recv_cq=self.queue, qp_type=ibverbs.QPType.RC)
        self.pair = self.domain.create_qp(kind)

    def name(self):
        gid = self.context.query_gid(self.port, self.index)
        info = self.ib.local_qp_info(self.pair, self.context.query_port(self.port), gid, port=self.port)
        return self.memory.to_bytes(8, "big") + self.region.rkey.to_bytes(4, "big") + info.to_bytes()

    def meet(self, name):
        self.remote = {"remote_addr": int.from_bytes(name[:8], "big"), "rkey": int.from_bytes(name[8:12], "big")}
        peer = self.ib.QPInfo.from_bytes(name[12:])
        self.ib.connect_rc(self.pair, peer, port=self.port, sgid_index=self.index, access=self.access)

    def do(self, opcode):
        part = self.ib.SGE(self.region, SIZE)
        self.pair.post_send(
            self.ib.SendWR(
                wr_id=1, sg_list=[part], opcode=opcode, send_flags=self.ib.SendFlags.SIGNALED, **self.remote
            )
        )
        end = time.monotonic() + 20
        while not (done := self.queue.poll(1)):
            if time.monotonic() > end:
                raise SystemExit("no completion within 20 s")
        done[0].raise_for_status()

    def write(self):
        self.do(self.ib.WROpcode.RDMA_WRITE)

    def read(self):
        self.do(self.ib.WROpcode.RDMA_READ)


class Nixl(Library):
    """NVIDIA's NIXL, by its own UCX."""

    def __init__(self, device, address, memory):
        from nixl_cu12 import nixl_agent, nixl_agent_config

        self.agent, self.memory = nixl_agent(device, nixl_agent_config(backends=["UCX"])), memory
        self.registered = self.agent.register_memory([(memory, SIZE, 0, "")], "DRAM")

    def name(self):
        return self.memory.to_bytes(8, "big") + self.agent.get_agent_metadata()

    def meet(self, name):
        self.remote = int.from_bytes(name[:8], "big")
        self.peer = self.agent.add_remote_agent(name[8:])

    def do(self, operation):
        parts = [self.agent.get_xfer_descs([(memory, SIZE, 0)], "DRAM") for memory in (self.memory, self.remote)]
        transfer = self.agent.initialize_xfer(operation, *parts, self.peer, b"")
        state, end = self.agent.transfer(transfer), time.monotonic() + 20
        while state != "DONE":
            if state == "ERR" or time.monotonic() > end:
                raise SystemExit(f"{operation} is {state} after 20 s")
            state = self.agent.check_xfer_state(transfer)
        self.agent.release_xfer_handle(transfer)

    def end(self):
        """Before the interpreter ends, whose order is none."""
        self.agent.remove_remote_agent(self.peer)
        self.agent.deregister_memory(self.registered)
        del self.agent

    def write(self):
        self.do("WRITE")

    def read(self):
        self.do("READ")


def send(to, message):
    to.sendall(len(message).to_bytes(4, "big") + message)


def receive(source):
    def exactly(count):
        message = b""
        while len(message) < count:
            message += source.recv(count - len(message)) or sys.exit("the other process has ended")
        return message

    return exactly(int.from_bytes(exactly(4), "big"))


library, role = {"mooncake": Mooncake, "dlslime": Dlslime, "ibverbs": Verbs, "nixl": Nixl}[sys.argv[2]], sys.argv[1]
buffer = ctypes.create_string_buffer(SIZE)
memory = ctypes.addressof(buffer)
side = library(*PLACES[role], memory)
if role == "server":
    with socket.create_server(MEETING) as listener:
        other = listener.accept()[0]
else:
    other = socket.create_connection(MEETING)
send(other, side.name())
side.meet(receive(other))
# Both know each other.
send(other, b"ready")
receive(other)
if role == "server":
    receive(other)
    if buffer.raw != EXPECTED:
        raise SystemExit("the server found other bytes")
    send(other, b"right")
    receive(other)
else:
    ctypes.memmove(memory, EXPECTED, SIZE)
    side.write()
    send(other, b"written")
    receive(other)
    ctypes.memset(memory, 0, SIZE)
    side.read()
    send(other, b"done")
    if buffer.raw != EXPECTED:
        raise SystemExit("other bytes were read")
    print("written, read back and compared")
# Neither leaves before the other is done with it.
send(other, b"end")
receive(other)
side.end()
