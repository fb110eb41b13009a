/* What destroying an object does to events, its own and those that it would have had. */
#include "rig.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

enum { ROUNDS = 200 };

static struct side side, peer;
static atomic_int over;

static void *destroyer(void *argument)
{
    while (!over)
        CHECK(ibv_destroy_cq(side.cq) == EBUSY);
    return argument;
}

/* A completion with an event, which is left unread. */
static void complete(int id)
{
    CHECK(!ibv_req_notify_cq(side.cq, 0));
    post(&side, &peer.address, IBV_WR_RDMA_WRITE, id, 0, 8);
    struct pollfd readable = { .fd = side.channel->fd, .events = POLLIN };
    if (poll(&readable, 1, 10000) != 1)
        die("no event of completion %d within 10 s", id);
    expect(&side, id);
}

/* A CQ that is in use loses no event to those who try to destroy it. */
static void in_use(void)
{
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, destroyer, NULL));
    for (int round = 0; round < ROUNDS; round++) {
        complete(round);
        struct ibv_cq *cq;
        void *context;
        CHECK(!ibv_get_cq_event(side.channel, &cq, &context) && cq == side.cq);
        ibv_ack_cq_events(cq, 1);
    }
    over = 1;
    CHECK(!pthread_join(thread, NULL));
}

/* A queue pair that is in a multicast group stays; and it leaves no group that it is not in. */
static void in_a_group(void)
{
    struct ibv_qp *qp = new_qp(side.pd, IBV_QPT_UD, side.cq, side.cq, 1);
    union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 7 } }, other = { .raw = { 0xff, 0x0e, [15] = 8 } };
    CHECK(ibv_detach_mcast(qp, &group, 0) == EINVAL);
    CHECK(!ibv_attach_mcast(qp, &group, 0) && !ibv_attach_mcast(qp, &group, 0));
    CHECK(ibv_detach_mcast(qp, &other, 0) == EINVAL && ibv_destroy_qp(qp) == EBUSY);
    CHECK(!ibv_detach_mcast(qp, &group, 0) && !ibv_destroy_qp(qp));
}

/* With an unread event, and no descriptor left. */
static void with_nothing_left(void)
{
    complete(ROUNDS);
    int lowest = dup(0);
    struct rlimit limit;
    CHECK(lowest >= 0 && !close(lowest) && !getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = lowest;
    CHECK(!setrlimit(RLIMIT_NOFILE, &limit) && dup(0) == -1 && errno == EMFILE);
    CHECK(!ibv_destroy_qp(side.qp) && !ibv_destroy_qp(peer.qp) && !ibv_destroy_cq(side.cq));
}

int main(void)
{
    side = make_side(open_device("verbena0"), NULL, 4096);
    peer = make_side(side.context, &side, 4096);
    connect_pair(&side, &peer);
    in_use();
    in_a_group();
    with_nothing_left();
    puts("all destroyed");
    return 0;
}
