/* Whole frames by raw packet queue pairs: what the card says of checksums, and tags that it strips. The frame is UDP of
 * IPv4, whose checksums were computed by hand. */
#include "rig.h"

enum { FRAME = 64, PLACES = 8, TCI = 0x6123 };

/* 02:56:42:00:01:00 is the first port of the second card. 22 bytes of payload, which are zero. */
static const uint8_t frame[FRAME] = {
    0x02, 0x56, 0x42, 0x00, 0x01, 0x00, 0x02, 0x09, 0x09, 0x09, 0x09, 0x09, 0x08, 0x00, 0x45, 0x00, 0x00, 0x32,
    0x00, 0x00, 0x00, 0x00, 0x40, 0x11, 0xee, 0x93, 198, 18, 0, 1, 198, 18, 0, 2, 0x00, 0x01, 0x00, 0x02,
    0x00, 0x1e, 0x73, 0x87,
};

static struct ibv_qp *raw_qp(struct ibv_context *context, struct ibv_pd *pd, struct ibv_cq *cq, uint32_t flags)
{
    struct ibv_qp_init_attr_ex init = {
        .qp_type = IBV_QPT_RAW_PACKET,
        .send_cq = cq,
        .recv_cq = cq,
        .cap = { .max_send_wr = PLACES, .max_recv_wr = PLACES, .max_send_sge = 1, .max_recv_sge = 1 },
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
        .pd = pd,
        .create_flags = flags,
    };
    struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
    CHECK(qp);
    ready_raw(qp);
    return qp;
}

int main(void)
{
    struct ibv_context *from = open_device("verbena0"), *to = open_device("verbena1");
    struct ibv_device_attr_ex card;
    CHECK(!ibv_query_device_ex(to, NULL, &card));
    CHECK(card.raw_packet_caps == (IBV_RAW_PACKET_CAP_CVLAN_STRIPPING | IBV_RAW_PACKET_CAP_IP_CSUM));
    CHECK(card.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM);

    static uint8_t out[FRAME + 4], in[PLACES][128];
    struct ibv_pd *out_pd = ibv_alloc_pd(from), *in_pd = ibv_alloc_pd(to);
    struct ibv_mr *out_mr = ibv_reg_mr(out_pd, out, sizeof out, 0);
    struct ibv_mr *in_mr = ibv_reg_mr(in_pd, in, sizeof in, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_cq *sent = ibv_create_cq(from, PLACES, NULL, NULL, 0);
    struct ibv_cq_init_attr_ex fields = { .cqe = 2 * PLACES, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_CVLAN };
    struct ibv_cq_ex *came = ibv_create_cq_ex(to, &fields);
    CHECK(out_mr && in_mr && sent && came);
    struct ibv_qp *sender = raw_qp(from, out_pd, sent, 0);
    struct ibv_qp *receiver = raw_qp(to, in_pd, ibv_cq_ex_to_cq(came), IBV_QP_CREATE_CVLAN_STRIPPING);
    struct {
        struct ibv_flow_attr attr;
        struct ibv_flow_spec_eth eth;
    } rule = {
        .attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof rule, .num_of_specs = 1, .port = PORT },
        .eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof rule.eth },
    };
    memcpy(rule.eth.val.dst_mac, frame, 6);
    memset(rule.eth.mask.dst_mac, 0xff, 6);
    struct ibv_flow *flow = ibv_create_flow(receiver, &rule.attr);
    CHECK(flow);

    for (int round = 0; round < 6; round++) {
        /* Right as it is; with sums that are wrong; with such that the card fills in: without a tag and with one. */
        int tagged = round % 2, wrong = round >= 2, filled = round >= 4;
        size_t head = tagged ? 4 : 0;
        memcpy(out, frame, 12);
        memcpy(out + 12, (uint8_t[]){ 0x81, 0x00, TCI >> 8, TCI & 0xff }, 4);
        memcpy(out + 12 + head, frame + 12, FRAME - 12);
        if (wrong)
            out[24 + head] = out[40 + head] = 0x55;
        struct ibv_sge room = { (uintptr_t)in[round], sizeof in[round], in_mr->lkey };
        struct ibv_recv_wr recv = { .wr_id = round, .sg_list = &room, .num_sge = 1 }, *bad_recv;
        CHECK(!ibv_post_recv(receiver, &recv, &bad_recv));
        struct ibv_sge bytes = { (uintptr_t)out, FRAME + head, out_mr->lkey };
        struct ibv_send_wr send = {
            .sg_list = &bytes,
            .num_sge = 1,
            .opcode = IBV_WR_SEND,
            .send_flags = IBV_SEND_SIGNALED | (filled ? IBV_SEND_IP_CSUM : 0),
        }, *bad_send;
        CHECK(!ibv_post_send(sender, &send, &bad_send));
        CHECK(completion(sent, 10).status == IBV_WC_SUCCESS);
        struct ibv_poll_cq_attr poll = { 0 };
        double until = now() + 10;
        while (ibv_start_poll(came, &poll) != 0)
            CHECK(now() < until);
        CHECK(came->status == IBV_WC_SUCCESS && came->wr_id == (uint64_t)round);
        CHECK(ibv_wc_read_byte_len(came) == FRAME);
        CHECK(ibv_wc_read_cvlan(came) == (tagged ? TCI : 0));
        int right = !!(ibv_wc_read_wc_flags(came) & IBV_WC_IP_CSUM_OK);
        ibv_end_poll(came);
        if (right != (!wrong || filled))
            die("round %d: the checksums are %s", round, right ? "right" : "wrong");
        if ((memcmp(in[round], frame, FRAME) == 0) != right)
            die("round %d: %s", round, right ? "not the bytes that were sent" : "somebody mended it");
    }
    CHECK(!ibv_destroy_flow(flow) && !ibv_destroy_qp(receiver) && !ibv_destroy_qp(sender));
    puts("all frames");
    return 0;
}
