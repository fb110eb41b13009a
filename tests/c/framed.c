/* One side receives frames of many senders, of whom any may be killed: `hub DEVICE FILE` or `client DEVICE FILE`.
 * Each frame has its sender, a number and bytes that follow from that: none is lost, comes twice or to a wrong place.
 * A client that is asked to end says so in its last frame, and the hub ends. The file, which the hub makes, says what has come:
 * no more is under way than the hub has receives for, however long it is off its core. */
#include "rig.h"

#include <fcntl.h>
#include <signal.h>

/* The hub is faster than its clients, which hold each other up otherwise: it posts many receives at once, and looks at all
 * bytes of some frames only. */
enum { FRAMES = 256, ROOM = 512, SENDERS = 4096, AT_ONCE = 64, UNDER_WAY = 8 };

struct frame {
    uint8_t dmac[6], smac[6], type[2];
    uint8_t last, unused;
    uint32_t sender;
    uint64_t number;
    uint8_t bytes[];
};

/* A sender that the hub has met, and the number of its next frame. */
struct known {
    uint32_t sender;
    uint64_t next;
};

/* The port of the hub: that of card 0. */
static const uint8_t HUB[6] = { 2, 0x56, 0x42, 0, 0, 0 };
static volatile sig_atomic_t ends;

static void end(int signal)
{
    (void)signal;
    ends = 1;
}

static uint32_t length_of(uint64_t number)
{
    return sizeof(struct frame) + 40 + number * 7 % 400;
}

static uint8_t byte_of(uint32_t sender, uint64_t number)
{
    return 1 + (sender + number) % 255;
}

static struct frame *place(const struct side *side, uint64_t n)
{
    return (struct frame *)(side->buffer + n % FRAMES * ROOM);
}

/* Receives from one on. */
static void receive(const struct side *side, uint64_t from, unsigned count)
{
    struct ibv_sge sges[FRAMES];
    struct ibv_recv_wr wrs[FRAMES], *bad;
    for (unsigned i = 0; i < count; i++) {
        memset(place(side, from + i), 0, sizeof(struct frame) + 1);
        sges[i] = (struct ibv_sge){ (uintptr_t)place(side, from + i), ROOM, side->mr->lkey };
        wrs[i] = (struct ibv_recv_wr){ .wr_id = from + i, .sg_list = &sges[i], .num_sge = 1,
            .next = i + 1 < count ? &wrs[i + 1] : NULL };
    }
    CHECK(!ibv_post_recv(side->qp, wrs, &bad));
}

/* All that the hub has met, in the file. */
static struct known *shared(const char *path, int flags)
{
    size_t bytes = SENDERS * sizeof(struct known);
    int file = open(path, O_RDWR | flags, 0600);
    CHECK(file >= 0 && !ftruncate(file, bytes));
    struct known *known = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(known != MAP_FAILED);
    close(file);
    return known;
}

static void hub(const struct side *side, struct known *known)
{
    CHECK(rule_for(side->qp, HUB));
    receive(side, 0, FRAMES);
    say("at work");
    for (uint64_t n = 0;; n++) {
        struct ibv_wc wc;
        int count;
        while (!(count = ibv_poll_cq(side->cq, 1, &wc)))
            ;
        if (count < 0 || wc.status != IBV_WC_SUCCESS)
            die("receive %lu: %s", (unsigned long)n, count < 0 ? "no poll" : ibv_wc_status_str(wc.status));
        if (wc.wr_id != n)
            die("receive %lu completes instead of %lu", (unsigned long)wc.wr_id, (unsigned long)n);
        const struct frame *frame = place(side, n);
        unsigned at = 0;
        while (at < SENDERS && known[at].sender && known[at].sender != frame->sender)
            at++;
        CHECK(at < SENDERS);
        __atomic_store_n(&known[at].sender, frame->sender, __ATOMIC_RELAXED);
        if (frame->number != known[at].next)
            die("frame %lu of %u instead of %lu", (unsigned long)frame->number, frame->sender,
                (unsigned long)known[at].next);
        __atomic_store_n(&known[at].next, frame->number + 1, __ATOMIC_RELEASE);
        if (wc.byte_len != length_of(frame->number))
            die("frame %lu has %u bytes", (unsigned long)frame->number, wc.byte_len);
        unsigned looked_at = n % 16 ? 1 : wc.byte_len - sizeof *frame;
        for (unsigned i = 0; i < looked_at; i++) {
            if (frame->bytes[i] != byte_of(frame->sender, frame->number))
                die("byte %u of frame %lu of %u is wrong", i, (unsigned long)frame->number, frame->sender);
        }
        if (frame->last) {
            printf("%lu frames\n", (unsigned long)n);
            return;
        }
        if (n % AT_ONCE == AT_ONCE - 1)
            receive(side, n + 1 + FRAMES - AT_ONCE, AT_ONCE);
    }
}

static void send_frame(const struct side *side, uint64_t n, int last)
{
    struct frame *frame = place(side, n);
    uint32_t sender = getpid(), length = length_of(n);
    memcpy(frame->dmac, HUB, sizeof HUB);
    memcpy(frame->smac, "\2\1\1\1\1\1", 6);
    memcpy(frame->type, "\x88\xb5", 2);
    frame->last = last;
    frame->sender = sender;
    frame->number = n;
    memset(frame->bytes, byte_of(sender, n), length - sizeof *frame);
    post_message(side->qp, n, side->mr, frame, length);
}

/* How many frames of this sender have come; `at` is where to look for it, from 0 on. */
static uint64_t came(struct known *known, unsigned *at)
{
    for (uint32_t sender; (sender = __atomic_load_n(&known[*at].sender, __ATOMIC_RELAXED)) != (uint32_t)getpid(); ++*at)
        if (!sender)
            return 0;
    return __atomic_load_n(&known[*at].next, __ATOMIC_ACQUIRE);
}

static void client(const struct side *side, struct known *known)
{
    signal(SIGTERM, end);
    unsigned at = 0;
    for (uint64_t posted = 0, done = 0;;) {
        struct ibv_wc wc;
        while (posted < done + UNDER_WAY && posted < came(known, &at) + UNDER_WAY && !ends)
            send_frame(side, posted, 0), posted++;
        int count = ibv_poll_cq(side->cq, 1, &wc);
        if (count < 0 || (count && wc.status != IBV_WC_SUCCESS))
            die("send %lu: %s", (unsigned long)done, count < 0 ? "no poll" : ibv_wc_status_str(wc.status));
        done += count;
        if (count && done == 1) {
            say("at work");
        }
        if (ends && done == posted) {
            send_frame(side, posted, 1);
            while (!ibv_poll_cq(side->cq, 1, &wc))
                ;
            CHECK(wc.status == IBV_WC_SUCCESS);
            printf("%lu frames\n", (unsigned long)done);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    struct side side = make_side(open_device(argv[2]), NULL, FRAMES * ROOM);
    CHECK(!ibv_destroy_qp(side.qp) && !ibv_resize_cq(side.cq, 2 * FRAMES));
    side.qp = plain_raw(side.pd, side.cq, FRAMES);
    if (strcmp(argv[1], "hub"))
        client(&side, shared(argv[3], 0));
    else
        hub(&side, shared(argv[3], O_CREAT));
    return 0;
}
