/* What a program has not destroyed ends when it closes the device, although the process lives on: it can do so more often than
 * the card has functions and queue pairs, nobody reaches the memory any more, and calls with what it still has pointers to are
 * refused. */
#include "rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>

/* More than the card has functions; QPS in each are more than its queue pairs. */
enum { ROUNDS = 300, QPS = 60, BYTES = 8192, QKEY = 0x1234 };

/* What the program still has pointers to. */
struct left {
    struct side side;
    struct ibv_qp *many[QPS], *raw, *ud;
    struct ibv_qp_ex *extended;
    struct ibv_cq_ex *cq;
    struct ibv_srq *srq;
    struct ibv_mw *type1, *type2;
    struct ibv_ah *ah;
    struct ibv_dm *dm;
    struct ibv_mr *of_dm, *on_demand;
    struct ibv_pd *parent;
    struct ibv_td *td;
    struct ibv_wq *wq;
    struct ibv_rwq_ind_table *table;
    struct ibv_flow *flow;
    struct ibv_counters *counters;
    struct ibv_xrcd *xrcd;
};

static char *memory;
static const uint8_t mac[6] = { 0x02, 0x09, 0x09, 0x09, 0x09, 0x09 };

/* Entries of a directory. */
static int entries(const char *path)
{
    DIR *directory = opendir(path);
    CHECK(directory);
    int count = 0;
    while (readdir(directory))
        count++;
    CHECK(!closedir(directory));
    return count;
}

/* Where the program's memory is, as the kernel says it. */
static void mapping(char line[256])
{
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    unsigned long start, end;
    do
        CHECK(fgets(line, 256, maps));
    while (sscanf(line, "%lx-%lx", &start, &end) != 2 || (uintptr_t)memory < start || (uintptr_t)memory >= end);
    CHECK(!fclose(maps));
    /* The size may be another: mappings join. */
    memmove(line, strchr(line, ' '), strlen(strchr(line, ' ')) + 1);
}

/* RC queue pairs of a device, with memory that is the program's. */
static struct side make(const char *device)
{
    struct side side = { .context = open_device(device), .bytes = BYTES, .buffer = memory };
    CHECK(side.pd = ibv_alloc_pd(side.context));
    CHECK(side.channel = ibv_create_comp_channel(side.context));
    CHECK(side.cq = ibv_create_cq(side.context, 4 * DEPTH, NULL, side.channel, 0));
    CHECK(side.mr = ibv_reg_mr(side.pd, memory, BYTES, ACCESS | IBV_ACCESS_MW_BIND));
    take_qp(&side, new_qp(side.pd, IBV_QPT_RC, side.cq, side.cq, DEPTH));
    side.address.rkey = side.mr->rkey;
    side.address.addr = (uintptr_t)memory;
    CHECK(!ibv_query_gid(side.context, PORT, GID_INDEX, &side.address.gid));
    return side;
}

/* Windows that are there before their region, and after it; both hold it. */
static void bind_both(struct left *left)
{
    struct side *side = &left->side;
    struct ibv_mw_bind_info part = { .mr = side->mr, .addr = (uintptr_t)memory, .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
    struct ibv_mw_bind first = { .wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .bind_info = part };
    CHECK(!ibv_bind_mw(side->qp, left->type1, &first));
    expect(side, 1);
    struct ibv_send_wr *bad, second = {
        .wr_id = 2, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
        .bind_mw = { .mw = left->type2, .rkey = ibv_inc_rkey(left->type2->rkey), .bind_info = part },
    };
    CHECK(!ibv_post_send(side->qp, &second, &bad));
    expect(side, 2);
    CHECK(ibv_dereg_mr(side->mr) == EBUSY);
}

static void frames(struct left *left)
{
    struct side *side = &left->side;
    left->raw = plain_raw(side->pd, side->cq, 4);
    struct ibv_counters_init_attr none = { 0 };
    CHECK(left->counters = ibv_create_counters(side->context, &none));
    struct {
        struct ibv_flow_attr attr;
        struct ibv_flow_spec_eth eth;
        struct ibv_flow_spec_counter_action count;
    } __attribute__((packed, aligned(8))) rule = {
        .attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof rule, .num_of_specs = 2, .port = PORT },
        .eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof rule.eth },
        .count = { .type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof rule.count, .counters = left->counters },
    };
    memcpy(rule.eth.val.dst_mac, mac, 6);
    memset(rule.eth.mask.dst_mac, 0xff, 6);
    CHECK(left->flow = ibv_create_flow(left->raw, (void *)&rule));
    struct ibv_wq_init_attr queue = { .wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = side->pd, .cq = side->cq };
    CHECK(left->wq = ibv_create_wq(side->context, &queue));
    struct ibv_rwq_ind_table_init_attr one = { .log_ind_tbl_size = 0, .ind_tbl = &left->wq };
    CHECK(left->table = ibv_create_rwq_ind_table(side->context, &one));
    static uint8_t key[40];
    struct ibv_qp_init_attr_ex hash = {
        .qp_type = IBV_QPT_RAW_PACKET,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
        .pd = side->pd,
        .rwq_ind_tbl = left->table,
        .rx_hash_conf = { .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ, .rx_hash_key_len = 40, .rx_hash_key = key },
    };
    struct ibv_qp *spread = ibv_create_qp_ex(side->context, &hash);
    CHECK(spread && rule_for(spread, mac));
}

static void extended_connections(struct left *left)
{
    struct side *side = &left->side;
    struct ibv_xrcd_init_attr own = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT };
    CHECK(left->xrcd = ibv_open_xrcd(side->context, &own));
    struct ibv_srq_init_attr_ex queue = {
        .attr = { .max_wr = 8, .max_sge = 1 },
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
        .srq_type = IBV_SRQT_XRC, .pd = side->pd, .xrcd = left->xrcd, .cq = side->cq,
    };
    CHECK(ibv_create_srq_ex(side->context, &queue));
    struct ibv_qp_init_attr_ex receives = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = left->xrcd };
    CHECK(ibv_create_qp_ex(side->context, &receives));
}

/* One of everything, and many queue pairs. */
static struct left everything(const char *device)
{
    struct left left = { 0 };
    struct ibv_context *context = (left.side = make(device)).context;
    struct side *side = &left.side;
    CHECK(left.type1 = ibv_alloc_mw(side->pd, IBV_MW_TYPE_1));
    CHECK(left.type2 = ibv_alloc_mw(side->pd, IBV_MW_TYPE_2));
    struct ibv_srq_init_attr shared = { .attr = { .max_wr = 8, .max_sge = 1 } };
    CHECK(left.srq = ibv_create_srq(side->pd, &shared));
    post_shared_receive(left.srq, 1, side->mr, memory, 64);
    struct ibv_cq_init_attr_ex wanted = { .cqe = 16 };
    CHECK(left.cq = ibv_create_cq_ex(context, &wanted));
    struct ibv_qp_init_attr_ex calls = {
        .send_cq = ibv_cq_ex_to_cq(left.cq), .recv_cq = ibv_cq_ex_to_cq(left.cq), .qp_type = IBV_QPT_RC, .srq = left.srq,
        .cap = { .max_send_wr = 4, .max_send_sge = 1 }, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = side->pd, .send_ops_flags = IBV_QP_EX_WITH_SEND,
    };
    struct ibv_qp *qp = ibv_create_qp_ex(context, &calls);
    CHECK(qp && (left.extended = ibv_qp_to_qp_ex(qp)));
    left.ud = new_qp(side->pd, IBV_QPT_UD, side->cq, side->cq, 4);
    make_ready(left.ud, QKEY);
    union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 7 } };
    CHECK(!ibv_attach_mcast(left.ud, &group, 0));
    struct ibv_ah_attr path = path_to(side->address.gid);
    CHECK(left.ah = ibv_create_ah(side->pd, &path));
    struct ibv_device_attr_ex card;
    CHECK(!ibv_query_device_ex(context, NULL, &card));
    /* Each round takes all of it. */
    struct ibv_alloc_dm_attr all = { .length = card.max_dm_size };
    CHECK(left.dm = ibv_alloc_dm(context, &all));
    CHECK(left.of_dm = ibv_reg_dm_mr(side->pd, left.dm, 0, 64, ACCESS | IBV_ACCESS_ZERO_BASED));
    CHECK(left.on_demand = ibv_reg_mr(side->pd, memory, BYTES, ACCESS | IBV_ACCESS_ON_DEMAND));
    CHECK(ibv_alloc_null_mr(side->pd));
    struct ibv_td_init_attr none = { 0 };
    CHECK(left.td = ibv_alloc_td(context, &none));
    struct ibv_parent_domain_init_attr domain = { .pd = side->pd, .td = left.td };
    CHECK(left.parent = ibv_alloc_parent_domain(context, &domain));
    for (int i = 0; i < QPS; i++)
        left.many[i] = new_qp(left.parent, IBV_QPT_RC, side->cq, side->cq, 1);
    frames(&left);
    extended_connections(&left);
    return left;
}

/* A chain of another thread, which never ends. */
static void *begin(void *qp)
{
    ibv_wr_start(qp);
    return NULL;
}

/* Each call with what is left fails, or does nothing. */
static void use(struct left *left)
{
    struct side *side = &left->side;
    struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad;
    struct ibv_recv_wr receive = { .wr_id = 1 }, *bad_receive;
    struct ibv_wc wc;
    CHECK(ibv_post_send(side->qp, &send, &bad) && ibv_post_send(left->raw, &send, &bad));
    CHECK(ibv_post_recv(side->qp, &receive, &bad_receive) && ibv_post_srq_recv(left->srq, &receive, &bad_receive));
    CHECK(ibv_post_wq_recv(left->wq, &receive, &bad_receive));
    CHECK(ibv_poll_cq(side->cq, 1, &wc) <= 0 && ibv_req_notify_cq(side->cq, 0));
    ibv_wr_start(left->extended);
    ibv_wr_send(left->extended);
    CHECK(ibv_wr_complete(left->extended));
    struct ibv_poll_cq_attr poll = { 0 };
    CHECK(ibv_start_poll(left->cq, &poll) && ibv_next_poll(left->cq));
    char word[4];
    CHECK(ibv_memcpy_from_dm(word, left->dm, 0, 4));
    CHECK(!ibv_alloc_pd(side->context) && !ibv_create_ah(side->pd, &(struct ibv_ah_attr){ 0 }));
    CHECK(!ibv_reg_mr(side->pd, memory, BYTES, 0) && !ibv_create_cq(side->context, 1, NULL, NULL, 0));
    CHECK(ibv_destroy_ah(left->ah) && ibv_dealloc_mw(left->type1) && ibv_dealloc_mw(left->type2));
    CHECK(ibv_destroy_flow(left->flow) && ibv_destroy_counters(left->counters));
    CHECK(ibv_destroy_rwq_ind_table(left->table) && ibv_destroy_wq(left->wq) && ibv_destroy_qp(left->raw));
    CHECK(ibv_destroy_qp(side->qp) && ibv_destroy_qp(left->ud) && ibv_destroy_srq(left->srq) && ibv_destroy_cq(side->cq));
    CHECK(ibv_dereg_mr(side->mr) && ibv_dereg_mr(left->of_dm) && ibv_free_dm(left->dm));
    CHECK(ibv_close_xrcd(left->xrcd) && ibv_dealloc_pd(left->parent) && ibv_dealloc_td(left->td) && ibv_dealloc_pd(side->pd));
    struct ibv_async_event event;
    CHECK(ibv_get_async_event(side->context, &event));
}

/* A peer no longer reaches the queue pair, nor the memory. */
static void unreachable(struct side *peer, const struct left *left, enum ibv_wr_opcode opcode)
{
    memset(memory, 'm', BYTES);
    post(peer, &left->side.address, opcode, 1, 0, 64);
    CHECK(completion(peer->cq, 30).status == IBV_WC_RETRY_EXC_ERR);
    for (int i = 0; i < BYTES; i++)
        CHECK(memory[i] == 'm');
}

int main(void)
{
    memory = new_pages(BYTES);
    char before[256], after[256];
    mapping(before);
    struct ibv_context *other = open_device("verbena1");
    struct side share = { .pd = ibv_alloc_pd(other), .channel = ibv_create_comp_channel(other) };
    CHECK(share.pd && share.channel && (share.cq = ibv_create_cq(other, 4 * DEPTH, NULL, NULL, 0)));
    struct side peer = make_side(other, &share, BYTES);
    int tasks = 0, files = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct left left = everything("verbena0");
        struct ibv_comp_channel *channel = left.side.channel;
        connect_side(&peer, &left.side.address, 8, 1);
        connect_side(&left.side, &peer.address, 8, 1);
        bind_both(&left);
        for (int i = 0; i < 4; i++)
            post_receive(left.side.qp, i, left.side.mr, memory, 64);
        post(&peer, &left.side.address, IBV_WR_SEND, round, 0, 64);
        expect(&peer, round);
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, begin, left.extended) && !pthread_join(thread, NULL));
        CHECK(!ibv_close_device(left.side.context));
        mapping(after);
        if (strcmp(before, after))
            die("round %d: the memory was%s and is%s", round, before, after);
        unreachable(&peer, &left, round % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND);
        use(&left);
        CHECK(!ibv_destroy_qp(peer.qp));
        take_qp(&peer, new_qp(peer.pd, IBV_QPT_RC, peer.cq, peer.cq, DEPTH));
        /* The descriptor is the program's. */
        close(channel->fd);
        int now_tasks = entries("/proc/self/task"), now_files = entries("/proc/self/fd");
        if (round == 0)
            tasks = now_tasks, files = now_files;
        if (now_tasks != tasks || now_files != files)
            die("round %d: %d threads and %d descriptors, not %d and %d", round, now_tasks, now_files, tasks, files);
    }
    puts("all closed");
    return 0;
}
