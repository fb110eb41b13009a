/* A completed buffer is the program's again.
 *
 * stream both|0|1 CARD0 CARD1 SOCKET rc|uc|ud MESSAGES: side 0 sends chains of messages, one thread posts, and another one
 * polls and writes over each buffer as soon as it is completed. Side 1 looks whether what came is what was sent: every
 * word of a message is its number, which is its immediate data too. All come, in order. */
#include "rendezvous.h"
#include <pthread.h>
#include <sched.h>

enum { SLOTS = 64, CHAIN = 32, BYTES = 1000, ROOM = 1040, RECEIVES = 256, HEADER = 40 };

struct end {
    int side, peer;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct ibv_ah *ah;
    struct address mine, theirs;
    char *buffer;
    /* Of side 0: messages posted and completed. */
    uint64_t posted, completed;
};

static enum ibv_qp_type type;
static uint64_t messages;

static void meet(struct end *e)
{
    tell(e->peer, &e->mine, sizeof e->mine);
    hear(e->peer, &e->theirs, sizeof e->theirs);
}

static void fill(struct end *e, uint64_t number)
{
    uint32_t *words = (uint32_t *)(e->buffer + number % SLOTS * ROOM);
    for (int i = 0; i < BYTES / 4; i++)
        ((volatile uint32_t *)words)[i] = number;
}

/* Every eleventh is short and inline. */
static uint32_t length_of(uint64_t number)
{
    return number % 11 ? BYTES : 40;
}

static void receive(struct end *e, uint64_t slot)
{
    post_receive(e->qp, slot, e->mr, e->buffer + slot * ROOM, ROOM);
}

static void set_up(struct end *e)
{
    size_t bytes = RECEIVES * ROOM;
    CHECK(e->pd = ibv_alloc_pd(e->context));
    CHECK(e->cq = ibv_create_cq(e->context, 2 * RECEIVES, NULL, NULL, 0));
    e->buffer = new_pages(bytes);
    CHECK(e->mr = ibv_reg_mr(e->pd, e->buffer, bytes, IBV_ACCESS_LOCAL_WRITE));
    struct ibv_qp_init_attr init = {
        .qp_type = type, .send_cq = e->cq, .recv_cq = e->cq, .sq_sig_all = 1,
        .cap = { .max_send_wr = 2 * SLOTS, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64 },
    };
    CHECK(e->qp = ibv_create_qp(e->pd, &init));
    e->mine.qpn = e->qp->qp_num;
    CHECK(!ibv_query_gid(e->context, PORT, GID_INDEX, &e->mine.gid));
    CHECK(!advance(e->qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = 0x11111111 }));
    if (e->side == 1)
        for (int i = 0; i < RECEIVES; i++)
            receive(e, i);
    meet(e);
    connect_qp(e->qp, e->theirs.qpn, e->theirs.gid, 14, 7);
    struct ibv_ah_attr way = path_to(e->theirs.gid);
    CHECK(e->ah = ibv_create_ah(e->pd, &way));
    meet(e);
}

static void *post_all(void *argument)
{
    struct end *e = argument;
    while (e->posted < messages) {
        struct ibv_send_wr wrs[CHAIN], *bad;
        struct ibv_sge sges[CHAIN];
        while (e->posted + CHAIN > __atomic_load_n(&e->completed, __ATOMIC_ACQUIRE) + SLOTS)
            sched_yield();
        /* The other side has receives for RECEIVES messages, and says when it has posted those of a chain again. */
        char again;
        if (e->posted >= RECEIVES)
            hear(e->peer, &again, 1);
        for (int n = 0; n < CHAIN; n++) {
            uint64_t number = e->posted + n;
            sges[n] = (struct ibv_sge){ .addr = (uintptr_t)e->buffer + number % SLOTS * ROOM, .length = length_of(number), .lkey = e->mr->lkey };
            wrs[n] = (struct ibv_send_wr){
                .wr_id = number, .sg_list = &sges[n], .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = number,
                .send_flags = length_of(number) < BYTES ? IBV_SEND_INLINE : 0,
            };
            aim_datagram(&wrs[n], e->ah, e->theirs.qpn, 0x11111111);
            if (n)
                wrs[n - 1].next = &wrs[n];
        }
        CHECK(!ibv_post_send(e->qp, wrs, &bad));
        e->posted += CHAIN;
    }
    char last[RECEIVES / CHAIN];
    hear(e->peer, last, sizeof last);
    return NULL;
}

/* Takes completions in order, and the buffers back. */
static void send_all(struct end *e)
{
    pthread_t poster;
    double until = now() + 60;
    for (uint64_t i = 0; i < SLOTS; i++)
        fill(e, i);
    CHECK(!pthread_create(&poster, NULL, post_all, e));
    for (uint64_t next = 0; next < messages;) {
        struct ibv_wc wc[8];
        int found = ibv_poll_cq(e->cq, 8, wc);
        CHECK(found >= 0);
        for (int i = 0; i < found; i++, next++) {
            if (wc[i].status != IBV_WC_SUCCESS || wc[i].wr_id != next)
                die("completion %lu: %s of %lu", (unsigned long)next, ibv_wc_status_str(wc[i].status), (unsigned long)wc[i].wr_id);
            fill(e, next + SLOTS);
            __atomic_store_n(&e->completed, next + 1, __ATOMIC_RELEASE);
        }
        if (!found && now() > until)
            die("completion %lu does not come", (unsigned long)next);
    }
    CHECK(!pthread_join(poster, NULL));
}

static void receive_all(struct end *e)
{
    uint64_t came = 0, wrong = 0;
    double until = now() + 60;
    int header = type == IBV_QPT_UD ? HEADER : 0;
    while (came < messages) {
        struct ibv_wc wc[8];
        int found = ibv_poll_cq(e->cq, 8, wc);
        CHECK(found >= 0);
        for (int i = 0; i < found; i++) {
            uint32_t number = wc[i].imm_data;
            if (wc[i].status != IBV_WC_SUCCESS || number != came)
                die("message %u instead of %lu: %s", number, (unsigned long)came, ibv_wc_status_str(wc[i].status));
            CHECK(wc[i].byte_len == length_of(number) + header);
            const volatile uint32_t *words = (const volatile uint32_t *)(e->buffer + wc[i].wr_id * ROOM + header);
            for (uint32_t w = 0; w < length_of(number) / 4; w++) {
                if (words[w] != number && !wrong++)
                    printf("message %u has %u in word %u\n", number, words[w], w);
            }
            receive(e, wc[i].wr_id);
            if (++came % CHAIN == 0)
                tell(e->peer, "n", 1);
        }
        if (!found && now() > until)
            die("message %lu does not come", (unsigned long)came);
    }
    if (wrong)
        die("%lu words are wrong", (unsigned long)wrong);
    printf("OK: %lu messages came\n", (unsigned long)came);
}

static void *play(void *argument)
{
    struct end *e = argument;
    set_up(e);
    if (e->side == 0)
        send_all(e);
    else
        receive_all(e);
    meet(e);
    return NULL;
}

int main(int count, char **arguments)
{
    if (count != 7)
        die("usage: stream both|0|1 CARD0 CARD1 SOCKET rc|uc|ud MESSAGES");
    type = !strcmp(arguments[5], "rc") ? IBV_QPT_RC : !strcmp(arguments[5], "uc") ? IBV_QPT_UC : IBV_QPT_UD;
    messages = strtoul(arguments[6], NULL, 10) / CHAIN * CHAIN;
    if (messages <= RECEIVES)
        die("more messages, please");
    int both = !strcmp(arguments[1], "both"), only = atoi(arguments[1]), ends[2];
    static struct end sides[2];
    if (both)
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    else
        ends[only] = rendezvous(only, arguments[4]);
    for (int side = 0; side < 2; side++) {
        sides[side].side = side;
        sides[side].peer = ends[side];
        if (both || side == only)
            sides[side].context = open_device(arguments[2 + side]);
    }
    pthread_t thread;
    if (both)
        CHECK(!pthread_create(&thread, NULL, play, &sides[1]));
    play(&sides[both ? 0 : only]);
    if (both)
        CHECK(!pthread_join(thread, NULL));
    return 0;
}
