/* A member of a net that writes over everything that it can map of it.
 *
 * scribble DEVICE SEED WRITES WHERE     WHERE: all, tables, world, lock; condemn: as who could not repair the cards */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>

#include "rig.h"

static uint64_t state;

static uint64_t any(uint64_t below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return below ? state % below : state;
}

/* Where the segment is mapped as a whole, and its file. */
static char *find(size_t *bytes, int *file)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096], *base = NULL;
    *bytes = 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (strstr(line, "/memfd:verbena") && sscanf(line, "%lx-%lx", &start, &end) == 2 && end - start > *bytes)
            base = (char *)start, *bytes = end - start;
    }
    fclose(maps);
    CHECK(base);
    DIR *fds = opendir("/proc/self/fd");
    struct dirent *entry;
    *file = -1;
    while ((entry = readdir(fds))) {
        char path[300], link[300] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, link, sizeof link - 1) > 0 && strstr(link, "/memfd:verbena"))
            *file = atoi(entry->d_name);
    }
    CHECK(*file >= 0);
    return base;
}

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    struct ibv_context *context = open_device(argv[1]);
    struct side side = make_side(context, NULL, 4 * 4096);
    (void)side;
    state = strtoull(argv[2], NULL, 0) * 0x9e3779b97f4a7c15 + 1;
    size_t bytes;
    int file;
    char *base = find(&bytes, &file);
    /* The parts that have pages: to touch all of a terabyte would only fill the machine. */
    static struct { off_t at, len; } parts[65536];
    int count = 0;
    uint64_t total = 0;
    uint64_t world = *(uint64_t *)(base + 24), heap = *(uint64_t *)(base + 32);
    off_t from = 0, to = bytes;
    if (!strcmp(argv[4], "tables"))
        to = heap - world;
    if (!strcmp(argv[4], "world"))
        from = heap - world, to = heap;
    for (off_t at = from; count < 65536;) {
        off_t data = lseek(file, at, SEEK_DATA);
        if (data < 0 || data >= to)
            break;
        off_t hole = lseek(file, data, SEEK_HOLE);
        if (hole > to)
            hole = to;
        parts[count].at = data, parts[count].len = hole - data, total += hole - data, count++;
        at = hole;
    }
    CHECK(total);
    say("over %llu bytes in %d parts", (unsigned long long)total, count);
    long writes = atol(argv[3]);
    if (!strcmp(argv[4], "condemn"))
        *(volatile uint32_t *)(base + 128) = 0x3fffffff, writes = 0;
    for (long i = 0; i < writes; i++) {
        /* Small numbers and all ones are the worst lengths and indices. */
        const uint64_t values[] = { any(0), 0, ~0ull, any(256), 1ull << any(64), 0x8000000000000000 };
        uint64_t at = any(total), value = values[any(6)];
        int part = 0;
        while (at >= (uint64_t)parts[part].len)
            at -= parts[part++].len;
        volatile char *place = base + parts[part].at + (at & ~7ull);
        if (!strcmp(argv[4], "lock")) {
            /* Ids that no process has. */
            *(volatile uint32_t *)(base + 128) = 0x20000000 + any(1 << 20);
            usleep(200000);
            continue;
        }
        switch (any(3)) {
        case 0: *(volatile uint64_t *)place = value; break;
        case 1: *(volatile uint32_t *)place = value; break;
        default: place[at & 7] = value; break;
        }
        if (i % 64 == 0)
            usleep(any(300));
    }
    say("scribbled");
    _exit(0);
}
