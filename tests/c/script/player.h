/* A part of a side of a script: its objects, what it notes. */
#ifndef PLAYER_H
#define PLAYER_H

#include "../rendezvous.h"
#include <pthread.h>

enum {
    QPS = 8, CQS = 4, SRQS = 2, KEYS = 9, REGIONS = 7, WINDOWS = 2, ZONE = 32768, BYTES = QPS * ZONE, FIELDS = 24,
    RECEIVE = 1 << 20, SENTINEL = QPS, TEXT = 1 << 18, PLACES = QPS * 512,
    /* Most parts of all; most threads of one. */
    PARTS = 8, THREADS = 4,
    /* Receives of an SRQ. */
    SHARED = RECEIVE << 1, SLOTS = 256, SLOT = 5000, POOL = SRQS * SLOTS * SLOT,
};

/* What each part tells the others at each barrier. */
struct hello {
    uint32_t qpn[QPS], keys[KEYS];
    uint64_t base;
    union ibv_gid gid;
};

struct text {
    char *bytes;
    size_t used;
};

struct line {
    char kind;
    int fields;
    long f[FIELDS];
};

struct player {
    /* Of how many parts the sides consist, which one this is, and which of all. Part n of m has queue pairs n, n + m, ... */
    int parts[2], side, part, me, threads;
    /* To part 0 of side 0, which has one to each of the others. */
    int to[PARTS];
    double limit;
    FILE *log;
    struct ibv_context *context;
    struct ibv_pd *pds[2];
    struct ibv_mr *regions[REGIONS];
    struct ibv_mw *windows[WINDOWS];
    struct ibv_cq *cqs[CQS];
    struct ibv_srq *srqs[SRQS], *sentinel_srq;
    struct ibv_qp *qps[QPS + 1];
    struct ibv_ah *ah;
    char *buffer;
    struct hello mine, all[PARTS];
    /* A thread polls the queues, which all share. */
    int polling;
    /* Buffers for the receives of the SRQs, and which of them are posted. */
    char *pool, posted[SRQS * SLOTS];
    struct ibv_mr *pool_region;
    /* By queue pair: refused calls, posts and completions of the send queue, and of receives. */
    struct text calls[QPS], sent[QPS], received[QPS], rest;
    volatile long done[QPS];
    /* Where receives put their bytes, by number. */
    struct { uint32_t at, length; } places[PLACES];
    struct line *lines;
    size_t count;
};

/* Whose the queue pair of that number is on the other side, and what that told. */
static const struct hello *theirs(const struct player *p, int q)
{
    int side = 1 - p->side;
    return &p->all[(side ? p->parts[0] : 0) + q % p->parts[side]];
}

__attribute__((format(printf, 2, 3))) static void note(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text->used += vsnprintf(text->bytes + text->used, TEXT - text->used, format, arguments);
    va_end(arguments);
    if (text->used >= TEXT)
        die("a script says too much");
}

enum { EVERYTHING = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND };

static const struct { int access, pd; } REGION[REGIONS] = {
    { EVERYTHING, 0 }, { IBV_ACCESS_LOCAL_WRITE, 0 }, { IBV_ACCESS_REMOTE_READ, 0 }, { EVERYTHING, 1 },
    /* Below windows. */
    { EVERYTHING, 0 }, { EVERYTHING, 0 }, { EVERYTHING, 0 },
};

static void region(struct player *p, int i)
{
    p->regions[i] = ibv_reg_mr(p->pds[REGION[i].pd], p->buffer, BYTES, REGION[i].access);
    CHECK(p->regions[i]);
}

static uint32_t local_key(struct player *p, long key)
{
    return key >= 0 && key < REGIONS && p->regions[key] ? p->regions[key]->lkey : p->regions[0]->lkey ^ 1;
}

#endif
