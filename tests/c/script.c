/* Runs scripts of verbs and writes down what came of them.
 *
 * script both|0|1 CARD0 CARD1 SOCKET SCRIPT LOG LIMIT: plays side 0, side 1 or both of all scripts in the file SCRIPT. What
 * side 0 sees goes to LOG.0, what side 1 sees to LOG.1. The sides meet at the UNIX socket SOCKET, which is there when
 * side 1 may be started. A request that is not completed within LIMIT seconds is noted as missing. When all is played
 * one of the processes reads a byte from the FIFO LOG.hold before it ends: meanwhile the cards' counters can be read.
 *
 * A script is a list of lines: a letter, the side whose step it is, numbers. tests/tests/differential/script.rs writes
 * them and says what each means. What is written down does not depend on addresses, keys, queue pair numbers or
 * times, nor on the order between different queues: completions stand below their queue. */
#include "rendezvous.h"
#include "script/post.h"
#include <fcntl.h>

/* A thread's part of a section. */
struct part {
    struct player *p;
    size_t from, to;
    int parity;
};

/* A call that is refused. */
static void tell(struct text *text, char kind, long object, int error)
{
    if (error)
        note(text, "  %c %ld: %d\n", kind, object, error);
}

/* One line of our own side; the last line that belongs to it. */
static size_t step(struct player *p, size_t at)
{
    const long *f = p->lines[at].f + 1;
    char kind = p->lines[at].kind;
    switch (kind) {
    case 'Q': tell(&p->calls[f[0]], kind, f[0], create(p, f)); break;
    case 'I': tell(&p->calls[f[0]], kind, f[0], to_init(p, f)); break;
    case 'T': tell(&p->calls[f[0]], kind, f[0], to_rtr(p, f)); break;
    case 'R': tell(&p->calls[f[0]], kind, f[0], to_rts(p, f)); break;
    case 'M': tell(&p->calls[f[0]], kind, f[0], to_state(p, f)); break;
    case 'r': receive(p, f[0], f[1], f[2], f + 3); break;
    case 'v': receive(p, -1, f[0], f[1], f + 2); break;
    case 'S': return post_chain(p, at);
    case 'W': wait_for(p, f[0], f[1]); break;
    case 'V': wait_drained(p, f[0]); break;
    case 'Z': usleep(f[1]); query(p, f[0]); break;
    case 'C': tell(&p->calls[f[0]], kind, f[0], ibv_resize_cq(p->cqs[f[1]], f[2])); break;
    case 'A': {
        struct ibv_srq_attr attr = { .srq_limit = f[0] };
        tell(&p->rest, kind, f[0], ibv_modify_srq(p->srq, &attr, IBV_SRQ_LIMIT));
        break;
    }
    case 'G': {
        int error = ibv_dereg_mr(p->regions[f[1]]);
        tell(&p->calls[f[0]], kind, f[1], error);
        if (!error)
            region(p, f[1]);
        p->mine.keys[f[1]] = p->regions[f[1]]->rkey;
        break;
    }
    case 'N':
        CHECK(!ibv_dealloc_mw(p->windows[f[0]]));
        CHECK(p->windows[f[0]] = ibv_alloc_mw(p->pds[0], IBV_MW_TYPE_2));
        p->mine.keys[REGIONS + f[0]] = p->windows[f[0]]->rkey;
        break;
    case 'X':
        tell(&p->calls[f[0]], kind, f[0], ibv_destroy_qp(p->qps[f[0]]));
        p->qps[f[0]] = NULL;
        break;
    case 'L': look(p, f[0]); break;
    default: die("line %zu: %c is no step", at, kind);
    }
    return at;
}

/* Which thread does a line of a section: that of its queue pair. */
static int parity_of(const struct line *line)
{
    return strchr("rSWVZCQITRMXGN", line->kind) ? line->f[1] & 1 : 0;
}

static void *run_part(void *argument)
{
    struct part *part = argument;
    struct player *p = part->p;
    for (size_t at = part->from; at < part->to; at++)
        if (p->lines[at].f[0] == p->side && (part->parity < 0 || parity_of(&p->lines[at]) == part->parity))
            at = step(p, at);
    return NULL;
}

static void section(struct player *p, size_t from, size_t to)
{
    int here[2] = { 0 };
    for (size_t at = from; at < to; at++)
        if (p->lines[at].f[0] == p->side)
            here[parity_of(&p->lines[at])] = 1;
    struct part parts[2] = { { p, from, to, -1 }, { p, from, to, 1 } };
    pthread_t thread;
    int two = p->threads && here[0] && here[1];
    if (two) {
        parts[0].parity = 0;
        CHECK(!pthread_create(&thread, NULL, run_part, &parts[1]));
    }
    run_part(&parts[0]);
    if (two)
        CHECK(!pthread_join(thread, NULL));
}

static void barrier(struct player *p)
{
    size_t got = 0;
    CHECK(write(p->peer, &p->mine, sizeof p->mine) == sizeof p->mine);
    while (got < sizeof p->theirs) {
        ssize_t n = read(p->peer, (char *)&p->theirs + got, sizeof p->theirs - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            die("the other side is gone");
        got += n;
    }
}

/* The objects that every script finds; they are new for each. */
static void begin(struct player *p)
{
    uint64_t state = 0x9e3779b97f4a7c15 + p->side;
    for (size_t i = 0; i < BYTES / 8; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        ((uint64_t *)p->buffer)[i] = state;
    }
    for (int i = 0; i < 2; i++)
        CHECK(p->pds[i] = ibv_alloc_pd(p->context));
    for (int i = 0; i < REGIONS; i++) {
        region(p, i);
        p->mine.keys[i] = p->regions[i]->rkey;
    }
    for (int i = 0; i < WINDOWS; i++) {
        CHECK(p->windows[i] = ibv_alloc_mw(p->pds[0], IBV_MW_TYPE_2));
        p->mine.keys[REGIONS + i] = p->windows[i]->rkey;
    }
    for (int i = 0; i < CQS; i++)
        CHECK(p->cqs[i] = ibv_create_cq(p->context, i & 1 ? 8 : 512, NULL, NULL, 0));
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = 64, .max_sge = 1 } };
    CHECK(p->srq = ibv_create_srq(p->pds[0], &srq));
    CHECK(p->sentinel_srq = ibv_create_srq(p->pds[0], &srq));
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC, .srq = p->sentinel_srq, .send_cq = p->cqs[0], .recv_cq = p->cqs[0], .cap = { .max_send_wr = 1, .max_send_sge = 1 },
    };
    CHECK(p->qps[SENTINEL] = ibv_create_qp(p->pds[0], &init));
    p->mine.base = (uintptr_t)p->buffer;
    CHECK(!ibv_query_gid(p->context, PORT, GID_INDEX, &p->mine.gid));
    barrier(p);
    struct ibv_ah_attr ah = path(p);
    CHECK(p->ah = ibv_create_ah(p->pds[0], &ah));
}

static void end(struct player *p)
{
    for (int q = 0; q <= QPS; q++) {
        if (p->qps[q])
            CHECK(!ibv_destroy_qp(p->qps[q]));
        p->qps[q] = NULL;
    }
    memset(p->mine.qpn, 0, sizeof p->mine.qpn);
    CHECK(!ibv_destroy_ah(p->ah));
    CHECK(!ibv_destroy_srq(p->srq) && !ibv_destroy_srq(p->sentinel_srq));
    for (int i = 0; i < CQS; i++)
        CHECK(!ibv_destroy_cq(p->cqs[i]));
    for (int i = 0; i < WINDOWS; i++)
        CHECK(!ibv_dealloc_mw(p->windows[i]));
    for (int i = 0; i < REGIONS; i++)
        CHECK(!ibv_dereg_mr(p->regions[i]));
    for (int i = 0; i < 2; i++)
        CHECK(!ibv_dealloc_pd(p->pds[i]));
}

static void *play(void *argument)
{
    struct player *p = argument;
    for (int q = 0; q < QPS; q++)
        CHECK((p->calls[q].bytes = malloc(TEXT)) && (p->sent[q].bytes = malloc(TEXT)) && (p->received[q].bytes = malloc(TEXT)));
    CHECK(p->rest.bytes = malloc(TEXT));
    CHECK((p->buffer = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
    size_t from = 0;
    for (size_t at = 0; at < p->count; at++) {
        char kind = p->lines[at].kind;
        if (!strchr("<->", kind))
            continue;
        section(p, from, at);
        from = at + 1;
        if (kind == '<') {
            fprintf(p->log, "script %ld\n", p->lines[at].f[0]);
            p->threads = p->lines[at].f[1];
            begin(p);
        } else if (kind == '>') {
            end(p);
            fflush(p->log);
        }
        barrier(p);
    }
    fprintf(p->log, "done\n");
    fclose(p->log);
    return NULL;
}

static void load(const char *path, struct line **lines, size_t *count)
{
    FILE *file = fopen(path, "r");
    CHECK(file);
    char text[512];
    size_t room = 0;
    while (fgets(text, sizeof text, file)) {
        if (*count == room)
            CHECK(*lines = realloc(*lines, (room = room ? 2 * room : 256) * sizeof **lines));
        struct line *line = &(*lines)[(*count)++];
        memset(line, 0, sizeof *line);
        line->kind = text[0];
        char *rest = text + 1, *after;
        for (;; rest = after) {
            long value = strtol(rest, &after, 0);
            if (after == rest)
                break;
            CHECK(line->fields < FIELDS);
            line->f[line->fields++] = value;
        }
        /* It belongs to neither side. */
        if (line->kind == '-')
            line->f[0] = -1;
    }
    fclose(file);
}

static void hold(const char *log)
{
    char path[512], byte;
    snprintf(path, sizeof path, "%s.hold", log);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && read(fd, &byte, 1) == 1);
    close(fd);
}

int main(int count, char **arguments)
{
    if (count != 8)
        die("usage: script both|0|1 CARD0 CARD1 SOCKET SCRIPT LOG LIMIT");
    struct line *lines = NULL;
    size_t lines_count = 0;
    load(arguments[5], &lines, &lines_count);
    static struct player players[2];
    int both = !strcmp(arguments[1], "both"), only = atoi(arguments[1]), ends[2];
    if (both)
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    else
        ends[only] = rendezvous(only, arguments[4]);
    for (int side = 0; side < 2; side++) {
        if (!both && side != only)
            continue;
        struct player *p = &players[side];
        char path[512];
        snprintf(path, sizeof path, "%s.%d", arguments[6], side);
        p->side = side;
        p->peer = ends[side];
        p->limit = atof(arguments[7]);
        p->lines = lines;
        p->count = lines_count;
        CHECK(p->log = fopen(path, "w"));
        p->context = open_device(arguments[2 + side]);
    }
    pthread_t thread;
    if (both)
        CHECK(!pthread_create(&thread, NULL, play, &players[1]));
    play(&players[both ? 0 : only]);
    if (both)
        CHECK(!pthread_join(thread, NULL));
    if (both || only == 0)
        hold(arguments[6]);
    for (int side = 0; side < 2; side++)
        if (players[side].context)
            CHECK(!ibv_close_device(players[side].context));
    return 0;
}
