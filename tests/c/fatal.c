/* A program that sleeps until something happens to its cards.
 *
 * Opens both, says `ready`, and waits for an event of each: that is DEVICE_FATAL, once. Who waits for completions waits no
 * more. Then it gives all back. */
#include "rig.h"
#include <poll.h>
#include <pthread.h>

static void *waiter(void *channel)
{
    struct ibv_cq *cq;
    void *context;
    CHECK(ibv_get_cq_event(channel, &cq, &context) == -1);
    return NULL;
}

int main(void)
{
    struct side sides[2];
    for (int i = 0; i < 2; i++)
        sides[i] = make_side(open_device(i ? "verbena1" : "verbena0"), NULL, 4096);
    pthread_t waiters[2];
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_create(&waiters[i], NULL, waiter, sides[i].channel));
    say("ready");
    for (int i = 0; i < 2; i++) {
        struct ibv_async_event event;
        CHECK(!ibv_get_async_event(sides[i].context, &event));
        if (event.event_type != IBV_EVENT_DEVICE_FATAL)
            die("card %d: %s", i, ibv_event_type_str(event.event_type));
        ibv_ack_async_event(&event);
        say("card %d is lost", i);
    }
    for (int i = 0; i < 2; i++) {
        struct pollfd again = { .fd = sides[i].context->async_fd, .events = POLLIN };
        if (poll(&again, 1, 300))
            die("card %d: another event", i);
        CHECK(!pthread_join(waiters[i], NULL));
        CHECK(!ibv_create_comp_channel(sides[i].context) && errno == EIO);
        /* The card cannot answer; the program continues. */
        ibv_destroy_qp(sides[i].qp), ibv_dereg_mr(sides[i].mr), ibv_destroy_cq(sides[i].cq);
        ibv_destroy_comp_channel(sides[i].channel), ibv_dealloc_pd(sides[i].pd);
        ibv_close_device(sides[i].context);
    }
    printf("OK\n");
    return 0;
}
