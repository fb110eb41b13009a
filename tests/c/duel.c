/* Two processes that write to each other until one of them dies.
 *
 * duel CARD TCP-PORT HOST SECONDS [child]: the server's host is `-`. QP time-out 10 (4.2 ms), 4
 * retries. With `child` it forks one, which lives on. Says `connected`, then works for SECONDS (0: for ever). When a request fails: what its status
 * was, that all others were flushed in order, and when: without what, since the last success, this thread was ready and not run. */
#include "rendezvous.h"
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>

enum { BYTES = 1 << 16, OUTSTANDING = 16, TIMEOUT = 10, RETRIES = 4 };

static int meet(int port, const char *host)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    address.sin_addr.s_addr = htonl(host ? INADDR_LOOPBACK : INADDR_ANY);
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    if (host) {
        CHECK(!connect(fd, (struct sockaddr *)&address, sizeof address));
        return fd;
    }
    CHECK(!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes));
    CHECK(!bind(fd, (struct sockaddr *)&address, sizeof address) && !listen(fd, 1));
    int peer = accept(fd, NULL, NULL);
    CHECK(peer >= 0);
    close(fd);
    return peer;
}

static void exchange(int fd, const void *mine, void *theirs, size_t bytes)
{
    tell(fd, mine, bytes);
    hear(fd, theirs, bytes);
}

/* For how many seconds this thread was ready and not run, in all. */
static double ready(void)
{
    static int fd = -1;
    char text[80] = "";
    unsigned long long ran, waited = 0;
    if (fd < 0)
        fd = open("/proc/thread-self/schedstat", O_RDONLY);
    /* Where the system does not count it, none is left out. */
    if (pread(fd, text, sizeof text - 1, 0) > 0)
        CHECK(sscanf(text, "%llu %llu", &ran, &waited) == 2);
    return waited * 1e-9;
}

/* The other side died: `flushed` requests were flushed already, the rest must be, in order. */
static void aftermath(struct side *side, struct ibv_wc wc, int flushed, uint64_t next, uint64_t last, double good)
{
    double failed = now();
    if (wc.status != IBV_WC_RETRY_EXC_ERR && wc.status != IBV_WC_WR_FLUSH_ERR)
        die("the first failure is: %s", ibv_wc_status_str(wc.status));
    int first = wc.status;
    for (; next < last; next++, flushed++) {
        int found;
        while ((found = ibv_poll_cq(side->cq, 1, &wc)) == 0)
            if (now() > failed + 30)
                die("request %llu is never flushed", (unsigned long long)next);
        CHECK(found == 1);
        if (wc.wr_id != next || wc.status != IBV_WC_WR_FLUSH_ERR)
            die("request %llu: %s of %llu", (unsigned long long)next, ibv_wc_status_str(wc.status), (unsigned long long)wc.wr_id);
    }
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(side->qp, &attr, IBV_QP_STATE, &init));
    CHECK(attr.qp_state == IBV_QPS_ERR);
    say("peer lost: status %d, flushed %d, %.1f ms after the last success", first, flushed, (failed - good) * 1e3);
    /* As a program that keeps running would: give everything back. */
    CHECK(!ibv_destroy_qp(side->qp) && !ibv_dereg_mr(side->mr) && !ibv_destroy_cq(side->cq));
    CHECK(!ibv_destroy_comp_channel(side->channel) && !ibv_dealloc_pd(side->pd) && !ibv_close_device(side->context));
    _exit(3);
}

int main(int count, char **arguments)
{
    if (count < 5)
        die("usage: duel CARD TCP-PORT HOST SECONDS [child]");
    double seconds = atof(arguments[4]);
    int fd = meet(atoi(arguments[2]), strcmp(arguments[3], "-") ? arguments[3] : NULL);
    struct side side = make_side(open_device(arguments[1]), NULL, BYTES);
    struct address peer;
    exchange(fd, &side.address, &peer, sizeof peer);
    connect_side(&side, &peer, TIMEOUT, RETRIES);
    char mine = 'r', theirs;
    exchange(fd, &mine, &theirs, 1);
    if (count > 5 && fork() == 0)
        for (;;)
            pause();
    say("connected");
    static const enum ibv_wr_opcode kinds[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE };
    double start = now(), good = start, waited = ready();
    uint64_t posted = 0, done = 0;
    while (!seconds || now() < start + seconds) {
        for (; posted < done + OUTSTANDING; posted++)
            post(&side, &peer, kinds[posted % 3], posted, 0, posted % 5 ? 64 : BYTES);
        struct ibv_wc wc[4];
        int found = ibv_poll_cq(side.cq, 4, wc);
        CHECK(found >= 0);
        for (int i = 0; i < found; i++, done++) {
            CHECK(wc[i].wr_id == done);
            if (wc[i].status != IBV_WC_SUCCESS) {
                /* Those that came with it are checked as if they came later. */
                for (int j = i + 1; j < found; j++)
                    CHECK(wc[j].wr_id == done + (j - i) && wc[j].status == IBV_WC_WR_FLUSH_ERR);
                aftermath(&side, wc[i], found - i - 1, done + (found - i), posted, good + ready() - waited);
            }
        }
        if (found)
            good = now(), waited = ready();
    }
    for (; done < posted; done++)
        expect(&side, done);
    /* Both have all they wanted before either goes. */
    exchange(fd, &mine, &theirs, 1);
    printf("OK: %llu requests\n", (unsigned long long)done);
    return 0;
}
