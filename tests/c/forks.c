/* A program that registers memory, forks, and continues.
 *
 * forks WAY CARD: how it starts children (fork, vfork, system, exec, spawn), and the other card.
 * Each child of `fork` writes all over the registered buffers; the parent must not see it, and its
 * own traffic must go on. With `init` after the card, ibv_fork_init() is called first. */
#include "rig.h"
#include <spawn.h>
#include <sys/wait.h>

enum { BYTES = 1 << 20, ROUNDS = 20, BATCH = 16, PIECE = BYTES / BATCH };

static struct side left, right;

static void fill(struct side *side, int seed)
{
    for (size_t i = 0; i < BYTES; i++)
        side->buffer[i] = (char)(i * 31 + (i >> 12) + seed);
}

static void compare(struct side *side, int seed, const char *when)
{
    for (size_t i = 0; i < BYTES; i++)
        if (side->buffer[i] != (char)(i * 31 + (i >> 12) + seed))
            die("byte %zu is %d %s", i, side->buffer[i], when);
}

/* What a child may do with memory that it inherited: anything. */
static int meddle(int seed)
{
    /* It starts from a copy of what the parent had. */
    for (size_t i = 0; i < BYTES; i++)
        if (left.buffer[i] != (char)(i * 31 + (i >> 12) + seed))
            return 10;
    memset((void *)left.buffer, 0xee, BYTES);
    memset((void *)right.buffer, 0xdd, BYTES);
    for (size_t i = 0; i < BYTES; i += 4096)
        if (left.buffer[i] != (char)0xee || right.buffer[i] != (char)0xdd)
            return 11;
    /* Nothing can be made of the parent's. */
    return ibv_create_comp_channel(left.context) ? 12 : 0;
}

static pid_t start(const char *way, int seed)
{
    extern char **environ;
    char *const arguments[] = { "true", NULL };
    pid_t pid = -1;
    if (strcmp(way, "fork") == 0) {
        CHECK((pid = fork()) >= 0);
        if (pid == 0)
            _exit(meddle(seed));
    } else if (strcmp(way, "vfork") == 0) {
        CHECK((pid = vfork()) >= 0);
        if (pid == 0) {
            execvp("true", arguments);
            _exit(99);
        }
    } else if (strcmp(way, "exec") == 0) {
        CHECK((pid = fork()) >= 0);
        if (pid == 0) {
            execvp("true", arguments);
            _exit(99);
        }
    } else if (strcmp(way, "spawn") == 0) {
        CHECK(posix_spawnp(&pid, "true", NULL, NULL, arguments, environ) == 0);
    } else if (strcmp(way, "system") == 0) {
        CHECK(system("true; exit 0") == 0);
        return 0;
    } else {
        die("unknown way %s", way);
    }
    return pid;
}

int main(int count, char **arguments)
{
    if (count < 3)
        die("usage: forks fork|vfork|exec|spawn|system CARD [init]");
    if (count > 3)
        CHECK(!ibv_fork_init());
    struct ibv_context *one = open_device("verbena0");
    struct ibv_context *other = strcmp(arguments[2], "verbena0") ? open_device(arguments[2]) : one;
    left = make_side(one, NULL, BYTES);
    right = make_side(other, NULL, BYTES);
    connect_pair(&left, &right);
    for (int round = 0; round < ROUNDS; round++) {
        fill(&left, round);
        memset((void *)right.buffer, 0, BYTES);
        /* Half of the traffic before the child starts, half while it runs. */
        for (int i = 0; i < BATCH / 2; i++)
            post(&left, &right.address, IBV_WR_RDMA_WRITE, i, i * PIECE, PIECE);
        pid_t pid = start(arguments[1], round);
        for (int i = BATCH / 2; i < BATCH; i++)
            post(&left, &right.address, IBV_WR_RDMA_WRITE, i, i * PIECE, PIECE);
        for (int i = 0; i < BATCH; i++)
            expect(&left, i);
        compare(&right, round, "after a WRITE");
        int status = 0;
        if (pid > 0)
            CHECK(waitpid(pid, &status, 0) == pid);
        if (status)
            die("the child ended with status %#x", status);
        compare(&left, round, "in the source after the child");
        compare(&right, round, "in the target after the child");
        /* And back. */
        memset((void *)left.buffer, 0, BYTES);
        for (int i = 0; i < BATCH; i++)
            post(&left, &right.address, IBV_WR_RDMA_READ, i, i * PIECE, PIECE);
        for (int i = 0; i < BATCH; i++)
            expect(&left, i);
        compare(&left, round, "after a READ");
    }
    printf("OK: %d children, %d MiB\n", ROUNDS, 2 * ROUNDS * (BYTES >> 20));
    return 0;
}
