/* TCP that the card cuts into frames, by both kinds of posting: what comes is what was asked for, to the byte. */
#include "rig.h"

#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>

enum { PLACES = 64, ROOM = 2048, MSS = 1000, DATA = 60000, ETHERNET = 14 };

static uint8_t in[PLACES][ROOM], data[70000];
static const uint8_t macs[12] = { 0x02, 0x56, 0x42, 0x00, 0x01, 0x00, 0x02, 0x09, 0x09, 0x09, 0x09, 0x09 };

/* The one's complement sum of RFC 1071, over pieces of even length but for the last. */
static uint32_t add(uint32_t sum, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < length; i++)
        sum += i % 2 ? at[i] : at[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

/* Headers whose lengths and checksums are nonsense. */
static size_t headers(uint8_t *to, int ipv6, uint8_t flags, int options)
{
    memcpy(to, macs, sizeof macs);
    to[12] = ipv6 ? 0x86 : 0x08, to[13] = ipv6 ? 0xdd : 0x00;
    size_t at = ETHERNET;
    if (ipv6) {
        struct ip6_hdr ip = { .ip6_flow = htonl(0x60012345), .ip6_plen = 7, .ip6_nxt = IPPROTO_TCP, .ip6_hlim = 64 };
        memset(&ip.ip6_src, 0x20, 16), memset(&ip.ip6_dst, 0x30, 16);
        memcpy(to + at, &ip, sizeof ip), at += sizeof ip;
    } else {
        struct iphdr ip = { .version = 4, .ihl = 5, .tot_len = 7, .id = htons(0xfffe), .frag_off = htons(0x4000),
                            .ttl = 64, .protocol = IPPROTO_TCP, .check = 9, .saddr = htonl(0xc6120001),
                            .daddr = htonl(0xc6120002) };
        memcpy(to + at, &ip, sizeof ip), at += sizeof ip;
    }
    struct tcphdr tcp = { .source = htons(1), .dest = htons(2), .seq = htonl(0xffffff00), .ack_seq = htonl(5),
                          .doff = 5 + options / 4, .window = htons(512), .check = 3 };
    memcpy(to + at, &tcp, sizeof tcp);
    to[at + 13] = flags;
    memset(to + at + sizeof tcp, 1, options);
    return at + sizeof tcp + options;
}

/* Checks frame `nth` of a message of `length` bytes; returns how much of it is there. */
static size_t check(const uint8_t *frame, size_t bytes, int ipv6, uint8_t flags, int options, size_t nth, size_t length)
{
    uint8_t expected[ROOM];
    size_t head = headers(expected, ipv6, flags, options), ip = ETHERNET, tcp = ip + (ipv6 ? 40 : 20);
    size_t begin = nth * MSS, part = length - begin < MSS ? length - begin : MSS, whole = head + part;
    memcpy(expected + head, data + begin, part);
    if (ipv6) {
        uint16_t payload = htons(whole - tcp);
        memcpy(expected + ip + 4, &payload, 2);
    } else {
        uint16_t total = htons(whole - ip), id = htons(0xfffe + nth), sum;
        memcpy(expected + ip + 2, &total, 2), memcpy(expected + ip + 4, &id, 2);
        memset(expected + ip + 10, 0, 2);
        sum = htons(~add(0, expected + ip, 20));
        memcpy(expected + ip + 10, &sum, 2);
    }
    uint32_t seq = htonl(0xffffff00 + (uint32_t)begin);
    memcpy(expected + tcp + 4, &seq, 4);
    if (nth)
        expected[tcp + 13] &= ~0x80;
    if (begin + part < length)
        expected[tcp + 13] &= ~0x09;
    memset(expected + tcp + 16, 0, 2);
    uint32_t pseudo = ipv6 ? add(0, expected + ip + 8, 32) : add(0, expected + ip + 12, 8);
    uint16_t sum = htons(~add(pseudo + IPPROTO_TCP + whole - tcp, expected + tcp, whole - tcp));
    memcpy(expected + tcp + 16, &sum, 2);
    if (bytes != whole)
        die("frame %zu has %zu bytes, not %zu", nth, bytes, whole);
    for (size_t i = 0; i < whole; i++)
        if (frame[i] != expected[i])
            die("frame %zu: byte %zu is %02x, not %02x", nth, i, frame[i], expected[i]);
    return part;
}

static struct ibv_qp *raw_qp(struct ibv_context *context, struct ibv_pd *pd, struct ibv_cq *cq, int max_header)
{
    struct ibv_qp_init_attr_ex init = {
        .qp_type = IBV_QPT_RAW_PACKET,
        .send_cq = cq,
        .recv_cq = cq,
        .cap = { .max_send_wr = 8, .max_recv_wr = PLACES, .max_send_sge = 3, .max_recv_sge = 1 },
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = pd,
        .max_tso_header = max_header,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO,
    };
    return ibv_create_qp_ex(context, &init);
}

int main(void)
{
    struct ibv_context *from = open_device("verbena0"), *to = open_device("verbena1");
    struct ibv_device_attr_ex card;
    CHECK(!ibv_query_device_ex(from, NULL, &card));
    CHECK(card.tso_caps.max_tso >= 65536 && card.tso_caps.max_tso < sizeof data);
    CHECK(card.tso_caps.supported_qpts == 1 << IBV_QPT_RAW_PACKET);

    struct ibv_pd *out_pd = ibv_alloc_pd(from), *in_pd = ibv_alloc_pd(to);
    struct ibv_mr *out_mr = ibv_reg_mr(out_pd, data, sizeof data, 0);
    struct ibv_mr *in_mr = ibv_reg_mr(in_pd, in, sizeof in, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_cq *sent = ibv_create_cq(from, 16, NULL, NULL, 0), *came = ibv_create_cq(to, PLACES, NULL, NULL, 0);
    CHECK(out_mr && in_mr && sent && came);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = i * 7 + i / 256;
    errno = 0;
    CHECK(!raw_qp(from, out_pd, sent, 300) && errno == EINVAL);
    struct ibv_qp *sender = raw_qp(from, out_pd, sent, 128), *receiver = raw_qp(to, in_pd, came, 0);
    CHECK(sender && receiver);
    make_ready(sender, 0), make_ready(receiver, 0);
    struct ibv_flow *flow = rule_for(receiver, macs);

    /* Version of IP, flags of TCP, bytes of its options, bytes of the message, all in one element or in three. */
    static const struct {
        int ipv6, flags, options;
        size_t length;
        int pieces;
    } messages[] = {
        { 0, 0x18, 0, DATA, 1 },     { 1, 0x19, 12, DATA, 3 }, { 0, 0xff, 40, 2 * MSS, 3 }, { 0, 0x18, 0, MSS, 1 },
        { 1, 0x91, 0, MSS + 1, 1 },  { 0, 0x11, 0, 100, 1 },   { 0, 0x90, 0, 0, 0 },        { 1, 0x18, 40, DATA - 1, 3 },
    };
    size_t count = sizeof messages / sizeof *messages, posted = 0, received = 0;
    for (size_t i = 0; i < 2 * count; i++) {
        int ipv6 = messages[i % count].ipv6, flags = messages[i % count].flags, options = messages[i % count].options;
        size_t length = messages[i % count].length;
        uint8_t header[256];
        size_t head = headers(header, ipv6, flags, options);
        struct ibv_sge pieces[3] = { { (uintptr_t)data, length, out_mr->lkey } };
        if (messages[i % count].pieces == 3) {
            pieces[0].length = 1;
            pieces[1] = (struct ibv_sge){ (uintptr_t)data + 1, MSS + 300, out_mr->lkey };
            pieces[2] = (struct ibv_sge){ (uintptr_t)data + MSS + 301, length - MSS - 301, out_mr->lkey };
        }
        for (; posted < received + PLACES; posted++) {
            size_t n = posted % PLACES;
            post_receive(receiver, n, in_mr, in[n], ROOM);
        }
        struct ibv_send_wr send = {
            .wr_id = i,
            .sg_list = pieces,
            .num_sge = messages[i % count].pieces,
            .opcode = IBV_WR_TSO,
            .send_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM,
            .tso = { .hdr = header, .hdr_sz = head, .mss = MSS },
        }, *bad_send;
        if (i < count) {
            CHECK(!ibv_post_send(sender, &send, &bad_send));
        } else {
            struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sender);
            ibv_wr_start(ex);
            ex->wr_id = i, ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM;
            ibv_wr_send_tso(ex, header, head, MSS);
            ibv_wr_set_sge_list(ex, send.num_sge, pieces);
            CHECK(!ibv_wr_complete(ex));
        }
        memset(header, 0xee, sizeof header);
        size_t done = 0;
        for (size_t nth = 0; nth == 0 || done < length; nth++) {
            struct ibv_wc wc = completion(came, 10);
            CHECK(wc.status == IBV_WC_SUCCESS);
            received++;
            if (length >= MSS)
                CHECK(wc.wc_flags & IBV_WC_IP_CSUM_OK || ipv6);
            /* The MAC pads short ones. */
            size_t whole = head + (length - done < MSS ? length - done : MSS);
            CHECK(whole >= 60 || wc.byte_len == 60);
            done += check(in[wc.wr_id], whole < 60 ? whole : wc.byte_len, ipv6, flags, options, nth, length);
        }
        struct ibv_wc wc = completion(sent, 10);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == i && wc.opcode == IBV_WC_TSO);
    }

    /* A chain that is given up, or that fails, leaves nothing to the next one, which is a frame as it is. */
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sender);
    uint8_t header[256];
    size_t head = headers(header, 0, 0x18, 0);
    memcpy(data, header, head);
    for (int fails = 0; fails < 2; fails++) {
        ibv_wr_start(ex);
        ibv_wr_send_tso(ex, header, head, MSS);
        if (fails) {
            ibv_wr_set_sge_list(ex, 1000, NULL);
            CHECK(ibv_wr_complete(ex) == EINVAL);
        } else {
            ibv_wr_abort(ex);
        }
        ibv_wr_start(ex);
        ex->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send(ex);
        ibv_wr_set_sge(ex, out_mr->lkey, (uintptr_t)data, 100);
        CHECK(!ibv_wr_complete(ex));
        CHECK(completion(sent, 10).status == IBV_WC_SUCCESS);
        struct ibv_wc wc = completion(came, 10);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == 100);
    }

    /* What makes no sense is refused at once. */
    struct ibv_sge piece = { (uintptr_t)data, 3000, out_mr->lkey };
    struct ibv_send_wr good = {
        .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_TSO, .send_flags = IBV_SEND_SIGNALED,
        .tso = { .hdr = header, .hdr_sz = head, .mss = MSS },
    }, *bad;
    struct ibv_send_wr wrong = good;
    wrong.tso.mss = 0;
    CHECK(ibv_post_send(sender, &wrong, &bad) == EINVAL && bad == &wrong);
    wrong = good, wrong.tso.hdr_sz = 129;
    CHECK(ibv_post_send(sender, &wrong, &bad) == EINVAL);
    wrong = good, wrong.tso.hdr = NULL;
    CHECK(ibv_post_send(sender, &wrong, &bad) == EINVAL);
    wrong = good, wrong.send_flags |= IBV_SEND_INLINE;
    CHECK(ibv_post_send(sender, &wrong, &bad) == EINVAL);
    piece.length = card.tso_caps.max_tso + 1;
    CHECK(ibv_post_send(sender, &good, &bad) == EINVAL);
    piece.length = 3000;
    CHECK(ibv_post_send(receiver, &good, &bad) == EINVAL);

    /* And by the card. */
    for (int i = 0; i < 4; i++) {
        wrong = good, head = headers(header, 0, 0x18, 0);
        if (i == 0)
            header[ETHERNET + 9] = IPPROTO_UDP;
        if (i == 1)
            wrong.tso.hdr_sz--;
        if (i == 2)
            header[ETHERNET + 6] = 0x20;
        if (i == 3)
            wrong.tso.mss = 9600, piece.length = 9600;
        CHECK(!ibv_post_send(sender, &wrong, &bad));
        CHECK(completion(sent, 10).status == (i == 3 ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_QP_OP_ERR));
        struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
        CHECK(!ibv_modify_qp(sender, &attr, IBV_QP_STATE));
        make_ready(sender, 0);
    }
    struct ibv_wc none;
    CHECK(ibv_poll_cq(came, 1, &none) == 0);
    CHECK(!ibv_destroy_flow(flow) && !ibv_destroy_qp(receiver) && !ibv_destroy_qp(sender));
    puts("all segments");
    return 0;
}
