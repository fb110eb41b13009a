/* Loops that poll until a deadline, by each clock, or beside something else. */
#ifndef POLLS_H
#define POLLS_H

static void by_clock(void)
{
    for (int64_t wish = MS / 10; wish <= 10000LL * MS; wish *= 10) {
        int64_t from = at();
        while (!poll_once() && at() < from + wish)
            ;
        took("a deadline by clock_gettime", from, wish, wish / 50 + 1000);
    }
}

static void by_tsc(void)
{
    int64_t from = at();
    uint64_t until = __rdtsc() + 500 * MS; /* 1 GHz */
    while (!poll_once() && __rdtsc() < until)
        ;
    took("a deadline by rdtsc", from, 500 * MS, 10 * MS);
}

static void by_gettimeofday(void)
{
    struct timeval begin, now;
    int64_t from = at();
    gettimeofday(&begin, NULL);
    do
        gettimeofday(&now, NULL);
    while (!poll_once() && (now.tv_sec - begin.tv_sec) * 1000000 + now.tv_usec - begin.tv_usec < 300000);
    took("a deadline by gettimeofday", from, 300 * MS - 2000, 10 * MS);
}

static void by_time(void)
{
    int64_t from = at();
    time_t begin = time(NULL);
    while (!poll_once() && time(NULL) < begin + 2)
        ;
    took("a deadline by time", from, 1000LL * MS, 1100LL * MS);
}

/* The clock is looked at every thousand polls. */
static void now_and_then(void)
{
    int64_t from = at();
    for (unsigned n = 1; !poll_once() && (n % 1000 || at() < from + 200 * MS); n++)
        ;
    took("a look at the clock after 1000 polls each", from, 200 * MS, 10 * MS);
}

static void counted(void)
{
    int64_t from = at();
    for (int i = 0; i < 10; i++)
        CHECK(!poll_once());
    took("10 polls", from, 100, 5000);
    from = at();
    for (int i = 0; i < 2000000; i++)
        CHECK(!poll_once());
    took("2000000 polls", from, 2000000, 80 * MS);
}

/* As programs look whether anything is left. */
static void drained(void)
{
    for (int i = 0; i < 20; i++) {
        post(&left, &right.address, IBV_WR_RDMA_WRITE, i, 0, 4096);
        expect(&left, i);
    }
    int64_t from = at();
    for (int i = 0; i < 100; i++)
        CHECK(!poll_once());
    took("100 polls after traffic", from, 500, 10000);
}

static void *says_after_2ms(void *fd)
{
    usleep(2000);
    CHECK(write(*(int *)fd, "x", 1) == 1);
    return NULL;
}

static void cq_and_socket(void)
{
    int ends[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, says_after_2ms, &ends[1]));
    int64_t from = at();
    struct pollfd fd = { .fd = ends[0], .events = POLLIN };
    while (!poll_once() && !poll(&fd, 1, 0))
        ;
    CHECK(fd.revents & POLLIN);
    int64_t time = at() - from;
    if (time < 2 * MS || time > 3 * MS)
        die("it came after %lld ns", (long long)time);
    printf("it came\n");
    pthread_join(thread, NULL);
}

static void two_cqs(void)
{
    int64_t from = at();
    struct ibv_wc wc;
    while (ibv_poll_cq(left.cq, 1, &wc) == 0 && ibv_poll_cq(right.cq, 1, &wc) == 0 && at() < from + 50 * MS)
        ;
    took("two CQs", from, 50 * MS, MS);
    post(&left, &right.address, IBV_WR_RDMA_WRITE, 7, 0, 4096);
    from = at();
    while (ibv_poll_cq(right.cq, 1, &wc) == 0 && ibv_poll_cq(left.cq, 1, &wc) == 0)
        ;
    took("a completion in one of them", from, 1000, 20000);
}

#endif
