/* What a registration and its end cost among few others and among many.
 *
 * regions DEVICE FEW MANY */
#include "rig.h"

enum { PAGE = 4096, STRIDE = 4 * PAGE, COUNTED = 200 };

static struct ibv_pd *pd;
static char *all;

static struct ibv_mr *region(int i)
{
    struct ibv_mr *mr = ibv_reg_mr(pd, all + (size_t)i * STRIDE, 2 * PAGE, IBV_ACCESS_LOCAL_WRITE);
    CHECK(mr);
    return mr;
}

/* Processor time of the process in microseconds. */
static double used(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e6 + time.tv_nsec * 1e-3;
}

/* The best of some tries to register and deregister, each, when `made` are registered already. */
static void cost(int made, double best[2])
{
    best[0] = best[1] = 1e18;
    for (int try = 0; try < 5; try++) {
        struct ibv_mr *mrs[COUNTED];
        double begin = used();
        for (int i = 0; i < COUNTED; i++)
            mrs[i] = region(made + i);
        double middle = used();
        for (int i = 0; i < COUNTED; i++)
            CHECK(!ibv_dereg_mr(mrs[i]));
        double end = used();
        if (middle - begin < best[0])
            best[0] = middle - begin;
        if (end - middle < best[1])
            best[1] = end - middle;
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    int few = atoi(argv[2]), many = atoi(argv[3]);
    struct ibv_context *context = open_device(argv[1]);
    CHECK(pd = ibv_alloc_pd(context));
    all = new_pages((size_t)(many + COUNTED) * STRIDE);
    struct ibv_mr **mrs = calloc(many, sizeof *mrs);
    CHECK(mrs);
    double among[2][2];
    for (int i = 0; i < many; i++) {
        if (i == few)
            cost(few, among[0]);
        mrs[i] = region(i);
    }
    cost(many, among[1]);
    for (int i = 0; i < many; i++)
        CHECK(!ibv_dereg_mr(mrs[i]));
    for (int what = 0; what < 2; what++)
        printf("%s %.2f %.2f\n", what ? "deregister" : "register", among[0][what] / COUNTED, among[1][what] / COUNTED);
    return 0;
}
