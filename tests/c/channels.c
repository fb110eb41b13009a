/* Event channels of librdmacm, used as programs rarely do.
 *
 * channels cancel   threads that wait for an event are cancelled; then an event comes
 * channels fork     a child has its parent's channel
 * channels user     events that the program writes itself (librdmacm from release 62 on) */
#define _GNU_SOURCE
#include "rig.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sys/wait.h>

enum { ROUNDS = 100 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

/* The next event, which is acknowledged. */
static void await(int wanted)
{
    struct rdma_cm_event *event;
    CHECK(!rdma_get_cm_event(channel, &event));
    if ((int)event->event != wanted || event->id != id)
        die("event %d (%d) instead of %d", event->event, event->status, wanted);
    CHECK(!rdma_ack_cm_event(event));
}

/* An event of the identifier: its way is known. */
static void resolve(void)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7000) };
    to.sin_addr.s_addr = htonl(198u << 24 | 18 << 16 | 1);
    CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000));
}

static void *waiter(void *argument)
{
    (void)argument;
    struct rdma_cm_event *event;
    rdma_get_cm_event(channel, &event);
    die("an event, or an error, that nobody caused");
}

static void cancel(void)
{
    for (int n = 0; n < ROUNDS; n++) {
        pthread_t thread;
        void *result;
        CHECK(!pthread_create(&thread, NULL, waiter, NULL));
        /* Before it waits, or while it does. */
        usleep(n % 10 * 300);
        CHECK(!pthread_cancel(thread));
        CHECK(!pthread_join(thread, &result));
        CHECK(result == PTHREAD_CANCELED);
    }
    resolve();
    await(RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void inherit(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        struct rdma_cm_id *other;
        struct rdma_cm_event *event;
        CHECK(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP) == -1 && errno == EACCES);
        CHECK(rdma_get_cm_event(channel, &event) == -1 && errno == EACCES);
        struct rdma_event_channel *own = rdma_create_event_channel();
        CHECK(own && !rdma_create_id(own, &other, NULL, RDMA_PS_TCP));
        CHECK(!rdma_destroy_id(other));
        rdma_destroy_event_channel(own);
        rdma_destroy_event_channel(channel);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && !status);
    resolve();
    await(RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void user(void)
{
    enum { USER = 18 };
    union { void *found; int (*call)(struct rdma_cm_id *, int, int, uint64_t); } write_event;
    write_event.found = dlsym(RTLD_DEFAULT, "rdma_write_cm_event");
    if (!write_event.found)
        die("this librdmacm has no rdma_write_cm_event");
    CHECK(write_event.call(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0) && errno == EINVAL);
    CHECK(!write_event.call(id, USER, 7, 0x123456789abcdef0));
    struct rdma_cm_event *event;
    CHECK(!rdma_get_cm_event(channel, &event));
    uint64_t argument;
    memcpy(&argument, &event->param, sizeof argument);
    CHECK((int)event->event == USER && event->status == 7 && event->id == id && argument == 0x123456789abcdef0);
    CHECK(!rdma_ack_cm_event(event));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    channel = rdma_create_event_channel();
    CHECK(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
    if (!strcmp(argv[1], "cancel"))
        cancel();
    else if (!strcmp(argv[1], "fork"))
        inherit();
    else
        user();
    CHECK(!rdma_destroy_id(id));
    rdma_destroy_event_channel(channel);
    puts("as in the kernel");
    return 0;
}
