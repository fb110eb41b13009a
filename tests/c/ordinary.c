/* What ordinary programs do with time, on a card to which nothing comes unless the program says so.
 *
 * ordinary WHAT: see the table at the end. What it prints is the same in every run. */
#include "rig.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <x86intrin.h>

enum { MS = 1000000 };

static struct side left, right;

static int64_t ns(clockid_t clock)
{
    struct timespec time;
    CHECK(!clock_gettime(clock, &time));
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int64_t at(void)
{
    return ns(CLOCK_MONOTONIC);
}

static void open_both(void)
{
    left = make_side(open_device("verbena0"), NULL, 1 << 20);
    right = make_side(open_device("verbena1"), NULL, 1 << 20);
    connect_pair(&left, &right);
}

static int poll_once(void)
{
    struct ibv_wc wc;
    int found = ibv_poll_cq(left.cq, 1, &wc);
    CHECK(found >= 0);
    CHECK(!found || wc.status == IBV_WC_SUCCESS);
    return found;
}

/* So long it took, and that was the wish: not less, and little more. */
static void took(const char *what, int64_t from, int64_t wish, int64_t more)
{
    int64_t time = at() - from;
    printf("%s: %lld ns\n", what, (long long)time);
    if (time < wish || time > wish + more)
        die("%s took %lld ns instead of %lld to %lld", what, (long long)time, (long long)wish, (long long)(wish + more));
}

#include "ordinary/polls.h"

static void by_epoll(void)
{
    int ends[2], epoll = epoll_create1(0);
    CHECK(!pipe(ends));
    CHECK(!ibv_req_notify_cq(left.cq, 0));
    struct epoll_event channel = { .events = EPOLLIN, .data.u32 = 1 }, byte = { .events = EPOLLIN, .data.u32 = 2 }, got;
    CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, left.channel->fd, &channel));
    CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &byte));
    for (int i = 0; i < 20; i++) {
        int64_t from = at();
        CHECK(epoll_wait(epoll, &got, 1, 10) == 0);
        took("epoll", from, 10 * MS, MS);
    }
    int64_t from = at();
    post(&left, &right.address, IBV_WR_RDMA_WRITE, 1, 0, 4096);
    CHECK(epoll_wait(epoll, &got, 1, 1000) == 1 && got.data.u32 == 1);
    took("an event", from, 1000, 50000);
    struct ibv_cq *cq;
    void *context;
    CHECK(!ibv_get_cq_event(left.channel, &cq, &context));
    ibv_ack_cq_events(cq, 1);
    expect(&left, 1);
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(epoll_wait(epoll, &got, 1, 1000) == 1 && got.data.u32 == 2);
}

static void by_select(void)
{
    for (int i = 0; i < 20; i++) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(left.channel->fd, &set);
        struct timeval time = { .tv_usec = 20000 };
        int64_t from = at();
        CHECK(select(left.channel->fd + 1, &set, NULL, NULL, &time) == 0);
        took("select", from, 20 * MS, MS);
        CHECK(!poll_once());
    }
}

static void conditions(void)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&condition, &attributes);
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < 5; i++) {
        int64_t from = at(), until = from + 30 * MS;
        struct timespec time = { until / 1000000000, until % 1000000000 };
        CHECK(pthread_cond_timedwait(&condition, &mutex, &time) == ETIMEDOUT);
        took("a condition", from, 30 * MS, MS);
    }
    pthread_mutex_unlock(&mutex);
}

#include "ordinary/signals.h"

static void *reads_clock(void *last)
{
    int64_t seen = atomic_load((_Atomic int64_t *)last), now = at();
    if (now < seen)
        die("a thread reads %lld after %lld", (long long)now, (long long)seen);
    atomic_store((_Atomic int64_t *)last, now);
    return NULL;
}

/* From before the card is opened to after a child, in threads, by each clock. */
static void monotonic(void)
{
    clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_PROCESS_CPUTIME_ID, CLOCK_BOOTTIME };
    int64_t before[4];
    sleep(2);
    for (int i = 0; i < 4; i++)
        before[i] = ns(clocks[i]);
    uint64_t tsc = __rdtsc();
    open_both();
    CHECK(__rdtsc() >= tsc);
    for (int i = 0; i < 4; i++) {
        int64_t now = ns(clocks[i]);
        printf("clock %d: %lld after %lld\n", i, (long long)now, (long long)before[i]);
        CHECK(now >= before[i] && now < before[i] + 100 * MS);
    }
    _Atomic int64_t last = at();
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        atomic_store(&last, at());
        CHECK(!pthread_create(&thread, NULL, reads_clock, &last));
        pthread_join(thread, NULL);
        CHECK(at() >= atomic_load(&last));
        poll_once();
    }
}

static void forked(void)
{
    int ends[2];
    CHECK(!pipe(ends));
    int64_t from = at();
    pid_t child = fork();
    if (child == 0) {
        CHECK(at() >= from);
        struct side other = make_side(open_device("verbena1"), NULL, 4096);
        int64_t begin = at();
        struct ibv_wc wc;
        while (!ibv_poll_cq(other.cq, 1, &wc) && at() < begin + 20 * MS)
            ;
        CHECK(at() < begin + 30 * MS);
        CHECK(write(ends[1], "x", 1) == 1);
        usleep(1000);
        _exit(3);
    }
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
    int64_t begin = at();
    while (!poll_once() && at() < begin + 20 * MS)
        ;
    took("a deadline beside a child", begin, 20 * MS, MS);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static void nothing(void)
{
}

/* Completions that are on their way are not lost, and a CQ that is too small for what was posted is refused. */
static void resized(void)
{
    for (int round = 0; round < 80; round++) {
        struct ibv_wc wc;
        for (int i = 0; i < 6; i++)
            post(&left, &right.address, IBV_WR_RDMA_WRITE, i, 0, 64);
        int64_t until = at() + round * 50;
        while (at() < until)
            ;
        CHECK(!ibv_resize_cq(left.cq, round % 2 ? 256 : 512));
        int64_t deadline = at() + MS;
        int found = 0;
        while (found < 6 && at() < deadline)
            found += ibv_poll_cq(left.cq, 1, &wc);
        if (found != 6)
            die("%d of 6 completions after a resize %d ns after the posts", found, round * 50);
    }
    for (int i = 0; i < 6; i++)
        post(&left, &right.address, IBV_WR_RDMA_WRITE, i, 0, 64);
    CHECK(ibv_resize_cq(left.cq, 1) == EINVAL);
    for (int i = 0; i < 6; i++)
        expect(&left, i);
    printf("all came\n");
}

/* Events that went with their object are not waited for, and later ones come. */
static void forgotten(void)
{
    struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 1 } };
    struct ibv_srq_attr limit = { .srq_limit = 8 };
    struct pollfd fd = { .fd = left.context->async_fd, .events = POLLIN };
    struct ibv_async_event event;
    for (int round = 0; round < 3; round++) {
        struct ibv_srq *srq = ibv_create_srq(left.pd, &init);
        CHECK(srq && !ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
        CHECK(poll(&fd, 1, 1) == 1);
        CHECK(!ibv_destroy_srq(srq));
        int64_t from = at();
        CHECK(poll(&fd, 1, 1) == 0);
        took("poll in vain", from, MS, MS / 100);
        CHECK((srq = ibv_create_srq(left.pd, &init)) && !ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
        from = at();
        CHECK(poll(&fd, 1, 1) == 1);
        took("an event", from, 0, MS / 100);
        CHECK(!ibv_get_async_event(left.context, &event) && event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED);
        ibv_ack_async_event(&event);
        CHECK(!ibv_destroy_srq(srq));
    }
}

static void for_ever(void)
{
    while (!poll_once())
        ;
}

static void spins(void)
{
    while (!left.buffer[0])
        ;
}

static void *waits_for_event(void *unused)
{
    struct ibv_cq *cq;
    void *context;
    CHECK(!ibv_get_cq_event(left.channel, &cq, &context));
    die("an event came although nothing was sent");
    return unused;
}

/* A thread waits for an event, the other one for that thread. */
static void joined(void)
{
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, waits_for_event, NULL));
    pthread_join(thread, NULL);
}

/* A server: while a thread waits for an event, its client may still come. */
static void accepts(void)
{
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, waits_for_event, NULL));
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0 && !listen(listener, 1));
    accept(listener, NULL, NULL);
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*open)(void), (*run)(void);
    } all[] = {
        { "clock", open_both, by_clock },        { "tsc", open_both, by_tsc },
        { "gettimeofday", open_both, by_gettimeofday }, { "time", open_both, by_time },
        { "now-and-then", open_both, now_and_then }, { "counted", open_both, counted },
        { "drained", open_both, drained },       { "cq-and-socket", open_both, cq_and_socket },
        { "two-cqs", open_both, two_cqs },       { "epoll", open_both, by_epoll },
        { "select", open_both, by_select },      { "condition", open_both, conditions },
        { "timers", open_both, timers },         { "sigwait", open_both, awaited },
        { "timerfd", open_both, timer_descriptors }, { "uninterrupted", open_both, uninterrupted },
        { "monotonic", nothing, monotonic },     { "fork", open_both, forked },
        { "resize", open_both, resized },        { "forgotten", open_both, forgotten },
        { "for-ever", open_both, for_ever },
        { "spins", open_both, spins },           { "joined", open_both, joined },
        { "accepts", open_both, accepts },
    };
    for (size_t i = 0; count == 2 && i < sizeof all / sizeof *all; i++)
        if (strcmp(arguments[1], all[i].name) == 0) {
            all[i].open();
            all[i].run();
            printf("OK\n");
            return 0;
        }
    die("usage: ordinary WHAT");
}
