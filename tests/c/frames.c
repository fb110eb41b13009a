/* Whole frames by raw packet queue pairs: what the card says of checksums, tags that it strips, and check sequences that it
 * keeps. The frame is UDP of IPv4, whose checksums were computed by hand. */
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
    make_ready(qp, 0);
    return qp;
}

/* The frame, with a tag or without one; returns its length. */
static size_t make(uint8_t *to, int tagged)
{
    size_t head = tagged ? 4 : 0;
    memcpy(to, frame, 12);
    memcpy(to + 12, (uint8_t[]){ 0x81, 0x00, TCI >> 8, TCI & 0xff }, 4);
    memcpy(to + 12 + head, frame + 12, FRAME - 12);
    return FRAME + head;
}

/* The check sequence of IEEE 802.3 3.2.9, in the order of the wire, bit by bit. */
static void check_sequence(const uint8_t *bytes, size_t length, uint8_t out[4])
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < 8 * length; i++) {
        uint32_t bit = (bytes[i / 8] >> i % 8 ^ crc) & 1;
        crc = crc >> 1 ^ (bit ? 0xedb88320 : 0);
    }
    crc = ~crc;
    for (int i = 0; i < 4; i++)
        out[i] = crc >> 8 * i;
}

struct place {
    struct ibv_mr *mr;
    uint8_t *bytes;
};

/* Sends the frame, which comes to `cq`; checks that it is as it was sent, but for what `strips` and `keeps` say. */
static void passes(struct ibv_qp *sender, struct ibv_cq *sent, struct ibv_cq *cq, struct place out, struct place in, int tagged, int strips, int keeps)
{
    size_t length = make(out.bytes, tagged), expected = 0;
    uint8_t whole[FRAME + 8];
    for (size_t i = 0; i < length; i++)
        if (!(tagged && strips && i >= 12 && i < 16))
            whole[expected++] = out.bytes[i];
    if (keeps)
        check_sequence(out.bytes, length, whole + expected), expected += 4;
    post_message(sender, 0, out.mr, out.bytes, length);
    CHECK(completion(sent, 10).status == IBV_WC_SUCCESS);
    struct ibv_wc wc = completion(cq, 10);
    CHECK(wc.status == IBV_WC_SUCCESS);
    if (wc.byte_len != expected)
        die("%u bytes instead of %zu: tagged %d, stripped %d, kept %d", wc.byte_len, expected, tagged, strips, keeps);
    if (memcmp(in.bytes, whole, expected))
        die("other bytes: tagged %d, stripped %d, kept %d", tagged, strips, keeps);
}

/* Queue pairs that keep check sequences: of the wire, where the tag is in the frame. */
static void keeps_sequences(struct ibv_qp *sender, struct ibv_cq *sent, struct ibv_pd *pd, struct place out, struct place in)
{
    struct ibv_context *context = pd->context;
    struct ibv_cq *cq = ibv_create_cq(context, PLACES, NULL, NULL, 0);
    CHECK(cq);
    for (int strips = 0; strips < 2; strips++) {
        struct ibv_qp *qp = raw_qp(context, pd, cq, IBV_QP_CREATE_SCATTER_FCS | (strips ? IBV_QP_CREATE_CVLAN_STRIPPING : 0));
        struct ibv_flow *flow = rule_for(qp, frame);
        for (int tagged = 0; tagged < 2; tagged++) {
            post_receive(qp, 0, in.mr, in.bytes, FRAME + 60);
            passes(sender, sent, cq, out, in, tagged, strips, 1);
        }
        /* A buffer for the frame alone is too short. */
        post_receive(qp, 0, in.mr, in.bytes, FRAME + 3);
        post_message(sender, 0, out.mr, out.bytes, make(out.bytes, 0));
        CHECK(completion(sent, 10).status == IBV_WC_SUCCESS);
        CHECK(completion(cq, 10).status == IBV_WC_LOC_LEN_ERR);
        CHECK(!ibv_destroy_flow(flow) && !ibv_destroy_qp(qp));
    }
    CHECK(!ibv_destroy_cq(cq));
}

/* A work queue whose flags and states change. */
static void changes(struct ibv_qp *sender, struct ibv_cq *sent, struct ibv_pd *pd, struct place out, struct place in)
{
    struct ibv_context *context = pd->context;
    struct ibv_cq *cq = ibv_create_cq(context, PLACES, NULL, NULL, 0);
    struct ibv_wq_init_attr init = {
        .wq_type = IBV_WQT_RQ, .max_wr = PLACES, .max_sge = 1, .pd = pd, .cq = cq,
        .comp_mask = IBV_WQ_INIT_ATTR_FLAGS, .create_flags = IBV_WQ_FLAGS_SCATTER_FCS,
    };
    struct ibv_wq *wq = ibv_create_wq(context, &init);
    CHECK(cq && wq && wq->state == IBV_WQS_RESET);
    struct ibv_rwq_ind_table_init_attr entries = { .log_ind_tbl_size = 0, .ind_tbl = &wq };
    struct ibv_rwq_ind_table *table = ibv_create_rwq_ind_table(context, &entries);
    CHECK(table);
    uint8_t key[40] = { 1 };
    struct ibv_qp_init_attr_ex spread = {
        .qp_type = IBV_QPT_RAW_PACKET,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
        .pd = pd,
        .rwq_ind_tbl = table,
        .rx_hash_conf = { .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ, .rx_hash_key_len = 40, .rx_hash_key = key },
    };
    struct ibv_qp *qp = ibv_create_qp_ex(context, &spread);
    CHECK(qp);
    struct ibv_flow *flow = rule_for(qp, frame);

    /* The state that it is believed to be in; the state to go to; whether it does. */
    static const struct { int believed, to, good; } steps[] = {
        { -1, IBV_WQS_ERR, 0 },           { IBV_WQS_RDY, IBV_WQS_RDY, 0 }, { IBV_WQS_RESET, IBV_WQS_RDY, 1 },
        { -1, IBV_WQS_RDY, 0 },           { IBV_WQS_RDY, IBV_WQS_ERR, 1 }, { -1, IBV_WQS_RDY, 0 },
        { IBV_WQS_RDY, IBV_WQS_RESET, 0 }, { -1, IBV_WQS_RESET, 1 },       { -1, IBV_WQS_RDY, 1 },
    };
    enum ibv_wq_state state = IBV_WQS_RESET;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct ibv_wq_attr step = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = steps[i].to };
        if (steps[i].believed >= 0)
            step.attr_mask |= IBV_WQ_ATTR_CURR_STATE, step.curr_wq_state = steps[i].believed;
        int result = ibv_modify_wq(wq, &step);
        if (result != (steps[i].good ? 0 : EINVAL))
            die("step %zu: %s", i, strerror(result));
        state = steps[i].good ? step.wq_state : state;
        CHECK(wq->state == state);
    }

    for (int round = 0; round < 6; round++) {
        int strips = round % 2;
        struct ibv_wq_attr flags = {
            .attr_mask = IBV_WQ_ATTR_FLAGS,
            .flags = strips ? IBV_WQ_FLAGS_CVLAN_STRIPPING : 0,
            .flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING,
        };
        CHECK(!ibv_modify_wq(wq, &flags));
        struct ibv_sge room = { (uintptr_t)in.bytes, FRAME + 60, in.mr->lkey };
        struct ibv_recv_wr recv = { .sg_list = &room, .num_sge = 1 }, *bad;
        CHECK(!ibv_post_wq_recv(wq, &recv, &bad));
        passes(sender, sent, cq, out, in, round < 4, strips, 1);
    }
    struct ibv_wq_attr other = { .attr_mask = IBV_WQ_ATTR_FLAGS, .flags_mask = IBV_WQ_FLAGS_SCATTER_FCS };
    CHECK(ibv_modify_wq(wq, &other) == EOPNOTSUPP);
    CHECK(!ibv_destroy_flow(flow) && !ibv_destroy_qp(qp) && !ibv_destroy_rwq_ind_table(table) && !ibv_destroy_wq(wq));
    CHECK(!ibv_destroy_cq(cq));
}

int main(void)
{
    struct ibv_context *from = open_device("verbena0"), *to = open_device("verbena1");
    struct ibv_device_attr_ex card;
    CHECK(!ibv_query_device_ex(to, NULL, &card));
    CHECK(card.raw_packet_caps == (IBV_RAW_PACKET_CAP_CVLAN_STRIPPING | IBV_RAW_PACKET_CAP_SCATTER_FCS | IBV_RAW_PACKET_CAP_IP_CSUM));
    CHECK(card.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM);
    CHECK(card.device_cap_flags_ex & IBV_DEVICE_RAW_SCATTER_FCS);

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
    struct ibv_flow *flow = rule_for(receiver, frame);

    for (int round = 0; round < 6; round++) {
        /* Right as it is; with sums that are wrong; with such that the card fills in: without a tag and with one. */
        int tagged = round % 2, wrong = round >= 2, filled = round >= 4;
        size_t head = tagged ? 4 : 0;
        make(out, tagged);
        if (wrong)
            out[24 + head] = out[40 + head] = 0x55;
        post_receive(receiver, round, in_mr, in[round], sizeof in[round]);
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
    CHECK(!ibv_destroy_flow(flow) && !ibv_destroy_qp(receiver));
    struct place from_here = { out_mr, out }, to_here = { in_mr, in[0] };
    keeps_sequences(sender, sent, in_pd, from_here, to_here);
    changes(sender, sent, in_pd, from_here, to_here);
    CHECK(!ibv_destroy_qp(sender));
    puts("all frames");
    return 0;
}
