"""What the tests do with `nvmeof`, a Python package that is an NVMe over Fabrics initiator and not ours.

    nvme.py WHAT ADDRESS NQN [FILE]
"""

import hashlib
import random
import struct
import sys
import time
import uuid

import ibverbs as ib
import nvmeof
from nvmeof import protocol as p

WHAT, ADDRESS, NQN = sys.argv[1:4]
PORT = 4420
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
LIMIT = 20.0
OPC_LOG_PAGE, OPC_GET_FEATURES, OPC_EVENT, OPC_KEEP_ALIVE = 0x02, 0x0A, 0x0C, 0x18


def connect(timeout=LIMIT, **options):
    return nvmeof.Controller.connect(ADDRESS, NQN, timeout=timeout, **options)


def io_queue(controller, number, depth=64):
    """One more I/O queue of a controller."""
    queue = nvmeof.RDMAQueue(ADDRESS, PORT, number, depth, controller.controller_id)
    with nvmeof.HostBuffer(queue.pd, 1024) as data:
        names = controller.host_id, NQN, controller.host_nqn, controller.controller_id
        data.write(p.connect_data(*names))
        queue.execute(p.fabrics_connect(number, depth, data), timeout=LIMIT)
    return queue


def admin_queue(nqn, keep_alive=0, depth=32):
    """An admin queue, connected to a subsystem, enabled."""
    queue = nvmeof.RDMAQueue(ADDRESS, PORT, 0, depth)
    host = uuid.uuid4()
    with nvmeof.HostBuffer(queue.pd, 1024) as data:
        data.write(p.connect_data(host, nqn, "nqn.2014-08.org.example:host", 0xFFFF))
        queue.execute(p.fabrics_connect(0, depth, data, keep_alive), timeout=LIMIT)
    queue.execute(p.property_set(p.REG_CC, p.CC_ENABLE | p.CC_IOSQES | p.CC_IOCQES), timeout=LIMIT)
    return queue


def refused(expected, queue, command):
    """A command is answered with a status, of type and code."""
    try:
        queue.execute(bytes(command), timeout=LIMIT)
    except p.NVMeStatusError as error:
        found = error.completion.status & 0x7FF
        assert found == expected, f"status {found:#x} instead of {expected:#x}"
        return error.completion
    raise AssertionError(f"no status {expected:#x}")


def copy(places=150):
    """4 MiB, then places at random, are what was written there; so is the file that is served."""
    random.seed(4)
    with connect() as controller:
        namespace = controller.namespace(1)
        block, blocks = namespace.lba_size, namespace.info.size_lbas
        print(controller.info.model, block, blocks, controller.max_transfer_bytes)
        expected = bytearray(block * blocks)

        with controller.allocate(4 << 20) as buffer:

            def write(first, count):
                data = random.randbytes(count * block)
                expected[first * block : first * block + len(data)] = data
                buffer.write(data)
                namespace.write(buffer, first, count)

            def compare(first, count):
                namespace.read(buffer, first, count)
                there = expected[first * block : (first + count) * block]
                assert buffer.read(count * block) == there, f"{count} blocks from {first} differ"

            all_of_it = (4 << 20) // block
            write(16, all_of_it)
            namespace.flush()
            compare(16, all_of_it)
            for _ in range(places):
                for act in write, compare:
                    count = random.choice([1, 7, 8, 256, 257, random.randint(1, 900)])
                    act(random.randrange(blocks - count + 1), count)
            for first in range(0, blocks, all_of_it):
                compare(first, min(all_of_it, blocks - first))
            namespace.flush()
    if len(sys.argv) > 4:
        with open(sys.argv[4], "rb") as file:
            assert file.read() == expected, "the file differs"
    print("SHA-256:", hashlib.sha256(expected).hexdigest())


def brief():
    """The same with fewer places, for a slow target."""
    copy(5)


def queues():
    """Two controllers, the first with four I/O queues, each with many commands at a time."""
    with connect() as first, connect() as second:
        assert first.controller_id != second.controller_id
        queues = [first.io, second.io] + [io_queue(first, number) for number in (2, 3, 8)]
        length, commands = 8 << 10, 40
        buffers = []
        for opcode in p.OPC_WRITE, p.OPC_READ:
            for at, queue in enumerate(queues):
                if opcode == p.OPC_WRITE:
                    buffer = nvmeof.HostBuffer(queue.pd, length * commands)
                    buffer.write(random.Random(at).randbytes(buffer.length))
                    buffers.append(buffer)
                else:
                    buffers[at].write(bytes(buffers[at].length))
                for number in range(commands):
                    place = (at * commands + number) * length // 512
                    offset = number * length
                    command = p.rw_command(
                        opcode, 1, place, length // 512, buffers[at], lba_size=512, buffer_offset=offset
                    )
                    queue.submit(command)
            end = time.monotonic() + LIMIT
            for queue in queues:
                while queue.outstanding:
                    for request in queue.poll():
                        request.response.raise_for_status()
                        assert request.response.sq_id == queue.qid
                    assert time.monotonic() < end, f"{queue.outstanding} commands are not answered"
        for at, buffer in enumerate(buffers):
            assert buffer.read() == random.Random(at).randbytes(buffer.length), f"queue {at} differs"
            buffer.close()
        try:
            io_queue(first, 3)
        except p.NVMeStatusError as error:
            assert error.completion.status & 0x7FF == 0x181
        else:
            raise AssertionError("queue 3 is connected twice")
        for queue in queues[2:]:
            queue.close()


def endless():
    """Writes and reads until one of the two is killed."""
    with connect(timeout=5) as controller:
        namespace = controller.namespace(1)
        more = io_queue(controller, 2)
        with controller.allocate(1 << 20) as buffer, nvmeof.HostBuffer(more.pd, 1 << 17) as other:
            while True:
                for number in range(32):
                    more.submit(p.rw_command(p.OPC_WRITE, 1, number * 256, 256, other, lba_size=512))
                namespace.write(buffer, 0)
                namespace.read(buffer, 0)
                end = time.monotonic() + 5
                while more.outstanding:
                    more.poll()
                    assert time.monotonic() < end, "no answer"
                print("going", flush=True)


def command(opcode, nsid=0, sgl=0x40, length=0):
    command = p._command(opcode, nsid)
    command[32:35] = length.to_bytes(3, "little")
    command[39] = sgl
    return command


def statuses():
    """What is wrong gets the status for it; the queues go on."""
    for nqn, host, controller, where in [
        ("nqn.2014-08.org.example:nothing", "nqn.2014-08.org.example:host", 0xFFFF, 256),
        (NQN, "nqn.2014-08.org.example:host", 77, 16),
    ]:
        with nvmeof.RDMAQueue(ADDRESS, PORT, 0, 32) as queue:
            refused(0x00C, queue, p.property_get(p.REG_CAP, 8))
            with nvmeof.HostBuffer(queue.pd, 1024) as data:
                data.write(p.connect_data(uuid.uuid4(), nqn, host, controller))
                completion = refused(0x182, queue, p.fabrics_connect(0, 32, data))
                assert completion.result == 1 << 16 | where, hex(completion.result)
                assert completion.do_not_retry
                refused(0x182, queue, p.fabrics_connect(3, 32, data))
                refused(0x182, queue, p.fabrics_connect(0, 33, data))
                refused(0x00F, queue, p.fabrics_connect(0, 32, data)[:32] + bytes(3) + p.fabrics_connect(0, 32, data)[35:])

    with connect(queue_depth=16) as c:
        namespace = c.namespace(1)
        blocks = namespace.info.size_lbas
        with nvmeof.HostBuffer(c.admin.pd, 8192) as data:
            for expected, wrong in [
                (0x001, command(0x7E)),
                (0x002, p.property_get(0x40, 4)),
                (0x002, p.property_get(p.REG_CAP, 4)),
                (0x002, p.property_set(p.REG_CSTS, 0)),
                (0x002, p.set_features(0x7E, 0)),
                (0x002, p.set_features(p.FEAT_NUMBER_OF_QUEUES, 0xFFFF)),
                (0x00B, p.identify(data, nsid=2)),
                (0x002, p.identify(data)[:40] + b"\x77" + p.identify(data)[41:]),
                (0x109, command(OPC_LOG_PAGE, length=4)),
                (0x00C, p.fabrics_connect(0, 32, data)),
                # The length is not 4096, the SGL a segment or an address without a key, the command has PRPs.
                (0x00F, command(p.OPC_IDENTIFY, sgl=0x40, length=512)[:40] + b"\x01" + bytes(23)),
                (0x011, command(p.OPC_IDENTIFY, sgl=0x20, length=4096)[:40] + b"\x01" + bytes(23)),
                (0x002, command(p.OPC_IDENTIFY, sgl=0x00, length=4096)[:40] + b"\x01" + bytes(23)),
                (0x002, command(p.OPC_IDENTIFY)[:1] + bytes(63)),
            ]:
                refused(expected, c.admin, wrong)
            # A namespace list, and the descriptors of the namespace.
            for question, start in (2, bytes([1, 0, 0, 0, 0])), (3, bytes([3, 16, 0, 0])):
                ask = p.identify(data, nsid=question - 2)
                c.admin.execute(ask[:40] + bytes([question]) + ask[41:], timeout=LIMIT)
                assert data.read(len(start)) == start, data.read(24)
            features = p.set_features(p.FEAT_NUMBER_OF_QUEUES, 0)
            assert c.admin.execute(features).result == 0x70007
            for feature, value in (0x06, 1), (0x07, 0x70007), (0x0B, 0), (0x0F, 0):
                ask = command(OPC_GET_FEATURES)
                ask[40] = feature
                assert c.admin.execute(bytes(ask)).result == value, feature
            c.admin.execute(bytes(command(OPC_KEEP_ALIVE)))
            # Four requests for events wait; the queue goes on.
            for _ in range(4):
                c.admin.submit(bytes(command(OPC_EVENT)))
            refused(0x105, c.admin, command(OPC_EVENT))
            assert c.admin.outstanding == 4

        with c.allocate(1 << 18) as data:
            read = lambda first, count, nsid=1: p.rw_command(
                p.OPC_READ, nsid, first, count, data, lba_size=512
            )
            for expected, wrong in [
                (0x001, command(0x7E, 1)),
                (0x001, p.property_get(p.REG_CSTS, 4)),
                (0x00B, read(0, 1, 2)),
                (0x00B, command(p.OPC_FLUSH, 9)),
                (0x080, read(blocks, 1)),
                (0x080, read(blocks - 7, 8)),
                (0x080, read((1 << 64) - 1, 8)),
                (0x002, read(0, 257)),
                (0x00F, read(0, 8)[:48] + b"\x08" + read(0, 8)[49:]),
                (0x00F, p.rw_command(p.OPC_WRITE, 1, 0, 8, data, lba_size=512)[:48] + bytes(16)),
                (0x011, command(p.OPC_WRITE, 1, 0x50, 512)),
                (0x016, command(p.OPC_WRITE, 1, 0x01, 512)),
                (0x002, command(p.OPC_READ, 1, 0x01, 512)),
            ]:
                refused(expected, c.io, wrong)
            namespace.write(data, 0, 8)
            # A shutdown, then no more.
            c.admin.execute(p.property_set(p.REG_CC, c.admin and 0x464001))
            assert c.admin.execute(p.property_get(p.REG_CSTS, 4)).result == 0x9
            refused(0x00C, c.admin, command(OPC_KEEP_ALIVE))


def connects():
    """A second Connect while the data of the first are on their way is refused, whatever it would be as a Write."""
    with connect() as c, c.allocate(512) as block:
        namespace = c.namespace(1)
        block.write(b"before" + bytes(506))
        namespace.write(block, 0)
        with nvmeof.RDMAQueue(ADDRESS, PORT, 0, 32) as queue, nvmeof.HostBuffer(queue.pd, 1024) as data:
            data.write(p.connect_data(uuid.uuid4(), NQN, "nqn.2014-08.org.example:host", 0xFFFF))
            first = p.fabrics_connect(0, 32, data)
            # As a Write: one block, the first.
            second = first[:40] + bytes(10) + first[50:]
            requests = [queue.submit(first), queue.submit(second)]
            end = time.monotonic() + LIMIT
            while queue.outstanding:
                queue.poll()
                assert time.monotonic() < end, f"{queue.outstanding} commands are not answered"
            found = [request.response.status & 0x7FF for request in requests]
            assert found == [0, 0x00C], [hex(status) for status in found]
        namespace.read(block, 0)
        assert block.read(6) == b"before", block.read()


def mute():
    """A host that connects and says nothing for long finds that it is disconnected."""
    with nvmeof.RDMAQueue(ADDRESS, PORT, 0, 32) as queue:
        time.sleep(11)
        end = time.monotonic() + 2 * LIMIT
        while time.monotonic() < end:
            try:
                queue.execute(p.property_get(p.REG_CAP, 8), timeout=3)
            except p.NVMeStatusError:
                # It comes before Connect, and the target is late.
                time.sleep(0.1)
            except (ib.CompletionError, TimeoutError):
                return
    raise AssertionError("nobody has disconnected")


def manager():
    """What the target refuses before there is a connection, and a key that is not one."""
    for record in [
        struct.pack("<HHHHH22x", 1, 0, 32, 31, 0),  # format
        struct.pack("<HHHHH22x", 0, 9, 32, 31, 0),  # queue
        struct.pack("<HHHHH22x", 0, 0, 32, 128, 0),  # too many commands
        struct.pack("<HHHHH22x", 0, 0, 32, 0, 0),
        struct.pack("<HHHHH22x", 0, 0, 0, 31, 0),  # no room for answers
    ]:
        cm = ib.CMID.resolve(ADDRESS, PORT)
        pd = cm.context.alloc_pd()
        cq = cm.context.create_cq(4)
        qp = cm.create_qp(pd, ib.QPInitAttr(send_cq=cq, recv_cq=cq, qp_type=ib.QPType.RC))
        try:
            cm.connect(record)
        except ib.VerbsError as error:
            assert "refused" in str(error), error
        else:
            raise AssertionError(f"accepted: {record}")
        for thing in qp, cq, pd, cm:
            thing.close()

    for opcode in p.OPC_READ, p.OPC_WRITE:
        with connect() as c:
            c.namespace(1)
            with c.allocate(4096) as data:
                wrong = bytearray(p.rw_command(opcode, 1, 0, 8, data, lba_size=512))
                wrong[35] ^= 0x55
                try:
                    c.io.execute(bytes(wrong), timeout=LIMIT)
                except ib.CompletionError:
                    continue
                raise AssertionError("a wrong key was good enough")

    # Too short for a command; longer than the longest capsule.
    for length, taken in (63, True), (5000, False):
        with connect() as c, nvmeof.HostBuffer(c.io.pd, length) as data:
            message = ib.SendWR(
                sg_list=[data.mr.sge(length, 0)], opcode=ib.WROpcode.SEND, send_flags=ib.SendFlags.SIGNALED
            )
            c.io.qp.post_send(message)
            end = time.monotonic() + LIMIT
            while not (done := c.io.cq.poll(1)):
                assert time.monotonic() < end, f"a message of {length} bytes is not completed"
            assert done[0].is_success == taken, done[0]


def discovery():
    """Where the subsystem is, as the discovery service says."""
    with admin_queue(DISCOVERY) as queue:
        with nvmeof.HostBuffer(queue.pd, 4096) as data:
            queue.execute(p.identify(data, controller=True), timeout=LIMIT)
            assert data.read(len(DISCOVERY), 768).decode() == DISCOVERY
            ask = bytearray(p.identify(data))
            ask[0] = OPC_LOG_PAGE
            p.set_keyed_sgl(ask, data, 2048)
            struct.pack_into("<BBHH", ask, 40, 0x70, 0, 511, 0)
            queue.execute(bytes(ask), timeout=LIMIT)
            page = data.read(2048)
            assert struct.unpack_from("<QQ", page) == (1, 1)
            # The rest of it, and what is after its end.
            struct.pack_into("<Q", ask, 48, 1024)
            queue.execute(bytes(ask), timeout=LIMIT)
            assert data.read(2048) == page[1024:] + bytes(1024)
            struct.pack_into("<Q", ask, 48, 4096)
            refused(0x002, queue, ask)
            refused(0x002, queue, p.identify(data, nsid=1))
            refused(0x002, queue, p.set_features(p.FEAT_NUMBER_OF_QUEUES, 0))
    entry = page[1024:]
    assert entry[:3] == bytes([1, 1, 2]), entry[:3]
    assert entry[32:64].decode().strip() == str(PORT)
    assert entry[256:512].rstrip(b"\0").decode() == NQN
    assert entry[512:768].decode().strip() == ADDRESS


def silence():
    """A host said that it would send Keep Alive, and does so for a while. Then it sends other commands: its controller is
    gone."""
    queue = admin_queue(NQN, keep_alive=6000)
    begin = time.monotonic()
    while time.monotonic() - begin < 8:
        queue.execute(bytes(command(OPC_KEEP_ALIVE)), timeout=LIMIT)
        time.sleep(0.1)
    begin = time.monotonic()
    try:
        while time.monotonic() - begin < LIMIT:
            queue.execute(p.property_get(p.REG_CSTS, 4), timeout=3)
            answered = time.monotonic() - begin
    # The last command has come to the card, or not: without an answer in either case.
    except (ib.CompletionError, TimeoutError) as error:
        print(f"the last answer came after {answered:.2f} s; {error}")
        assert 0.5 < answered
        queue.close()
        return
    raise AssertionError("the controller lives without Keep Alive")


if __name__ == "__main__":
    {f.__name__: f for f in (copy, brief, queues, endless, statuses, connects, mute, manager, discovery, silence)}[WHAT]()
    print(f"{WHAT}: good")
