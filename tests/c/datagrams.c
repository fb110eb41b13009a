/* A hub with one UD queue pair for all its clients, some of which are stopped or die; the others lose no datagram.
 *
 * datagrams hub DEVICE SOCKET | datagrams client DEVICE SOCKET        until SIGTERM
 *
 * A client sends numbered datagrams, which the hub sends back; both check every byte, and the client that each comes back, in
 * order. A client that gets SIGUSR1 says `look N` after a thousand more. The hub ends when its first client does. */
#define _GNU_SOURCE
#include "datagram.h"
#include "rendezvous.h"
#include <poll.h>
#include <signal.h>

enum { CLIENTS = 4, ROOM = 4096, LONGEST = 2000, WINDOW = 8, PLACES = 2 * WINDOW, BACK = PLACES, LOOK = 1000 };

static volatile sig_atomic_t stopped, asked;

static void stop(int signal) { stopped = signal; }

static void ask(int signal)
{
    (void)signal;
    asked++;
}

static struct side own;

static volatile char *place(int n) { return own.buffer + (size_t)n * ROOM; }

static uint32_t length_of(uint32_t number) { return 8 + number * 977 % LONGEST; }

static void fill(volatile char *at, uint32_t qpn, uint32_t number)
{
    for (uint32_t i = 0, n = length_of(number); i < n; i++)
        at[i] = (char)(number * 31 + qpn * 57 + i * 7 + (i >> 8));
}

static void verify(const struct ibv_wc *wc, uint32_t qpn)
{
    const volatile char *at = place((uint32_t)wc->wr_id) + GRH;
    uint32_t length = length_of(wc->imm_data);
    if (wc->byte_len != GRH + length)
        die("datagram %u of %x has %u bytes", wc->imm_data, qpn, wc->byte_len);
    for (uint32_t i = 0; i < length; i++)
        if (at[i] != (char)(wc->imm_data * 31 + qpn * 57 + i * 7 + (i >> 8)))
            die("datagram %u of %x: byte %u is wrong", wc->imm_data, qpn, i);
}

static void give(int n)
{
    post_receive(own.qp, n, own.mr, place(n), ROOM);
}

/* What was sent completes with bit 32. */
static void send_to(struct ibv_ah *ah, uint32_t qpn, int n, int header, uint32_t number)
{
    struct ibv_sge sge = { .addr = (uintptr_t)place(n) + header, .length = length_of(number), .lkey = own.mr->lkey };
    struct ibv_send_wr wr = {
        .wr_id = 1ull << 32 | n, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = number,
        .send_flags = IBV_SEND_SIGNALED, .wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = QKEY },
    }, *bad;
    CHECK(!ibv_post_send(own.qp, &wr, &bad));
}

static int next(struct ibv_wc *wc)
{
    int found = ibv_poll_cq(own.cq, 1, wc);
    CHECK(found >= 0);
    if (found && wc->status != IBV_WC_SUCCESS)
        die("%s", ibv_wc_status_str(wc->status));
    return found;
}

static struct {
    int fd;
    uint32_t qpn;
    struct ibv_ah *ah;
} clients[CLIENTS];

static int client_of(uint32_t qpn)
{
    int c = 0;
    while (c < CLIENTS && !(clients[c].ah && clients[c].qpn == qpn))
        c++;
    return c;
}

static void completions(void)
{
    struct ibv_wc wc;
    while (next(&wc)) {
        int n = (uint32_t)wc.wr_id, c = client_of(wc.src_qp);
        if (wc.wr_id >> 32 || c == CLIENTS) {
            /* Sent back, or of one that is gone. */
            give(n);
            continue;
        }
        verify(&wc, wc.src_qp);
        send_to(clients[c].ah, wc.src_qp, n, GRH, wc.imm_data);
    }
}

static void arrives(int door)
{
    struct address theirs;
    int c = 0, fd = accept(door, NULL, NULL);
    CHECK(fd >= 0);
    while (c < CLIENTS && clients[c].ah)
        c++;
    CHECK(c < CLIENTS);
    /* It may be killed at any moment. */
    int here = write(fd, &own.address, sizeof own.address) == sizeof own.address &&
               recv(fd, &theirs, sizeof theirs, MSG_WAITALL) == sizeof theirs;
    if (!here) {
        close(fd);
        return;
    }
    clients[c].fd = fd, clients[c].qpn = theirs.qpn, clients[c].ah = way_to(&own, &theirs);
    CHECK(write(fd, "r", 1) == 1 || c);
}

static void hub(const char *path)
{
    for (int n = 0; n < DEPTH; n++)
        give(n);
    int door = listener(path);
    say("at work");
    while (!stopped) {
        struct pollfd polls[1 + CLIENTS] = { { .fd = door, .events = POLLIN } };
        for (int c = 0; c < CLIENTS; c++)
            polls[1 + c] = (struct pollfd){ .fd = clients[c].ah ? clients[c].fd : -1, .events = POLLIN };
        for (int i = 0; i < 64; i++)
            completions();
        if (poll(polls, 1 + CLIENTS, 0) <= 0)
            continue;
        for (int c = 0; c < CLIENTS; c++)
            if (polls[1 + c].revents) {
                if (c == 0)
                    return;
                CHECK(!ibv_destroy_ah(clients[c].ah));
                close(clients[c].fd);
                clients[c].ah = NULL;
            }
        if (polls[0].revents)
            arrives(door);
    }
}

static void client(const char *path)
{
    int fd = rendezvous(1, path);
    struct address theirs;
    char ready;
    hear(fd, &theirs, sizeof theirs);
    struct ibv_ah *ah = way_to(&own, &theirs);
    for (int n = 0; n < PLACES; n++)
        give(BACK + n);
    tell(fd, &own.address, sizeof own.address);
    hear(fd, &ready, 1);
    say("at work");
    uint32_t posted = 0, sent = 0, back = 0, until = 0;
    int looks = 0, looking = 0;
    double late = now() + 30;
    while (!stopped || sent < posted || back < posted) {
        for (; !stopped && posted < back + WINDOW && posted < sent + WINDOW; posted++) {
            fill(place(posted % PLACES), own.qp->qp_num, posted);
            send_to(ah, theirs.qpn, posted % PLACES, 0, posted);
        }
        if (!looking && looks < asked)
            looking = 1, until = back + LOOK;
        if (looking && back >= until) {
            looking = 0;
            say("look %d", ++looks);
        }
        struct ibv_wc wc;
        if (!next(&wc)) {
            if (now() > late)
                die("datagram %u does not come back", back);
            continue;
        }
        late = now() + 30;
        if (wc.wr_id >> 32) {
            sent++;
            continue;
        }
        if (wc.imm_data != back)
            die("datagram %u comes back instead of %u", wc.imm_data, back);
        verify(&wc, own.qp->qp_num);
        give(wc.wr_id);
        back++;
    }
    printf("%u datagrams and back\n", back);
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    signal(SIGTERM, stop);
    signal(SIGUSR1, ask);
    signal(SIGPIPE, SIG_IGN);
    own = make_side(open_device(argv[2]), NULL, DEPTH * ROOM);
    use_datagrams(&own);
    !strcmp(argv[1], "hub") ? hub(argv[3]) : client(argv[3]);
    return 0;
}
