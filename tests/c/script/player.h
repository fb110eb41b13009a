/* A side of a script: its objects, what it notes. */
#ifndef PLAYER_H
#define PLAYER_H

#include "../rendezvous.h"
#include <pthread.h>

enum {
    QPS = 8, CQS = 4, KEYS = 9, REGIONS = 7, WINDOWS = 2, ZONE = 32768, BYTES = QPS * ZONE, FIELDS = 24,
    RECEIVE = 1 << 20, SENTINEL = QPS, TEXT = 1 << 18, PLACES = QPS * 512,
};

/* What one side tells the other at each barrier. */
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
    int side, peer, threads;
    double limit;
    FILE *log;
    struct ibv_context *context;
    struct ibv_pd *pds[2];
    struct ibv_mr *regions[REGIONS];
    struct ibv_mw *windows[WINDOWS];
    struct ibv_cq *cqs[CQS];
    struct ibv_srq *srq, *sentinel_srq;
    struct ibv_qp *qps[QPS + 1];
    struct ibv_ah *ah;
    char *buffer;
    struct hello mine, theirs;
    /* By queue pair: refused calls, posts and completions of the send queue, and of receives. */
    struct text calls[QPS], sent[QPS], received[QPS], rest;
    long done[QPS];
    /* Where receives put their bytes, by number. */
    struct { uint32_t at, length; } places[PLACES];
    struct line *lines;
    size_t count;
};

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
