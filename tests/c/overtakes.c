/* Control operations right behind doorbells, which they must not overtake.
 *
 * overtakes limit|reset|stop. What it prints is the same in every run. */
#include "rig.h"
#include <poll.h>

enum { RECEIVES = 24 };

static struct side left, right;

static int next_event(struct ibv_context *context, int ms)
{
    struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
    struct ibv_async_event event;
    if (poll(&fd, 1, ms) != 1)
        return -1;
    CHECK(!ibv_get_async_event(context, &event));
    ibv_ack_async_event(&event);
    return event.event_type;
}

/* The limit is compared with what was posted before. */
static void limit(void)
{
    struct ibv_srq_init_attr init = { .attr = { .max_wr = 64, .max_sge = 1 } };
    struct ibv_srq *srq = ibv_create_srq(left.pd, &init);
    CHECK(srq);
    for (int n = 1; n <= RECEIVES; n++) {
        struct ibv_sge sge = { .addr = (uintptr_t)left.buffer, .length = 64, .lkey = left.mr->lkey };
        struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
        struct ibv_srq_attr attr = { .srq_limit = n };
        CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
        CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
        int event = next_event(left.context, 1);
        if (event >= 0)
            die("%s with %d receives posted", ibv_event_type_str(event), n);
    }
    struct ibv_srq_attr attr = { .srq_limit = RECEIVES + 1 };
    CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
    CHECK(next_event(left.context, 10000) == IBV_EVENT_SRQ_LIMIT_REACHED);
}

static void modify(struct side *side, enum ibv_qp_state state, int mask)
{
    struct ibv_qp_attr attr = {
        .qp_state = state, .port_num = PORT, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
    };
    CHECK(!ibv_modify_qp(side->qp, &attr, mask | IBV_QP_STATE));
}

/* What was posted before a reset is forgotten by it. */
static void reset(void)
{
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i <= round; i++)
            post(&left, &right.address, IBV_WR_RDMA_WRITE, i, 0, 64);
        struct side *sides[] = { &left, &right };
        for (int i = 0; i < 2; i++)
            modify(sides[i], IBV_QPS_RESET, 0);
        for (int i = 0; i < 2; i++)
            modify(sides[i], IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
        connect_pair(&left, &right);
        usleep(1000);
        struct ibv_wc wc;
        if (ibv_poll_cq(left.cq, 1, &wc))
            die("%d requests before a reset: %s of %d after it", round + 1, ibv_wc_status_str(wc.status), (int)wc.wr_id);
        post(&left, &right.address, IBV_WR_RDMA_WRITE, 77, 0, 64);
        expect(&left, 77);
    }
}

/* What was posted before the send queue was to be drained is drained. */
static void stop(void)
{
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i <= round; i++)
            post(&left, &right.address, IBV_WR_RDMA_WRITE, i, 0, 64);
        modify(&left, IBV_QPS_SQD, 0);
        usleep(1000);
        struct ibv_wc wc[DEPTH];
        int found = ibv_poll_cq(left.cq, DEPTH, wc);
        printf("%d of %d drained\n", found, round + 1);
        modify(&left, IBV_QPS_RTS, 0);
        while (found <= round)
            found += ibv_poll_cq(left.cq, DEPTH, wc);
    }
}

int main(int count, char **arguments)
{
    const char *what = count == 2 ? arguments[1] : "";
    left = make_side(open_device("verbena0"), NULL, 4096);
    right = make_side(open_device("verbena1"), NULL, 4096);
    connect_pair(&left, &right);
    if (!strcmp(what, "limit"))
        limit();
    else if (!strcmp(what, "reset"))
        reset();
    else if (!strcmp(what, "stop"))
        stop();
    else
        die("usage: overtakes limit|reset|stop");
    printf("OK\n");
    return 0;
}
