/* A program that polls needs nobody else for the time-outs of its queue pairs.
 *
 * rarely: connects two queue pairs, says `ready` and waits for SIGUSR1. Then it sends a thousand messages that each find no
 * receive and are sent again when there is one; and one to a queue pair that does not answer, which ends by its retries. */
#include "rig.h"
#include <signal.h>

enum { BYTES = 4096, MESSAGES = 1000, LIMIT = 20 };

int main(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(!sigprocmask(SIG_BLOCK, &set, NULL));
    struct ibv_context *one = open_device("verbena0"), *other = open_device("verbena1");
    struct side left = make_side(one, NULL, BYTES), right = make_side(other, NULL, BYTES);
    connect_side(&left, &right.address, 8, 2);
    connect_side(&right, &left.address, 8, 2);
    say("ready");
    int which;
    CHECK(!sigwait(&set, &which));
    for (int i = 0; i < MESSAGES; i++) {
        post(&left, &right.address, IBV_WR_SEND, i, 0, 8);
        struct ibv_wc wc;
        for (int empty = 0; empty < 300; empty++)
            CHECK(!ibv_poll_cq(left.cq, 1, &wc));
        post_receive(right.qp, i, right.mr, right.buffer, 64);
        wc = completion(left.cq, LIMIT);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)i);
        wc = completion(right.cq, LIMIT);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)i);
    }
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
    CHECK(!ibv_modify_qp(right.qp, &attr, IBV_QP_STATE));
    post(&left, &right.address, IBV_WR_SEND, MESSAGES, 0, 8);
    struct ibv_wc wc = completion(left.cq, LIMIT);
    CHECK(wc.status == IBV_WC_RETRY_EXC_ERR && wc.wr_id == MESSAGES);
    printf("done\n");
    return 0;
}
