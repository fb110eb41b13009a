/* A program with an mmap, an mremap and a munmap of its own, as UCX and MPI have: its mremap knows no new address, and
 * whoever unmaps registered memory, or maps something over it, ends the program. */
#define _GNU_SOURCE
#include "rig.h"
#include <sys/syscall.h>

enum { BYTES = 5 * 4096 };
static char *buffer;

static void refuse(const char *what, const void *at)
{
    const char *address = at;
    if (buffer && address >= buffer && address < buffer + BYTES)
        die("the program is told of a %s of its buffer", what);
}

void *mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset)
{
    if (flags & MAP_FIXED)
        refuse("mmap", at);
    return (void *)syscall(SYS_mmap, at, bytes, access, flags, fd, offset);
}

int munmap(void *at, size_t bytes)
{
    refuse("munmap", at);
    return syscall(SYS_munmap, at, bytes);
}

void *mremap(void *at, size_t bytes, size_t to_bytes, int flags, ...)
{
    if (flags & MREMAP_FIXED)
        die("the program's mremap is called");
    return (void *)syscall(SYS_mremap, at, bytes, to_bytes, flags);
}

int main(int count, char **arguments)
{
    struct ibv_context *context = open_device(count > 1 ? arguments[1] : "verbena0");
    struct ibv_pd *pd = ibv_alloc_pd(context);
    CHECK(pd);
    buffer = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(buffer != MAP_FAILED);
    for (int round = 0; round < 3; round++) {
        memset(buffer, 'a' + round, BYTES);
        struct ibv_mr *mr = ibv_reg_mr(pd, buffer + 100, BYTES - 200, IBV_ACCESS_LOCAL_WRITE);
        CHECK(mr && !ibv_dereg_mr(mr));
        for (int i = 0; i < BYTES; i++)
            CHECK(buffer[i] == 'a' + round);
    }
    CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
    buffer = NULL;
    printf("done\n");
    return 0;
}
