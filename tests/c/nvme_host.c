/* An NVMe over Fabrics host that gives keys away and wants them back: nvme_host ADDRESS NQN
 *
 * Writes blocks whose data are in the capsule, and reads them back through a memory window whose key the completion
 * invalidates (SEND with invalidate). The same key a second time ends the connection. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                  \
    do {                                                                                             \
        if (!(what)) {                                                                               \
            fprintf(stderr, "nvme_host: line %d: %s: %s\n", __LINE__, #what, strerror(errno));       \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

enum { COMMAND = 64, BLOCKS = 8, BYTES = BLOCKS * 512, ENTRIES = 16, COMPLETION = 16 };
enum { KEYED = 0x40, KEYED_INVALIDATE = 0x4f, IN_CAPSULE = 0x01 };
enum { FABRICS = 0x7f, WRITE = 1, READ = 2 };

static const char *address, *nqn;

struct queue {
    struct rdma_cm_id *id;
    struct ibv_mr *mr;
    uint8_t memory[COMMAND + BYTES + BYTES + COMPLETION] __attribute__((aligned(4096)));
};

static uint8_t *capsule(struct queue *q) { return q->memory; }
static uint8_t *data(struct queue *q) { return q->memory + COMMAND + BYTES; }
static uint8_t *completion(struct queue *q) { return data(q) + BYTES; }

static void put(uint8_t *at, int bytes, uint64_t value)
{
    while (bytes--) {
        *at++ = (uint8_t)value;
        value >>= 8;
    }
}

static void command(struct queue *q, uint8_t opcode, uint32_t nsid)
{
    memset(capsule(q), 0, COMMAND);
    put(capsule(q), 1, opcode);
    put(capsule(q) + 1, 1, 0x40);
    put(capsule(q) + 4, 4, nsid);
}

static void sgl(struct queue *q, int type, uint64_t at, uint32_t length, uint32_t key)
{
    put(capsule(q) + 24, 8, at);
    put(capsule(q) + 32, type == IN_CAPSULE ? 4 : 3, length);
    if (type != IN_CAPSULE)
        put(capsule(q) + 35, 4, key);
    put(capsule(q) + 39, 1, type);
}

/* Sends the capsule, and waits for the completion of the command; gives how that receive has ended. */
static struct ibv_wc execute(struct queue *q, uint32_t length)
{
    struct ibv_wc sent, received;
    CHECK(!rdma_post_recv(q->id, NULL, completion(q), COMPLETION, q->mr));
    CHECK(!rdma_post_send(q->id, NULL, capsule(q), length, q->mr, IBV_SEND_SIGNALED));
    CHECK(rdma_get_recv_comp(q->id, &received) == 1);
    CHECK(rdma_get_send_comp(q->id, &sent) == 1);
    return received;
}

static unsigned status(struct queue *q, uint32_t length)
{
    struct ibv_wc wc = execute(q, length);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == COMPLETION);
    return (completion(q)[14] | completion(q)[15] << 8) >> 1 & 0x7ff;
}

static unsigned open_queue(struct queue *q, int number, int controller)
{
    struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *found;
    CHECK(!rdma_getaddrinfo((char *)address, "4420", &hints, &found));
    struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 8, ENTRIES, 1, 1, 0 } };
    CHECK(!rdma_create_ep(&q->id, found, NULL, &init));
    rdma_freeaddrinfo(found);
    q->mr = ibv_reg_mr(q->id->pd, q->memory, sizeof q->memory,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
    CHECK(q->mr);
    uint8_t record[32] = { 0, 0, number, 0, ENTRIES, 0, ENTRIES - 1, 0 };
    struct rdma_conn_param param = { .private_data = record, .private_data_len = sizeof record,
                                     .responder_resources = 4, .retry_count = 7, .rnr_retry_count = 7 };
    CHECK(!rdma_connect(q->id, &param));
    memset(data(q), 0, 1024);
    put(data(q) + 16, 2, controller);
    strcpy((char *)data(q) + 256, nqn);
    strcpy((char *)data(q) + 512, "nqn.2014-08.org.example:window");
    command(q, FABRICS, 1);
    sgl(q, KEYED, (uintptr_t)data(q), 1024, q->mr->rkey);
    put(capsule(q) + 42, 2, number);
    put(capsule(q) + 44, 2, ENTRIES - 1);
    CHECK(!status(q, COMMAND));
    return completion(q)[0] | completion(q)[1] << 8;
}

/* A window over the data. */
static uint32_t bind_window(struct queue *q, struct ibv_mw *mw)
{
    uint32_t key = ibv_inc_rkey(mw->rkey);
    struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
                              .bind_mw = { .mw = mw, .rkey = key,
                                           .bind_info = { .mr = q->mr, .addr = (uintptr_t)data(q), .length = BYTES,
                                                          .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } } }, *bad;
    struct ibv_wc wc;
    CHECK(!ibv_post_send(q->id->qp, &wr, &bad));
    CHECK(rdma_get_send_comp(q->id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
    mw->rkey = key;
    return key;
}

static void read_command(struct queue *q, uint32_t key)
{
    command(q, READ, 1);
    put(capsule(q) + 40, 8, 3);
    put(capsule(q) + 48, 2, BLOCKS - 1);
    sgl(q, KEYED_INVALIDATE, (uintptr_t)data(q), BYTES, key);
}

int main(int argc, char **argv)
{
    static struct queue admin, io;
    CHECK(argc == 3);
    address = argv[1];
    nqn = argv[2];
    unsigned controller = open_queue(&admin, 0, 0xffff);
    command(&admin, FABRICS, 0);
    put(capsule(&admin) + 44, 4, 0x14);
    put(capsule(&admin) + 48, 8, 0x460001);
    CHECK(!status(&admin, COMMAND));
    open_queue(&io, 1, controller);

    command(&io, WRITE, 1);
    put(capsule(&io) + 40, 8, 3);
    put(capsule(&io) + 48, 2, BLOCKS - 1);
    sgl(&io, IN_CAPSULE, 0, BYTES, 0);
    for (int i = 0; i < BYTES; i++)
        capsule(&io)[COMMAND + i] = (uint8_t)(i * 7 + (i >> 8));
    CHECK(!status(&io, COMMAND + BYTES));
    /* All but a byte of it is there, or none. */
    CHECK(status(&io, COMMAND + BYTES - 1) == 0x16);
    sgl(&io, IN_CAPSULE, UINT64_MAX, BYTES, 0);
    CHECK(status(&io, COMMAND + BYTES) == 0x16);
    printf("in the capsule: good\n");

    struct ibv_mw *mw = ibv_alloc_mw(io.id->pd, IBV_MW_TYPE_2);
    CHECK(mw);
    for (int round = 0; round < 3; round++) {
        uint32_t key = bind_window(&io, mw);
        memset(data(&io), 0, BYTES);
        read_command(&io, key);
        struct ibv_wc wc = execute(&io, COMMAND);
        CHECK(wc.status == IBV_WC_SUCCESS && !completion(&io)[14] && !completion(&io)[15]);
        CHECK(wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == key);
        for (int i = 0; i < BYTES; i++)
            CHECK(data(&io)[i] == (uint8_t)(i * 7 + (i >> 8)));
    }
    printf("the key came back\n");
    fflush(stdout);
    read_command(&io, mw->rkey);
    struct ibv_wc wc = execute(&io, COMMAND);
    CHECK(wc.status != IBV_WC_SUCCESS);
    printf("it cannot be used again: %s\n", ibv_wc_status_str(wc.status));
    return 0;
}
