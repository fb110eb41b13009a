/* Two processes find each other by the name of a socket. */
#ifndef RENDEZVOUS_H
#define RENDEZVOUS_H

#include "rig.h"
#include <sys/socket.h>
#include <sys/un.h>

/* A connection to the other side: side 0 waits for side 1. */
static inline int rendezvous(int side, const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (side == 0) {
        /* The name appears once side 0 listens. */
        snprintf(address.sun_path, sizeof address.sun_path, "%s.new", path);
        CHECK(!bind(fd, (struct sockaddr *)&address, sizeof address) && !listen(fd, 1) && !rename(address.sun_path, path));
        return accept(fd, NULL, NULL);
    }
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    CHECK(!connect(fd, (struct sockaddr *)&address, sizeof address));
    return fd;
}

#endif
