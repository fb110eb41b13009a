// A program of DPDK that sleeps until frames come, and does what testpmd does not: with two ports, of which the first sends to
// the second. Arguments: EAL's.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_interrupts.h>
#include <rte_mbuf.h>

enum { SENDER, RECEIVER, SENDS_BY = 1, QUEUES = 2, ROUNDS = 15, MOST = 64, LIMIT = 20000, QUIET = 300 };

static struct rte_mempool *pool;

#define CHECK(what)                                                                         \
    do {                                                                                    \
        if (!(what)) {                                                                      \
            printf("line %d: not so: %s (rte_errno %d)\n", __LINE__, #what, rte_errno);      \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

// Of the queues that send there is the second alone.
static void start(uint16_t port, int interrupts)
{
    struct rte_eth_conf conf;
    memset(&conf, 0, sizeof conf);
    conf.intr_conf.rxq = interrupts;
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    CHECK(rte_eth_dev_configure(port, QUEUES, QUEUES, &conf) == 0);
    for (uint16_t queue = 0; queue < QUEUES; queue++)
        CHECK(rte_eth_rx_queue_setup(port, queue, 256, SOCKET_ID_ANY, NULL, pool) == 0);
    CHECK(rte_eth_tx_queue_setup(port, SENDS_BY, 256, SOCKET_ID_ANY, NULL) == 0);
    CHECK(rte_eth_dev_start(port) == 0);
}

// From now on frames come to this queue.
static void steer(uint16_t queue)
{
    struct rte_eth_rss_reta_entry64 table[2];
    for (int part = 0; part < 2; part++) {
        table[part].mask = UINT64_MAX;
        for (int n = 0; n < 64; n++)
            table[part].reta[n] = queue;
    }
    CHECK(rte_eth_dev_rss_reta_update(RECEIVER, table, 128) == 0);
}

// Whether the queue takes a frame.
static int takes_one(void)
{
    struct rte_ether_addr to;
    CHECK(rte_eth_macaddr_get(RECEIVER, &to) == 0);
    struct rte_mbuf *frame = rte_pktmbuf_alloc(pool);
    CHECK(frame);
    char *bytes = rte_pktmbuf_append(frame, 64);
    CHECK(bytes);
    memset(bytes, 7, 64);
    memcpy(bytes, &to, sizeof to);
    double time = now(CLOCK_MONOTONIC);
    memcpy(bytes + 16, &time, sizeof time);
    int taken = rte_eth_tx_burst(SENDER, SENDS_BY, &frame, 1);
    if (!taken)
        rte_pktmbuf_free(frame);
    return taken;
}

static void sends(int count)
{
    while (count--)
        CHECK(takes_one());
}

static void *sends_later(void *delay)
{
    usleep(*(int *)delay);
    sends(1);
    return NULL;
}

// How many frames of a queue are there, and how long the last was on its way (ms), by this thread's looking after it.
static int takes(uint16_t queue, double *age)
{
    struct rte_mbuf *frames[MOST];
    int count = rte_eth_rx_burst(RECEIVER, queue, frames, MOST);
    for (int n = 0; n < count; n++) {
        double sent;
        memcpy(&sent, rte_pktmbuf_mtod_offset(frames[n], char *, 16), sizeof sent);
        *age = now(CLOCK_MONOTONIC) - sent;
        rte_pktmbuf_free(frames[n]);
    }
    return count;
}

// Sleeps for at most so many ms. Gives the queue that woke it, or -1.
static int sleeps(int ms)
{
    struct rte_epoll_event event;
    int count = rte_epoll_wait(RTE_EPOLL_PER_THREAD, &event, 1, ms);
    CHECK(count >= 0);
    return count ? (int)(uintptr_t)event.epdata.data : -1;
}

static void listens(void)
{
    for (uintptr_t queue = 0; queue < QUEUES; queue++)
        CHECK(rte_eth_dev_rx_intr_ctl_q(RECEIVER, queue, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, (void *)queue) == 0);
}

static int shorter(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

// Wakes by frames that come while it sleeps, each by its queue.
static void wakes(void)
{
    static int delay = 100000;
    double ages[ROUNDS], used = now(CLOCK_THREAD_CPUTIME_ID), began = now(CLOCK_MONOTONIC);
    for (int round = 0; round < ROUNDS; round++) {
        uint16_t queue = round % QUEUES;
        pthread_t thread;
        steer(queue);
        CHECK(rte_eth_dev_rx_intr_enable(RECEIVER, queue) == 0);
        CHECK(pthread_create(&thread, NULL, sends_later, &delay) == 0);
        CHECK(sleeps(LIMIT) == queue);
        CHECK(rte_eth_dev_rx_intr_disable(RECEIVER, queue) == 0);
        CHECK(takes(queue, &ages[round]) == 1);
        pthread_join(thread, NULL);
    }
    used = now(CLOCK_THREAD_CPUTIME_ID) - used;
    double slept = now(CLOCK_MONOTONIC) - began;
    qsort(ages, ROUNDS, sizeof *ages, shorter);
    printf("awake %.3f ms after a frame is sent (median; at most %.3f), %.3f of %.0f ms used\n", ages[ROUNDS / 2],
           ages[ROUNDS - 1], used, slept);
    // A thread that polled the card 10 times a second would wake after 50 ms; one that never slept would use all.
    CHECK(used < slept / 4);
    CHECK(ages[ROUNDS / 2] < 30);
}

// A rule for frames that nobody sends; null if the port has it.
static struct rte_flow *rule(void)
{
    struct rte_flow_item_eth type, mask;
    memset(&type, 0, sizeof type);
    memset(&mask, 0, sizeof mask);
    type.hdr.ether_type = RTE_BE16(0x88b6);
    mask.hdr.ether_type = RTE_BE16(0xffff);
    struct rte_flow_attr attr = {.ingress = 1};
    struct rte_flow_item pattern[] = {{.type = RTE_FLOW_ITEM_TYPE_ETH, .spec = &type, .mask = &mask},
                                      {.type = RTE_FLOW_ITEM_TYPE_END}};
    struct rte_flow_action actions[] = {{.type = RTE_FLOW_ACTION_TYPE_DROP}, {.type = RTE_FLOW_ACTION_TYPE_END}};
    return rte_flow_create(RECEIVER, &attr, pattern, actions, NULL);
}

int main(int count, char **words)
{
    double age;
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(rte_eal_init(count, words) >= 0);
    CHECK(rte_eth_dev_count_avail() == 2);
    pool = rte_pktmbuf_pool_create("frames", 2047, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    CHECK(pool);
    start(SENDER, 0);
    // A port that was not asked for interrupts has none.
    CHECK(rte_eth_dev_rx_intr_ctl_q(SENDER, 0, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, NULL) != 0);
    CHECK(rte_eth_dev_rx_intr_enable(SENDER, 0) != 0);

    start(RECEIVER, 1);
    listens();
    wakes();

    // What is not asked for wakes nobody.
    steer(0);
    sends(3);
    CHECK(sleeps(QUIET) == -1);
    // What waits already does, also the second time. Its descriptor is readable until the interrupt is disabled: EAL does not
    // read it, which it would do for ever if another thread had disabled it meanwhile.
    struct pollfd bell = {rte_eth_dev_rx_intr_ctl_q_get_fd(RECEIVER, 0), POLLIN, 0};
    for (int n = 0; n < 2; n++) {
        CHECK(rte_eth_dev_rx_intr_enable(RECEIVER, 0) == 0);
        CHECK(sleeps(LIMIT) == 0);
        CHECK(poll(&bell, 1, 0) == 1);
        CHECK(rte_eth_dev_rx_intr_disable(RECEIVER, 0) == 0);
        CHECK(poll(&bell, 1, 0) == 0);
    }
    CHECK(takes(0, &age) == 3);
    // An interrupt that was asked for and ended before it was waited for is over.
    sends(1);
    CHECK(rte_eth_dev_rx_intr_enable(RECEIVER, 0) == 0);
    usleep(1000 * QUIET);
    CHECK(rte_eth_dev_rx_intr_disable(RECEIVER, 0) == 0);
    CHECK(sleeps(QUIET) == -1);
    CHECK(takes(0, &age) == 1);
    // So is one that ended before a frame came.
    CHECK(rte_eth_dev_rx_intr_enable(RECEIVER, 0) == 0);
    CHECK(rte_eth_dev_rx_intr_disable(RECEIVER, 0) == 0);
    sends(1);
    CHECK(sleeps(QUIET) == -1);
    CHECK(takes(0, &age) == 1);

    CHECK(rte_eth_dev_rx_intr_ctl_q(RECEIVER, 0, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_DEL, NULL) == 0);

    // A port that was stopped has none, and new ones when it is started again.
    CHECK(rte_eth_dev_stop(RECEIVER) == 0);
    CHECK(rte_eth_dev_rx_intr_enable(RECEIVER, 0) != 0);
    CHECK(rte_eth_dev_start(RECEIVER) == 0);
    listens();
    wakes();

    // A queue that is stopped takes nothing to send. What it has sent is counted by its own number.
    CHECK(rte_eth_dev_tx_queue_stop(SENDER, SENDS_BY) == 0);
    CHECK(!takes_one());
    CHECK(rte_eth_dev_tx_queue_start(SENDER, SENDS_BY) == 0);
    struct rte_eth_stats stats;
    CHECK(rte_eth_stats_get(SENDER, &stats) == 0);
    CHECK(stats.q_opackets[0] == 0 && stats.q_opackets[SENDS_BY] == 2 * ROUNDS + 5);

    // A port that is reset has no rules, and those that it had name none of the new ones.
    struct rte_flow *old = rule();
    CHECK(old);
    CHECK(!rule());
    CHECK(rte_eth_dev_stop(RECEIVER) == 0);
    CHECK(rte_eth_dev_reset(RECEIVER) == 0);
    start(RECEIVER, 1);
    struct rte_flow *new = rule();
    CHECK(new);
    CHECK(rte_flow_destroy(RECEIVER, old, NULL) != 0);
    CHECK(rte_flow_destroy(RECEIVER, new, NULL) == 0);
    listens();
    wakes();

    for (uint16_t port = 0; port < 2; port++) {
        CHECK(rte_eth_dev_stop(port) == 0);
        CHECK(rte_eth_dev_close(port) == 0);
    }
    CHECK(rte_eal_cleanup() == 0);
    printf("done\n");
    return 0;
}
