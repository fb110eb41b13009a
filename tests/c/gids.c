/* A program that waits for changes of a card's GID tables.
 *
 * Opens verbena0 and nothing else, says `ready`, and prints each asynchronous event with the port's third GID, as it is
 * then. `gids poll`: it sleeps in epoll, with a descriptor that does not block; otherwise in ibv_get_async_event. */
#include "rig.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/epoll.h>

int main(int count, char **arguments)
{
    struct ibv_context *context = open_device("verbena0");
    int poll = count > 1 && strcmp(arguments[1], "poll") == 0, epoll = epoll_create1(0);
    struct epoll_event watch = { .events = EPOLLIN };
    CHECK(epoll >= 0 && !epoll_ctl(epoll, EPOLL_CTL_ADD, context->async_fd, &watch));
    if (poll)
        CHECK(!fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK));
    printf("ready\n");
    for (;;) {
        fflush(stdout);
        struct ibv_async_event event;
        if (poll && ibv_get_async_event(context, &event)) {
            CHECK(errno == EAGAIN && epoll_wait(epoll, &watch, 1, -1) == 1);
            continue;
        }
        if (!poll)
            CHECK(!ibv_get_async_event(context, &event));
        union ibv_gid gid;
        char text[INET6_ADDRSTRLEN];
        CHECK(!ibv_query_gid(context, event.element.port_num, 2, &gid));
        CHECK(inet_ntop(AF_INET6, &gid, text, sizeof text));
        printf("%s, port %d: %s\n", ibv_event_type_str(event.event_type), event.element.port_num, text);
        ibv_ack_async_event(&event);
    }
}
