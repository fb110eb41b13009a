/* A program whose card has nothing to do.
 *
 * idle event|away|unconnected: after some traffic it sleeps on the completion channel, or sleeps
 * without any call to verbs; or it has a device and a QP that was never used. */
#include "rig.h"

enum { BYTES = 1 << 20 };

int main(int count, char **arguments)
{
    if (count != 2)
        die("usage: idle event|away|unconnected");
    struct ibv_context *one = open_device("verbena0"), *other = open_device("verbena1");
    struct side left = make_side(one, NULL, BYTES), right = make_side(other, NULL, BYTES);
    if (strcmp(arguments[1], "unconnected")) {
        connect_pair(&left, &right);
        for (int i = 0; i < 100; i++) {
            post(&left, &right.address, IBV_WR_RDMA_WRITE, i, 0, BYTES);
            expect(&left, i);
        }
    }
    CHECK(!ibv_req_notify_cq(left.cq, 0));
    say("ready");
    if (strcmp(arguments[1], "event") == 0) {
        struct ibv_cq *cq;
        void *context;
        ibv_get_cq_event(left.channel, &cq, &context);
        die("an event came although nothing was sent");
    }
    for (;;)
        pause();
}
