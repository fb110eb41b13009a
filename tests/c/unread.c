/* The file that holds a registered buffer gets shorter, and a message of what it has lost is sent: a local error of its
 * work request, by every transport. The message before it arrives, the one after it is flushed.
 *
 * unread rc|uc|ud|unready
 *
 * unready: RC, and the peer has no receive for the message before it, which fails instead. */
#define RNR_RETRIES 3
#include "rig.h"

enum { PAGE = 4096, QKEY = 0x1234, MESSAGES = 3 };

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer, union ibv_gid gid)
{
    CHECK(!advance(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY }));
    connect_qp(qp, peer->qp_num, gid, 14, 7);
}

int main(int count, char **arguments)
{
    if (count < 2)
        die("usage: unread rc|uc|ud|unready");
    int unready = strcmp(arguments[1], "unready") == 0, rc = unready || strcmp(arguments[1], "rc") == 0, ud = strcmp(arguments[1], "ud") == 0;
    enum ibv_qp_type type = rc ? IBV_QPT_RC : ud ? IBV_QPT_UD : IBV_QPT_UC;
    struct ibv_context *one = open_device("verbena0"), *other = open_device("verbena1");
    struct ibv_pd *pd = ibv_alloc_pd(one), *pd2 = ibv_alloc_pd(other);
    CHECK(pd && pd2);
    struct ibv_cq *sends = ibv_create_cq(one, DEPTH, NULL, NULL, 0), *receives = ibv_create_cq(other, DEPTH, NULL, NULL, 0);
    CHECK(sends && receives);
    struct ibv_qp *x = new_qp(pd, type, sends, sends, DEPTH), *y = new_qp(pd2, type, receives, receives, DEPTH);
    union ibv_gid from, at;
    CHECK(!ibv_query_gid(one, PORT, GID_INDEX, &from) && !ibv_query_gid(other, PORT, GID_INDEX, &at));
    connect_to(x, y, at);
    connect_to(y, x, from);
    struct ibv_ah_attr to = path_to(at);
    struct ibv_ah *ah = ibv_create_ah(pd, &to);
    CHECK(ah);

    FILE *file = tmpfile();
    CHECK(file && !ftruncate(fileno(file), 2 * PAGE));
    char *source = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    CHECK(source != MAP_FAILED);
    static char target[MESSAGES][3 * PAGE];
    struct ibv_mr *mr = ibv_reg_mr(pd, source, 2 * PAGE, 0);
    struct ibv_mr *mr2 = ibv_reg_mr(pd2, target, sizeof target, IBV_ACCESS_LOCAL_WRITE);
    CHECK(mr && mr2);
    for (int i = 0; i < MESSAGES && !unready; i++)
        post_receive(y, i, mr2, target[i], sizeof target[i]);
    memset(source, 'a', 2 * PAGE);
    CHECK(!ftruncate(fileno(file), PAGE));

    /* The second message begins in the page that is left, where it can be of more than a packet. */
    struct ibv_sge parts[MESSAGES] = {
        { .addr = (uintptr_t)source, .length = 512, .lkey = mr->lkey },
        { .addr = (uintptr_t)source + (ud ? PAGE : 0), .length = ud ? 512 : 2 * PAGE, .lkey = mr->lkey },
        { .addr = (uintptr_t)source, .length = 512, .lkey = mr->lkey },
    };
    struct ibv_send_wr wrs[MESSAGES], *bad;
    for (int i = 0; i < MESSAGES; i++) {
        wrs[i] = (struct ibv_send_wr){ .wr_id = i, .sg_list = &parts[i], .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
        wrs[i].next = i + 1 < MESSAGES ? &wrs[i + 1] : NULL;
        if (ud)
            aim_datagram(&wrs[i], ah, y->qp_num, QKEY);
    }
    CHECK(!ibv_post_send(x, wrs, &bad));
    struct ibv_wc first = completion(sends, 20), failed = completion(sends, 20), last = completion(sends, 20);
    if (unready) {
        if (first.wr_id != 0 || first.status != IBV_WC_RNR_RETRY_EXC_ERR || failed.status != IBV_WC_WR_FLUSH_ERR)
            die("the first: %s, the second: %s", ibv_wc_status_str(first.status), ibv_wc_status_str(failed.status));
        printf("OK: %s\n", ibv_wc_status_str(first.status));
        return 0;
    }
    struct ibv_wc arrived = completion(receives, 20);
    if (first.wr_id != 0 || first.status != IBV_WC_SUCCESS || arrived.wr_id != 0 || arrived.status != IBV_WC_SUCCESS)
        die("the first: %s, %s", ibv_wc_status_str(first.status), ibv_wc_status_str(arrived.status));
    if (failed.wr_id != 1 || failed.status != IBV_WC_LOC_PROT_ERR)
        die("the second: %s", ibv_wc_status_str(failed.status));
    if (last.wr_id != 2 || last.status != IBV_WC_WR_FLUSH_ERR)
        die("the third: %s", ibv_wc_status_str(last.status));
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(x, &attr, IBV_QP_STATE, &init));
    if (attr.qp_state != (rc ? IBV_QPS_ERR : IBV_QPS_SQE))
        die("the queue pair is in state %d", attr.qp_state);
    printf("OK: %s\n", ibv_wc_status_str(failed.status));
    return 0;
}
