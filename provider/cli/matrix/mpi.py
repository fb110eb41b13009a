"""What `verbena matrix` runs on every rank of an MPI: each value that arrives is compared with what it has to be."""

from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()


def numbers(values):
    return array("q", values)


def same(what, found, expected):
    if found != expected:
        raise SystemExit(f"rank {rank}: {what} is wrong")


# Short messages, and long ones that go another way.
for count in (1, 100, 100_000):
    total = numbers(bytes(8 * count))
    world.Allreduce([numbers(range(rank, rank + count)), MPI.INT64_T], [total, MPI.INT64_T], op=MPI.SUM)
    same("allreduce", total, numbers(size * i + size * (size - 1) // 2 for i in range(count)))

for count in (1, 100, 50_000):
    sent = numbers(1_000_000 * rank + i for i in range(size * count))
    got = numbers(bytes(8 * size * count))
    world.Alltoall([sent, MPI.INT64_T], [got, MPI.INT64_T])
    part = range(rank * count, (rank + 1) * count)
    same("alltoall", got, numbers(1_000_000 * other + i for other in range(size) for i in part))

# A ring of cells, each rank with its part of it; the next value of a cell comes from its neighbours.
PART, STEPS = 500, 40


def step(cells):
    return numbers((cells[i - 1] + 3 * cells[i] + cells[i + 1]) % 1_000_003 for i in range(1, len(cells) - 1))


ring = numbers(i * i for i in range(size * PART))
mine = ring[rank * PART : (rank + 1) * PART]
left, right = (rank - 1) % size, (rank + 1) % size
for _ in range(STEPS):
    halo = [numbers([0]), numbers([0])]
    world.Sendrecv([mine[-1:], MPI.INT64_T], right, recvbuf=[halo[0], MPI.INT64_T], source=left)
    world.Sendrecv([mine[:1], MPI.INT64_T], left, recvbuf=[halo[1], MPI.INT64_T], source=right)
    mine = step(halo[0] + mine + halo[1])
    ring = step(ring[-1:] + ring + ring[:1])
same("halo exchange", mine, ring[rank * PART : (rank + 1) * PART])

world.Barrier()
if rank == 0:
    print(MPI.Get_library_version().split("\n")[0])
    print(f"{size} ranks: all is right")
