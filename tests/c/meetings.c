/* Many connections by address, made and torn down by several processes at once.
 *
 * meetings RANK COUNT: one of eight such processes. Each listens at the address of card RANK % 2, port 7000 + RANK, and
 * connects COUNT times (a multiple of 7), one after the other, to the seven others in turn. The client sends a message
 * of its own, the server sends it back, the client compares it and disconnects. Ends when COUNT connections were made and
 * COUNT were served, and says how many messages came back. */
#define _GNU_SOURCE
#include "rig.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

enum { RANKS = 8, FIRST_PORT = 7000, BYTES = 256, LIMIT = 60 };

static int rank, count;
static double begin;

struct connection {
    struct rdma_cm_id *id;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    char buffer[BYTES];
};

/* The address of a process's card. */
static struct sockaddr_in at(int of, int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    address.sin_addr.s_addr = htonl(198u << 24 | 18 << 16 | (of % 2) << 8 | 1);
    return address;
}

/* The next event of a channel, which is acknowledged. */
static enum rdma_cm_event_type next_event(struct rdma_event_channel *channel, struct rdma_cm_id **id, int *status)
{
    struct rdma_cm_event *event;
    CHECK(!rdma_get_cm_event(channel, &event));
    enum rdma_cm_event_type kind = event->event;
    *id = event->id, *status = event->status;
    CHECK(!rdma_ack_cm_event(event));
    return kind;
}

static void await_event(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
    struct rdma_cm_id *id;
    int status;
    enum rdma_cm_event_type kind = next_event(channel, &id, &status);
    if (kind != wanted)
        die("%s (%d) instead of %s", rdma_event_str(kind), status, rdma_event_str(wanted));
}

/* Its queue pair, and a receive. */
static void prepare(struct connection *c)
{
    c->cq = ibv_create_cq(c->id->verbs, 4, NULL, NULL, 0);
    CHECK(c->cq);
    struct ibv_qp_init_attr attr = {
        .send_cq = c->cq, .recv_cq = c->cq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    CHECK(!rdma_create_qp(c->id, NULL, &attr));
    c->mr = ibv_reg_mr(c->id->pd, c->buffer, BYTES, IBV_ACCESS_LOCAL_WRITE);
    CHECK(c->mr);
    post_receive(c->id->qp, 0, c->mr, c->buffer, BYTES);
}

static void send_message(struct connection *c)
{
    post_message(c->id->qp, 0, c->mr, c->buffer, BYTES);
}

/* Waits for one completion, and says of what. */
static enum ibv_wc_opcode completed(struct connection *c)
{
    struct ibv_wc wc;
    int found;
    while (!(found = ibv_poll_cq(c->cq, 1, &wc))) {
        if (now() > begin + LIMIT)
            die("no completion came within %d s", LIMIT);
        usleep(100);
    }
    CHECK(found == 1);
    if (wc.status != IBV_WC_SUCCESS)
        die("%s", ibv_wc_status_str(wc.status));
    return wc.opcode;
}

static void release(struct connection *c)
{
    rdma_destroy_qp(c->id);
    CHECK(!ibv_dereg_mr(c->mr) && !ibv_destroy_cq(c->cq) && !rdma_destroy_id(c->id));
    free(c);
}

static void *serve(void *argument)
{
    struct rdma_event_channel *channel = ((struct rdma_cm_id *)argument)->channel;
    for (int served = 0; served < count;) {
        struct rdma_cm_id *id;
        int status;
        enum rdma_cm_event_type kind = next_event(channel, &id, &status);
        struct connection *c = id->context;
        switch (kind) {
        case RDMA_CM_EVENT_CONNECT_REQUEST:
            c = calloc(1, sizeof *c);
            c->id = id, id->context = c;
            prepare(c);
            struct rdma_conn_param param = { .rnr_retry_count = 7 };
            CHECK(!rdma_accept(id, &param));
            break;
        case RDMA_CM_EVENT_ESTABLISHED:
            CHECK(completed(c) == IBV_WC_RECV);
            /* Whether it is acknowledged is not known: the client may be gone before a lost acknowledgement comes again. */
            send_message(c);
            break;
        case RDMA_CM_EVENT_DISCONNECTED:
            rdma_disconnect(id);
            release(c);
            served++;
            break;
        case RDMA_CM_EVENT_TIMEWAIT_EXIT:
            break;
        default:
            die("the listener got %s (%d)", rdma_event_str(kind), status);
        }
    }
    return NULL;
}

/* Whether it is connected. A server that does not listen yet refuses. */
static int try_to_connect(struct connection *c, struct rdma_event_channel *channel, int to)
{
    CHECK(!rdma_create_id(channel, &c->id, c, RDMA_PS_TCP));
    struct sockaddr_in from = at(rank, 0), server = at(to, FIRST_PORT + to);
    CHECK(!rdma_resolve_addr(c->id, (struct sockaddr *)&from, (struct sockaddr *)&server, 2000));
    await_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    CHECK(!rdma_resolve_route(c->id, 2000));
    await_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    prepare(c);
    struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
    CHECK(!rdma_connect(c->id, &param));
    struct rdma_cm_id *id;
    int status;
    enum rdma_cm_event_type kind = next_event(channel, &id, &status);
    if (kind != RDMA_CM_EVENT_ESTABLISHED && kind != RDMA_CM_EVENT_REJECTED)
        die("%s (%d)", rdma_event_str(kind), status);
    return kind == RDMA_CM_EVENT_ESTABLISHED;
}

int main(int arguments, char **argument)
{
    if (arguments != 3)
        die("usage: meetings RANK COUNT");
    rank = atoi(argument[1]), count = atoi(argument[2]);
    begin = now();
    struct rdma_event_channel *listening = rdma_create_event_channel(), *channel = rdma_create_event_channel();
    CHECK(listening && channel);
    struct rdma_cm_id *listener;
    CHECK(!rdma_create_id(listening, &listener, NULL, RDMA_PS_TCP));
    struct sockaddr_in own = at(rank, FIRST_PORT + rank);
    CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&own) && !rdma_listen(listener, 64));
    pthread_t server;
    CHECK(!pthread_create(&server, NULL, serve, listener));
    int answered = 0;
    for (int n = 0; n < count; n++) {
        int to = (rank + 1 + n % (RANKS - 1)) % RANKS;
        struct connection *c = calloc(1, sizeof *c);
        while (!try_to_connect(c, channel, to)) {
            if (now() > begin + 20)
                die("process %d refuses", to);
            release(c);
            c = calloc(1, sizeof *c);
            usleep(20000);
        }
        char sent[BYTES];
        snprintf(sent, BYTES, "meeting %d of %d with %d", n, rank, to);
        memcpy(c->buffer, sent, BYTES);
        send_message(c);
        /* The answer comes into the same buffer; before the acknowledgement, if that is lost. */
        CHECK((completed(c) == IBV_WC_SEND) != (completed(c) == IBV_WC_SEND));
        CHECK(!strcmp(c->buffer, sent));
        answered++;
        CHECK(!rdma_disconnect(c->id));
        await_event(channel, RDMA_CM_EVENT_DISCONNECTED);
        release(c);
    }
    CHECK(!pthread_join(server, NULL));
    CHECK(!rdma_destroy_id(listener));
    rdma_destroy_event_channel(listening);
    rdma_destroy_event_channel(channel);
    printf("%d of %d answered\n", answered, count);
    return 0;
}
