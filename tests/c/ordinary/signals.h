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
