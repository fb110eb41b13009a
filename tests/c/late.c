/* A thread that is woken gets a core late, as on a busy machine: it has the lowest priority, and another process keeps its core.
 * Simulated time does not go on without it. */
#define _GNU_SOURCE
#include "rig.h"
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int waits, told;
static int ends[2];

static void stay_on_one_core(void)
{
    cpu_set_t cores;
    CHECK(!sched_getaffinity(0, sizeof cores, &cores));
    for (int core = CPU_SETSIZE - 1; core >= 0; core--) {
        if (!CPU_ISSET(core, &cores))
            continue;
        CPU_ZERO(&cores);
        CPU_SET(core, &cores);
        break;
    }
    CHECK(!sched_setaffinity(0, sizeof cores, &cores));
}

static void *answer(void *nothing)
{
    struct sched_param none = { 0 };
    stay_on_one_core();
    CHECK(!pthread_mutex_lock(&mutex));
    waits = 1;
    CHECK(!pthread_cond_broadcast(&changed));
    CHECK(!sched_setscheduler(0, SCHED_IDLE, &none));
    while (!told)
        CHECK(!pthread_cond_wait(&changed, &mutex));
    CHECK(!pthread_mutex_unlock(&mutex));
    CHECK(write(ends[1], "", 1) == 1);
    return nothing;
}

int main(void)
{
    pid_t busy = fork();
    CHECK(busy >= 0);
    if (!busy) {
        CHECK(!prctl(PR_SET_PDEATHSIG, SIGKILL));
        stay_on_one_core();
        for (;;)
            ;
    }
    pthread_t thread;
    open_device("verbena0");
    CHECK(!pipe(ends) && !pthread_create(&thread, NULL, answer, NULL));
    CHECK(!pthread_mutex_lock(&mutex));
    while (!waits)
        CHECK(!pthread_cond_wait(&changed, &mutex));
    double begin = now();
    told = 1;
    CHECK(!pthread_cond_broadcast(&changed) && !pthread_mutex_unlock(&mutex));
    struct pollfd fd = { .fd = ends[0], .events = POLLIN };
    int found = poll(&fd, 1, 10000);
    double took = now() - begin;
    if (found != 1 || took > 1)
        die("the answer took %g s, poll returned %d", took, found);
    CHECK(!pthread_join(thread, NULL) && !kill(busy, SIGKILL));
    printf("OK\n");
    return 0;
}
