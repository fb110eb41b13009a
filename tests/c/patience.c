/* Frames wait for receives that are not posted, for a tenth of a second and no longer: what was on its way when the last
 * receive was taken, and what had not left. */
#include "rig.h"

enum { FRAME = 60, FIRST = 2, SENT = 40, PLACES = 64 };

static uint8_t out[2 * PLACES][FRAME], in[PLACES][64];
/* From the first port of the first card to that of the second. */
static const uint8_t header[14] = { 0x02, 0x56, 0x42, 0, 1, 0, 0x02, 0x56, 0x42, 0, 0, 0, 0x88, 0xb5 };
static struct ibv_mr *out_mr, *in_mr;

static struct ibv_qp *raw_qp(struct ibv_context *context, struct ibv_pd **pd, struct ibv_cq **cq)
{
    CHECK(*pd = ibv_alloc_pd(context));
    CHECK(*cq = ibv_create_cq(context, PLACES, NULL, NULL, 0));
    return plain_raw(*pd, *cq, PLACES);
}

static void receive_into(struct ibv_qp *receiver, int place)
{
    post_receive(receiver, place, in_mr, in[place], sizeof in[place]);
}

static void put(struct ibv_qp *sender, int number)
{
    post_message(sender, number, out_mr, out[number], FRAME);
}

/* Completions up to a number, or those of so many seconds. */
static int completions(struct ibv_cq *cq, int most, double seconds)
{
    struct ibv_wc wc;
    int count = 0;
    for (double until = now() + seconds; count < most && now() < until;) {
        int n = ibv_poll_cq(cq, 1, &wc);
        CHECK(n >= 0 && (n == 0 || wc.status == IBV_WC_SUCCESS));
        count += n;
    }
    return count;
}

int main(void)
{
    struct ibv_context *from = open_device("verbena0"), *to = open_device("verbena1");
    struct ibv_pd *out_pd, *in_pd;
    struct ibv_cq *out_cq, *in_cq;
    struct ibv_qp *sender = raw_qp(from, &out_pd, &out_cq), *receiver = raw_qp(to, &in_pd, &in_cq);
    CHECK(out_mr = ibv_reg_mr(out_pd, out, sizeof out, 0));
    CHECK(in_mr = ibv_reg_mr(in_pd, in, sizeof in, IBV_ACCESS_LOCAL_WRITE));
    struct ibv_flow_attr all = { .type = IBV_FLOW_ATTR_ALL_DEFAULT, .size = sizeof all, .port = PORT };
    struct ibv_flow *flow = ibv_create_flow(receiver, &all);
    CHECK(flow);
    for (int number = 0; number < 2 * PLACES; number++) {
        memcpy(out[number], header, sizeof header);
        out[number][14] = number;
    }

    for (int place = 0; place < FIRST; place++)
        receive_into(receiver, place);
    for (int number = 0; number < SENT; number++)
        put(sender, number);
    CHECK(completions(in_cq, FIRST, 1) == FIRST);
    int left = completions(out_cq, SENT, 0.05), early = left;
    /* Some were on their way, most stay in their queue. */
    if (left < FIRST || left > SENT / 2)
        die("%d frames have left", left);
    CHECK(completions(in_cq, 1, 0.01) == 0);

    /* Each receive takes one of those that have come, or lets one go. */
    for (int place = FIRST; place < SENT / 2; place++) {
        receive_into(receiver, place);
        CHECK(completions(in_cq, 1, 1) == 1);
    }
    CHECK(completions(in_cq, 1, 0.001) == 0);
    double last = now();
    while (left < SENT) {
        int more = completions(out_cq, 1, 1);
        CHECK(more == 1);
        left += more;
    }
    double waited = now() - last;
    if (waited < 0.09 || waited > 0.11)
        die("the frames waited for %f s", waited);
    CHECK(completions(in_cq, 1, 0.01) == 0);

    /* Who posts again gets frames again. */
    for (int place = 0; place < FIRST; place++) {
        receive_into(receiver, place);
        put(sender, 100 + place);
    }
    CHECK(completions(in_cq, FIRST, 1) == FIRST);
    for (int place = 0; place < SENT / 2; place++)
        CHECK(in[place][14] == (place < FIRST ? 100 + place : place));
    CHECK(!ibv_destroy_flow(flow) && !ibv_destroy_qp(receiver) && !ibv_destroy_qp(sender));
    printf("all patient: %d had left, the rest waited for %.6f s\n", early, waited);
    return 0;
}
