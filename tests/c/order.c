/* Queue pairs that share a CQ for sends, and at the other end one for receives and an SRQ. Four threads post to all of them
 * and poll at once, so one thread often takes what came of another one's post. Of each queue pair all completions come in order,
 * none is lost, none comes twice, and what was sent is what arrives.
 *
 * order CARD CARD MESSAGES        of each queue pair */
#define DEPTH 64
#include "rig.h"
#include <pthread.h>
#include <sched.h>

enum { QPS = 6, WINDOW = 16, RECEIVES = QPS * WINDOW, THREADS = 4, SLOT = 64, PATIENCE = 20 };
enum { BYTES = (QPS * WINDOW * 2 + RECEIVES) * SLOT };

/* Messages to a QP, those that are completed, those that have arrived and whose receive is posted again. */
static struct queue {
    struct ibv_qp *qp, *peer;
    pthread_mutex_t posting;
    uint32_t posted, completed, arrived;
    /* How often number n was completed and, if it is a SEND, received. */
    char *sent, *received;
} queues[QPS];

static struct side near, far;
static struct ibv_srq *srq;
static uint32_t messages;
static pthread_barrier_t all;

/* The last number that this thread has seen of each queue pair, and one. */
struct view {
    uint32_t sent[QPS], received[QPS];
};

static int is_send(uint32_t number) { return number % 3 != 0; }

static volatile char *from(int q, uint32_t number) { return near.buffer + ((size_t)q * WINDOW + number % WINDOW) * SLOT; }

/* A READ's result; where a WRITE goes; a receive. */
static volatile char *into(int q, uint32_t number) { return from(QPS + q, number); }
static size_t place(int q, uint32_t number) { return ((size_t)q * WINDOW + number % WINDOW) * SLOT; }
static volatile char *receive_at(uint64_t n) { return far.buffer + (2 * QPS * WINDOW + n) * SLOT; }

static void give(uint64_t n)
{
    post_shared_receive(srq, n, far.mr, receive_at(n), SLOT);
}

static struct ibv_qp *make_qp(struct side *side, struct ibv_srq *of, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr init = {
        .send_cq = side->cq, .recv_cq = side->cq, .srq = of, .qp_type = type,
        .cap = { .max_send_wr = 2 * WINDOW, .max_send_sge = 1, .max_recv_sge = 1, .max_recv_wr = !of },
    };
    struct ibv_qp *qp = ibv_create_qp(side->pd, &init);
    CHECK(qp);
    return qp;
}

static void connect_to(struct ibv_qp *qp, const struct side *peer, uint32_t number)
{
    int rc = qp->qp_type == IBV_QPT_RC;
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | (rc ? IBV_ACCESS_REMOTE_READ : 0) };
    CHECK(!advance(qp, attr));
    connect_qp(qp, number, peer->address.gid, 18, 7);
}

/* Posts the next message, unless another thread does, or too many are on their way. */
static void post_next(int q)
{
    struct queue *queue = &queues[q];
    if (pthread_mutex_trylock(&queue->posting))
        return;
    uint32_t number = queue->posted;
    uint32_t behind = __atomic_load_n(&queue->completed, __ATOMIC_ACQUIRE), arrived = __atomic_load_n(&queue->arrived, __ATOMIC_ACQUIRE);
    if (number < messages && number - behind < WINDOW && number - arrived < WINDOW) {
        volatile uint64_t *words = (volatile uint64_t *)from(q, number);
        words[0] = (uint64_t)q << 32 | number, words[1] = ~words[0];
        int reads = !is_send(number) && number % 2 && queue->qp->qp_type == IBV_QPT_RC;
        struct ibv_sge sge = { .addr = (uintptr_t)(reads ? into(q, number) : from(q, number)), .length = 16, .lkey = near.mr->lkey };
        struct ibv_send_wr wr = {
            .wr_id = (uint64_t)q << 32 | number, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED, .imm_data = number,
            .opcode = is_send(number) ? IBV_WR_SEND_WITH_IMM : reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
        }, *bad;
        aim(&wr, (uintptr_t)far.buffer + place(q, number), far.mr->rkey, 0);
        CHECK(!ibv_post_send(queue->qp, &wr, &bad));
        queue->posted++;
    }
    pthread_mutex_unlock(&queue->posting);
}

/* Once each, and in order as far as one thread sees it: others may have taken what lies between. */
static void seen(const char *what, int q, uint32_t number, uint32_t *last, char *times)
{
    if (number >= messages || number < *last)
        die("queue pair %d: %s of %u after %u", q, what, number, *last - 1);
    *last = number + 1;
    if (__atomic_exchange_n(&times[number], 1, __ATOMIC_ACQ_REL))
        die("queue pair %d: %s of %u again", q, what, number);
}

static int poll_sends(struct view *view)
{
    struct ibv_wc wc[4];
    int found = ibv_poll_cq(near.cq, 4, wc);
    CHECK(found >= 0);
    for (int i = 0; i < found; i++) {
        int q = wc[i].wr_id >> 32;
        if (wc[i].status != IBV_WC_SUCCESS)
            die("queue pair %d: %s", q, ibv_wc_status_str(wc[i].status));
        CHECK(queues[q].qp->qp_num == wc[i].qp_num);
        seen("completion", q, wc[i].wr_id, &view->sent[q], queues[q].sent);
        if (!is_send(wc[i].wr_id))
            __atomic_fetch_add(&queues[q].arrived, 1, __ATOMIC_RELEASE);
        __atomic_fetch_add(&queues[q].completed, 1, __ATOMIC_RELEASE);
    }
    return found;
}

static int poll_receives(struct view *view)
{
    struct ibv_wc wc[4];
    int found = ibv_poll_cq(far.cq, 4, wc);
    CHECK(found >= 0);
    for (int i = 0; i < found; i++) {
        int q = 0;
        if (wc[i].status != IBV_WC_SUCCESS)
            die("a receive: %s", ibv_wc_status_str(wc[i].status));
        while (q < QPS && queues[q].peer->qp_num != wc[i].qp_num)
            q++;
        volatile uint64_t *words = (volatile uint64_t *)receive_at(wc[i].wr_id);
        if (q == QPS || !is_send(wc[i].imm_data) || words[0] != ((uint64_t)q << 32 | wc[i].imm_data) || words[1] != ~words[0])
            die("queue pair %d: message %u is %lx, %lx", q, wc[i].imm_data, (long)words[0], (long)words[1]);
        seen("message", q, wc[i].imm_data, &view->received[q], queues[q].received);
        give(wc[i].wr_id);
        __atomic_fetch_add(&queues[q].arrived, 1, __ATOMIC_RELEASE);
    }
    return found;
}

static int over(void)
{
    for (int q = 0; q < QPS; q++)
        if (__atomic_load_n(&queues[q].completed, __ATOMIC_ACQUIRE) < messages || __atomic_load_n(&queues[q].arrived, __ATOMIC_ACQUIRE) < messages)
            return 0;
    return 1;
}

static void *work(void *argument)
{
    unsigned seed = (uintptr_t)argument;
    struct view view = { 0 };
    uint32_t before[QPS] = { 0 };
    double since[QPS];
    for (int q = 0; q < QPS; q++)
        since[q] = now();
    pthread_barrier_wait(&all);
    for (unsigned round = 0; !over(); round++) {
        /* Each could do all of it alone: on a busy machine others may not run. */
        unsigned what = rand_r(&seed) >> 8;
        for (int q = 0; what % 4 && q < QPS; q++)
            post_next(q);
        if (what % 3 && !poll_sends(&view) & !poll_receives(&view))
            sched_yield();
        /* No queue pair starves while others are served. */
        for (int q = 0; round % 1024 == 0 && q < QPS; q++) {
            uint32_t completed = __atomic_load_n(&queues[q].completed, __ATOMIC_ACQUIRE);
            if (completed != before[q] || completed == messages)
                before[q] = completed, since[q] = now();
            else if (now() > since[q] + PATIENCE)
                die("queue pair %d: %u of %u posted messages are completed, %u have arrived, for %d s", q, completed, queues[q].posted, queues[q].arrived, PATIENCE);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    messages = atoi(argv[3]);
    near = make_side(open_device(argv[1]), NULL, BYTES);
    far = make_side(open_device(argv[2]), NULL, BYTES);
    CHECK(!ibv_resize_cq(near.cq, 2 * QPS * WINDOW) && !ibv_resize_cq(far.cq, 2 * QPS * WINDOW));
    struct ibv_srq_init_attr init = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
    CHECK(srq = ibv_create_srq(far.pd, &init));
    for (int q = 0; q < QPS; q++) {
        enum ibv_qp_type type = q % 3 == 2 ? IBV_QPT_UC : IBV_QPT_RC;
        struct queue *queue = &queues[q];
        *queue = (struct queue){ .qp = make_qp(&near, NULL, type), .peer = make_qp(&far, srq, type) };
        CHECK((queue->sent = calloc(messages, 1)) && (queue->received = calloc(messages, 1)));
        pthread_mutex_init(&queue->posting, NULL);
        connect_to(queue->qp, &far, queue->peer->qp_num), connect_to(queue->peer, &near, queue->qp->qp_num);
    }
    for (int n = 0; n < RECEIVES; n++)
        give(n);
    pthread_t threads[THREADS];
    pthread_barrier_init(&all, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_join(threads[i], NULL));
    struct ibv_wc wc;
    CHECK(!ibv_poll_cq(near.cq, 1, &wc) && !ibv_poll_cq(far.cq, 1, &wc));
    for (int q = 0; q < QPS; q++)
        for (uint32_t n = 0; n < messages; n++)
            if (!queues[q].sent[n] || queues[q].received[n] != is_send(n))
                die("queue pair %d: message %u: completed %d, received %d", q, n, queues[q].sent[n], queues[q].received[n]);
    printf("in order: %u messages of each of %d queue pairs\n", messages, QPS);
    return 0;
}
