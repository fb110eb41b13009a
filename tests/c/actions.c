/* What flow rules do with the frames that they take: tags in completions, frames that are dropped, counters. */
#include "rig.h"
#include <endian.h>

enum { FRAME = 60, PLACES = 32, TAG = 0xfeed0007 };

/* UDP of IPv4 to 02:56:42:00:01:00, the first port of the second card; no checksums. */
static const uint8_t frame[FRAME] = {
    0x02, 0x56, 0x42, 0x00, 0x01, 0x00, 0x02, 0x09, 0x09, 0x09, 0x09, 0x09, 0x08, 0x00, 0x45, 0x00, 0x00, 0x2e,
    0x00, 0x00, 0x00, 0x00, 0x40, 0x11, 0x00, 0x00, 198, 18, 0, 1, 198, 18, 0, 2, 0x00, 0x01, 0x00, 0x02,
    0x00, 0x1a, 0x00, 0x00,
};

/* Puts a specification behind others. */
static void append(struct ibv_flow_attr *rule, const void *spec, size_t size)
{
    memcpy((uint8_t *)rule + rule->size, spec, size);
    rule->size += size;
    rule->num_of_specs++;
}

/* For UDP to a port: counts, and has an action of this type. */
static struct ibv_flow *rule_of(struct ibv_qp *qp, uint16_t port, struct ibv_counters *counters, enum ibv_flow_spec_type type)
{
    struct ibv_flow_spec_eth eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof eth };
    memcpy(eth.val.dst_mac, frame, 6);
    memset(eth.mask.dst_mac, 0xff, 6);
    struct ibv_flow_spec_ipv4 ipv4 = { .type = IBV_FLOW_SPEC_IPV4, .size = sizeof ipv4 };
    struct ibv_flow_spec_tcp_udp udp = { .type = IBV_FLOW_SPEC_UDP, .size = sizeof udp, .val.dst_port = htobe16(port), .mask.dst_port = 0xffff };
    struct ibv_flow_spec_counter_action count = { .type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof count, .counters = counters };
    struct ibv_flow_spec_action_tag tag = { .type = type, .size = sizeof tag, .tag_id = TAG };
    struct ibv_flow_spec_action_drop other = { .type = type, .size = sizeof other };
    union {
        struct ibv_flow_attr attr;
        uint8_t bytes[256];
    } rule = { .attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof rule.attr, .port = PORT } };
    /* In no order. */
    append(&rule.attr, &count, sizeof count);
    append(&rule.attr, &udp, sizeof udp);
    append(&rule.attr, &eth, sizeof eth);
    if (type == IBV_FLOW_SPEC_ACTION_TAG)
        append(&rule.attr, &tag, sizeof tag);
    else
        append(&rule.attr, &other, sizeof other);
    append(&rule.attr, &ipv4, sizeof ipv4);
    return ibv_create_flow(qp, &rule.attr);
}

static struct ibv_counters *counters_of(struct ibv_context *context)
{
    struct ibv_counters_init_attr init = { 0 };
    struct ibv_counters *counters = ibv_create_counters(context, &init);
    CHECK(counters);
    struct ibv_counter_attach_attr packets = { .counter_desc = IBV_COUNTER_PACKETS, .index = 2 };
    struct ibv_counter_attach_attr bytes = { .counter_desc = IBV_COUNTER_BYTES, .index = 0 };
    struct ibv_counter_attach_attr unknown = { .counter_desc = 7, .index = 1 };
    CHECK(!ibv_attach_counters_point_flow(counters, &packets, NULL));
    CHECK(!ibv_attach_counters_point_flow(counters, &bytes, NULL));
    CHECK(ibv_attach_counters_point_flow(counters, &unknown, NULL) == EINVAL);
    return counters;
}

static void counted(struct ibv_counters *counters, uint64_t frames)
{
    uint64_t values[3] = { 0, 5, 0 };
    CHECK(ibv_read_counters(counters, values, 2, 0) == EINVAL);
    CHECK(!ibv_read_counters(counters, values, 3, 0));
    if (values[0] != frames * FRAME || values[1] != 5 || values[2] != frames)
        die("%lu bytes, %lu, %lu frames instead of %lu", values[0], values[1], values[2], frames);
}

int main(void)
{
    struct ibv_context *from = open_device("verbena0"), *to = open_device("verbena1");
    static uint8_t out[FRAME], in[PLACES][FRAME];
    struct ibv_pd *out_pd = ibv_alloc_pd(from), *in_pd = ibv_alloc_pd(to);
    struct ibv_mr *out_mr = ibv_reg_mr(out_pd, out, sizeof out, 0);
    struct ibv_mr *in_mr = ibv_reg_mr(in_pd, in, sizeof in, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_cq *sent = ibv_create_cq(from, PLACES, NULL, NULL, 0);
    struct ibv_cq_init_attr_ex fields = { .cqe = 2 * PLACES, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG };
    struct ibv_cq_ex *came = ibv_create_cq_ex(to, &fields);
    CHECK(out_mr && in_mr && sent && came);
    struct ibv_qp *sender = plain_raw(out_pd, sent, PLACES), *receiver = plain_raw(in_pd, ibv_cq_ex_to_cq(came), PLACES);

    struct ibv_counters *tagged = counters_of(to), *dropped = counters_of(to);
    struct ibv_flow *tags = rule_of(receiver, 2, tagged, IBV_FLOW_SPEC_ACTION_TAG);
    struct ibv_flow *drops = rule_of(receiver, 3, dropped, IBV_FLOW_SPEC_ACTION_DROP);
    struct ibv_flow *too = rule_of(receiver, 4, dropped, IBV_FLOW_SPEC_ACTION_DROP);
    CHECK(tags && drops && too);
    errno = 0;
    CHECK(!rule_of(receiver, 5, tagged, IBV_FLOW_SPEC_ACTION_HANDLE) && errno == EOPNOTSUPP);
    errno = 0;
    CHECK(!rule_of(receiver, 5, NULL, IBV_FLOW_SPEC_ACTION_TAG) && errno == EINVAL);
    /* What no rule with a port takes. */
    struct ibv_flow_attr all = { .type = IBV_FLOW_ATTR_ALL_DEFAULT, .size = sizeof all, .port = PORT };
    struct ibv_flow *rest = ibv_create_flow(receiver, &all);
    CHECK(rest);

    static const struct { uint16_t port; int comes; uint32_t tag; } frames[] = {
        { 2, 1, TAG }, { 3, 0, 0 }, { 7, 1, 0 }, { 2, 1, TAG }, { 4, 0, 0 }, { 3, 0, 0 }, { 2, 1, TAG },
    };
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        if (frames[i].comes)
            post_receive(receiver, 0, in_mr, in[i], FRAME);
        memcpy(out, frame, FRAME);
        out[37] = frames[i].port;
        post_message(sender, 0, out_mr, out, FRAME);
        CHECK(completion(sent, 10).status == IBV_WC_SUCCESS);
        struct ibv_poll_cq_attr poll = { 0 };
        double until = now() + 10;
        while (frames[i].comes && ibv_start_poll(came, &poll) != 0)
            CHECK(now() < until);
        if (!frames[i].comes)
            continue;
        CHECK(came->status == IBV_WC_SUCCESS);
        uint32_t tag = ibv_wc_read_flow_tag(came);
        ibv_end_poll(came);
        if (tag != frames[i].tag)
            die("frame %zu has the tag %x", i, tag);
    }
    counted(tagged, 3);
    /* In simulated time a frame that nobody gets is still on its way when it has left. */
    double until = now() + 10;
    for (uint64_t values[3] = { 0 }; values[2] != 3;) {
        CHECK(!ibv_read_counters(dropped, values, 3, 0));
        CHECK(now() < until);
    }
    counted(dropped, 3);

    CHECK(ibv_destroy_counters(dropped) == EBUSY);
    CHECK(!ibv_destroy_flow(drops));
    counted(dropped, 3);
    CHECK(!ibv_destroy_flow(too) && !ibv_destroy_flow(tags) && !ibv_destroy_flow(rest));
    counted(dropped, 3);
    CHECK(!ibv_destroy_counters(dropped) && !ibv_destroy_counters(tagged));
    CHECK(!ibv_destroy_qp(sender) && !ibv_destroy_qp(receiver));
    puts("all actions");
    return 0;
}
