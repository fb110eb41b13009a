/* The memory of the other side goes while it is registered: its file is cut, or its process is killed.
 *
 * gone cut|killed read|write */
#include "rendezvous.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

enum { BYTES = 1 << 20 };

/* A side whose buffer is a file. */
static void other(int in, int out)
{
    FILE *file = tmpfile();
    CHECK(file && !ftruncate(fileno(file), BYTES));
    struct side side = make_side(open_device("verbena1"), NULL, 4096);
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    CHECK(memory != MAP_FAILED);
    struct ibv_mr *mr = ibv_reg_mr(side.pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    CHECK(mr);
    side.address.addr = (uintptr_t)memory;
    side.address.rkey = mr->rkey;
    struct address peer;
    tell(out, &side.address, sizeof side.address);
    hear(in, &peer, sizeof peer);
    connect_side(&side, &peer, 10, 2);
    tell(out, "r", 1);
    char cut;
    hear(in, &cut, 1);
    CHECK(!ftruncate(fileno(file), 0));
    tell(out, "c", 1);
    pause();
}

int main(int count, char **arguments)
{
    if (count < 3)
        die("usage: gone cut|killed read|write");
    int cut = strcmp(arguments[1], "cut") == 0;
    enum ibv_wr_opcode opcode = strcmp(arguments[2], "read") == 0 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    int to[2], from[2];
    CHECK(!pipe(to) && !pipe(from));
    pid_t child = fork();
    if (child == 0)
        other(to[0], from[1]);
    struct side side = make_side(open_device("verbena0"), NULL, BYTES);
    struct address peer;
    char byte;
    hear(from[0], &peer, sizeof peer);
    connect_side(&side, &peer, 10, 2);
    tell(to[1], &side.address, sizeof side.address);
    hear(from[0], &byte, 1);
    post(&side, &peer, opcode, 1, 0, BYTES);
    expect(&side, 1);
    if (cut) {
        tell(to[1], "c", 1);
        hear(from[0], &byte, 1);
    } else {
        CHECK(!kill(child, SIGKILL));
    }
    struct ibv_wc wc;
    double until = now() + 20;
    enum ibv_wc_status wanted = cut ? IBV_WC_REM_OP_ERR : IBV_WC_RETRY_EXC_ERR;
    for (uint64_t id = 2;; id++) {
        post(&side, &peer, opcode, id, 0, BYTES);
        int found;
        while ((found = ibv_poll_cq(side.cq, 1, &wc)) == 0)
            CHECK(now() < until);
        CHECK(found == 1 && wc.wr_id == id);
        /* The killed one may still have been there. */
        if (cut || wc.status != IBV_WC_SUCCESS)
            break;
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (wc.status != wanted)
        die("%s: %s (%#x)", arguments[1], ibv_wc_status_str(wc.status), wc.vendor_err);
    printf("OK: %s\n", ibv_wc_status_str(wc.status));
    return 0;
}
