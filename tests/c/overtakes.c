/* Control operations right after doorbells, which they must not overtake.
 *
 * The limit of a shared queue is compared with what was posted before. */
#include "rig.h"
#include <poll.h>

enum { RECEIVES = 24 };

static struct side left;

static int next_event(struct ibv_context *context, int ms)
{
    struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
    struct ibv_async_event event;
    if (poll(&fd, 1, ms) != 1)
        return -1;
    CHECK(!ibv_get_async_event(context, &event));
    ibv_ack_async_event(&event);
    return event.event_type;
}

static void limit(void)
{
    struct ibv_srq_init_attr init = { .attr = { .max_wr = 64, .max_sge = 1 } };
    struct ibv_srq *srq = ibv_create_srq(left.pd, &init);
    CHECK(srq);
    for (int n = 1; n <= RECEIVES; n++) {
        struct ibv_srq_attr attr = { .srq_limit = n };
        post_shared_receive(srq, n, left.mr, left.buffer, 64);
        CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
        int event = next_event(left.context, 1);
        if (event >= 0)
            die("%s with %d receives posted", ibv_event_type_str(event), n);
    }
    struct ibv_srq_attr attr = { .srq_limit = RECEIVES + 1 };
    CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
    CHECK(next_event(left.context, 10000) == IBV_EVENT_SRQ_LIMIT_REACHED);
}

int main(void)
{
    left = make_side(open_device("verbena0"), NULL, 4096);
    limit();
    printf("OK\n");
    return 0;
}
