/* Timers and signals. */
#ifndef SIGNALS_H
#define SIGNALS_H

static volatile sig_atomic_t rung;

static void rings(int signal)
{
    (void)signal;
    rung++;
}

static void handle(int signal, int flags)
{
    struct sigaction action = { .sa_handler = rings, .sa_flags = flags };
    CHECK(!sigaction(signal, &action, NULL));
}

static void timers(void)
{
    int ends[2];
    char byte;
    CHECK(!pipe(ends));
    handle(SIGALRM, 0);
    struct itimerval timer = { .it_value.tv_usec = 5000, .it_interval.tv_usec = 5000 };
    int64_t from = at();
    CHECK(!setitimer(ITIMER_REAL, &timer, NULL));
    for (int i = 0; i < 10; i++)
        CHECK(read(ends[0], &byte, 1) == -1 && errno == EINTR);
    took("ten alarms in read", from, 50 * MS, MS);
    rung = 0;
    from = at();
    while (!rung)
        poll_once();
    took("an alarm in a loop that polls", from, 0, 5 * MS);
    rung = 0;
    from = at();
    for (int i = 0; i < 10; i++)
        CHECK(poll(NULL, 0, -1) == -1 && errno == EINTR);
    took("ten alarms in poll", from, 45 * MS, 6 * MS);
    timer = (struct itimerval){ 0 };
    CHECK(!setitimer(ITIMER_REAL, &timer, NULL));
    from = at();
    CHECK(poll(NULL, 0, 30) == 0);
    took("poll without an alarm", from, 30 * MS, MS);
}

static struct itimerspec timer_of(long first, long each)
{
    return (struct itimerspec){ .it_value.tv_nsec = first, .it_interval.tv_nsec = each };
}

static void *sets_a_timer(void *timer)
{
    struct itimerspec soon = timer_of(3 * MS, 0);
    usleep(2000);
    CHECK(!timerfd_settime(*(int *)timer, 0, &soon, NULL));
    return NULL;
}

/* An event loop's timers. */
static void timer_descriptors(void)
{
    int each = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), once = timerfd_create(CLOCK_REALTIME, 0), loop = epoll_create1(0);
    CHECK(each >= 0 && once >= 0 && loop >= 0);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = each };
    CHECK(!epoll_ctl(loop, EPOLL_CTL_ADD, each, &event));
    event.data.fd = once;
    CHECK(!epoll_ctl(loop, EPOLL_CTL_ADD, once, &event));
    struct itimerspec every = timer_of(5 * MS, 2 * MS), at_date = timer_of(0, 0), was;
    int64_t from = at(), date = ns(CLOCK_REALTIME) + 8 * MS;
    at_date.it_value = (struct timespec){ date / 1000000000, date % 1000000000 };
    CHECK(!timerfd_settime(each, 0, &every, NULL) && !timerfd_settime(once, TFD_TIMER_ABSTIME, &at_date, NULL));
    uint64_t count;
    CHECK(read(each, &count, 8) == -1 && errno == EAGAIN);
    for (int ticks = 0, dates = 0; ticks < 4 || !dates;) {
        CHECK(epoll_wait(loop, &event, 1, 1000) == 1 && read(event.data.fd, &count, 8) == 8 && count == 1);
        *(event.data.fd == each ? &ticks : &dates) += 1;
        took(event.data.fd == each ? "a tick" : "a date", from, 5 * MS, 7 * MS);
    }
    took("the last", from, 11 * MS, MS / 10);
    /* What nobody has read is counted. */
    usleep(5000);
    CHECK(read(each, &count, 8) == 8);
    printf("%d expirations\n", (int)count);
    CHECK(count == 2);
    CHECK(!timerfd_gettime(each, &was) && was.it_interval.tv_nsec == 2 * MS && was.it_value.tv_nsec > 0 && was.it_value.tv_nsec <= 2 * MS);
    every = timer_of(0, 0);
    CHECK(!timerfd_settime(each, 0, &every, &was) && was.it_interval.tv_nsec == 2 * MS);
    from = at();
    CHECK(epoll_wait(loop, &event, 1, 20) == 0);
    took("nothing", from, 20 * MS, MS);
    /* A read waits for it, and so does a thread that waits already when another one sets it. */
    struct itimerspec soon = timer_of(3 * MS, 0);
    from = at();
    CHECK(!timerfd_settime(once, 0, &soon, NULL) && read(once, &count, 8) == 8 && count == 1);
    took("a read", from, 3 * MS, MS / 10);
    pthread_t thread;
    from = at();
    CHECK(!pthread_create(&thread, NULL, sets_a_timer, &once));
    CHECK(epoll_wait(loop, &event, 1, 1000) == 1 && event.data.fd == once);
    took("another thread's", from, 5 * MS, MS);
    CHECK(!pthread_join(thread, NULL) && !close(once) && !close(each));
    CHECK(epoll_wait(loop, &event, 1, 1) == 0);
}

static void awaited(void)
{
    sigset_t set;
    siginfo_t info;
    int signal;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    CHECK(!sigprocmask(SIG_BLOCK, &set, NULL));
    struct itimerval timer = { .it_value.tv_usec = 5000, .it_interval.tv_usec = 5000 };
    int64_t from = at();
    CHECK(!setitimer(ITIMER_REAL, &timer, NULL));
    for (int i = 0; i < 5; i++)
        CHECK(!sigwait(&set, &signal) && signal == SIGALRM);
    took("five alarms by sigwait", from, 25 * MS, MS);
    for (int i = 0; i < 5; i++)
        CHECK(sigwaitinfo(&set, &info) == SIGALRM);
    took("five by sigwaitinfo", from, 50 * MS, MS);
    struct timespec time = { .tv_nsec = 2 * MS };
    CHECK(sigtimedwait(&set, &info, &time) == -1 && errno == EAGAIN);
    took("sigtimedwait in vain", from, 52 * MS, MS);
    time.tv_nsec = 100 * MS;
    CHECK(sigtimedwait(&set, &info, &time) == SIGALRM);
    took("sigtimedwait", from, 55 * MS, MS);
}

/* Signals that never come interrupt nothing. */
static void uninterrupted(void)
{
    handle(SIGUSR1, 0);
    struct pollfd fd = { .fd = left.channel->fd, .events = POLLIN };
    fcntl(left.channel->fd, F_SETFL, O_NONBLOCK);
    struct ibv_cq *cq;
    void *context;
    for (int i = 0; i < 20000; i++) {
        CHECK(poll(&fd, 1, 0) == 0);
        CHECK(ibv_get_cq_event(left.channel, &cq, &context) == -1 && errno == EAGAIN);
    }
    printf("nothing came\n");
}

#endif
