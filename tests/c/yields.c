/* Threads that wait with sched_yield on memory.
 *
 * yields thread|card|clock. */
#include "rig.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <threads.h>

enum { ROUNDS = 200 };

static struct side left, right;
static _Atomic int asked, answered;

/* Completes what it is asked for, and says so in memory. */
static void *complete(void *argument)
{
    (void)argument;
    for (int n = 1; n <= ROUNDS; n++) {
        while (atomic_load(&asked) < n)
            thrd_yield();
        post(&left, &right.address, IBV_WR_RDMA_WRITE, n, 0, 4096);
        expect(&left, n);
        atomic_store(&answered, n);
    }
    return NULL;
}

static void by_thread(void)
{
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, complete, NULL));
    double from = now();
    for (int n = 1; n <= ROUNDS; n++) {
        atomic_store(&asked, n);
        while (atomic_load(&answered) < n)
            sched_yield();
    }
    double each = (now() - from) / ROUNDS;
    CHECK(!pthread_join(thread, NULL));
    /* A message takes some microseconds, and the wait for it little more. */
    if (each > 50e-6)
        die("%g us for each message", each * 1e6);
}

/* What a card writes ends the wait when it comes: nothing here depends on the machine. */
static void by_card(void)
{
    for (int n = 1; n <= ROUNDS; n++) {
        left.buffer[0] = n;
        double from = now();
        post(&left, &right.address, IBV_WR_RDMA_WRITE, n, 0, 64);
        while (right.buffer[0] != (char)n)
            sched_yield();
        if (n % 50 == 0)
            printf("message %d: %.0f ns\n", n, (now() - from) * 1e9);
        expect(&left, n);
    }
}

/* A deadline is met, whatever is done between two looks at the clock. */
static void by_clock(void)
{
    double from = now();
    while (now() < from + 0.2)
        sched_yield();
    double took = now() - from;
    printf("%.0f us\n", took * 1e6);
    CHECK(took < 0.21);
}

int main(int count, char **arguments)
{
    const char *what = count == 2 ? arguments[1] : "";
    left = make_side(open_device("verbena0"), NULL, 4096);
    right = make_side(open_device("verbena1"), NULL, 4096);
    connect_pair(&left, &right);
    if (!strcmp(what, "thread"))
        by_thread();
    else if (!strcmp(what, "card"))
        by_card();
    else if (!strcmp(what, "clock"))
        by_clock();
    else
        die("usage: yields thread|card|clock");
    printf("OK\n");
    return 0;
}
