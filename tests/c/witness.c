/* Both ends of connections of every kind, in one process: what arrives is checked, byte by byte and in order, while
 * others on the net come and go. Anything wrong ends the program. A connection that breaks is made again and counted, and
 * so are unreliable messages that are lost; with `strict` they end the program too.
 *
 * witness DEVICE DEVICE [strict]       until SIGTERM */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "rig.h"

/* Where the counter is, and where WRITEs go, after the receives. */
enum { SLOT = 16384, RECEIVES = 32, KINDS = 3, COUNTER = RECEIVES, WRITES, BURST = 8, SLOTS = WRITES + BURST };

static const enum ibv_qp_type types[KINDS] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq, *recv_cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp[KINDS];
    struct ibv_ah *ah;
    struct ibv_mr *mr;
    char *memory;
    union ibv_gid gid;
};

static struct end a, b;
static unsigned long rounds, broken, lost;
static int strict;
/* What the receiver expects of each kind, and the value of the counter. */
static uint32_t expected[KINDS];
static uint64_t counter;

static void fill(char *at, uint32_t number, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        at[i] = (char)(number * 31 + i * 7 + (i >> 8));
}

static void verify(const char *what, const char *at, uint32_t number, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (at[i] != (char)(number * 31 + i * 7 + (i >> 8)))
            die("%s %u: byte %u of %u is wrong", what, number, i, bytes);
}

static void make(struct end *end, const char *device)
{
    end->context = open_device(device);
    CHECK(end->pd = ibv_alloc_pd(end->context));
    CHECK(end->channel = ibv_create_comp_channel(end->context));
    CHECK(!fcntl(end->channel->fd, F_SETFL, O_NONBLOCK));
    CHECK(end->cq = ibv_create_cq(end->context, 64, NULL, NULL, 0));
    CHECK(end->recv_cq = ibv_create_cq(end->context, 256, NULL, end->channel, 0));
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
    CHECK(end->srq = ibv_create_srq(end->pd, &srq));
    end->memory = new_pages(SLOT * SLOTS);
    CHECK(end->mr = ibv_reg_mr(end->pd, end->memory, SLOT * SLOTS, ACCESS));
    CHECK(!ibv_query_gid(end->context, PORT, GID_INDEX, &end->gid));
    CHECK(!ibv_req_notify_cq(end->recv_cq, 0));
}

static char *slot(struct end *end, int n) { return end->memory + (size_t)n * SLOT; }

static void receive(int n)
{
    post_shared_receive(b.srq, n, b.mr, slot(&b, n), SLOT);
}

static void make_qps(struct end *end)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct ibv_qp_init_attr init = {
            .send_cq = end->cq, .recv_cq = end->recv_cq, .srq = end->srq, .qp_type = types[kind],
            .cap = { .max_send_wr = 16, .max_send_sge = 1 },
        };
        CHECK(end->qp[kind] = ibv_create_qp(end->pd, &init));
        struct ibv_qp_attr attr = {
            .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = 17,
            .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | (kind ? 0 : IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC),
        };
        CHECK(!advance(end->qp[kind], attr));
    }
}

static void bring_up(struct end *end, struct end *peer)
{
    for (int kind = 0; kind < KINDS; kind++)
        connect_qp(end->qp[kind], peer->qp[kind]->qp_num, peer->gid, 14, 7);
    struct ibv_ah_attr way = path_to(peer->gid);
    CHECK(end->ah = ibv_create_ah(end->pd, &way));
}

/* Starts over: outstanding requests are forgotten, and all receives are posted again. */
static void reconnect(void)
{
    struct end *ends[2] = { &a, &b };
    struct ibv_wc wc;
    for (int e = 0; e < 2; e++) {
        for (int kind = 0; kind < KINDS; kind++)
            if (ends[e]->qp[kind])
                CHECK(!ibv_destroy_qp(ends[e]->qp[kind]));
        if (ends[e]->ah)
            CHECK(!ibv_destroy_ah(ends[e]->ah));
    }
    CHECK(!ibv_destroy_srq(b.srq));
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
    CHECK(b.srq = ibv_create_srq(b.pd, &srq));
    while (ibv_poll_cq(a.cq, 1, &wc) > 0 || ibv_poll_cq(b.cq, 1, &wc) > 0 || ibv_poll_cq(b.recv_cq, 1, &wc) > 0 ||
           ibv_poll_cq(a.recv_cq, 1, &wc) > 0)
        ;
    make_qps(&a), make_qps(&b);
    for (int n = 0; n < RECEIVES; n++)
        receive(n);
    bring_up(&a, &b), bring_up(&b, &a);
    counter = *(volatile uint64_t *)slot(&b, COUNTER);
}

static void is_break(enum ibv_wc_status status)
{
    if (status != IBV_WC_WR_FLUSH_ERR && status != IBV_WC_RETRY_EXC_ERR)
        die("a completion says %s", ibv_wc_status_str(status));
    if (strict)
        die("a connection broke: %s", ibv_wc_status_str(status));
}

/* One request of `a`, or a chain of WRITEs; 0 when the connection broke. */
static int request(int kind, enum ibv_wr_opcode opcode, void *local, uint32_t bytes, uint32_t number)
{
    struct ibv_sge sge = { .addr = (uintptr_t)local, .length = bytes, .lkey = a.mr->lkey };
    struct ibv_send_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
                              .send_flags = IBV_SEND_SIGNALED, .imm_data = number }, *bad, writes[BURST], *first = &wr;
    if (types[kind] == IBV_QPT_UD) {
        aim_datagram(&wr, a.ah, b.qp[kind]->qp_num, 17);
    } else if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        wr.wr.atomic.remote_addr = (uintptr_t)slot(&b, COUNTER), wr.wr.atomic.rkey = b.mr->rkey;
        wr.wr.atomic.compare_add = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 1 : counter, wr.wr.atomic.swap = counter + 1;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)slot(&b, WRITES), wr.wr.rdma.rkey = b.mr->rkey;
    }
    /* A holder of the lock is busy with it for a while. */
    for (int i = 0; opcode == IBV_WR_RDMA_WRITE && i < BURST; i++) {
        int last = i + 1 == BURST;
        writes[i] = wr, first = writes;
        writes[i].next = last ? NULL : &writes[i + 1];
        writes[i].send_flags = last ? IBV_SEND_SIGNALED : 0;
        writes[i].wr.rdma.remote_addr = (uintptr_t)slot(&b, WRITES + i);
    }
    CHECK(!ibv_post_send(a.qp[kind], first, &bad));
    struct ibv_wc wc = completion(a.cq, 30);
    if (wc.status != IBV_WC_SUCCESS) {
        is_break(wc.status);
        return 0;
    }
    if (wc.wr_id != number)
        die("completion of %llu instead of %u", (unsigned long long)wc.wr_id, number);
    return 1;
}

/* Messages that have to come have come: of all kinds, or of the reliable one. */
static int all_here(uint32_t number)
{
    for (int kind = 0; kind < (strict ? KINDS : 1); kind++)
        if (expected[kind] <= number)
            return 0;
    return 1;
}

/* Takes the completions that have arrived, by events, up to message `number`; 0 when the connection broke. */
static int arrivals(uint32_t number)
{
    double until = now() + 30;
    for (;;) {
        struct ibv_wc wc;
        int found = ibv_poll_cq(b.recv_cq, 1, &wc);
        CHECK(found >= 0);
        if (!found) {
            if (all_here(number))
                return 1;
            if (now() > until)
                die("no message %u within 30 s, but RC %u, UC %u, UD %u", number, expected[0], expected[1], expected[2]);
            struct ibv_cq *cq;
            void *context;
            struct pollfd wait = { .fd = b.channel->fd, .events = POLLIN };
            CHECK(!ibv_req_notify_cq(b.recv_cq, 0));
            if ((found = ibv_poll_cq(b.recv_cq, 1, &wc)) == 0) {
                poll(&wait, 1, 1000);
                if (!ibv_get_cq_event(b.channel, &cq, &context))
                    ibv_ack_cq_events(cq, 1);
                continue;
            }
        }
        if (wc.status != IBV_WC_SUCCESS) {
            is_break(wc.status);
            return 0;
        }
        int kind = 0;
        while (kind < KINDS && b.qp[kind]->qp_num != wc.qp_num)
            kind++;
        CHECK(kind < KINDS && wc.wc_flags & IBV_WC_WITH_IMM);
        int header = types[kind] == IBV_QPT_UD ? 40 : 0;
        if (kind == 0 ? wc.imm_data != expected[0] : wc.imm_data < expected[kind])
            die("kind %d: message %u instead of %u", kind, wc.imm_data, expected[kind]);
        if (strict && wc.imm_data != expected[kind])
            die("kind %d: message %u is lost", kind, expected[kind]);
        lost += wc.imm_data - expected[kind];
        verify(kind == 0 ? "RC message" : kind == 1 ? "UC message" : "UD message", slot(&b, wc.wr_id) + header, wc.imm_data, wc.byte_len - header);
        expected[kind] = wc.imm_data + 1;
        receive(wc.wr_id);
    }
}

static int round_of(uint32_t number)
{
    char *from = slot(&a, 0), *into = slot(&a, 1);
    uint32_t bytes = 1 + number * 977 % SLOT;
    fill(from, number, bytes);
    for (int kind = 0; kind < 2; kind++) {
        memset(slot(&b, WRITES), 0, BURST * SLOT);
        if (!request(kind, IBV_WR_RDMA_WRITE, from, bytes, number))
            return 0;
        /* Those of UC may be lost. */
        for (int i = 0; i < BURST && (kind == 0 || strict); i++)
            verify(kind ? "UC write" : "RC write", slot(&b, WRITES + i), number, bytes);
    }
    memcpy(slot(&b, WRITES), from, bytes);
    memset(into, 0, bytes);
    if (!request(0, IBV_WR_RDMA_READ, into, bytes, number))
        return 0;
    verify("read", into, number, bytes);
    for (int i = 0; i < 2; i++) {
        if (!request(0, i ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD, into, 8, number))
            return 0;
        if (*(uint64_t *)into != counter)
            die("an atomic found %llu, not %llu", *(unsigned long long *)into, (unsigned long long)counter);
        counter++;
    }
    for (int kind = 0; kind < KINDS; kind++)
        if (!request(kind, IBV_WR_SEND_WITH_IMM, from, kind == 2 && bytes > 1024 ? 1024 : bytes, number))
            return 0;
    return arrivals(number);
}

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    stopped = signal;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3 || argc == 4);
    strict = argc == 4;
    make(&a, argv[1]), make(&b, argv[2]);
    reconnect();
    signal(SIGTERM, stop);
    say("at work");
    while (!stopped) {
        if (!round_of(rounds)) {
            broken++;
            reconnect();
            for (int kind = 0; kind < KINDS; kind++)
                expected[kind] = rounds + 1;
        }
        rounds++;
    }
    printf("%lu rounds, broken %lu times, %lu unreliable messages lost\n", rounds, broken, lost);
    return 0;
}
