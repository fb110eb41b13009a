/* A server with one CQ for all its clients, some of which die; the others must not notice.
 *
 * hub srq DEVICE SOCKET | hub queues DEVICE SOCKET | hub client DEVICE SOCKET        until SIGTERM
 *
 * The clients of the server `srq` share its SRQ, too; those of `queues` have a receive queue each.
 *
 * A client writes to its place at the server, sends, and reads back; the server checks what was written and sent, byte by byte
 * and in order, and sends it back, which the client checks. The first client is the witness: nothing may go wrong with its
 * connection. When another one ends, the server takes its queue pair away as the specification says, so that an SRQ
 * loses no receive: to ERR, the event of the last receive, the completions, and then destroyed. */
#define _GNU_SOURCE
#define DEPTH 32
#include "rendezvous.h"
#include <poll.h>
#include <signal.h>

enum { CLIENTS = 4, RECEIVES = 64, ROOM = 4096, PLACES = 8, MESSAGE = 3000 };
/* Receives of a client, if it has its own. */
enum { OWN = RECEIVES / CLIENTS };
enum { BYTES = (RECEIVES + CLIENTS * PLACES * 2) * ROOM };

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    stopped = signal;
}

static uint32_t length_of(uint32_t number) { return 8 + number * 977 % MESSAGE; }

static void fill(volatile char *at, uint32_t client, uint32_t number)
{
    for (uint32_t i = 0, n = length_of(number); i < n; i++)
        at[i] = (char)(number * 31 + client * 57 + i * 7 + (i >> 8));
}

static void verify(const char *what, const volatile char *at, uint32_t client, uint32_t number)
{
    for (uint32_t i = 0, n = length_of(number); i < n; i++)
        if (at[i] != (char)(number * 31 + client * 57 + i * 7 + (i >> 8)))
            die("client %u, %s %u: byte %u of %u is wrong", client, what, number, i, n);
}

/* What the server has of a client. */
static struct client {
    int fd;
    uint32_t number, expected, answered;
    struct ibv_qp *qp;
} clients[CLIENTS];

static struct side hub;
static struct ibv_srq *srq;
static uint32_t born;

static volatile char *receive_at(int n) { return hub.buffer + (size_t)n * ROOM; }

/* Where client c writes, and where its answers are made. */
static size_t place(int c, uint32_t number, int answer)
{
    return (RECEIVES + (size_t)(2 * c + answer) * PLACES + number % PLACES) * ROOM;
}

static void give(int n)
{
    if (srq)
        post_shared_receive(srq, n, hub.mr, receive_at(n), ROOM);
    else
        post_receive(clients[n / OWN].qp, n, hub.mr, receive_at(n), ROOM);
}

static void send_on(struct ibv_qp *qp, struct ibv_mr *mr, volatile char *at, uint32_t number)
{
    struct ibv_sge sge = { .addr = (uintptr_t)at, .length = length_of(number), .lkey = mr->lkey };
    struct ibv_send_wr wr = { .wr_id = 1ull << 32 | number, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
                              .send_flags = IBV_SEND_SIGNALED, .imm_data = number }, *bad;
    CHECK(!ibv_post_send(qp, &wr, &bad));
}

static struct ibv_qp *make_qp(void)
{
    struct ibv_qp_init_attr init = {
        .send_cq = hub.cq, .recv_cq = hub.cq, .srq = srq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = DEPTH, .max_send_sge = 1, .max_recv_wr = OWN, .max_recv_sge = 1 },
    };
    struct ibv_qp *qp = ibv_create_qp(hub.pd, &init);
    CHECK(qp);
    int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    CHECK(!advance(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = access }));
    return qp;
}

/* Takes what is completed, of all clients. */
static void completions(void)
{
    struct ibv_wc wc;
    int found;
    while ((found = ibv_poll_cq(hub.cq, 1, &wc)) > 0) {
        int c = 0;
        while (c < CLIENTS && !(clients[c].qp && clients[c].qp->qp_num == wc.qp_num))
            c++;
        CHECK(c < CLIENTS);
        struct client *client = &clients[c];
        int receive = !(wc.wr_id >> 32);
        if (wc.status != IBV_WC_SUCCESS) {
            if (c == 0)
                die("the witness's connection broke: %s", ibv_wc_status_str(wc.status));
            if (wc.status != IBV_WC_WR_FLUSH_ERR && wc.status != IBV_WC_RETRY_EXC_ERR && wc.status != IBV_WC_RNR_RETRY_EXC_ERR)
                die("client %u: %s", client->number, ibv_wc_status_str(wc.status));
            if (receive && srq)
                give(wc.wr_id);
            continue;
        }
        if (!receive) {
            client->answered++;
            continue;
        }
        uint32_t number = client->expected++;
        if (wc.imm_data != number || wc.byte_len != length_of(number))
            die("client %u: message %u of %u bytes instead of %u of %u", client->number, wc.imm_data, wc.byte_len, number, length_of(number));
        verify("message", receive_at(wc.wr_id), client->number, number);
        volatile char *answer = hub.buffer + place(c, number, 1);
        verify("write", hub.buffer + place(c, number, 0), client->number, number);
        memcpy((void *)answer, (void *)receive_at(wc.wr_id), wc.byte_len);
        give(wc.wr_id);
        send_on(client->qp, hub.mr, answer, number);
    }
    CHECK(found == 0);
}

static void arrives(int door)
{
    int c = 0, fd = accept(door, NULL, NULL);
    CHECK(fd >= 0);
    while (c < CLIENTS && clients[c].qp)
        c++;
    CHECK(c < CLIENTS);
    clients[c] = (struct client){ .fd = fd, .number = born++, .qp = make_qp() };
    for (int n = 0; n < OWN && !srq; n++)
        give(c * OWN + n);
    struct side side = hub;
    side.qp = clients[c].qp;
    side.address.qpn = side.qp->qp_num;
    side.address.addr = (uintptr_t)hub.buffer + place(c, 0, 0);
    struct address theirs;
    /* It may be killed at any moment. */
    int here = write(fd, &clients[c].number, sizeof clients[c].number) == sizeof clients[c].number &&
               write(fd, &side.address, sizeof side.address) == sizeof side.address &&
               recv(fd, &theirs, sizeof theirs, MSG_WAITALL) == sizeof theirs;
    if (here)
        connect_side(&side, &theirs, 12, 7);
    if (here && write(fd, "r", 1) == 1)
        return;
    CHECK(c);
}

static void leaves(int c)
{
    struct client *client = &clients[c];
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
    struct ibv_async_event event;
    CHECK(!ibv_modify_qp(client->qp, &attr, IBV_QP_STATE));
    for (int last = !srq; !last;) {
        CHECK(!ibv_get_async_event(hub.context, &event));
        if (event.element.qp == clients[0].qp)
            die("the witness's queue pair has an event: %s", ibv_event_type_str(event.event_type));
        last = event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == client->qp;
        ibv_ack_async_event(&event);
    }
    completions();
    CHECK(!ibv_destroy_qp(client->qp));
    close(client->fd);
    client->qp = NULL;
}

static void server(const char *path, int shared)
{
    struct ibv_srq_init_attr init = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
    if (shared)
        CHECK(srq = ibv_create_srq(hub.pd, &init));
    for (int n = 0; n < RECEIVES && shared; n++)
        give(n);
    int door = listener(path);
    say("at work");
    while (!stopped) {
        struct pollfd polls[1 + CLIENTS] = { { .fd = door, .events = POLLIN } };
        for (int c = 0; c < CLIENTS; c++)
            polls[1 + c] = (struct pollfd){ .fd = clients[c].qp ? clients[c].fd : -1, .events = POLLIN };
        for (int i = 0; i < 64; i++)
            completions();
        if (poll(polls, 1 + CLIENTS, 0) <= 0)
            continue;
        for (int c = 0; c < CLIENTS; c++)
            if (polls[1 + c].revents) {
                if (c == 0)
                    return;
                leaves(c);
            }
        if (polls[0].revents)
            arrives(door);
    }
}

/* The next completion, which must be a success. */
static struct ibv_wc next(struct side *side)
{
    struct ibv_wc wc = completion(side->cq, 30);
    if (wc.status != IBV_WC_SUCCESS)
        die("%s", ibv_wc_status_str(wc.status));
    return wc;
}

static void client(struct side *side, const char *path)
{
    /* In its buffer: what it sends, what it reads, what comes back. */
    enum { READ = PLACES, BACK = 2 * PLACES };
    int fd = rendezvous(1, path);
    struct address theirs;
    uint32_t me;
    char ready;
    hear(fd, &me, sizeof me);
    hear(fd, &theirs, sizeof theirs);
    tell(fd, &side->address, sizeof side->address);
    connect_side(side, &theirs, 12, 7);
    for (int n = 0; n < PLACES; n++)
        post_receive(side->qp, 2ull << 32, side->mr, side->buffer + (BACK + n) * ROOM, ROOM);
    hear(fd, &ready, 1);
    say("at work");
    uint32_t posted = 0, back = 0, done = 0;
    while (!stopped || done < posted * 3 || back < posted) {
        for (; !stopped && posted < back + PLACES / 2 && posted * 3 < done + 3 * PLACES; posted++) {
            volatile char *from = side->buffer + posted % PLACES * ROOM;
            fill(from, me, posted);
            struct ibv_sge sges[2] = { { .addr = (uintptr_t)from, .length = length_of(posted), .lkey = side->mr->lkey } };
            sges[1] = sges[0];
            sges[1].addr += READ * ROOM;
            struct ibv_send_wr wr = { .wr_id = 3ull << 32, .sg_list = &sges[0], .num_sge = 1, .send_flags = IBV_SEND_SIGNALED }, *bad;
            aim(&wr, theirs.addr + posted % PLACES * ROOM, theirs.rkey, 0);
            wr.opcode = IBV_WR_RDMA_WRITE;
            CHECK(!ibv_post_send(side->qp, &wr, &bad));
            wr.opcode = IBV_WR_RDMA_READ, wr.sg_list = &sges[1], wr.wr_id = 4ull << 32 | posted;
            CHECK(!ibv_post_send(side->qp, &wr, &bad));
            send_on(side->qp, side->mr, from, posted);
        }
        struct ibv_wc wc = next(side);
        switch (wc.wr_id >> 32) {
        case 2: {
            /* An answer. */
            if (wc.imm_data != back)
                die("answer %u instead of %u", wc.imm_data, back);
            volatile char *at = side->buffer + (BACK + back % PLACES) * ROOM;
            verify("answer", at, me, back++);
            post_receive(side->qp, 2ull << 32, side->mr, at, ROOM);
            break;
        }
        case 4:
            if (done != 3 * (uint32_t)wc.wr_id + 1)
                die("read %u is completion %u", (uint32_t)wc.wr_id, done);
            verify("read", side->buffer + (READ + (uint32_t)wc.wr_id % PLACES) * ROOM, me, wc.wr_id);
            done++;
            break;
        default: done++;
        }
    }
    printf("%u messages and answers\n", back);
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    signal(SIGTERM, stop);
    signal(SIGPIPE, SIG_IGN);
    int is_server = strcmp(argv[1], "client");
    hub = make_side(open_device(argv[2]), NULL, is_server ? BYTES : 3 * PLACES * ROOM);
    is_server ? server(argv[3], !strcmp(argv[1], "srq")) : client(&hub, argv[3]);
    return 0;
}
