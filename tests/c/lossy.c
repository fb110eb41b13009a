/* READs among WRITEs and atomics on a wire that loses and reorders frames: all must succeed.
 *
 * lossy SEED [ROUNDS]: four connections between two cards, each with a chain of outstanding requests. */
#include "rig.h"

enum { PAIRS = 4, CHAIN = 12, LONGEST = 300000, SLOT = 1 << 19, BYTES = CHAIN * SLOT };

int main(int count, char **arguments)
{
    if (count < 2)
        die("usage: lossy SEED [ROUNDS]");
    unsigned seed = strtoul(arguments[1], NULL, 10);
    int rounds = count > 2 ? strtol(arguments[2], NULL, 10) : 20;
    struct ibv_context *one = open_device("verbena0"), *other = open_device("verbena1");
    struct side sides[PAIRS], peers[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        sides[i] = make_side(one, NULL, BYTES);
        peers[i] = make_side(other, NULL, BYTES);
        connect_side(&sides[i], &peers[i].address, 15, 7);
        connect_side(&peers[i], &sides[i].address, 15, 7);
    }
    for (int round = 0; round < rounds; round++) {
        uint32_t lengths[PAIRS][CHAIN];
        int reads[PAIRS][CHAIN];
        for (int n = 0; n < CHAIN; n++)
            for (int i = 0; i < PAIRS; i++) {
                int read = reads[i][n] = rand_r(&seed) % 2;
                uint32_t length = lengths[i][n] = rand_r(&seed) % (rand_r(&seed) % 2 ? LONGEST : 2000);
                struct side *from = read ? &peers[i] : &sides[i];
                memset((void *)(from->buffer + n * SLOT), round + n + 1, length);
                post(&sides[i], &peers[i].address, read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, n, n * SLOT, length);
            }
        for (int n = 0; n < CHAIN; n++)
            for (int i = 0; i < PAIRS; i++) {
                expect(&sides[i], n);
                struct side *to = reads[i][n] ? &sides[i] : &peers[i];
                /* An acknowledged WRITE may still be on its way through the peer's bus. */
                double until = now() + 1;
                for (uint32_t at = 0; at < lengths[i][n]; at++)
                    while (to->buffer[n * SLOT + at] != (char)(round + n + 1))
                        if (reads[i][n] || now() > until)
                            die("round %d, connection %d, request %d: byte %u is wrong", round, i, n, at);
            }
    }
    printf("OK: %d rounds\n", rounds);
    return 0;
}
