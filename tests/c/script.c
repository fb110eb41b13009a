/* Runs scripts of verbs and writes down what came of them.
 *
 * script PARTS0 PARTS1 all|N CARD0 CARD1 SOCKET SCRIPT LOG LIMIT: plays all scripts in the file SCRIPT. The sides consist of
 * PARTS0 and PARTS1 parts, numbered in a row, and this process plays one of them, or all with a thread each. What part N sees
 * goes to LOG.N. The parts meet at the UNIX socket SOCKET, which is there when others than part 0 may be started. A
 * request that is not completed within LIMIT seconds is noted as missing. When all is played, the process of part 0 reads a byte
 * from the FIFO LOG.hold before it ends: meanwhile the cards' counters can be read.
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
    /* Which; -1: the only one. */
    int thread;
};

/* A call that is refused. */
static void refused(struct text *text, char kind, long object, int error)
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
    case 'Q': refused(&p->calls[f[0]], kind, f[0], create(p, f)); break;
    case 'I': refused(&p->calls[f[0]], kind, f[0], to_init(p, f)); break;
    case 'T': refused(&p->calls[f[0]], kind, f[0], to_rtr(p, f)); break;
    case 'R': refused(&p->calls[f[0]], kind, f[0], to_rts(p, f)); break;
    case 'M': refused(&p->calls[f[0]], kind, f[0], to_state(p, f)); break;
    case 'r': receive(p, f[0], f[1], f[2], f + 3); break;
    case 'v': receive_shared(p, f[0], f[1]); break;
    case 'S': return post_chain(p, at);
    case 'W': wait_for(p, f[0], f[1]); break;
    case 'V': wait_drained(p, f[0]); break;
    case 'Z': usleep(f[1]); query(p, f[0]); break;
    case 'C': refused(&p->calls[f[0]], kind, f[0], ibv_resize_cq(p->cqs[f[1]], f[2])); break;
    case 'A': {
        struct ibv_srq_attr attr = { .srq_limit = f[2] };
        refused(&p->calls[f[0]], kind, f[2], ibv_modify_srq(p->srqs[f[1]], &attr, IBV_SRQ_LIMIT));
        break;
    }
    case 'G': {
        int error = ibv_dereg_mr(p->regions[f[1]]);
        refused(&p->calls[f[0]], kind, f[1], error);
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
        refused(&p->calls[f[0]], kind, f[0], ibv_destroy_qp(p->qps[f[0]]));
        p->qps[f[0]] = NULL;
        break;
    case 'L': look(p, f[0]); break;
    default: die("line %zu: %c is no step", at, kind);
    }
    return at;
}

/* Whether this part takes the step of a line: all do who see something, or the one with its queue pair. */
static int is_mine(const struct player *p, const struct line *line)
{
    return line->f[0] == p->side && (line->kind == 'L' || line->f[1] % p->parts[p->side] == p->part);
}

/* Which thread does: that of its queue pair. */
static int thread_of(const struct player *p, const struct line *line)
{
    return line->kind == 'L' ? 0 : line->f[1] / p->parts[p->side] % p->threads;
}

static void *run_part(void *argument)
{
    struct part *part = argument;
    struct player *p = part->p;
    for (size_t at = part->from; at < part->to; at++)
        if (is_mine(p, &p->lines[at]) && (part->thread < 0 || thread_of(p, &p->lines[at]) == part->thread))
            at = step(p, at);
    return NULL;
}

static void section(struct player *p, size_t from, size_t to)
{
    int here[THREADS] = { 0 }, last = 0, count = 0;
    for (size_t at = from; at < to; at++)
        if (is_mine(p, &p->lines[at]))
            here[thread_of(p, &p->lines[at])] = 1;
    for (int n = 0; n < THREADS; n++)
        if (here[n])
            last = n, count++;
    struct part parts[THREADS];
    pthread_t threads[THREADS];
    for (int n = 0; n < THREADS; n++)
        parts[n] = (struct part){ p, from, to, count > 1 ? n : -1 };
    for (int n = 0; n < last; n++)
        if (here[n])
            CHECK(!pthread_create(&threads[n], NULL, run_part, &parts[n]));
    run_part(&parts[last]);
    for (int n = 0; n < last; n++)
        if (here[n])
            CHECK(!pthread_join(threads[n], NULL));
}

/* All wait for each other, and tell each other their keys, by part 0. */
static void barrier(struct player *p)
{
    int count = p->parts[0] + p->parts[1];
    if (p->me) {
        tell(p->to[0], &p->mine, sizeof p->mine);
        hear(p->to[0], p->all, sizeof p->all);
        return;
    }
    p->all[0] = p->mine;
    for (int n = 1; n < count; n++)
        hear(p->to[n], &p->all[n], sizeof p->all[n]);
    for (int n = 1; n < count; n++)
        tell(p->to[n], p->all, sizeof p->all);
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
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = SLOTS, .max_sge = 1 } };
    for (int i = 0; i < SRQS; i++)
        CHECK(p->srqs[i] = ibv_create_srq(p->pds[0], &srq));
    memset(p->pool, 0, POOL);
    memset(p->posted, 0, sizeof p->posted);
    CHECK(p->pool_region = ibv_reg_mr(p->pds[0], p->pool, POOL, IBV_ACCESS_LOCAL_WRITE));
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
    for (int i = 0; i < SRQS; i++)
        CHECK(!ibv_destroy_srq(p->srqs[i]));
    CHECK(!ibv_destroy_srq(p->sentinel_srq) && !ibv_dereg_mr(p->pool_region));
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
    p->buffer = new_pages(BYTES);
    p->pool = new_pages(POOL);
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

/* Part 0's end of the connection to each of the others, or another part's end of its own. */
static void meet(struct player *p, const char *path)
{
    if (p->me) {
        p->to[0] = rendezvous(1, path);
        tell(p->to[0], &p->me, sizeof p->me);
        return;
    }
    int door = listener(path);
    for (int n = 1, who; n < p->parts[0] + p->parts[1]; n++) {
        int fd = accept(door, NULL, NULL);
        hear(fd, &who, sizeof who);
        p->to[who] = fd;
    }
}

int main(int count, char **arguments)
{
    if (count != 10)
        die("usage: script PARTS0 PARTS1 all|N CARD0 CARD1 SOCKET SCRIPT LOG LIMIT");
    struct line *lines = NULL;
    size_t lines_count = 0;
    load(arguments[7], &lines, &lines_count);
    static struct player players[PARTS];
    int parts[2] = { atoi(arguments[1]), atoi(arguments[2]) }, most = parts[0] + parts[1];
    int all = !strcmp(arguments[3], "all"), first = all ? 0 : atoi(arguments[3]), end = all ? most : first + 1;
    CHECK(parts[0] > 0 && parts[1] > 0 && most <= PARTS && end <= most);
    for (int n = first; n < end; n++) {
        struct player *p = &players[n];
        char path[512];
        snprintf(path, sizeof path, "%s.%d", arguments[8], n);
        p->me = n;
        memcpy(p->parts, parts, sizeof parts);
        p->side = n >= parts[0];
        p->part = n - p->side * parts[0];
        p->limit = atof(arguments[9]);
        p->lines = lines;
        p->count = lines_count;
        CHECK(p->log = fopen(path, "w"));
        p->context = open_device(arguments[4 + p->side]);
        int ends[2];
        if (!all) {
            meet(p, arguments[6]);
        } else if (n) {
            CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
            players[0].to[n] = ends[0], p->to[0] = ends[1];
        }
    }
    pthread_t threads[PARTS];
    for (int n = first + 1; n < end; n++)
        CHECK(!pthread_create(&threads[n], NULL, play, &players[n]));
    play(&players[first]);
    for (int n = first + 1; n < end; n++)
        CHECK(!pthread_join(threads[n], NULL));
    if (first == 0)
        hold(arguments[8]);
    for (int n = first; n < end; n++)
        CHECK(!ibv_close_device(players[n].context));
    return 0;
}
