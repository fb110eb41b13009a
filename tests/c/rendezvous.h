/* Two processes find each other by the name of a socket, and tell each other what they have to know. */
#ifndef RENDEZVOUS_H
#define RENDEZVOUS_H

#include "rig.h"
#include <sys/socket.h>
#include <sys/un.h>

/* A socket that takes connections. Its name appears once it listens. */
static inline int listener(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s.new", path);
    CHECK(!bind(fd, (struct sockaddr *)&address, sizeof address) && !listen(fd, 16) && !rename(address.sun_path, path));
    return fd;
}

/* A connection to the other side: side 0 waits for side 1. */
static inline int rendezvous(int side, const char *path)
{
    if (side == 0)
        return accept(listener(path), NULL, NULL);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    CHECK(!connect(fd, (struct sockaddr *)&address, sizeof address));
    return fd;
}

static inline void tell(int fd, const void *what, size_t bytes)
{
    CHECK(write(fd, what, bytes) == (ssize_t)bytes);
}

static inline void hear(int fd, void *what, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t count = read(fd, (char *)what + at, bytes - at);
        CHECK(count > 0);
        at += count;
    }
}

#endif
