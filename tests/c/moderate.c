/* The moderation of a CQ's events: by number, by time, not at all. Prints how long events were held back, which is the
 * same in each run in simulated time. */
#include "rig.h"
#include <poll.h>

static struct side side, peer;

static int event_within(int milliseconds)
{
    struct pollfd fd = { .fd = side.channel->fd, .events = POLLIN };
    int found = poll(&fd, 1, milliseconds);
    CHECK(found >= 0);
    return found;
}

static void take_event(void)
{
    struct ibv_cq *cq;
    void *data;
    CHECK(!ibv_get_cq_event(side.channel, &cq, &data) && cq == side.cq);
    ibv_ack_cq_events(cq, 1);
}

/* Rounds of 50 ms or more do not count: the program may not have been run, and at 60 ms the event comes by its time. */
static int in_time(double took)
{
    return took < 0.05;
}

/* What a round that does not count, and is repeated, is to call. */
static void disturbed(int *rounds)
{
    if (++*rounds == 20)
        die("20 times the event took 50 ms or more: it came by its time");
}

static void moderate(uint16_t count, uint16_t microseconds)
{
    struct ibv_modify_cq_attr attr = {
        .attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { .cq_count = count, .cq_period = microseconds },
    };
    CHECK(!ibv_modify_cq(side.cq, &attr));
}

static void write_some(int count)
{
    static int id;
    for (int i = 0; i < count; i++)
        post(&side, &peer.address, IBV_WR_RDMA_WRITE, id + i, 0, 8);
    for (int i = 0; i < count; i++)
        expect(&side, id++);
}

/* What the card itself holds back is due when the CQ is armed for something else, and not lost. */
static void armed_for_less(void)
{
    CHECK(!ibv_req_notify_cq(side.cq, 0));
    post(&side, &peer.address, IBV_WR_RDMA_WRITE, 0, 0, 8);
    CHECK(!event_within(1));
    CHECK(!ibv_req_notify_cq(side.cq, 1) && event_within(10000));
    take_event();
    puts("not lost");
}

int main(int argc, char **argv)
{
    struct ibv_context *context = open_device("verbena0");
    struct ibv_device_attr_ex card;
    CHECK(!ibv_query_device_ex(context, NULL, &card));
    CHECK(card.cq_mod_caps.max_cq_count == 65535 && card.cq_mod_caps.max_cq_period == 65535);
    side = make_side(context, NULL, 4096);
    peer = make_side(context, &side, 4096);
    connect_pair(&side, &peer);
    if (argc > 1 && !strcmp(argv[1], "own"))
        return armed_for_less(), 0;
    struct ibv_modify_cq_attr none = { 0 }, unknown = { .attr_mask = 6 };
    CHECK(ibv_modify_cq(side.cq, &none) == EINVAL && ibv_modify_cq(side.cq, &unknown) == EOPNOTSUPP);

    /* Not moderated: the first completion. */
    CHECK(!ibv_req_notify_cq(side.cq, 0));
    write_some(1);
    CHECK(event_within(10000));
    take_event();

    /* By number: the fourth. */
    moderate(4, 60000);
    for (int round = 0, others = 0; round < 3;) {
        CHECK(!ibv_req_notify_cq(side.cq, 0));
        double begin = now();
        write_some(3);
        int early = event_within(1);
        if (!early) {
            write_some(1);
            CHECK(event_within(10000));
        }
        double took = now() - begin;
        take_event();
        if (in_time(took)) {
            CHECK(!early);
            round++;
        } else {
            disturbed(&others);
        }
    }

    /* By time. */
    moderate(1000, 20000);
    for (int round = 0; round < 3; round++) {
        CHECK(!ibv_req_notify_cq(side.cq, 0));
        double start = now();
        write_some(2);
        CHECK(event_within(10000));
        double took = now() - start;
        if (took < 0.0199 || took > 5)
            die("round %d: the event came after %.6f s", round, took);
        printf("%.6f\n", took);
        take_event();
    }

    /* What is held back comes when nothing is held back any more. */
    for (int found = 0, others = 0; !found;) {
        moderate(1000, 65535);
        CHECK(!ibv_req_notify_cq(side.cq, 0));
        double begin = now();
        write_some(1);
        int early = event_within(1);
        moderate(1000, 0);
        CHECK(event_within(10000));
        found = in_time(now() - begin);
        take_event();
        CHECK(!found || !early);
        if (!found)
            disturbed(&others);
    }
    /* A number without a time holds nothing back. */
    CHECK(!ibv_req_notify_cq(side.cq, 0));
    write_some(1);
    CHECK(event_within(10000));
    take_event();

    /* Armed again after all were polled, the count begins anew, and the event comes. */
    moderate(4, 20000);
    for (int round = 0; round < 3; round++) {
        CHECK(!ibv_req_notify_cq(side.cq, 0));
        write_some(1);
    }
    CHECK(!ibv_req_notify_cq(side.cq, 0));
    write_some(1);
    CHECK(event_within(10000));
    take_event();
    /* A CQ that goes with an event held back. */
    CHECK(!ibv_req_notify_cq(side.cq, 0));
    write_some(1);
    CHECK(!ibv_destroy_qp(side.qp) && !ibv_destroy_qp(peer.qp) && !ibv_destroy_cq(side.cq));
    puts("all moderated");
    return 0;
}
