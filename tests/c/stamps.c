/* Completion timestamps: the card's clock and the wall clock, beside the card's clock asked directly. Prints the
 * differences, which are the same in each run in simulated time. */
#include "rig.h"

enum { ROUNDS = 100, SLACK = 50 * 1000 * 1000 };

static uint64_t card_clock(struct ibv_context *context)
{
    struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
    CHECK(!ibv_query_rt_values_ex(context, &values));
    CHECK(values.comp_mask == IBV_VALUES_MASK_RAW_CLOCK);
    return values.raw_clock.tv_sec * 1000000000ull + values.raw_clock.tv_nsec;
}

static uint64_t wall_clock(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

int main(void)
{
    struct ibv_context *context = open_device("verbena0");
    struct ibv_device_attr_ex card;
    CHECK(!ibv_query_device_ex(context, NULL, &card));
    /* Nanoseconds: so the differences below are in ticks of this clock. */
    CHECK(card.completion_timestamp_mask == ~0ull && card.hca_core_clock == 1000000);
    struct ibv_cq_init_attr_ex init = {
        .cqe = 16,
        .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
    };
    struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &init);
    CHECK(cq);
    struct side peer = make_side(context, NULL, 4096), share = peer;
    share.cq = ibv_cq_ex_to_cq(cq);
    struct side side = make_side(context, &share, 4096);
    connect_pair(&side, &peer);
    uint64_t last = card_clock(context);
    for (int round = 0; round < ROUNDS; round++) {
        if (round == ROUNDS / 2)
            CHECK(!ibv_resize_cq(ibv_cq_ex_to_cq(cq), 64));
        struct ibv_poll_cq_attr poll = { 0 };
        uint64_t before = wall_clock();
        post(&side, &peer.address, round % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, round, 0, round);
        double until = now() + 10;
        while (ibv_start_poll(cq, &poll) != 0)
            CHECK(now() < until);
        CHECK(cq->status == IBV_WC_SUCCESS && cq->wr_id == (uint64_t)round);
        uint64_t stamp = ibv_wc_read_completion_ts(cq), wall = ibv_wc_read_completion_wallclock_ns(cq);
        ibv_end_poll(cq);
        uint64_t after = wall_clock(), clock = card_clock(context);
        if (stamp <= last || stamp > clock)
            die("round %d: %llu is not between %llu and %llu", round, (unsigned long long)stamp,
                (unsigned long long)last, (unsigned long long)clock);
        if (wall + SLACK < before || wall > after + SLACK)
            die("round %d: %llu is not between %llu and %llu", round, (unsigned long long)wall,
                (unsigned long long)before, (unsigned long long)after);
        printf("%llu %llu\n", (unsigned long long)(stamp - last), (unsigned long long)(after - wall));
        last = clock;
    }
    puts("all stamped");
    return 0;
}
