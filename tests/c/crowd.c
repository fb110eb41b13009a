/* Beside the thread that starts them, as many as the argument says, all at the same time: they sleep, and none ends until the
 * last is there. */
#include "rig.h"
#include <pthread.h>

static pthread_barrier_t all;

static void *doze(void *argument)
{
    usleep(1000);
    pthread_barrier_wait(&all);
    return argument;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 0;
    struct ibv_device **devices = ibv_get_device_list(NULL);
    CHECK(devices && devices[0] && ibv_open_device(devices[0]));
    pthread_t *threads = calloc(count, sizeof *threads);
    pthread_attr_t small;
    CHECK(!pthread_barrier_init(&all, NULL, count + 1));
    CHECK(threads && !pthread_attr_init(&small) && !pthread_attr_setstacksize(&small, 1 << 18));
    for (int i = 0; i < count; i++)
        CHECK(!pthread_create(&threads[i], &small, doze, NULL));
    pthread_barrier_wait(&all);
    for (int i = 0; i < count; i++)
        CHECK(!pthread_join(threads[i], NULL));
    printf("OK\n");
    return 0;
}
