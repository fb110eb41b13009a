// A program of DPDK that sleeps until frames come: with two ports, of which the first sends to the second. Arguments: EAL's.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_mbuf.h>

enum { SENDER, RECEIVER, QUEUES = 2, ROUNDS = 15, MOST = 64, LIMIT = 20000, QUIET = 300 };

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

static void start(uint16_t port, int interrupts)
{
    struct rte_eth_conf conf;
    memset(&conf, 0, sizeof conf);
    conf.intr_conf.rxq = interrupts;
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    CHECK(rte_eth_dev_configure(port, QUEUES, 1, &conf) == 0);
    for (uint16_t queue = 0; queue < QUEUES; queue++)
        CHECK(rte_eth_rx_queue_setup(port, queue, 256, SOCKET_ID_ANY, NULL, pool) == 0);
    CHECK(rte_eth_tx_queue_setup(port, 0, 256, SOCKET_ID_ANY, NULL) == 0);
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

static void sends(int count)
{
    struct rte_ether_addr to;
    CHECK(rte_eth_macaddr_get(RECEIVER, &to) == 0);
    while (count--) {
        struct rte_mbuf *frame = rte_pktmbuf_alloc(pool);
        CHECK(frame);
        char *bytes = rte_pktmbuf_append(frame, 64);
        CHECK(bytes);
        memset(bytes, 7, 64);
        memcpy(bytes, &to, sizeof to);
        double time = now(CLOCK_MONOTONIC);
        memcpy(bytes + 16, &time, sizeof time);
        CHECK(rte_eth_tx_burst(SENDER, 0, &frame, 1) == 1);
    }
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
    CHECK(slept > ROUNDS * delay / 1000);
    CHECK(used < slept / 20);
    CHECK(ages[ROUNDS / 2] < 10);
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
    // What waits already does, also the second time.
    for (int n = 0; n < 2; n++) {
        CHECK(rte_eth_dev_rx_intr_enable(RECEIVER, 0) == 0);
        CHECK(sleeps(LIMIT) == 0);
        CHECK(rte_eth_dev_rx_intr_disable(RECEIVER, 0) == 0);
    }
    CHECK(takes(0, &age) == 3);
    // An interrupt that was asked for and ended before it was waited for is over.
    sends(1);
    CHECK(rte_eth_dev_rx_intr_enable(RECEIVER, 0) == 0);
    usleep(1000 * QUIET);
    CHECK(rte_eth_dev_rx_intr_disable(RECEIVER, 0) == 0);
    CHECK(sleeps(QUIET) == -1);
    CHECK(takes(0, &age) == 1);

    // A program may wait by itself.
    CHECK(rte_eth_dev_rx_intr_ctl_q_get_fd(RECEIVER, 0) >= 0);
    CHECK(rte_eth_dev_rx_intr_ctl_q(RECEIVER, 0, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_DEL, NULL) == 0);

    // A port that was stopped has none, and new ones when it is started again.
    CHECK(rte_eth_dev_stop(RECEIVER) == 0);
    CHECK(rte_eth_dev_rx_intr_enable(RECEIVER, 0) != 0);
    CHECK(rte_eth_dev_start(RECEIVER) == 0);
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
