/* A rate limit of a raw packet queue pair: what is announced, refused and kept, with a program that sleeps. */
#include "rig.h"

enum { FRAME = 1000, PLACES = 64 };

static struct ibv_cq *sent, *came;
static struct ibv_mr *mr;
static uint8_t out[FRAME] = { 0x02, 0x56, 0x42, 0x00, 0x01, 0x00, 0x02, 0x09, 0x09, 0x09, 0x09, 0x09, 0x88, 0xb5 };

static int limit(struct ibv_qp *qp, uint32_t kbps, uint32_t burst, uint16_t typical)
{
    struct ibv_qp_rate_limit_attr attr = { .rate_limit = kbps, .max_burst_sz = burst, .typical_pkt_sz = typical };
    return ibv_modify_qp_rate_limit(qp, &attr);
}

static int modify(struct ibv_qp *qp, enum ibv_qp_state state, uint32_t kbps)
{
    struct ibv_qp_attr attr = { .qp_state = state, .rate_limit = kbps };
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT);
}

static void send_frames(struct ibv_qp *qp, int count)
{
    for (int i = 0; i < count; i++)
        post_message(qp, i, mr, out, FRAME);
}

/* Sleeps until so many have completed, all with this status; looks now and then, which runs no timer. */
static void wait_for(struct ibv_cq *cq, int count, enum ibv_wc_status status)
{
    double until = now() + 30;
    for (int got = 0; got < count;) {
        struct ibv_wc wc;
        int found = ibv_poll_cq(cq, 1, &wc);
        CHECK(found >= 0 && now() < until);
        if (found == 0) {
            usleep(1000);
            continue;
        }
        if (wc.status != status)
            die("completion %d of %d: %s", got, count, ibv_wc_status_str(wc.status));
        got++;
    }
}

/* No other frame leaves for a while. */
static void stays(int ms)
{
    struct ibv_wc wc;
    usleep(ms * 1000);
    CHECK(ibv_poll_cq(sent, 1, &wc) == 0);
}

static void refuses(struct ibv_pd *pd, struct ibv_qp *qp, uint32_t most)
{
    struct ibv_qp *ud = new_qp(pd, IBV_QPT_UD, sent, sent, 1);
    make_ready(ud, 1);
    CHECK(limit(ud, 1000, 0, 0) == EINVAL);
    CHECK(!ibv_destroy_qp(ud));
    CHECK(limit(qp, most + 1, 0, 0) == EINVAL && modify(qp, IBV_QPS_RTS, most + 1) == EINVAL);
    CHECK(limit(qp, 0, 1, 0) == EINVAL && limit(qp, 0, 0, 1) == EINVAL);
    struct ibv_qp_rate_limit_attr more = { .rate_limit = 1000, .comp_mask = 1 };
    CHECK(ibv_modify_qp_rate_limit(qp, &more) == EINVAL);
    CHECK(modify(qp, IBV_QPS_SQD, 1000) == EINVAL);
}

int main(void)
{
    struct ibv_context *from = open_device("verbena0"), *to = open_device("verbena1");
    struct ibv_device_attr_ex caps = { 0 };
    CHECK(!ibv_query_device_ex(from, NULL, &caps));
    struct ibv_packet_pacing_caps *pacing = &caps.packet_pacing_caps;
    CHECK(pacing->supported_qpts == 1 << IBV_QPT_RAW_PACKET);
    CHECK(pacing->qp_rate_limit_min == 1 && pacing->qp_rate_limit_max >= 100000000);

    static uint8_t in[PLACES][FRAME];
    struct ibv_pd *out_pd = ibv_alloc_pd(from), *in_pd = ibv_alloc_pd(to);
    CHECK(mr = ibv_reg_mr(out_pd, out, sizeof out, 0));
    struct ibv_mr *in_mr = ibv_reg_mr(in_pd, in, sizeof in, IBV_ACCESS_LOCAL_WRITE);
    CHECK(sent = ibv_create_cq(from, PLACES, NULL, NULL, 0));
    CHECK(came = ibv_create_cq(to, 2 * PLACES, NULL, NULL, 0));
    struct ibv_qp *qp = plain_raw(out_pd, sent, PLACES), *receiver = plain_raw(in_pd, came, PLACES);
    struct ibv_flow *rule = rule_for(receiver, out);
    CHECK(in_mr);
    for (int i = 0; i < PLACES; i++)
        post_receive(receiver, i, in_mr, in[i], FRAME);
    refuses(out_pd, qp, pacing->qp_rate_limit_max);

    /* 8 Mbit/s: a millisecond for each frame. The first leaves at once. */
    CHECK(!modify(qp, IBV_QPS_RTS, 8000));
    double start = now();
    send_frames(qp, 40);
    wait_for(sent, 40, IBV_WC_SUCCESS);
    double took = now() - start;
    /* Timers that run late let it catch up a millisecond. */
    if (took < 0.0379)
        die("40 frames took %f s", took);
    wait_for(came, 40, IBV_WC_SUCCESS);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(qp, &attr, IBV_QP_RATE_LIMIT, &init) && attr.rate_limit == 8000);

    /* At 1 kbit/s a frame takes 8 s. */
    CHECK(!limit(qp, 1, 4000, 1000));
    send_frames(qp, 6);
    wait_for(sent, 4, IBV_WC_SUCCESS);
    stays(100);
    /* Without the limit the rest need not wait. */
    start = now();
    CHECK(!limit(qp, 0, 0, 0));
    wait_for(sent, 2, IBV_WC_SUCCESS);
    CHECK(now() - start < 5);
    wait_for(came, 6, IBV_WC_SUCCESS);

    /* What waits is flushed; after that there is no limit. */
    CHECK(!modify(qp, IBV_QPS_RTS, 1));
    send_frames(qp, 5);
    wait_for(sent, 1, IBV_WC_SUCCESS);
    stays(20);
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR };
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
    wait_for(sent, 4, IBV_WC_WR_FLUSH_ERR);
    attr.qp_state = IBV_QPS_RESET;
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
    make_ready(qp, 0);
    start = now();
    send_frames(qp, 5);
    wait_for(sent, 5, IBV_WC_SUCCESS);
    wait_for(came, 6, IBV_WC_SUCCESS);
    CHECK(now() - start < 5);
    CHECK(!ibv_query_qp(qp, &attr, IBV_QP_RATE_LIMIT, &init) && attr.rate_limit == 0);
    CHECK(!ibv_destroy_flow(rule) && !ibv_destroy_qp(qp) && !ibv_destroy_qp(receiver));
    say("all paced");
    return 0;
}
