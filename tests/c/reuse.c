/* A buffer belongs to the program again once its message is complete: datagrams and unreliable messages arrive with
 * what was in it before, although another thread fills it again as soon as it sees the completion.
 *
 * reuse ud|uc CARD [ROUNDS] */
#include "rig.h"
#include <pthread.h>

enum { CHAIN = 32, GRH = 40, LONGEST = 1000, QKEY = 0x1234 };

static struct ibv_cq *send_cq;
static char source[CHAIN][LONGEST];
static volatile uint64_t completed;
static uint64_t rounds = 500;

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer, union ibv_gid gid)
{
    CHECK(!advance(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY }));
    connect_qp(qp, peer->qp_num, gid, 0, 0);
}

/* Rewrites each buffer as soon as its message is complete. */
static void *rewrite(void *nothing)
{
    for (uint64_t n = 0; n < rounds * CHAIN;) {
        struct ibv_wc wc[4];
        int found = ibv_poll_cq(send_cq, 4, wc);
        CHECK(found >= 0);
        for (int i = 0; i < found; i++) {
            if (wc[i].status != IBV_WC_SUCCESS)
                die("message %llu: %s", (unsigned long long)wc[i].wr_id, ibv_wc_status_str(wc[i].status));
            memset(source[wc[i].wr_id], 0xee, LONGEST);
        }
        n += found;
        __atomic_store_n(&completed, n, __ATOMIC_RELEASE);
    }
    return nothing;
}

int main(int count, char **arguments)
{
    if (count < 3)
        die("usage: reuse ud|uc CARD [ROUNDS]");
    int ud = strcmp(arguments[1], "ud") == 0;
    enum ibv_qp_type type = ud ? IBV_QPT_UD : IBV_QPT_UC;
    if (count > 3)
        rounds = strtoul(arguments[3], NULL, 10);
    struct ibv_context *one = open_device("verbena0"), *other = open_device(arguments[2]);
    struct ibv_pd *pd = ibv_alloc_pd(one), *pd2 = ibv_alloc_pd(other);
    CHECK(pd && pd2);
    struct ibv_cq *unused = ibv_create_cq(one, 4, NULL, NULL, 0);
    send_cq = ibv_create_cq(one, 2 * CHAIN, NULL, NULL, 0);
    struct ibv_cq *recv_cq = ibv_create_cq(other, 4 * CHAIN, NULL, NULL, 0);
    CHECK(unused && send_cq && recv_cq);
    struct ibv_qp *x = new_qp(pd, type, send_cq, unused, CHAIN), *y = new_qp(pd2, type, recv_cq, recv_cq, 2 * CHAIN);
    union ibv_gid from, to;
    CHECK(!ibv_query_gid(one, PORT, GID_INDEX, &from) && !ibv_query_gid(other, PORT, GID_INDEX, &to));
    connect_to(x, y, to);
    connect_to(y, x, from);
    struct ibv_ah_attr ah_attr = path_to(to);
    struct ibv_ah *ah = ibv_create_ah(pd, &ah_attr);
    CHECK(ah);
    static char target[CHAIN][GRH + LONGEST];
    struct ibv_mr *mr = ibv_reg_mr(pd, source, sizeof source, 0), *mr2 = ibv_reg_mr(pd2, target, sizeof target, IBV_ACCESS_LOCAL_WRITE);
    CHECK(mr && mr2);
    uint32_t length = LONGEST, grh = ud ? GRH : 0;
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, rewrite, NULL));
    for (uint64_t round = 0; round < rounds; round++) {
        struct ibv_sge sges[CHAIN];
        struct ibv_send_wr wrs[CHAIN], *bad;
        for (int i = 0; i < CHAIN; i++) {
            post_receive(y, i, mr2, target[i], sizeof target[i]);
            memset(source[i], (round + i) % 200, LONGEST);
            sges[i] = (struct ibv_sge){ .addr = (uintptr_t)source[i], .length = length, .lkey = mr->lkey };
            wrs[i] = (struct ibv_send_wr){
                .wr_id = i, .next = i + 1 < CHAIN ? &wrs[i + 1] : NULL, .sg_list = &sges[i], .num_sge = 1,
                .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
            };
            if (ud)
                aim_datagram(&wrs[i], ah, y->qp_num, QKEY);
        }
        CHECK(!ibv_post_send(x, wrs, &bad));
        for (int i = 0; i < CHAIN;) {
            struct ibv_wc wc;
            int found = ibv_poll_cq(recv_cq, 1, &wc);
            CHECK(found >= 0);
            if (found == 0)
                continue;
            if (wc.status != IBV_WC_SUCCESS || wc.byte_len != grh + length)
                die("round %llu, message %d: %s, %u bytes", (unsigned long long)round, i, ibv_wc_status_str(wc.status), wc.byte_len);
            for (uint32_t at = grh; at < grh + length; at++)
                if (target[i][at] != (char)((round + i) % 200))
                    die("round %llu, message %d, byte %u: %#x was written after its completion", (unsigned long long)round, i, at, (unsigned char)target[i][at]);
            i++;
        }
        while (__atomic_load_n(&completed, __ATOMIC_ACQUIRE) < (round + 1) * CHAIN)
            ;
    }
    CHECK(!pthread_join(thread, NULL));
    printf("OK: %llu rounds\n", (unsigned long long)rounds);
    return 0;
}
