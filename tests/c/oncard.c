/* Memory of the card's own: who gets it, copies from and to it, and as one end of every operation. */
#include "rig.h"
#include <sys/wait.h>

enum { BYTES = 32768, ALL = ACCESS | IBV_ACCESS_ZERO_BASED };

static char words[BYTES], found[BYTES];

int main(void)
{
    struct ibv_context *context = open_device("verbena0");
    struct ibv_device_attr_ex card;
    CHECK(!ibv_query_device_ex(context, NULL, &card) && card.max_dm_size >= 2 * BYTES);
    struct side a = make_side(context, NULL, BYTES), share = { .pd = a.pd, .channel = a.channel };
    CHECK(share.cq = ibv_create_cq(context, 64, NULL, NULL, 0));
    struct side b = make_side(context, &share, BYTES);
    connect_pair(&a, &b);
    for (int i = 0; i < BYTES; i++)
        words[i] = i * 7 + i / 256;

    /* Who gets it: all of it, once; what is aligned as asked; zeroed. */
    struct ibv_alloc_dm_attr all = { .length = card.max_dm_size }, more = { .length = card.max_dm_size + 1 }, none = { 0 };
    struct ibv_alloc_dm_attr unknown = { .length = 64, .comp_mask = 1 }, some = { .length = BYTES, .log_align_req = 12 }, four = { .length = 4 };
    struct ibv_dm *whole = ibv_alloc_dm(context, &all);
    CHECK(whole && !ibv_alloc_dm(context, &four) && errno == ENOMEM && !ibv_free_dm(whole));
    CHECK(!ibv_alloc_dm(context, &more) && errno == EINVAL);
    CHECK(!ibv_alloc_dm(context, &none) && errno == EINVAL);
    CHECK(!ibv_alloc_dm(context, &unknown) && errno == EINVAL);
    struct ibv_dm *small = ibv_alloc_dm(context, &four), *dm = ibv_alloc_dm(context, &some);
    CHECK(small && dm);
    CHECK(!ibv_memcpy_from_dm(found, dm, 0, BYTES));
    for (int i = 0; i < BYTES; i++)
        CHECK(found[i] == 0);

    /* Copies. */
    CHECK(!ibv_memcpy_to_dm(dm, 0, words, BYTES) && !ibv_memcpy_from_dm(found, dm, 0, BYTES) && !memcmp(words, found, BYTES));
    CHECK(!ibv_memcpy_from_dm(found, dm, 5000, 1000) && !memcmp(words + 5000, found, 1000));
    CHECK(ibv_memcpy_to_dm(dm, 2, words, 4) == EINVAL && ibv_memcpy_from_dm(found, dm, 4, 6) == EINVAL);
    CHECK(ibv_memcpy_to_dm(dm, BYTES - 4, words, 8) == EINVAL && ibv_memcpy_from_dm(found, dm, BYTES + 4, 0) == EINVAL);
    CHECK(!ibv_memcpy_to_dm(small, 0, "four", 4) && ibv_memcpy_to_dm(small, 4, words, 4) == EINVAL);

    /* Regions. */
    CHECK(!ibv_reg_dm_mr(a.pd, dm, 0, BYTES, ACCESS) && errno == EINVAL);
    CHECK(!ibv_reg_dm_mr(a.pd, dm, 4, BYTES, ALL) && errno == EINVAL);
    struct ibv_mr *mr = ibv_reg_dm_mr(a.pd, dm, 4096, BYTES - 4096, ALL);
    CHECK(mr && ibv_free_dm(dm) == EBUSY);
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL) == IBV_REREG_MR_ERR_INPUT);
    uint32_t length = 16384;
    struct ibv_sge card_side = { .addr = 64, .length = length, .lkey = mr->lkey };
    struct ibv_sge host_side = { .addr = a.address.addr, .length = length, .lkey = a.mr->lkey };
    /* As the near end. */
    CHECK(outcome(&a, IBV_WR_RDMA_WRITE, &card_side, 1, b.address.addr, b.address.rkey) == IBV_WC_SUCCESS);
    CHECK(!memcmp((void *)b.buffer, words + 4096 + 64, length));
    for (uint32_t i = 0; i < length; i++)
        b.buffer[i] = ~i;
    CHECK(outcome(&a, IBV_WR_RDMA_READ, &card_side, 1, b.address.addr, b.address.rkey) == IBV_WC_SUCCESS);
    CHECK(!ibv_memcpy_from_dm(found, dm, 4096 + 64, length) && !memcmp((void *)b.buffer, found, length));
    /* As the far end. */
    memset((void *)a.buffer, 'f', length);
    CHECK(outcome(&a, IBV_WR_RDMA_WRITE, &host_side, 1, 128, mr->rkey) == IBV_WC_SUCCESS);
    CHECK(!ibv_memcpy_from_dm(found, dm, 4096 + 128, length) && !memcmp((void *)a.buffer, found, length));
    CHECK(!ibv_memcpy_to_dm(dm, 4096, words, length));
    CHECK(outcome(&a, IBV_WR_RDMA_READ, &host_side, 1, 0, mr->rkey) == IBV_WC_SUCCESS && !memcmp((void *)a.buffer, words, length));
    /* A receive. */
    struct ibv_recv_wr *bad, receive = { .wr_id = 8, .sg_list = &card_side, .num_sge = 1 };
    CHECK(!ibv_post_recv(b.qp, &receive, &bad));
    CHECK(outcome(&a, IBV_WR_SEND, &host_side, 1, 0, 0) == IBV_WC_SUCCESS);
    expect(&b, 8);
    CHECK(!ibv_memcpy_from_dm(found, dm, 4096 + 64, length) && !memcmp((void *)a.buffer, found, length));
    /* Atomics, also from card to card. */
    uint64_t value = 40;
    CHECK(!ibv_memcpy_to_dm(dm, 4096, &value, 8));
    host_side.length = card_side.length = 8;
    CHECK(outcome(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, &host_side, 1, 0, mr->rkey) == IBV_WC_SUCCESS && *(volatile uint64_t *)a.buffer == 40);
    CHECK(outcome(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, &card_side, 1, 0, mr->rkey) == IBV_WC_SUCCESS);
    CHECK(!ibv_memcpy_from_dm(&value, dm, 4096, 8) && value == 46);
    CHECK(!ibv_memcpy_from_dm(&value, dm, 4096 + 64, 8) && value == 43);
    /* The other part was not touched. */
    CHECK(!ibv_memcpy_from_dm(found, small, 0, 4) && !memcmp(found, "four", 4));
    /* Its end. */
    CHECK(outcome(&a, IBV_WR_RDMA_WRITE, &host_side, 1, BYTES - 4096 - 4, mr->rkey) == IBV_WC_REM_ACCESS_ERR);
    CHECK(!ibv_dereg_mr(mr) && !ibv_free_dm(dm) && !ibv_free_dm(small));

    /* What a program that ends has not freed is free. */
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(ibv_alloc_dm(open_device("verbena0"), &all) ? 0 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    double until = now() + 10;
    while (!(whole = ibv_alloc_dm(context, &all)))
        CHECK(now() < until);
    CHECK(!ibv_free_dm(whole));
    puts("all on the card");
    return 0;
}
