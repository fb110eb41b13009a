/* What destroying an object does to events, its own and those that it would have had. */
#include "rig.h"

#include <poll.h>
#include <sys/resource.h>

static struct side side, peer;

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

/* With an unread event, and no descriptor left. */
static void with_nothing_left(void)
{
    complete(0);
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
    with_nothing_left();
    puts("all destroyed");
    return 0;
}
